"""The time in which an attempt works on its run, charged ahead in slices.

A slice is charged before it begins, so that hosts that die have charged what they used, and at most one slice
more. When no account has time left, the attempt may make no more calls, or ends by the terms of the budget.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from hostler.calls.budgets import RunBudget
from hostler.domain.clock import monotonic_clock
from hostler.domain.reservations import BudgetExhausted
from hostler.storage.stores.budgets import TimeBack
from hostler_protocol.errors import StorageError

SLICE_SECONDS = 10.0
"""Charged ahead at once: one transaction in ten seconds, and at most so much too much for a lost host."""


@dataclass(slots=True, eq=False)
class ActiveTime:
    """Charges the time of one attempt, from `start` to `stop`. `over` is called when none is left."""

    budget: RunBudget
    over: Callable[[BudgetExhausted], None] = lambda _: None
    _exhausted: BudgetExhausted | None = None
    _since: float = 0.0
    """Monotonic seconds since which the last charge counts."""
    _charged: int = 0
    """Milliseconds that it charged."""
    _last: TimeBack | None = None
    _task: asyncio.Task[None] | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_limited(self) -> bool:
        """Whether an account limits time."""
        return any(account.limits.seconds is not None for account in self.budget.accounts)

    def start(self) -> None:
        """Charge time from now on."""
        if self.is_limited:
            self._since = monotonic_clock()
            self._task = asyncio.create_task(self._work(), name=f"time of run {self.budget.run_id}")

    async def used_up(self) -> BudgetExhausted | None:
        """Return which account has no time left, if one has none; look again if that was so."""
        if not self.is_limited or (self._last is not None and self._exhausted is None):
            return None
        exhausted = await self._take()
        if exhausted is None and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._work(), name=f"time of run {self.budget.run_id}")
        return exhausted

    def rest(self) -> None:
        """Leave out the time until now in which the attempt only waited for people to add some."""
        if self._exhausted is not None:
            self._since = monotonic_clock()

    def close(self) -> None:
        """Charge no more, and call nothing back."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.over = lambda _: None

    async def stop(self) -> None:
        """Give back what was charged ahead. A database that takes nothing keeps it."""
        self.close()
        last, self._last = self._last, None
        if last is not None:
            with contextlib.suppress(StorageError):
                await self.budget.give_time_back(last._replace(milliseconds=self._left()))

    async def _work(self) -> None:
        while True:
            exhausted = await self._take() if self._left() <= 0 else None
            if exhausted is not None:
                self.over(exhausted)
                return
            await asyncio.sleep(max(self._left(), 1) / 1000)

    async def _take(self) -> BudgetExhausted | None:
        """Charge the next slice, and what went by since the last one was used up."""
        async with self._lock:
            last = self._last
            if last is not None and self._exhausted is None and self._left() > 0:
                return None
            back = None if last is None else last._replace(milliseconds=min(self._left(), 0))
            taken = await self.budget.take_time(int(SLICE_SECONDS * 1000), back)
            self._since = monotonic_clock()
            self._last = TimeBack(taken.keys, 0)
            if isinstance(taken.outcome, BudgetExhausted):
                self._charged, self._exhausted = 0, taken.outcome
            else:
                self._charged, self._exhausted = taken.outcome, None
            return self._exhausted

    def _left(self) -> int:
        """Return the milliseconds that are charged and not used; below 0: used and not charged."""
        return self._charged - int((monotonic_clock() - self._since) * 1000)
