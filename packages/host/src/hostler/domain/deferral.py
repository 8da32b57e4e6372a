"""How often an event is tried again whose filters could not be evaluated."""

from __future__ import annotations

DELAYS_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Pauses between tries. A passing fault is over by the last one; any other fails the event after 30 s."""
MAX_TRIES = len(DELAYS_SECONDS) + 1
MAX_DEFERRED = 1_000
"""Events of a workspace that wait so at once; more are refused as `unavailable`, to be sent again."""
MAX_COUNTED = 10_000
"""How far the events of all workspaces are counted for the metric."""


def next_delay(tries: int) -> float | None:
    """Seconds until the next try, after so many (from 1); None: the event has failed."""
    return DELAYS_SECONDS[tries - 1] if tries <= len(DELAYS_SECONDS) else None
