"""How many requests one key, and how many wrong keys one address may send."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from hostler.http.limits import MAX_RATE_BUCKETS


class Rates:
    """Token buckets by name: `rate` a second on average, `burst` at once. Bounded: the longest unused is
    forgotten first, which can only be to the advantage of whoever it belongs to.
    """

    def __init__(
        self,
        rate: float,
        burst: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        max_buckets: int = MAX_RATE_BUCKETS,
    ) -> None:
        self.rate = rate
        self.burst = max(1.0, burst)
        self._clock = clock
        self._max_buckets = max_buckets
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> float:
        """Take one; 0.0 if there was one, else the seconds until there is."""
        now = self._clock()
        left = self._left(name, now)
        wait = 0.0 if left >= 1.0 else (1.0 - left) / self.rate
        self._buckets[name] = (left if wait else left - 1.0, now)
        self._buckets.move_to_end(name)
        if len(self._buckets) > self._max_buckets:
            self._buckets.popitem(last=False)
        return wait

    def wait(self, name: str) -> float:
        """Seconds until there is one; takes none."""
        left = self._left(name, self._clock())
        return 0.0 if left >= 1.0 else (1.0 - left) / self.rate

    def _left(self, name: str, now: float) -> float:
        left, since = self._buckets.get(name, (self.burst, now))
        return min(self.burst, left + (now - since) * self.rate)
