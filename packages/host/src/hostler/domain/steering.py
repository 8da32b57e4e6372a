"""Steers: messages absorbed by a running agent, their statuses and their record on the event."""

from __future__ import annotations

from typing import Any, Literal

SteerStatus = Literal["queued", "injected", "requeued", "dropped"]
Leftover = Literal["requeue", "drop"]
"""How steers are handled that a run has not pulled when it ends."""

MAX_STEERS_PER_RUN = 100
"""Messages that one run has absorbed but not pulled; the next one waits in the lane's queue."""
TRIGGER_BEHAVIOR = "absorbed_into_active_run"

STEER_STATUSES: tuple[SteerStatus, ...] = ("queued", "injected", "requeued", "dropped")
TRANSITIONS: dict[tuple[SteerStatus, SteerStatus], str] = {
    ("queued", "injected"): "the runner pulled it",
    ("queued", "requeued"): "its run ended first: the next run of the lane gets it",
    ("queued", "dropped"): "its run ended first, and the agent's policy drops what is left; or it is deleted",
    ("injected", "queued"): "its run restarts from nothing, and the new attempt pulls it again",
}
"""Every permitted change, and its cause. Each is part of a change of its run."""


def may_become(status: SteerStatus, to: SteerStatus) -> bool:
    """Whether a steer in `status` may go to `to`."""
    return (status, to) in TRANSITIONS


def claim_record(run_id: str, runner_id: str, claimed_at: int) -> dict[str, Any]:
    """Return `metadata.steering` of an event that a run has absorbed; `claimed_at` in milliseconds."""
    return {
        "status": "queued",
        "trigger_behavior": TRIGGER_BEHAVIOR,
        "claimed_by_run_id": run_id,
        "claimed_runner_id": runner_id,
        "claimed_at": claimed_at / 1000,
    }
