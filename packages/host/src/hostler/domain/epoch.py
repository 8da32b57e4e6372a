"""Times: the database keeps UTC epoch milliseconds, the wire has seconds."""

from __future__ import annotations


def seconds(ms: int | None) -> float | None:
    """Convert milliseconds to seconds; None stays None."""
    return None if ms is None else ms / 1000
