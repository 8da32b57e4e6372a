"""Retries of events whose filters could not be evaluated."""

from __future__ import annotations

DELAYS_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Waits between tries. A transient fault is over by the last one; after 30 s the event has failed."""
MAX_TRIES = len(DELAYS_SECONDS) + 1
MAX_DEFERRED = 1_000
"""Events of one workspace that may wait for a retry; more are refused as `unavailable`."""
MAX_COUNTED = 10_000
"""The metric counts waiting events of all workspaces up to this."""


def next_delay(tries: int) -> float | None:
    """Return the seconds until the next try after so many tries (from 1); None: the event has failed."""
    return DELAYS_SECONDS[tries - 1] if tries <= len(DELAYS_SECONDS) else None
