"""`hostler events`: which agent takes an event."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hostler.cli.options import JsonOption
from hostler.cli.output import USAGE, fail
from hostler.cli.server import Server, server_command
from hostler.cli.tables import write_fields, write_record, write_table
from hostler.cli.terminal import out

app = typer.Typer(help="Events: explain which agent takes one.", no_args_is_help=True)
MAX_FILE_BYTES = 2**21
"""An event has less; a larger file is none."""


@app.callback()
def events() -> None:
    """Events: explain which agent takes one."""


@app.command("explain")
@server_command
def explain(
    server: Server,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The event as JSON, as `POST /v1/events` takes it; - reads stdin."
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Say which agent would take an event, and of each other agent why it would not. Nothing is stored."""
    event = _read(file)
    found: dict[str, Any] = server.ask(lambda api: api.post("/v1/events/explain", event))
    write_record(found, _show, as_json=as_json)


def _read(file: Path) -> Any:
    import msgspec

    try:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as source:
            data = source.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}", USAGE)
    if len(data) > MAX_FILE_BYTES:
        fail(f"{file} is no event: it has more than {MAX_FILE_BYTES:,} bytes", USAGE)
    try:
        event = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        fail(f"{file} is not JSON: {error}", USAGE)
    if not isinstance(event, dict):
        fail(f'{file} is no event: expected an object, like {{"event_type": ..., "input": ...}}', USAGE)
    return event


def _show(found: dict[str, Any]) -> None:
    write_fields((("agent", found["agent"] or "none"), ("because", found["text"])))
    out().print()
    rows = [
        (agent["agent"], "yes" if agent["takes"] else "no", agent["text"], agent["priority"])
        for agent in found["agents"]
    ]
    write_table(("agent", "takes it", "because", "priority"), rows, none="there are no agents")
