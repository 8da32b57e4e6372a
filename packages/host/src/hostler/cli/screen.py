"""One run on a terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hostler.journal.feed import StoredResult


def coloured() -> bool:
    """Return whether standard output is a terminal that shows colours."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


class Screen:
    """Shows the results of one run as they stream, with rendered Markdown if `coloured`."""

    def __init__(self, *, coloured: bool) -> None:
        from hostler.cli.markdown import MarkdownStream
        from hostler.cli.run_output import Show

        self._markdown = MarkdownStream() if coloured else None
        self._show = Show(write=self._write, before_end=self._rest)

    def result(self, result: StoredResult) -> None:
        """Show one result."""
        self._show.result(result)

    def end(self) -> None:
        """End the current line and all colours."""
        self._show.end()

    def _write(self, text: str) -> None:
        sys.stdout.write(text if self._markdown is None else self._markdown.feed(text))
        sys.stdout.flush()

    def _rest(self) -> None:
        if self._markdown is not None:
            sys.stdout.write(self._markdown.end())
            sys.stdout.flush()
