"""`hostler run`: one run from the shell."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from hostler.cli.options import (
    ConversationOption,
    DataOption,
    KeyOption,
    ModelOption,
    SettingsOption,
    TargetArgument,
    UrlOption,
)
from hostler.cli.output import USAGE, fail, note, report_errors

MAX_STDIN_BYTES = 1_048_577
"""One byte more than an event may have, so that the server refuses longer input."""
CONFIG_SUFFIXES = (".yaml", ".yml", ".toml")


def run(
    target: TargetArgument,
    text: Annotated[str | None, typer.Argument(help="The message; default: standard input.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one result per line as JSON, and nothing else.")
    ] = False,
    conversation: ConversationOption = None,
    settings: SettingsOption = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config", metavar="FILE", help="A configuration to apply first; KEY=VALUE is as --set."
        ),
    ] = None,
    model: ModelOption = None,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Run an agent once and stream its output.

    Exit status: 0 completed, 1 failed, 2 usage, 3 paused, 4 cancelled,
    5 timed out, 130 Ctrl-C (which cancels the run).
    """
    from hostler.cli.run_once import RunOptions, run_once

    files, pairs = _split(config or [])
    message = text if text is not None else _from_stdin()
    options = RunOptions(
        target=target,
        text=message,
        as_json=as_json,
        conversation=conversation,
        config=parse_settings([*(settings or []), *pairs]),
        model=model,
        config_file=files,
        data=data,
        url=url,
        key=key,
    )
    with report_errors():
        status = asyncio.run(run_once(options))
    raise typer.Exit(status)


def _from_stdin() -> str:
    if sys.stdin.isatty():
        note("type the message, then Ctrl-D")
    message = sys.stdin.buffer.read(MAX_STDIN_BYTES)
    try:
        return message.decode()
    except UnicodeDecodeError:
        fail("standard input is not UTF-8 text", USAGE)


def _split(values: list[str]) -> tuple[Path | None, list[str]]:
    """Split the values of --config into the configuration file and settings."""
    pairs = [value for value in values if "=" in value and not value.endswith(CONFIG_SUFFIXES)]
    files = [value for value in values if value not in pairs]
    if len(files) > 1:
        fail(f"--config names {len(files)} files: name only one", USAGE)
    return (Path(files[0]) if files else None), pairs


def parse_settings(pairs: list[str], option: str = "--set") -> dict[str, object]:
    """Return the KEY=VALUE pairs of an option; a value is parsed as JSON if possible, else it is text."""
    import msgspec

    config: dict[str, object] = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found or not name:
            fail(f"{option} {pair}: expected KEY=VALUE", USAGE)
        try:
            config[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            config[name] = value
    return config
