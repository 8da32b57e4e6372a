"""Timers of an attempt: deadline, grace of a stop, idle time, and a wait that can be cut short."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class IdleWatch:
    """Calls `over` after `seconds` without activity. While `busy` returns True, time does not count.

    Activity may be frequent: it costs one reading of the clock, and one timer serves all.
    """

    seconds: float
    busy: Callable[[], bool]
    over: Callable[[], None]
    loop: asyncio.AbstractEventLoop
    _last: float = 0.0
    _timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start watching."""
        self.active()
        self._timer = self.loop.call_later(self.seconds, self._look)

    def active(self) -> None:
        """Note activity."""
        self._last = self.loop.time()

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        if self.busy():
            self.active()
        left = self._last + self.seconds - self.loop.time()
        if left > 0:
            self._timer = self.loop.call_later(left, self._look)
        else:
            self.over()


@dataclass(slots=True)
class AttemptClock:
    """Timers of one attempt, on the running loop. Each callback is called at most once."""

    _stop: asyncio.TimerHandle | None = None
    _deadline: asyncio.TimerHandle | None = None
    _waiting: asyncio.Timeout | None = None
    _idle: IdleWatch | None = None

    def stop_within(self, seconds: float, stop: Callable[[], None]) -> None:
        """Call `stop` after `seconds`, unless an earlier request has less time."""
        loop = asyncio.get_running_loop()
        if self._stop is not None:
            if self._stop.when() <= loop.time() + seconds:
                return
            self._stop.cancel()
        self._stop = loop.call_later(seconds, stop)

    def end_at(self, deadline_at: float | None, over: Callable[[], None]) -> None:
        """Call `over` at the deadline, in UTC epoch seconds; None: never."""
        if deadline_at is not None:
            delay = max(0.0, deadline_at - time.time())
            self._deadline = asyncio.get_running_loop().call_later(delay, over)

    def watch_idle(self, seconds: float | None, busy: Callable[[], bool], over: Callable[[], None]) -> None:
        """Call `over` after `seconds` without activity; None: never."""
        if seconds is not None:
            self._idle = IdleWatch(seconds, busy, over, asyncio.get_running_loop())
            self._idle.begin()

    def active(self) -> None:
        """Note that the runner did something."""
        if self._idle is not None:
            self._idle.active()

    async def unless_cut_short(self, awaited: Awaitable[T]) -> T | None:
        """Wait for something that may take minutes; return None if `cut_short` was called first."""
        waiting = self._waiting = asyncio.timeout(None)
        try:
            async with waiting:
                return await awaited
        except TimeoutError:
            if not waiting.expired():
                raise
            return None
        finally:
            self._waiting = None

    def cut_short(self) -> None:
        """End the current wait, if there is one."""
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(asyncio.get_running_loop().time())

    def close(self) -> None:
        """Cancel all timers."""
        for timer in (self._stop, self._deadline):
            if timer is not None:
                timer.cancel()
        if self._idle is not None:
            self._idle.close()
            self._idle = None  # it refers to the attempt, and the attempt to this
