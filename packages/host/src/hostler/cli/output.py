"""The output of commands: data on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from hostler.cli.config_mistakes import has_mistakes, show_mistakes
from hostler.cli.terminal import paint
from hostler.cli.terminal_text import harmless
from hostler_protocol.errors import CallerError, HostlerError

if TYPE_CHECKING:
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
    sys.stderr.write(f"{paint('error: ', 'bold red', sys.stderr)}{_one_line(text)}\n")
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
    sys.stderr.write(f"{paint('warning: ', 'bold yellow', sys.stderr)}{_one_line(text)}\n")
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
    if has_mistakes(error):
        show_mistakes(error)
        raise typer.Exit(status)
    fail(error.message, status)


def write_json(value: Any) -> None:
    """Write a value as one line of JSON to standard output."""
    import msgspec

    write_line(msgspec.json.encode(value))


def write_line(line: bytes) -> None:
    """Write a line to standard output, unbuffered. On a terminal, what commands it is escaped as in JSON."""
    sys.stdout.flush()
    if sys.stdout.isatty():
        line = harmless(line.decode("utf-8", "backslashreplace")).encode()
    os.write(sys.stdout.fileno(), line + b"\n")


def _one_line(text: str) -> str:
    return harmless(" ".join(text.split()))
