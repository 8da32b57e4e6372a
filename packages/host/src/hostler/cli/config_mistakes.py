"""Print the mistakes of a configuration by entry, each with its line and place."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hostler.cli.terminal import err
from hostler.cli.terminal_text import visible

if TYPE_CHECKING:
    from rich.text import Text

    from hostler_protocol.errors import HostlerError

MistakeDetail = Mapping[str, Any]
"""One mistake in the details of an error: {at, expected, line?}."""
MAX_SHOWN = 100
"""The most mistakes that are listed; `--json` has all."""
PLACE_SHARE = 0.3
"""The share of a terminal's width for places; a longer place has its text on the next line."""
LEAST_CHARS = 24
"""The least width of a text, on a narrow terminal."""


def has_mistakes(error: HostlerError) -> bool:
    """Return whether an error has several mistakes, or a mistake and warnings."""
    errors, warnings = error.details.get("errors"), error.details.get("warnings")
    details = [one for found in (errors, warnings) if isinstance(found, list) for one in found]
    return len(details) > 1 and all(isinstance(one, dict) and "at" in one for one in details)


def show_mistakes(error: HostlerError) -> None:
    """Print the mistakes and warnings of an error to standard error."""
    from rich.text import Text

    errors, warnings = error.details["errors"], error.details.get("warnings") or []
    source = getattr(error, "source", "") or "the configuration"
    count = "1 mistake" if len(errors) == 1 else f"{len(errors)} mistakes"
    err().print(Text.assemble(("error: ", "bold red"), f"{visible(source)}: {count}, nothing was changed"))
    show_details(errors, "red")
    if warnings:
        note = "1 thing" if len(warnings) == 1 else f"{len(warnings)} things"
        err().print(
            Text.assemble(("warning: ", "bold yellow"), f"{note} that would be accepted, but may be wrong")
        )
        show_details(warnings, "yellow")


def show_details(details: Sequence[MistakeDetail], style: str) -> None:
    """Print mistakes under the name of their entry; without a terminal, one line each."""
    from rich.text import Text

    shown = [_split(one) for one in details[:MAX_SHOWN]]
    if not sys.stderr.isatty():
        for one in details[:MAX_SHOWN]:
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
    if len(details) > MAX_SHOWN:
        err().print(Text(f"  and {len(details) - MAX_SHOWN} more", "dim"))


def _sentence(one: MistakeDetail) -> str:
    at = f"line {one['line']}: {one['at']}" if "line" in one and one["at"] else one["at"]
    return f"{at}: {one['expected']}" if at else str(one["expected"])


def _split(one: MistakeDetail) -> tuple[str, str, str, str]:
    """Return the line, the entry, the place in it, and the text."""
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
    fits = len(place) <= width
    column = begin + (width + 2 if place and fits else 0 if not place else 2)
    room = max(err().width - column, LEAST_CHARS)
    pieces = textwrap.wrap(visible(text), room, break_long_words=False, break_on_hyphens=False) or [""]
    first = Text.assemble(head, (place.ljust(column - begin) if fits else place, style))
    if fits:
        first.append(pieces.pop(0))
    err().print(first, soft_wrap=True)
    for piece in pieces:
        err().print(Text(" " * column + piece), soft_wrap=True)
