"""The life cycle of a run: the permitted changes of status."""

from __future__ import annotations

from hostler_protocol.runs import RunStatus

TRANSITIONS: dict[tuple[RunStatus, RunStatus], str] = {
    ("queued", "claimed"): "a host claimed it",
    ("queued", "failed"): "it could not be started",
    ("queued", "cancelled"): "cancelled while it waited",
    ("queued", "timeout"): "its deadline passed while it waited",
    ("claimed", "running"): "the plugin accepted it",
    ("claimed", "queued"): "recovered, or handed back: a new attempt",
    ("claimed", "failed"): "the plugin could not accept it",
    ("claimed", "cancelled"): "cancelled before the plugin accepted it",
    ("claimed", "timeout"): "its deadline passed before the plugin accepted it",
    ("running", "completed"): "the runner finished",
    ("running", "failed"): "the runner failed, or its plugin or host was lost",
    ("running", "cancelled"): "cancelled",
    ("running", "timeout"): "its deadline passed",
    ("running", "paused"): "it waits for a person or a client",
    ("running", "queued"): "recovered, or handed over: a new attempt",
    ("paused", "queued"): "the decisions are complete: a new attempt",
    ("paused", "failed"): "it cannot be resumed",
    ("paused", "cancelled"): "cancelled while it waited for a person",
    ("paused", "timeout"): "its deadline passed",
}
"""Every permitted change of status, and its cause. Terminal statuses never change."""

HOLDS_LANE: frozenset[RunStatus] = frozenset({"claimed", "running", "paused"})
"""Statuses in which a run holds its lane: others of the lane wait."""
STATUSES: tuple[RunStatus, ...] = (
    "queued",
    "claimed",
    "running",
    "paused",
    "completed",
    "failed",
    "cancelled",
    "timeout",
)


def may_become(status: RunStatus, to: RunStatus) -> bool:
    """Whether a run in `status` may go to `to`."""
    return (status, to) in TRANSITIONS


def begins_attempt(status: RunStatus, to: RunStatus) -> bool:
    """Whether this change begins a new attempt, which fences out the previous one."""
    return to == "queued" and may_become(status, to)
