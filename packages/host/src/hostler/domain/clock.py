"""The clocks of the machine, looked up at each reading: a simulated world replaces those of `time`."""

from __future__ import annotations

import random
import time


def wall_clock() -> float:
    """Return UTC epoch seconds."""
    return time.time()


def monotonic_clock() -> float:
    """Return seconds that never go back."""
    return time.monotonic()


def chance() -> float:
    """Return a random number in [0, 1), which spreads load and guards nothing."""
    return random.random()  # noqa: S311
