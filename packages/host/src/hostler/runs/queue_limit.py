"""The limit of the queue: how many runs may wait, counted in the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from hostler.domain.clock import monotonic_clock
from hostler.storage.port import Database
from hostler.storage.stores import run_lanes
from hostler_protocol.errors import RateLimitedError

RETRY_SECONDS = 5.0
"""`retry_after` of a refused caller."""
COUNT_SECONDS = 5.0
"""The maximum age of a count: runs that other hosts or a recovery queued are seen after this long."""
RECOUNT_SECONDS = 0.1
"""The maximum age of a count that found the queue full; a flood costs at most ten counts a second."""


@dataclass(slots=True, eq=False)
class QueueLimit:
    """Decides whether another run may wait; at most `most` may.

    Counting 100,000 runs takes milliseconds, so it is not done for every event: between two counts, the runs
    that were queued here are added to the last one. The database is counted before anything is refused.
    """

    db: Database
    most: int
    clock: Callable[[], float] = monotonic_clock
    _found: int = 0
    """The number of queued runs at the last count."""
    _queued: int = 0
    """Runs queued here that the last count may not have seen."""
    _coming: int = 0
    """Runs about to be opened, which may be queued."""
    _counted_at: float = float("-inf")
    _counting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def is_full(self) -> bool:
        """Whether as many runs wait as may, by a recent count."""
        if self._is_stale:
            async with self._counting:
                if self._is_stale:  # nobody counted meanwhile
                    await self._count()
        return self._is_full

    async def check(self) -> None:
        """Raise RateLimitedError if as many runs wait as may."""
        if await self.is_full():
            raise self.error()

    def error(self) -> RateLimitedError:
        """Return the error for a run that would exceed the limit."""
        text = f"too many runs wait on this host: {self.most:,} may; try again later"
        return RateLimitedError(text, RETRY_SECONDS)

    def enter(self) -> bool:
        """Reserve a place for a run that is about to be opened; return False if there is none.

        After True, `leave` must follow, whether or not the run is opened.
        """
        if self._is_full:
            return False
        self._coming += 1
        return True

    def leave(self) -> None:
        """Release a reserved place."""
        self._coming -= 1

    def queued(self) -> None:
        """Note that one more run waits."""
        self._queued += 1

    @property
    def _is_stale(self) -> bool:
        age = self.clock() - self._counted_at
        return age > COUNT_SECONDS or (self._is_full and age > RECOUNT_SECONDS)

    @property
    def _is_full(self) -> bool:
        return self._found + self._queued + self._coming >= self.most

    async def _count(self) -> None:
        before = self._queued  # runs queued during the count may be in it or not
        found = await self.db.read(lambda tx: run_lanes.count_queued(tx, self.most))
        self._found, self._queued = found, self._queued - before
        self._counted_at = self.clock()
