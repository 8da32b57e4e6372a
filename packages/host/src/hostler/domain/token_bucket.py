"""Token buckets: a rate on average, with a burst at once. The caller gives the time, in monotonic seconds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable


class TokenBucket:
    """`rate` tokens a second on average, `burst` at once (at least one). It starts full."""

    __slots__ = ("_at", "_level", "burst", "rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self.rate = rate
        self.burst = max(1.0, burst)
        self._level = self.burst
        self._at = now

    def take(self, now: float, tokens: float = 1.0) -> float:
        """Take one token and return 0.0; if there is none, return the seconds until there is.

        Where there is one, more may be taken than there are: what follows waits for it.
        """
        wait = self.wait(now)
        if not wait:
            self._level -= tokens
        return wait

    def wait(self, now: float) -> float:
        """Return the seconds until there is a token, without taking it."""
        self._level = min(self.burst, self._level + max(0.0, now - self._at) * self.rate)
        self._at = max(self._at, now)
        return 0.0 if self._level >= 1.0 else (1.0 - self._level) / self.rate


class TokenBuckets:
    """One bucket per key, at most `max_buckets`: the least recently used one is dropped, and starts full
    again.
    """

    def __init__(self, rate: float, burst: float, *, clock: Callable[[], float], max_buckets: int) -> None:
        self.rate = rate
        self.burst = burst
        self._clock = clock
        self._max_buckets = max_buckets
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, key: str, tokens: float = 1.0) -> float:
        """Take tokens of this key and return 0.0, or the seconds until there is one."""
        now = self._clock()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self.rate, self.burst, now)
            if len(self._buckets) > self._max_buckets:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key)
        return bucket.take(now, tokens)

    def wait(self, key: str) -> float:
        """Return the seconds until this key has a token, without taking it."""
        bucket = self._buckets.get(key)
        return 0.0 if bucket is None else bucket.wait(self._clock())
