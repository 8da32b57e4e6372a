"""When a failed process or server may be started again: back-off, then a circuit breaker. Pure.

After a few failures to start, the breaker opens for 1 to 10 minutes. A process that worked for a while before
it failed is restarted after waits of at most one minute. The caller forgets all failures after a longer time
of work.
"""

from __future__ import annotations

from hostler.domain.back_off import back_off
from hostler.domain.record import Record

BACK_OFF_SECONDS = (0.0, 0.2, 0.5, 1.0, 2.0)
"""Wait before the next start, by consecutive failures; after the last entry each wait doubles."""
MAX_BACK_OFF_SECONDS = 60.0
FAILURES_TO_OPEN = 5
"""Consecutive failures that open the breaker; a lasting one opens it at once."""
OPEN_SECONDS = 60.0
MAX_OPEN_SECONDS = 600.0
"""An open breaker permits one attempt after OPEN_SECONDS; each failure doubles that, up to this."""


class Breaker(Record):
    """Consecutive failures, the reason of the last one, and when to retry (seconds of a monotonic clock)."""

    failures: int = 0
    is_open: bool = False
    reason: str = ""
    retry_at: float = 0.0
    opened: int = 0
    """Times the breaker was opened since it last was closed."""

    def failed(self, now: float, reason: str, *, lasting: bool = False, worked: bool = False) -> Breaker:
        """Return the breaker after a failure. `lasting`: retrying does not help until something changes.

        `worked`: the process had started and worked for a while, so the breaker stays closed.
        """
        failures = self.failures + 1
        if lasting or (not worked and (self.is_open or failures >= FAILURES_TO_OPEN)):
            rest = back_off(self.opened + 1, OPEN_SECONDS, MAX_OPEN_SECONDS)
            return Breaker(failures, True, reason, now + rest, self.opened + 1)
        return Breaker(failures, False, reason, now + restart_wait(failures), self.opened)

    def wait_seconds(self, now: float) -> float:
        """Return the seconds to wait before the next start; 0 means now."""
        return max(0.0, self.retry_at - now) if self.failures else 0.0

    def refuses(self, now: float) -> bool:
        """Whether a start is refused at once instead of being delayed."""
        return self.is_open and now < self.retry_at


def restart_wait(failures: int) -> float:
    """Return the seconds to wait before the next start, after so many consecutive failures."""
    if failures < len(BACK_OFF_SECONDS):
        return BACK_OFF_SECONDS[failures]
    return back_off(failures - len(BACK_OFF_SECONDS) + 2, BACK_OFF_SECONDS[-1], MAX_BACK_OFF_SECONDS)


CLOSED = Breaker()
