"""`hostler config`: configuration entries of all kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.entries import FieldsArgument, parse_fields, put_entry, remove_entry, show_entry
from hostler.cli.options import JsonOption
from hostler.cli.output import USAGE, fail
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import write_items

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Configuration entries: list, show, set, remove.", no_args_is_help=True)
KINDS = (
    "plugins",
    "models",
    "tools",
    "skills",
    "workspaces",
    "agents",
    "webhooks",
    "hooks",
    "schedules",
    "widgets",
    "sign_in",
    "channels",
    "retention",
    "master_key",
    "pause_key",
    "working_folders",
    "audit_anchors",
    "cors",
)
SINGLE = ("retention", "master_key", "pause_key", "working_folders", "audit_anchors", "cors")
"""The kinds that have at most one entry."""
KindArgument = Annotated[
    str, typer.Argument(metavar="KIND", help=f"A key of a configuration file: {', '.join(KINDS)}.")
]
NameArgument = Annotated[
    str, typer.Argument(metavar="[NAME]", help="The entry's name; not needed for a kind with one entry.")
]


@app.command("list")
@server_command
def list_entries(
    server: Server,
    kind: Annotated[str | None, typer.Argument(metavar="[KIND]", help="Only of this kind.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the configuration entries and their problems."""

    async def look(api: Api) -> list[Any]:
        kinds = KINDS if kind is None else (kind,)
        return [entry for name in kinds for entry in (await api.get(route("config", name)))["items"]]

    write_items(
        server.ask(look),
        {"kind": "kind", "name": "name", "problem": "problem"},
        as_json=as_json,
        none="no entries yet: `hostler apply FILE` applies a configuration file",
    )


@app.command("show")
@server_command
def show(server: Server, kind: KindArgument, name: NameArgument = "", as_json: JsonOption = False) -> None:
    """Show one entry as in a configuration file."""
    show_entry(server, kind, _name(kind, name), as_json=as_json)


@app.command("set")
@server_command
def set_entry(
    server: Server,
    kind: KindArgument,
    name: NameArgument = "",
    fields: FieldsArgument = None,
    as_json: JsonOption = False,
) -> None:
    """Add an entry or change some of its fields, like `set retention deltas=30`."""
    if kind in SINGLE and "=" in name:
        name, fields = "", [name, *(fields or [])]
    put_entry(server, kind, _name(kind, name), parse_fields(fields), as_json=as_json)


@app.command("remove")
@server_command
def remove(server: Server, kind: KindArgument, name: NameArgument = "", as_json: JsonOption = False) -> None:
    """Remove one entry."""
    remove_entry(server, kind, _name(kind, name), as_json=as_json)


def _name(kind: str, name: str) -> str:
    from hostler.host.config_entries import POLICY, entry_kind
    from hostler_protocol.errors import HostlerError

    try:
        single = entry_kind(kind).single
    except HostlerError as error:
        fail(error.message, USAGE)
    if not name and not single:
        fail(f"the name of the entry is missing: `hostler config list {kind}` lists the names", USAGE)
    return name or POLICY
