"""When a process or a server that fails may be tried again: back-off, then a circuit breaker. Pure.

What fails at its start is soon given a rest, minutes long in the end. What worked for a while and then failed
is tried again after waits that grow to a minute, and all is forgotten once it worked for a good while.
"""

from __future__ import annotations

from dataclasses import dataclass

BACK_OFF_SECONDS = (0.0, 0.2, 0.5, 1.0, 2.0)
"""Before the next start, by failures in a row; then each wait is twice the one before."""
MAX_BACK_OFF_SECONDS = 60.0
FAILURES_TO_OPEN = 5
"""So many failures in a row open the breaker; one that cannot mend itself opens it at once."""
OPEN_SECONDS = 60.0
MAX_OPEN_SECONDS = 600.0
"""An open breaker lets one try through after this long; a further failure doubles it, up to the maximum."""


@dataclass(frozen=True, slots=True)
class Breaker:
    """The failures in a row, what the last one was, and when to try again (seconds of a monotonic clock)."""

    failures: int = 0
    is_open: bool = False
    reason: str = ""
    retry_at: float = 0.0
    opened: int = 0
    """How often in a row it was opened."""

    def failed(self, now: float, reason: str, *, lasting: bool = False, worked: bool = False) -> Breaker:
        """After a failure. `lasting`: trying again does not help until something changes.

        `worked`: it came up and worked for a while first, so that it is tried again, however often.
        """
        failures = self.failures + 1
        if lasting or (not worked and (self.is_open or failures >= FAILURES_TO_OPEN)):
            rest = min(OPEN_SECONDS * 2**self.opened, MAX_OPEN_SECONDS)
            return Breaker(failures, True, reason, now + rest, self.opened + 1)
        return Breaker(failures, False, reason, now + back_off_seconds(failures), self.opened)

    def wait_seconds(self, now: float) -> float:
        """How long to wait before the next start; 0: now."""
        return max(0.0, self.retry_at - now) if self.failures else 0.0

    def refuses(self, now: float) -> bool:
        """Whether a start is refused at once instead of waiting."""
        return self.is_open and now < self.retry_at


def back_off_seconds(failures: int) -> float:
    """The wait before the next start, after so many failures in a row."""
    beyond = failures - len(BACK_OFF_SECONDS) + 1
    if beyond <= 0:
        return BACK_OFF_SECONDS[failures]
    return min(BACK_OFF_SECONDS[-1] * 2.0 ** min(beyond, 30), MAX_BACK_OFF_SECONDS)


CLOSED = Breaker()
