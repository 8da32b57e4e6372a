"""Back pressure on reading: a connection stops to read while too many results wait to be committed."""

from __future__ import annotations

from hostler.plugins.transport import PluginTransport


class ReadPause:
    """Pauses a transport above `limit_bytes`, and resumes it at half of that."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.transport: PluginTransport | None = None
        self.is_paused = False

    def regulate(self, held_bytes: int) -> None:
        """Pause or resume reading for this number of uncommitted bytes."""
        if self.transport is None:
            return
        if not self.is_paused and held_bytes > self._limit_bytes:
            self.is_paused = True
            self.transport.pause_reading()
        elif self.is_paused and held_bytes <= self._limit_bytes // 2:
            self.is_paused = False
            self.transport.resume_reading()
