"""The wait between tries of something that keeps failing."""

from __future__ import annotations


def back_off(failures: int, first: float, longest: float) -> float:
    """Return the seconds to wait after `failures` in a row (from 1): `first`, doubled each time, up to
    `longest`.
    """
    return min(first * 2.0 ** min(max(failures - 1, 0), 30), longest)
