"""Lists and records: tables and fields for people, tabs for pipes, JSON for programs."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from hostler.cli.output import note, out, paint, write_json, write_line
from hostler.cli.terminal_text import visible

if TYPE_CHECKING:
    from rich.text import Text

T = TypeVar("T")

STYLES = {
    "completed": "green",
    "ready": "green",
    "valid": "green",
    "running": "cyan",
    "claimed": "cyan",
    "queued": "yellow",
    "paused": "yellow",
    "open": "yellow",
    "needs_review": "yellow",
    "failed": "red",
    "timeout": "red",
    "cancelled": "dim",
    "expired": "dim",
}
"""How words that tell how something stands are coloured."""
FIELD_CHARS = 16
"""What the names of fields take; a digest of 64 characters then fits into 80."""
WHOLE_CHARS = 24
"""A cell that is longer and has blanks is prose, whose column may be wrapped; ids and names stay whole."""
PROSE_CHARS = 14
"""What is left of a wrapped column at the least."""
GAP_CHARS = 2


def write_items(
    items: Sequence[T],
    columns: Sequence[str],
    row: Callable[[T], Sequence[object]],
    *,
    as_json: bool,
    none: str,
    spare: Sequence[str] = (),
) -> None:
    """A list: one JSON array, or a table with a `row` for each item. See `write_table`."""
    if as_json:
        write_json(items)
    else:
        write_table(columns, map(row, items), none=none, spare=spare)


def write_record(record: T, show: Callable[[T], None], *, as_json: bool) -> None:
    """One thing: as JSON, or as `show` shows it to people."""
    if as_json:
        write_json(record)
    else:
        show(record)


def write_done(record: Any, text: str, *, as_json: bool) -> None:
    """What a command has changed: the record as JSON, or a sentence beside standard output."""
    if as_json:
        write_json(record)
    else:
        note(text)


def write_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, none: str, spare: Sequence[str] = ()
) -> None:
    """A table for people; `none` is said where it has no rows. Piped, columns are separated by tabs.

    On a terminal, columns that hold nothing are left out, and those in `spare`, in this order, where it is
    too narrow for all.
    """
    found = [list(row) for row in rows]
    if not found:
        note(none)
    elif sys.stdout.isatty():
        _write_for_people(list(columns), found, list(spare))
    else:
        for cells in found:
            write_line("\t".join(" ".join(_text(cell).split()) for cell in cells).encode())


def write_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Names and values, one pair a line; those without a value are left out."""
    for name, value in fields:
        if value is None or value in ("", []):
            continue
        text = ", ".join(map(str, value)) if isinstance(value, list) else _text(value)
        write_beside([(f"{name:{FIELD_CHARS}}", "dim")], text, STYLES.get(text, ""))


def write_beside(head: Sequence[tuple[str, str]], text: str, style: str = "") -> None:
    """A text beside its head, which is pieces with their styles; on a terminal it goes on under itself."""
    before = "".join(paint(piece, piece_style, sys.stdout) for piece, piece_style in head)
    chars = sum(len(piece) for piece, _ in head)
    room = shutil.get_terminal_size().columns - chars if sys.stdout.isatty() else sys.maxsize
    for line in text.split("\n"):
        for piece in _pieces(visible(line), room):
            sys.stdout.write(f"{before}{paint(piece, style, sys.stdout)}\n")
            before = " " * chars


def _pieces(line: str, room: int) -> list[str]:
    """A line in pieces that fit; long words stay whole, so that they can be copied."""
    if len(line) <= room:
        return [line]
    return textwrap.wrap(line, room, break_long_words=False, break_on_hyphens=False)


def moment(seconds: float | None) -> datetime | None:
    """A time of day where this is read."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).astimezone()


def short(value: Any, chars: int) -> str:
    """The beginning of a value as JSON."""
    import msgspec

    text = msgspec.json.encode(value).decode()
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def _text(cell: object) -> str:
    if isinstance(cell, datetime):
        return f"{cell:%Y-%m-%d %H:%M:%S}"
    return "" if cell is None else str(cell)


def _cell(cell: object) -> Text:
    """A cell on a terminal. Times are short there: the year is told where it is not this one."""
    from rich.text import Text

    if isinstance(cell, datetime):
        this_year = cell.year == datetime.now(cell.tzinfo).year
        return Text(f"{cell:%m-%d %H:%M}" if this_year else f"{cell:%Y-%m-%d}")
    text = visible(_text(cell), lines=True)
    return Text(text, STYLES.get(text, ""))


def _is_prose(cell: Text) -> bool:
    return cell.cell_len > WHOLE_CHARS and " " in cell.plain


def _write_for_people(columns: list[str], rows: list[list[object]], spare: list[str]) -> None:
    from rich.table import Table

    numbers = {name for at, name in enumerate(columns) if all(isinstance(r[at], int | None) for r in rows)}
    shown = {name: [_cell(row[at]) for row in rows] for at, name in enumerate(columns)}
    shown = {name: cells for name, cells in shown.items() if any(cells)}
    widest = {name: max(len(name), *(cell.cell_len for cell in cells)) for name, cells in shown.items()}
    prose = {name for name, cells in shown.items() if any(map(_is_prose, cells))}

    def needed() -> int:
        widths = (PROSE_CHARS if name in prose else widest[name] for name in shown)
        return sum(widths) + GAP_CHARS * (len(shown) - 1)

    for name in spare:
        if needed() > out().width:
            shown.pop(name, None)
    too_wide = needed() if needed() > out().width else None  # then the terminal wraps whole lines
    table = Table(box=None, pad_edge=False, header_style="dim", width=too_wide)
    for name in shown:
        table.add_column(
            name,
            overflow="fold",
            no_wrap=name not in prose,
            justify="right" if name in numbers else "left",
            min_width=PROSE_CHARS if name in prose else widest[name],
        )
    for cells in zip(*shown.values(), strict=True):
        table.add_row(*cells)
    out().print(table, crop=False)


__all__ = [
    "moment",
    "short",
    "write_beside",
    "write_done",
    "write_fields",
    "write_items",
    "write_record",
    "write_table",
]
