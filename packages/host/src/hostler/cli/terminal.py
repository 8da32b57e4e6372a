"""The terminal: consoles for its two outputs, and colours where it shows them."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, TextIO

from hostler.cli.terminal_text import harmless

if TYPE_CHECKING:
    from rich.console import Console

COLOURS = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "bold red": "1;31",
    "bold yellow": "1;33",
    "bold cyan": "1;36",
}
"""Styles as terminal codes, for plain lines. Other output uses Rich, which takes long to import."""


@cache
def out() -> Console:
    """Standard output for people."""
    from hostler.cli.harmless_console import HarmlessConsole

    return HarmlessConsole(highlight=False, soft_wrap=not sys.stdout.isatty())


@cache
def err() -> Console:
    """Standard error for people."""
    from hostler.cli.harmless_console import HarmlessConsole

    return HarmlessConsole(stderr=True, highlight=False, soft_wrap=True)


def paint(text: str, style: str, stream: TextIO) -> str:
    """Return text in a style of `COLOURS`, without one if the stream shows no colours.

    What commands a terminal is escaped.
    """
    code, text = COLOURS.get(style), harmless(text)
    return f"\x1b[{code}m{text}\x1b[0m" if code and _has_colours(stream) else text


def _has_colours(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown"):
        return False
    return stream.isatty() or bool(os.environ.get("FORCE_COLOR"))
