"""Options that many commands share."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from hostler.cli.output import USAGE, fail

SECONDS_OF = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(\d{1,9})([smhdw])")

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="The data directory.", envvar="HOSTLER_DATA", show_default=False
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", envvar="HOSTLER_URL", help="A running server.", show_envvar=True),
]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", envvar="HOSTLER_KEY", help="Its API key.", show_envvar=True),
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="postgresql://... instead of SQLite in the data directory.",
        envvar="HOSTLER_DATABASE",
    ),
]
NoUrlOption = Annotated[str | None, typer.Option("--url", envvar="HOSTLER_URL", hidden=True)]
NoKeyOption = Annotated[str | None, typer.Option("--key", envvar="HOSTLER_KEY", hidden=True)]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON to standard output, and nothing else.")]
TargetArgument = Annotated[
    str,
    typer.Argument(
        help="An agent's name, a plugin folder[:runner], or file.py:Class. If an agent and a folder have the "
        "same name, NAME is the agent and ./NAME the folder."
    ),
]
ConversationOption = Annotated[
    str | None, typer.Option("--conversation", "-c", metavar="ID", help="Continue this conversation.")
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of the runner; parsed as JSON if possible."),
]
ModelOption = Annotated[
    str | None, typer.Option("--model", metavar="ID", help="The model, for a runner that needs one.")
]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="The most to list.")]


def data_directory(data: Path | None) -> Path:
    """Return the data directory as an absolute path; None: the default one.

    Whatever this process makes from here on is its user's alone.
    """
    from hostler.host.data_directory import default_data_dir

    os.umask(0o077)
    return (data or default_data_dir()).expanduser().resolve()


def seconds_of(span: str) -> int:
    """Return the seconds of a time span like 90m, 24h or 7d. Ends the command if it is none."""
    found = _SPAN.fullmatch(span.strip())
    if found is None:
        fail(f"{span!r} is not a time span: write a number and one of s, m, h, d, w, like 7d", USAGE)
    return int(found[1]) * SECONDS_OF[found[2]]
