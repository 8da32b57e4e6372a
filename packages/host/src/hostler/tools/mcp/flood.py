"""How much a server may say without being asked: beyond that it is not read, and in the end given up."""

from __future__ import annotations

from hostler.tools.mcp.limits import McpLimits

DROPPED_WINDOW_SECONDS = 60.0


class FloodError(Exception):
    """The server says far more than anybody can use."""


class Intake:
    """A bucket of messages. `now` in seconds of a monotonic clock."""

    def __init__(self, limits: McpLimits, now: float) -> None:
        self._limits = limits
        self._room = float(limits.message_burst)
        self._filled_at = now
        self._window_from = now
        self.dropped = 0
        """Within the current window."""

    def takes(self, now: float) -> bool:
        """Whether one more message is looked at; False: it is dropped. FloodError."""
        room = self._room + (now - self._filled_at) * self._limits.messages_per_second
        self._room, self._filled_at = min(room, float(self._limits.message_burst)), now
        if self._room >= 1:
            self._room -= 1
            return True
        if now - self._window_from > DROPPED_WINDOW_SECONDS:
            self._window_from, self.dropped = now, 0
        self.dropped += 1
        if self.dropped > self._limits.dropped_messages:
            raise FloodError(f"it sent over {self._limits.dropped_messages:,} messages that nobody asked for")
        return False
