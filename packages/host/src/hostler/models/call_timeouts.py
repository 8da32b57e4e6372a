"""The time limits of one model call: for its phases, within the run's deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hostler_protocol.errors import DeadlineExceededError, HostlerError

T = TypeVar("T")


class CallClock:
    """Limits each wait of a call. `deadline` in UTC epoch seconds; None: no deadline."""

    def __init__(self, deadline: float | None) -> None:
        self._ends = None if deadline is None else time.monotonic() + deadline - time.time()

    def time_left(self) -> float | None:
        """Return the seconds until the deadline, negative after it; None: no deadline."""
        return None if self._ends is None else self._ends - time.monotonic()

    async def wait(self, phase: Awaitable[T], seconds: float, silent: Callable[[], HostlerError]) -> T:
        """Await `phase` for at most `seconds`, then raise the error that `silent` returns.

        DeadlineExceededError if the deadline comes first.
        """
        left = self.time_left()
        try:
            async with asyncio.timeout(seconds if left is None else min(seconds, left)):
                return await phase
        except TimeoutError as error:
            if left is not None and left <= seconds:
                raise DeadlineExceededError("the run's deadline passed while a model answered") from error
            raise silent() from error
