"""Lanes: which runs exclude each other, and what becomes of an event whose lane is busy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hostler.domain.agents import OnBusy
from hostler.domain.pauses import OnMessage
from hostler_protocol.ids import digest

MAX_QUEUED_PER_LANE = 1_000
"""Runs waiting in one lane; beyond it an event is rejected, whatever the agent says."""

Answer = Literal["started", "queued", "rejected", "steered"]
LaneStatus = Literal["free", "waiting", "busy", "paused"]
LANE_STATUSES: tuple[LaneStatus, ...] = ("free", "waiting", "busy", "paused")
MEANINGS: dict[LaneStatus, str] = {
    "free": "no run holds it, none waits that could begin",
    "waiting": "no run holds it, and some wait their turn",
    "busy": "a run holds it and is at work",
    "paused": "a run holds it and waits for a person or a client",
}
TRANSITIONS: dict[tuple[LaneStatus, LaneStatus], str] = {
    ("free", "busy"): "a run is opened and begins at once",
    ("free", "waiting"): "a run is opened and waits for a slot; or one that was held back is due",
    ("waiting", "busy"): "the oldest run that waits is claimed",
    ("waiting", "free"): "what waited was cancelled",
    ("busy", "free"): "its run ended, and none waits",
    ("busy", "waiting"): "its run ended or begins again, and others wait or have what it did not pull",
    ("busy", "paused"): "its run waits for a person or a client",
    ("paused", "waiting"): "the decisions are in: its run is queued for the next attempt, before all others",
    ("paused", "free"): "its run was ended while it was paused, and none waits",
}
"""Every change of a lane, and what brings it about. A lane has no row: it is what its runs make it."""

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
"""What becomes of an event, by how its lane stands and by the agent's `on_busy`."""
BY_PAUSE: dict[OnMessage, Rule] = {"hold": "queue", "supersede": "queue", "reject": "reject"}
"""What becomes of it while a run of its lane is paused, by the agent's `on_pause`."""
RULES: dict[Rule, str] = {
    "start": "a run is opened and begins (`started`)",
    "beside": "a run is opened beside those of the lane (`started`)",
    "steer": "the lane's run absorbs it (`steered`); where it cannot, a run waits in the lane (`queued`)",
    "queue": "a run is opened and waits in the lane (`queued`)",
    "interrupt": "the run at work is cancelled, a run is opened and waits for its end (`started`)",
    "reject": "no run is opened (`rejected`)",
    "by_pause": "by `on_pause`: `hold` queues, `supersede` ends the paused run and queues, `reject` rejects",
}
"""What each rule does."""


@dataclass(frozen=True, slots=True)
class LaneState:
    """What is known of a lane when an event arrives: the run that holds it, if any, and how many wait.

    Of those that wait only those count that could begin. `can_steer`: this event may be absorbed by the last
    run of the lane: the one that holds it while none waits; or the only one that waits, if that goes on with
    the messages of a run that ended, or with its own.
    """

    active_run_id: str | None = None
    waiting: int = 0
    paused: bool = False
    can_steer: bool = False

    @property
    def status(self) -> LaneStatus:
        """How the lane stands."""
        if self.active_run_id is not None:
            return "paused" if self.paused else "busy"
        return "waiting" if self.waiting else "free"

    @property
    def is_free(self) -> bool:
        """Whether a new run may start at once."""
        return self.status == "free"


@dataclass(frozen=True, slots=True)
class Admission:
    """What becomes of the event.

    `open`: a run is made; `parallel`: it does not hold the lane; `cancel_run_id`: that run is cancelled, so
    that this one gets its lane; `supersede_run_id`: that run's pause is closed, and the run ends.
    `reason` says why an event is rejected.
    """

    answer: Answer
    open: bool
    parallel: bool = False
    cancel_run_id: str | None = None
    supersede_run_id: str | None = None
    reason: str | None = None


def lane_of(
    *,
    workspace_id: str,
    bot_id: str | None,
    agent_id: str,
    conversation_id: str | None,
    thread_id: str | None,
    event_id: str,
) -> str:
    """The lane's key: 64 hexadecimal digits. An event without a conversation is a lane of its own."""
    place = (
        {"event": event_id}
        if conversation_id is None
        else {"conversation": conversation_id, "thread": thread_id}
    )
    return digest({"workspace": workspace_id, "bot": bot_id, "agent": agent_id, **place})


def admit(lane: LaneState, on_busy: OnBusy, on_pause: OnMessage = "hold") -> Admission:
    """Decide by the agent's policy.

    A message is absorbed only where no other waits, so that none is overtaken. Interrupting answers
    `started`: the run that holds the lane is cancelled, and those that wait keep their turn before this one.
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
