"""How many messages one member gets: WeCom drops what is over its limit, and says nothing."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable

from hostler_sdk.channels import NotSent

MINUTE_SECONDS = 65.0
"""A minute, and the time that a message may be on its way."""
HOUR_SECONDS = 3_605.0
MAX_PER_MINUTE = 30
MAX_PER_HOUR = 1_000
FIRST_MINUTE = 15
"""In the first minute, as what was sent before the channel was opened is not known."""
MAX_MEMBERS = 5_000


class Throttle:
    """Counts the messages to each member in the last hour."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: seconds of a clock that never goes back."""
        self._clock = clock
        self._begun = clock()
        self._sent: OrderedDict[str, deque[float]] = OrderedDict()

    def take(self, user: str) -> None:
        """Count a message to a member. Raises NotSent, with the wait, if WeCom would drop it."""
        now = self._clock()
        times = self._sent.setdefault(user, deque())
        self._sent.move_to_end(user)
        while len(self._sent) > MAX_MEMBERS:
            self._sent.popitem(last=False)
        while times and now - times[0] >= HOUR_SECONDS:
            times.popleft()
        most = FIRST_MINUTE if now - self._begun < MINUTE_SECONDS else MAX_PER_MINUTE
        wait = 0.0
        if len(times) >= MAX_PER_HOUR:
            wait = times[-MAX_PER_HOUR] + HOUR_SECONDS - now
        if len(times) >= most:
            wait = max(wait, times[-most] + MINUTE_SECONDS - now)
        if wait > 0:
            text = f"WeCom would drop it: a member gets at most {MAX_PER_MINUTE} messages a minute"
            raise NotSent(text, retry_after=wait)
        times.append(now)
