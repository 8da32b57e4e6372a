"""How much a server may say without being asked: beyond that it is not read, and in the end given up."""

from __future__ import annotations

from hostler.domain.token_bucket import TokenBucket
from hostler.tools.mcp.limits import McpLimits

DROPPED_WINDOW_SECONDS = 60.0


class FloodError(Exception):
    """The server says far more than anybody can use."""


class Intake:
    """A bucket of messages. `now` in seconds of a monotonic clock."""

    def __init__(self, limits: McpLimits, now: float) -> None:
        self._limits = limits
        self._bucket = TokenBucket(limits.messages_per_second, limits.message_burst, now)
        self._window_from = now
        self.dropped = 0
        """Within the current window."""

    def takes(self, now: float) -> bool:
        """Whether one more message is looked at; False: it is dropped. FloodError."""
        if not self._bucket.take(now):
            return True
        if now - self._window_from > DROPPED_WINDOW_SECONDS:
            self._window_from, self.dropped = now, 0
        self.dropped += 1
        if self.dropped > self._limits.dropped_messages:
            raise FloodError(f"it sent over {self._limits.dropped_messages:,} messages that nobody asked for")
        return False
