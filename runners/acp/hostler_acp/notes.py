"""Journal entries on what the agent sends and the runner does not know."""

from __future__ import annotations

from collections.abc import Callable

from hostler_acp.limits import MAX_NOTES
from hostler_sdk import RunContext
from hostler_sdk.results import LogLevel


class Notes:
    """Writes each text once, and at most MAX_NOTES in a run, without secrets."""

    def __init__(self, ctx: RunContext, hide: Callable[[str], str]) -> None:
        self._ctx = ctx
        self._hide = hide
        self._written: set[str] = set()

    def write(self, text: str, level: LogLevel = "info") -> None:
        """Write an entry."""
        if text in self._written or len(self._written) > MAX_NOTES:
            return
        self._written.add(text)
        if len(self._written) > MAX_NOTES:
            text = "there is more of this kind; it is not written down"
        self._ctx.log(self._hide(text), level)
