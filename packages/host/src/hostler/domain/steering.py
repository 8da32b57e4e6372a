"""Steers: messages that reach a running agent. What can become of one, and what the sender is told."""

from __future__ import annotations

from typing import Any, Literal

SteerStatus = Literal["queued", "injected", "requeued", "dropped"]
Leftover = Literal["requeue", "drop"]
"""What becomes of steers that a run has not pulled when it ends."""

MAX_STEERS_PER_RUN = 100
"""Messages that one run has absorbed and not pulled; the next one waits in the lane's queue."""
TRIGGER_BEHAVIOR = "absorbed_into_active_run"

STEER_STATUSES: tuple[SteerStatus, ...] = ("queued", "injected", "requeued", "dropped")
TRANSITIONS: dict[tuple[SteerStatus, SteerStatus], str] = {
    ("queued", "injected"): "the runner pulled it",
    ("queued", "requeued"): "its run ended first: the next run of the lane has it",
    ("queued", "dropped"): "its run ended first, and the agent's policy drops what is left; or it is deleted",
    ("injected", "queued"): "its run begins again from nothing: the new attempt is to pull it",
}
"""Every permitted change, and what brings it about. Each is part of a change of its run."""


def may_become(status: SteerStatus, to: SteerStatus) -> bool:
    """Whether a steer in `status` may go to `to`."""
    return (status, to) in TRANSITIONS


def claim_record(run_id: str, runner_id: str, claimed_at: int) -> dict[str, Any]:
    """What the event says of itself (`metadata.steering`) when a run has absorbed it; `claimed_at` in ms."""
    return {
        "status": "queued",
        "trigger_behavior": TRIGGER_BEHAVIOR,
        "claimed_by_run_id": run_id,
        "claimed_runner_id": runner_id,
        "claimed_at": claimed_at / 1000,
    }
