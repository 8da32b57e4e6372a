"""The mistakes of a configuration, as people read them: by entry, each with its line and its place."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hostler.cli.output import err
from hostler.cli.terminal_text import visible

if TYPE_CHECKING:
    from rich.text import Text

    from hostler_protocol.errors import HostlerError

Told = Mapping[str, Any]
"""One mistake as an error tells it: {at, expected, line?}."""
MAX_SHOWN = 100
"""Mistakes that are listed; `--json` has all."""
PLACE_SHARE = 0.3
"""Of a terminal's width that places take beside their texts; the text of a longer one is on the next line."""
LEAST_CHARS = 24
"""Of a text on a narrow terminal."""


def has_mistakes(error: HostlerError) -> bool:
    """Whether an error tells of several mistakes, or of warnings beside one."""
    errors, warnings = error.details.get("errors"), error.details.get("warnings")
    told = [one for found in (errors, warnings) if isinstance(found, list) for one in found]
    return len(told) > 1 and all(isinstance(one, dict) and "at" in one for one in told)


def show_mistakes(error: HostlerError) -> None:
    """All of them on standard error."""
    from rich.text import Text

    errors, warnings = error.details["errors"], error.details.get("warnings") or []
    source = getattr(error, "source", "") or "the configuration"
    count = "1 mistake" if len(errors) == 1 else f"{len(errors)} mistakes"
    err().print(Text.assemble(("error: ", "bold red"), f"{visible(source)}: {count}, nothing was changed"))
    show_told(errors, "red")
    if warnings:
        note = "1 thing" if len(warnings) == 1 else f"{len(warnings)} things"
        err().print(Text.assemble(("warning: ", "bold yellow"), f"{note} beside, which would be accepted"))
        show_told(warnings, "yellow")


def show_told(told: Sequence[Told], style: str) -> None:
    """Mistakes by their entries. Piped, one whole line each."""
    from rich.text import Text

    shown = [_split(one) for one in told[:MAX_SHOWN]]
    if not sys.stderr.isatty():
        for one in told[:MAX_SHOWN]:
            err().print(Text("  " + visible(" ".join(_sentence(one).split()))), soft_wrap=True)
    else:
        digits = max((len(line) for line, _, _, _ in shown), default=0)
        most = int(err().width * PLACE_SHARE)
        width = max((len(place) for _, _, place, _ in shown if len(place) <= most), default=0)
        entry_before = ""
        for line, entry, place, text in shown:
            if entry and entry != entry_before:
                err().print(Text.assemble("  ", (visible(entry), "bold")))
            entry_before = entry
            _show_one(
                Text.assemble("    " if entry else "  ", (line.rjust(digits), "dim")),
                place,
                text,
                width,
                style,
            )
    if len(told) > MAX_SHOWN:
        err().print(Text(f"  and {len(told) - MAX_SHOWN} more", "dim"))


def _sentence(one: Told) -> str:
    at = f"line {one['line']}: {one['at']}" if "line" in one and one["at"] else one["at"]
    return f"{at}: {one['expected']}" if at else str(one["expected"])


def _split(one: Told) -> tuple[str, str, str, str]:
    """The line, the entry, the place within it and the text."""
    at = str(one["at"])
    entry, colon, place = at.partition(": ")
    if not colon:
        named = at.endswith(('"', "]"))
        entry, place = (at, "") if named else ("", at)
    return str(one.get("line", "")), entry, place, str(one["expected"])


def _show_one(head: Text, place: str, text: str, width: int, style: str) -> None:
    from rich.text import Text

    if head.plain.strip():
        head.append("  ")
    place, begin = visible(place), head.cell_len
    beside = len(place) <= width
    column = begin + (width + 2 if place and beside else 0 if not place else 2)
    room = max(err().width - column, LEAST_CHARS)
    pieces = textwrap.wrap(visible(text), room, break_long_words=False, break_on_hyphens=False) or [""]
    first = Text.assemble(head, (place.ljust(column - begin) if beside else place, style))
    if beside:
        first.append(pieces.pop(0))
    err().print(first, soft_wrap=True)
    for piece in pieces:
        err().print(Text(" " * column + piece), soft_wrap=True)
