"""The output of commands: data on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import typer

from hostler_protocol.errors import CallerError, HostlerError

if TYPE_CHECKING:
    from rich.console import Console

    from hostler.domain.config_changes import ConfigProblem

COMPLETED, FAILED, USAGE, PAUSED, CANCELLED, TIMED_OUT, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
"""Exit statuses."""
STATUS_OF_RUN = {
    "completed": COMPLETED,
    "failed": FAILED,
    "paused": PAUSED,
    "cancelled": CANCELLED,
    "timeout": TIMED_OUT,
}


COLOURS = {
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "bold red": "1;31",
    "bold yellow": "1;33",
}
"""Styles as terminal codes, for plain lines. Other output uses Rich, which takes long to import."""


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


def paint(text: str, style: str, stream: TextIO) -> str:
    """Return text in a style of `COLOURS`, or unchanged if the stream shows no colours."""
    code = COLOURS.get(style)
    return f"\x1b[{code}m{text}\x1b[0m" if code and _has_colours(stream) else text


def _has_colours(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown"):
        return False
    return stream.isatty() or bool(os.environ.get("FORCE_COLOR"))


def note(text: str) -> None:
    """Print a remark to standard error."""
    sys.stderr.write(f"{paint(text, 'dim', sys.stderr)}\n")
    sys.stderr.flush()


def fail(text: str, status: int = FAILED) -> NoReturn:
    """End the command with one line that says what is wrong and what to do."""
    show_error(text)
    raise typer.Exit(status)


def show_error(text: str) -> None:
    """Print an error as one line on standard error."""
    sys.stdout.flush()
    sys.stderr.write(f"{paint('error: ', 'bold red', sys.stderr)}{' '.join(text.split())}\n")
    sys.stderr.flush()


def show_problem(problem: ConfigProblem) -> None:
    """Print a problem of the configuration as one line on standard error."""
    if problem.severity == "error":
        show_error(problem.sentence)
    else:
        show_warning(problem.sentence)


def show_warning(text: str) -> None:
    """Print a warning as one line on standard error."""
    sys.stdout.flush()
    sys.stderr.write(f"{paint('warning: ', 'bold yellow', sys.stderr)}{' '.join(text.split())}\n")
    sys.stderr.flush()


@contextmanager
def report_errors(
    *, usage: type[HostlerError] = CallerError, unhandled: type[HostlerError] | None = None
) -> Iterator[None]:
    """End the command with one line for a HostlerError: with status 2 for a `usage` error, else 1.

    Ctrl-C ends it with 130. Errors of type `unhandled` are raised.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except HostlerError as error:
        if unhandled is not None and isinstance(error, unhandled):
            raise
        fail_with(error, USAGE if isinstance(error, usage) else FAILED)


def fail_with(error: HostlerError, status: int) -> NoReturn:
    """End the command with the message of an error: one line, or a list if it has several mistakes."""
    from hostler.cli.config_mistakes import has_mistakes, show_mistakes

    if has_mistakes(error):
        show_mistakes(error)
        raise typer.Exit(status)
    fail(error.message, status)


def write_json(value: Any) -> None:
    """Write a value as one line of JSON to standard output."""
    import msgspec

    write_line(msgspec.json.encode(value))


def write_line(line: bytes) -> None:
    """Write a line to standard output, unbuffered."""
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), line + b"\n")
