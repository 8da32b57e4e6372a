"""A clock that a test puts forward: that of this process and that of the database it works with."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from hostler.storage.sql import postgres


@dataclass
class SimulatedClock:
    """How far ahead it is. What waits by the loop's own clock does not notice."""

    ahead_seconds: float = 0.0

    def advance(self, *, days: float = 0.0, minutes: float = 0.0) -> None:
        """Let time pass."""
        self.ahead_seconds += days * 86_400 + minutes * 60


@contextlib.contextmanager
def simulated_clock() -> Iterator[SimulatedClock]:
    """Hosts of this process live by the clock that is given."""
    clock = SimulatedClock()
    real, real_ns = time.time, time.time_ns

    def statement() -> str:
        ahead = int(clock.ahead_seconds * 1000)
        return f"SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint + {ahead} AS now"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: real() + clock.ahead_seconds)
        patch.setattr(time, "time_ns", lambda: real_ns() + int(clock.ahead_seconds * 1e9))
        advance = clock.advance

        def put_forward(**span: Any) -> None:
            advance(**span)
            patch.setattr(postgres, "_NOW", statement())

        patch.setattr(clock, "advance", put_forward)
        yield clock
