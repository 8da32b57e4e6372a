"""Lists and records on standard output: tables and fields for people, tabs for pipes, JSON for programs."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import typer

from hostler.cli.options import JsonOption
from hostler.cli.output import note, write_json, write_line
from hostler.cli.server import Server, server_command
from hostler.cli.terminal import out, paint
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
"""The colours of words for a state."""
FIELD_CHARS = 16
"""The width of field names; a digest of 64 characters then fits into 80 columns."""
WHOLE_CHARS = 24
"""A longer cell with blanks is prose, whose column may be wrapped; ids and names are not wrapped."""
PROSE_CHARS = 14
"""The least width of a wrapped column."""
GAP_CHARS = 2


Columns: TypeAlias = Mapping[str, str | Callable[[Any], object]]
"""Titles of columns, each with the name of an item's field or a function of the item."""


def write_items(
    items: Sequence[Mapping[str, Any]],
    columns: Columns,
    *,
    as_json: bool,
    none: str,
    spare: Sequence[str] = (),
) -> None:
    """Write a list as one JSON array, or as a table with a row for each item. See `write_table`."""
    if as_json:
        write_json(items)
        return
    rows = (
        [item.get(column) if isinstance(column, str) else column(item) for column in columns.values()]
        for item in items
    )
    write_table([*columns], rows, none=none, spare=spare)


def add_list_command(
    app: typer.Typer,
    path: str,
    columns: Columns,
    *,
    none: str,
    help: str,  # noqa: A002  the name that Typer gives it
    name: str = "list",
    spare: Sequence[str] = (),
    running: bool = False,
) -> None:
    """Add a command that shows a list of the API, which is read whole. See `write_items` and `Server.ask`."""

    @app.command(name, help=help)
    @server_command
    def list_items(server: Server, as_json: JsonOption = False) -> None:
        items = server.all(path, running=running)
        write_items(items, columns, as_json=as_json, none=none, spare=spare)


def write_record(record: T, show: Callable[[T], None], *, as_json: bool) -> None:
    """Write a record as JSON, or with `show`."""
    if as_json:
        write_json(record)
    else:
        show(record)


def write_done(record: Any, text: str, *, as_json: bool) -> None:
    """Write what a command has changed: the record as JSON, or a sentence on standard error."""
    if as_json:
        write_json(record)
    else:
        note(text)


def write_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, none: str, spare: Sequence[str] = ()
) -> None:
    """Write a table, or the note `none` if it has no rows. In a pipe, columns are separated by tabs.

    On a terminal, empty columns are left out. If it is too narrow, those in `spare` are left out in turn.
    """
    found = [list(row) for row in rows]
    if not found:
        note(none)
    elif sys.stdout.isatty():
        _write_terminal_table(list(columns), found, list(spare))
    else:
        for cells in found:
            write_line("\t".join(" ".join(_text(cell).split()) for cell in cells).encode())


def write_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Write names and values, one pair a line; those without a value are left out."""
    for name, value in fields:
        if value is None or value in ("", []):
            continue
        text = _text(value)
        write_indented([(f"{name:{FIELD_CHARS}}", "dim")], text, STYLES.get(text, ""))


def write_indented(head: Sequence[tuple[str, str]], text: str, style: str = "") -> None:
    """Write a text after its head (pieces with styles). On a terminal, further lines are indented."""
    before = "".join(paint(piece, piece_style, sys.stdout) for piece, piece_style in head)
    chars = sum(len(piece) for piece, _ in head)
    room = shutil.get_terminal_size().columns - chars if sys.stdout.isatty() else sys.maxsize
    for line in text.split("\n"):
        for piece in _pieces(visible(line), room):
            sys.stdout.write(f"{before}{paint(piece, style, sys.stdout)}\n")
            before = " " * chars


def _pieces(line: str, room: int) -> list[str]:
    """Wrap a line; long words stay whole, so that they can be copied."""
    if len(line) <= room:
        return [line]
    return textwrap.wrap(line, room, break_long_words=False, break_on_hyphens=False)


def moment(seconds: float | None) -> datetime | None:
    """Return a time, in epoch seconds, as local time."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).astimezone()


def short(value: Any, chars: int) -> str:
    """Return a value as JSON, cut to `chars` characters."""
    import msgspec

    text = msgspec.json.encode(value).decode()
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def _text(cell: object) -> str:
    if isinstance(cell, datetime):
        return f"{cell:%Y-%m-%d %H:%M:%S}"
    if isinstance(cell, list):
        return ", ".join(map(str, cell))
    return "" if cell is None else str(cell)


def _cell(cell: object) -> Text:
    """Return a cell for a terminal. A time of this year has no year, another one no hours."""
    from rich.text import Text

    if isinstance(cell, datetime):
        this_year = cell.year == datetime.now(cell.tzinfo).year
        return Text(f"{cell:%m-%d %H:%M}" if this_year else f"{cell:%Y-%m-%d}")
    text = visible(_text(cell), lines=True)
    return Text(text, STYLES.get(text, ""))


def _is_prose(cell: Text) -> bool:
    return cell.cell_len > WHOLE_CHARS and " " in cell.plain


def _write_terminal_table(columns: list[str], rows: list[list[object]], spare: list[str]) -> None:
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
    too_wide = needed() if needed() > out().width else None  # the terminal then wraps whole lines
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
