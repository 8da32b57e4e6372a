"""Lanes: which runs exclude each other, and how an event is admitted whose lane is busy."""

from __future__ import annotations

from typing import Literal

from hostler.domain.agents import OnBusy
from hostler.domain.pauses import OnMessage
from hostler.domain.place import Place
from hostler.domain.record import Record
from hostler_protocol.ids import digest

MAX_QUEUED_PER_LANE = 1_000
"""Runs waiting in one lane; beyond this number events are rejected, regardless of the agent's policy."""

Answer = Literal["started", "queued", "rejected", "steered"]
LaneStatus = Literal["free", "waiting", "busy", "paused"]
LANE_STATUSES: tuple[LaneStatus, ...] = ("free", "waiting", "busy", "paused")
MEANINGS: dict[LaneStatus, str] = {
    "free": "no run holds it, and no waiting run is due",
    "waiting": "no run holds it, and runs wait for their turn",
    "busy": "a run holds it and is executing",
    "paused": "a run holds it and waits for a person or a client",
}
TRANSITIONS: dict[tuple[LaneStatus, LaneStatus], str] = {
    ("free", "busy"): "a run is opened and starts at once",
    ("free", "waiting"): "a run is opened and waits for a slot, or a delayed run becomes due",
    ("waiting", "busy"): "the oldest waiting run is claimed",
    ("waiting", "free"): "the waiting runs were cancelled",
    ("busy", "free"): "its run ended, and none waits",
    (
        "busy",
        "waiting",
    ): "its run ended or is requeued, and others wait or take up messages that it did not pull",
    ("busy", "paused"): "its run waits for a person or a client",
    (
        "paused",
        "waiting",
    ): "the decisions are complete: its run is queued for the next attempt, before all others",
    ("paused", "free"): "its run was ended while it was paused, and none waits",
}
"""Every change of a lane, and its cause. A lane has no row: its status follows from its runs."""

Rule = Literal["start", "beside", "steer", "queue", "interrupt", "reject", "by_pause"]
ADMISSIONS: dict[tuple[LaneStatus, OnBusy], Rule] = {
    ("free", "steer"): "start",
    ("free", "queue"): "start",
    ("free", "reject"): "start",
    ("free", "interrupt"): "start",
    ("free", "parallel"): "beside",
    ("waiting", "steer"): "steer",
    ("waiting", "queue"): "queue",
    ("waiting", "reject"): "reject",
    ("waiting", "interrupt"): "interrupt",
    ("waiting", "parallel"): "beside",
    ("busy", "steer"): "steer",
    ("busy", "queue"): "queue",
    ("busy", "reject"): "reject",
    ("busy", "interrupt"): "interrupt",
    ("busy", "parallel"): "beside",
    ("paused", "steer"): "by_pause",
    ("paused", "queue"): "by_pause",
    ("paused", "reject"): "by_pause",
    ("paused", "interrupt"): "by_pause",
    ("paused", "parallel"): "beside",
}
"""The rule for an event, by the status of its lane and the agent's `on_busy`."""
BY_PAUSE: dict[OnMessage, Rule] = {"hold": "queue", "supersede": "queue", "reject": "reject"}
"""The rule while a run of the lane is paused, by the agent's `on_pause`."""
RULES: dict[Rule, str] = {
    "start": "a run is opened and starts (`started`)",
    "beside": "a run is opened in parallel to those of the lane (`started`)",
    "steer": "the lane's run absorbs it (`steered`); if it cannot, a run waits in the lane (`queued`)",
    "queue": "a run is opened and waits in the lane (`queued`)",
    "interrupt": "the active run is cancelled; a run is opened and waits for its end (`started`)",
    "reject": "no run is opened (`rejected`)",
    "by_pause": "by `on_pause`: `hold` queues, `supersede` ends the paused run and queues, `reject` rejects",
}
"""The effect of each rule."""


class LaneState(Record):
    """A lane when an event arrives: the run that holds it, if any, and how many runs wait.

    `waiting` counts only runs that are due. `can_steer`: the event may be absorbed by the last run of the
    lane. That is the run that holds it if none waits, or the only waiting run if it continues with the
    messages of a run that ended, or with its own.
    """

    active_run_id: str | None = None
    waiting: int = 0
    paused: bool = False
    can_steer: bool = False

    @property
    def status(self) -> LaneStatus:
        """The lane's status, derived from its runs."""
        if self.active_run_id is not None:
            return "paused" if self.paused else "busy"
        return "waiting" if self.waiting else "free"


class Admission(Record):
    """The decision on an event.

    `open`: a run is opened; `parallel`: it does not hold the lane; `cancel_run_id`: the run to cancel, so
    that the new run gets the lane; `supersede_run_id`: the run whose pause is closed and which ends.
    `reason`: why the event is rejected.
    """

    answer: Answer
    open: bool
    parallel: bool = False
    cancel_run_id: str | None = None
    supersede_run_id: str | None = None
    reason: str | None = None


def lane_of(*, workspace_id: str, agent_id: str, place: Place, event_id: str) -> str:
    """Return the lane's key: 64 hexadecimal digits. An event without a conversation has its own lane."""
    lane = (
        {"event": event_id}
        if place.conversation_id is None
        else {"conversation": place.conversation_id, "thread": place.thread_id}
    )
    return digest({"workspace": workspace_id, "bot": place.bot_id, "agent": agent_id, **lane})


def admit(lane: LaneState, on_busy: OnBusy, on_pause: OnMessage = "hold") -> Admission:
    """Decide on an event by the agent's policy.

    A message is absorbed only if no other run waits, so that none is overtaken. Rule `interrupt` answers
    `started`: the run that holds the lane is cancelled; waiting runs keep their turn before the new one.
    """
    rule = ADMISSIONS[lane.status, on_busy]
    if rule == "by_pause":
        rule = BY_PAUSE[on_pause]
    if rule == "steer":
        if lane.can_steer:
            return Admission("steered", open=False)
        rule = "queue"
    if rule == "reject":
        return Admission("rejected", open=False, reason=_BUSY[lane.status])
    if rule in {"start", "beside"}:
        return Admission("started", open=True, parallel=rule == "beside")
    if lane.waiting >= MAX_QUEUED_PER_LANE:
        return Admission(
            "rejected", open=False, reason=f"{lane.waiting:,} runs wait in this conversation already"
        )
    if rule == "interrupt":
        return Admission("started", open=True, cancel_run_id=lane.active_run_id)
    superseded = lane.active_run_id if lane.status == "paused" and on_pause == "supersede" else None
    return Admission("queued", open=True, supersede_run_id=superseded)


_BUSY: dict[LaneStatus, str] = {
    "waiting": "the conversation is busy with another run",
    "busy": "the conversation is busy with another run",
    "paused": "a run of the conversation is paused and waits for decisions",
}
