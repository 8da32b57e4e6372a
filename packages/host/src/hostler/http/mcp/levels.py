"""Levels of log messages, and which of them sessions want."""

from __future__ import annotations

from collections import OrderedDict

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
DEFAULT_LEVEL = "info"
"""Of a session that has not set one, or whose host has forgotten it."""
MAX_SESSION_LEVELS = 10_000
"""Sessions whose level a host remembers; the longest unused one is forgotten."""


class SessionLevels:
    """Which log messages sessions want, as far as this host remembers."""

    def __init__(self) -> None:
        self._levels: OrderedDict[str, str] = OrderedDict()

    def set(self, session_id: str, level: str) -> None:
        """Remember a level."""
        self._levels[session_id] = level
        self._levels.move_to_end(session_id)
        if len(self._levels) > MAX_SESSION_LEVELS:
            self._levels.popitem(last=False)

    def get(self, session_id: str) -> str:
        """Return the level of a session."""
        return self._levels.get(session_id, DEFAULT_LEVEL)
