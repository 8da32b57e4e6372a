"""The life cycle of a run: which status may follow which, and what each one holds."""

from __future__ import annotations

from hostler_protocol.runs import TERMINAL_STATUSES, RunStatus

TRANSITIONS: dict[tuple[RunStatus, RunStatus], str] = {
    ("queued", "claimed"): "a host took it",
    ("queued", "failed"): "it could not be begun",
    ("queued", "cancelled"): "cancelled while it waited",
    ("queued", "timeout"): "its deadline passed while it waited",
    ("claimed", "running"): "the plugin took it",
    ("claimed", "queued"): "recovered, or handed back: a new attempt",
    ("claimed", "failed"): "the plugin could not take it",
    ("claimed", "cancelled"): "cancelled before the plugin took it",
    ("claimed", "timeout"): "its deadline passed before the plugin took it",
    ("running", "completed"): "the runner finished",
    ("running", "failed"): "the runner failed, or its plugin or host was lost",
    ("running", "cancelled"): "cancelled",
    ("running", "timeout"): "its deadline passed",
    ("running", "paused"): "it waits for a person or a client",
    ("running", "queued"): "recovered, or handed over: a new attempt",
    ("paused", "queued"): "the decisions are in: a new attempt",
    ("paused", "failed"): "it cannot be resumed",
    ("paused", "cancelled"): "cancelled while it waited for a person",
    ("paused", "timeout"): "its deadline passed",
}
"""Every permitted change of status, and what brings it about. Terminal statuses never change."""

LANE_STATUSES: frozenset[RunStatus] = frozenset({"claimed", "running", "paused"})
"""A run in one of these holds its lane."""
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


def holds_lane(status: RunStatus) -> bool:
    """Whether a run in `status` keeps other runs of its lane waiting."""
    return status in LANE_STATUSES


def begins_attempt(status: RunStatus, to: RunStatus) -> bool:
    """Whether this change fences whoever worked on the run before it (attempt + 1)."""
    return to == "queued" and may_become(status, to)


def is_terminal(status: RunStatus) -> bool:
    """Whether nothing follows."""
    return status in TERMINAL_STATUSES
