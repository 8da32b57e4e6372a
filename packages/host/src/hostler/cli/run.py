"""`hostler run`: one run from the shell."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from hostler.cli.output import INTERRUPTED, USAGE, fail, note
from hostler.cli.serve import DataOption

MAX_STDIN_BYTES = 1_048_577
"""One byte over what an event may hold: enough to be told that it is too much."""


def run(
    target: Annotated[
        str, typer.Argument(help="An agent's name, a plugin folder[:runner], or file.py:Class.")
    ],
    text: Annotated[str | None, typer.Argument(help="What to say; without it, standard input.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One result a line as JSON, and nothing else.")
    ] = False,
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="Go on in this conversation.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Runner configuration; JSON where it parses as JSON."
        ),
    ] = None,
    config_file: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Models and agents for this run.")
    ] = None,
    data: DataOption = None,
    url: Annotated[str | None, typer.Option("--url", envvar="HOSTLER_URL", help="A running server.")] = None,
    key: Annotated[str | None, typer.Option("--key", envvar="HOSTLER_KEY", help="Its API key.")] = None,
) -> None:
    """Run an agent once and stream what it says.

    Exit status: 0 completed, 1 failed, 2 usage, 3 paused, 4 cancelled, 5 timed out, 130 Ctrl-C (which cancels
    the run).
    """
    from hostler.cli.once import Wanted, run_once
    from hostler_protocol.errors import HostlerError

    said = text if text is not None else _from_stdin()
    wanted = Wanted(
        target=target,
        text=said,
        as_json=as_json,
        conversation=conversation,
        config=_settings(config or []),
        config_file=config_file,
        data=data,
        url=url,
        key=key,
    )
    try:
        status = asyncio.run(run_once(wanted))
    except KeyboardInterrupt:
        status = INTERRUPTED
    except HostlerError as error:
        fail(error.message, USAGE)
    raise typer.Exit(status)


def _from_stdin() -> str:
    if sys.stdin.isatty():
        note("type the message, then Ctrl-D")
    said = sys.stdin.buffer.read(MAX_STDIN_BYTES)
    try:
        return said.decode()
    except UnicodeDecodeError:
        fail("standard input is not UTF-8 text", USAGE)


def _settings(pairs: list[str]) -> dict[str, object]:
    import msgspec

    config: dict[str, object] = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found or not name:
            fail(f"--set {pair}: expected KEY=VALUE", USAGE)
        try:
            config[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            config[name] = value
    return config
