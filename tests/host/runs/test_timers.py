"""How long an attempt may do nothing, by a clock that a test puts forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hostler.runs.timers import IdleWatch


@dataclass
class Loop:
    """Time and timers of an event loop, as far as the watch uses them."""

    now: float = 0.0
    timers: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> Any:
        timer = (self.now + delay, callback)
        self.timers.append(timer)
        loop = self

        class Handle:
            def cancel(self) -> None:
                loop.timers.remove(timer)

        return Handle()

    def until(self, now: float) -> None:
        """Let time pass; timers that are due ring in their order."""
        while due := sorted((timer for timer in self.timers if timer[0] <= now), key=lambda one: one[0]):
            self.timers.remove(due[0])
            self.now = due[0][0]
            due[0][1]()
        self.now = now


def watched(
    loop: Loop, seconds: float, busy: Callable[[], bool] = lambda: False
) -> tuple[IdleWatch, list[float]]:
    """A watch, and when it was over."""
    over: list[float] = []
    clock: Any = loop
    watch = IdleWatch(seconds, busy, lambda: over.append(loop.now), clock)
    watch.begin()
    return watch, over


def test_it_is_over_after_so_long_without_a_sign() -> None:
    loop = Loop()
    _, over = watched(loop, 10)
    loop.until(9.9)
    assert over == []
    loop.until(100)
    assert over == [10]
    assert loop.timers == []


def test_each_sign_begins_the_time_anew_and_one_timer_serves_them_all() -> None:
    loop = Loop()
    watch, over = watched(loop, 10)
    for second in range(1, 30):
        loop.until(second)
        watch.active()
        assert len(loop.timers) == 1
    assert over == []
    loop.until(100)
    assert over == [39]


def test_while_something_is_under_way_it_does_not_count() -> None:
    loop, under_way = Loop(), [True]
    watch, over = watched(loop, 10, lambda: under_way[0])
    loop.until(1_000)
    assert over == []
    under_way[0] = False
    watch.active()  # as at the end of each call
    loop.until(1_009)
    assert over == []
    loop.until(2_000)
    assert over == [1_010]


def test_it_is_watched_no_longer_once_it_is_closed() -> None:
    loop = Loop()
    watch, over = watched(loop, 10)
    watch.close()
    loop.until(1_000)
    assert over == []
