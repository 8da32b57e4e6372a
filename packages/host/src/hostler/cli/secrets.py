"""`hostler secrets`: stored secrets, and the master keys under which they are. Values go in and never out."""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import JsonOption, LimitOption
from hostler.cli.output import USAGE, fail
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import moment, write_done, write_items

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(
    help="Stored secrets: set, list, rotate, remove, move; keys of encryption.", no_args_is_help=True
)
NameArgument = Annotated[str, typer.Argument(help="The name of the secret.")]
InstallationOption = Annotated[
    bool,
    typer.Option(
        "--installation",
        help="A secret for models, tools and other entries of the configuration; default: one for agents.",
    ),
]


@app.command("set")
@server_command
def set_secret(
    server: Server, name: NameArgument, installation: InstallationOption = False, as_json: JsonOption = False
) -> None:
    """Store a secret under a name, for `secret://NAME`. Reads the value from standard input, or asks."""
    _put(server, name, installation, as_json, existing=False)


@app.command("rotate")
@server_command
def rotate(
    server: Server, name: NameArgument, installation: InstallationOption = False, as_json: JsonOption = False
) -> None:
    """Give a stored secret a new value, which is used from the next use on. Reads it as `set` does."""
    _put(server, name, installation, as_json, existing=True)


@app.command("list")
@server_command
def list_secrets(
    server: Server,
    installation: InstallationOption = False,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List the names of secrets: who set them, who used them last, what refers to them. Never values."""
    write_items(
        server.items("/v1/secrets", limit=limit, owner=_owner(installation)),
        {
            "name": "name",
            "set by": "set_by",
            "set": lambda secret: moment(secret["set_at"]),
            "used": lambda secret: moment(secret["used_at"]),
            "used by": "used_by",
            "referred to by": lambda secret: secret["problem"] or secret["referred_by"],
        },
        as_json=as_json,
        none="no secrets yet: `hostler secrets set NAME` stores one",
        spare=("used by", "set"),
    )


@app.command("remove")
@server_command
def remove(
    server: Server,
    name: NameArgument,
    installation: InstallationOption = False,
    force: Annotated[bool, typer.Option("--force", help="Also if something refers to it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove a secret. Refused while something refers to it, unless --force."""
    query = {"owner": _owner(installation), "force": "true" if force else "false"}
    server.ask(lambda api: api.delete(route("secrets", name), **query))
    write_done({"name": name, "removed": True}, f"secret {name} is removed", as_json=as_json)


@app.command("move")
@server_command
def move(
    server: Server,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="models or agents.")],
    entry: Annotated[str, typer.Argument(metavar="ENTRY", help="The name of the model or agent.")],
    field: Annotated[str, typer.Argument(help="api_key, or the key in `config` of an agent.")],
    name: NameArgument,
    as_json: JsonOption = False,
) -> None:
    """Move a secret that is written out in a model or an agent into the store; it refers to it then."""
    if kind not in {"models", "agents"}:
        fail(f"secrets are written out in models and agents, not in {kind!r}", USAGE)
    body = {"kind": kind, "name": entry, "field": field}
    secret = server.ask(lambda api: api.put(f"{route('secrets', name)}/from", body))
    write_done(
        secret,
        f"{kind} {entry}: {field} is {secret['reference']} now. Copies of the database from before hold the "
        "value: change it at its service, then `hostler secrets rotate`",
        as_json=as_json,
    )


@app.command("keys")
@server_command
def keys(server: Server, as_json: JsonOption = False) -> None:
    """List the master keys, and how much is still under each: an old one may go when nothing is."""

    async def look(api: Api) -> list[Any]:
        found: list[Any] = (await api.get("/v1/master-keys"))["items"]
        return found

    write_items(
        server.ask(look),
        {
            "key": "key_id",
            "from": lambda key: key["reference"] or "not configured",
            "state": lambda key: "current" if key["current"] else "old" if key["reference"] else "missing",
            "in use for": lambda key: ", ".join(f"{n:,} {what}" for what, n in key["uses"].items()),
        },
        as_json=as_json,
        none="no master key is configured: `hostler config set master_key` names one",
    )


@app.command("rotate-keys")
@server_command
def rotate_keys(
    server: Server,
    workspace: Annotated[
        str | None, typer.Option("--workspace", metavar="NAME", help="Of this workspace; default: of all.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Replace the keys of workspaces that encryption at rest uses, and the erasure key, while runs go on.

    A backup from before opens only with keys of after: make a new one.
    """
    done = server.ask(lambda api: api.post("/v1/workspace-keys/rotate", {"workspace_id": workspace}))
    write_done(
        done,
        f"{done['replaced']:,} keys are replaced, and the erasure key is {done['erasure_key']} now. Backups "
        "from before open only with keys of after: make a new one, and copy the erasure key",
        as_json=as_json,
    )


def _put(server: Server, name: str, installation: bool, as_json: bool, *, existing: bool) -> None:
    body, owner = {"value": _read_value(name)}, _owner(installation)
    secret = server.ask(
        lambda api: api.put(
            route("secrets", name), body, owner=owner, existing="true" if existing else "false"
        )
    )
    used = secret["referred_by"]
    then = f"; used by {', '.join(used)}" if used else f"; write {secret['reference']} where it is to be used"
    write_done(secret, f"secret {name} is stored, version {secret['version']}{then}", as_json=as_json)


def _owner(installation: bool) -> str:
    return "installation" if installation else "workspace"


def _read_value(name: str) -> str:
    """Return the value from standard input without its last line end, or ask for it if that is a terminal."""
    from hostler.domain.stored_secrets import MAX_SECRET_BYTES, value_mistake

    if sys.stdin.isatty():
        value = getpass.getpass(f"value of {name}: ")
    else:
        try:
            value = sys.stdin.buffer.read(MAX_SECRET_BYTES + 2).decode("utf-8")
        except UnicodeDecodeError:
            fail("the value on standard input is no text in UTF-8", USAGE)
        value = value.removesuffix("\n").removesuffix("\r")
    if (mistake := value_mistake(value)) is not None:
        fail(f"{mistake}: `printf %s VALUE | hostler secrets set {name}`, or type it in a terminal", USAGE)
    return value
