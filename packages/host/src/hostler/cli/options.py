"""Options that many commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Data directory.", envvar="HOSTLER_DATA", show_default=False),
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
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on standard output, and nothing else.")]
TargetArgument = Annotated[
    str,
    typer.Argument(
        help="An agent's name, a plugin folder[:runner], or file.py:Class. An agent goes before a folder of "
        "its name; ./NAME is the folder."
    ),
]
ConversationOption = Annotated[
    str | None, typer.Option("--conversation", "-c", metavar="ID", help="Go on in this conversation.")
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Runner configuration; JSON where it parses as JSON."),
]
ModelOption = Annotated[
    str | None, typer.Option("--model", metavar="ID", help="The model for a runner that asks for one.")
]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many at most.")]


def data_directory(data: Path | None) -> Path:
    """The data directory that is meant, as an absolute path."""
    from hostler.host.data_directory import default_data_dir

    return (data or default_data_dir()).expanduser().resolve()
