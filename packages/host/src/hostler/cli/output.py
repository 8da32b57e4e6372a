"""What people and programs see: data on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console

COMPLETED, FAILED, USAGE, PAUSED, CANCELLED, TIMED_OUT, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
"""Exit statuses."""
STATUS_OF_RUN = {
    "completed": COMPLETED,
    "failed": FAILED,
    "paused": PAUSED,
    "cancelled": CANCELLED,
    "timeout": TIMED_OUT,
}
STYLES = {
    "completed": "green",
    "ready": "green",
    "running": "cyan",
    "claimed": "cyan",
    "queued": "yellow",
    "paused": "yellow",
    "failed": "red",
    "timeout": "red",
    "cancelled": "dim",
}
"""How words that tell how something stands are coloured."""


@cache
def out() -> Console:
    """Standard output for people."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


@cache
def err() -> Console:
    """Standard error for people."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def note(text: str) -> None:
    """Say something beside the data."""
    err().print(text, style="dim", markup=False)


def fail(text: str, status: int = FAILED) -> NoReturn:
    """End with one line that says what is wrong and what to do."""
    show_error(text)
    raise typer.Exit(status)


def show_error(text: str) -> None:
    """One line on standard error."""
    from rich.text import Text

    err().print(Text.assemble(("error: ", "bold red"), " ".join(text.split())))


def write_json(value: Any) -> None:
    """One JSON value as one line on standard output."""
    import msgspec

    write_line(msgspec.json.encode(value))


def write_line(line: bytes) -> None:
    """One line of bytes on standard output, at once."""
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), line + b"\n")


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, none: str) -> None:
    """A table for people; `none` is said where it has no rows. Piped, columns are separated by tabs."""
    found = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if not found:
        note(none)
        return
    if not sys.stdout.isatty():
        for row in found:
            write_line("\t".join(" ".join(cell.split()) for cell in row).encode())
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in found:
        table.add_row(*(Text(cell, STYLES.get(cell, "")) for cell in row))
    out().print(table)


def write_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Names and values, one pair a line; those without a value are left out."""
    from rich.text import Text

    for name, value in fields:
        if value is not None and value not in ("", []):
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            out().print(Text.assemble((f"{name:16}", "dim"), (text, STYLES.get(text, ""))), soft_wrap=True)


def when(seconds: float | None) -> str:
    """A time as people here read it; "" for none."""
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
