"""Lanes: which runs exclude each other, and what becomes of an event whose lane is busy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hostler.domain.agents import OnBusy
from hostler_protocol.ids import digest

MAX_QUEUED_PER_LANE = 1_000
"""Runs waiting in one lane; beyond it an event is rejected, whatever the agent says."""

Answer = Literal["started", "queued", "rejected", "steered"]


@dataclass(frozen=True, slots=True)
class LaneState:
    """What is known of a lane when an event arrives: the run that holds it, if any, and how many wait."""

    active_run_id: str | None = None
    waiting: int = 0

    @property
    def is_free(self) -> bool:
        """Whether a new run may start at once."""
        return self.active_run_id is None and self.waiting == 0


@dataclass(frozen=True, slots=True)
class Admission:
    """What becomes of the event.

    `open`: a run is made; `parallel`: it does not hold the lane; `cancel_run_id`: that run is cancelled, so
    that this one gets its lane. `reason` says why an event is rejected.
    """

    answer: Answer
    open: bool
    parallel: bool = False
    cancel_run_id: str | None = None
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


def admit(lane: LaneState, on_busy: OnBusy) -> Admission:
    """Decide by the agent's policy. A message cannot be absorbed into a run yet, so `steer` queues.

    Interrupting answers `started`: the run that holds the lane is cancelled, and those that wait keep their
    turn before this one.
    """
    if on_busy == "parallel":
        return Admission("started", open=True, parallel=True)
    if lane.is_free:
        return Admission("started", open=True)
    if on_busy == "reject":
        return Admission("rejected", open=False, reason="the conversation is busy with another run")
    if lane.waiting >= MAX_QUEUED_PER_LANE:
        return Admission(
            "rejected", open=False, reason=f"{lane.waiting:,} runs wait in this conversation already"
        )
    if on_busy == "interrupt":
        return Admission("started", open=True, cancel_run_id=lane.active_run_id)
    return Admission("queued", open=True)
