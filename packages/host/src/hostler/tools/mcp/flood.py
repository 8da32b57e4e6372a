"""Limit unsolicited messages of a server: those over the rate are dropped."""

from __future__ import annotations

from hostler.domain.token_bucket import TokenBucket
from hostler.tools.mcp.limits import McpLimits

DROPPED_WINDOW_SECONDS = 60.0


class FloodError(Exception):
    """The server sent too many unsolicited messages."""


class Intake:
    """The rate limit of one connection. `now` in seconds of a monotonic clock."""

    def __init__(self, limits: McpLimits, now: float) -> None:
        self._limits = limits
        self._bucket = TokenBucket(limits.messages_per_second, limits.message_burst, now)
        self._window_from = now
        self.dropped = 0
        """Messages dropped within the current window."""

    def takes(self, now: float) -> bool:
        """Whether to accept one more message; False: drop it. FloodError if too many were dropped."""
        if not self._bucket.take(now):
            return True
        if now - self._window_from > DROPPED_WINDOW_SECONDS:
            self._window_from, self.dropped = now, 0
        self.dropped += 1
        if self.dropped > self._limits.dropped_messages:
            raise FloodError(f"it sent over {self._limits.dropped_messages:,} unsolicited messages")
        return False
