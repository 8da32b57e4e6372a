"""`hostler keys`: API keys of people, programs and remote plugins."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import JsonOption, LimitOption
from hostler.cli.output import note
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import moment, write_done, write_items, write_record
from hostler.cli.terminal import out

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="API keys: create, list, revoke.", no_args_is_help=True)
DAY_SECONDS = 86_400
DEFAULT_RIGHTS = ["events:write", "events:read", "runs:read", "runs:write", "pauses:read", "pauses:write"]
"""The rights needed to chat with agents and to answer their questions."""


@app.command("create")
@server_command
def create_key(
    server: Server,
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    right: Annotated[
        list[str] | None,
        typer.Option("--right", help="A right like runs:read; repeatable. Default: events, runs and pauses."),
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", help="The name under which its holder acts.")
    ] = None,
    role: Annotated[list[str] | None, typer.Option("--role", help="A role; repeatable.")] = None,
    plugin: Annotated[
        str | None, typer.Option("--plugin", metavar="AUTHOR/NAME", help="A token for a remote plugin.")
    ] = None,
    days: Annotated[float | None, typer.Option("--days", min=0.001, help="Days until it expires.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Create a key. It is shown only now, alone on standard output."""
    rights = right or ([] if plugin else DEFAULT_RIGHTS)
    body = {
        "name": name,
        "subject": subject,
        "roles": role or [],
        "rights": rights,
        "plugin": plugin,
        "expires_at": None if days is None else time.time() + days * DAY_SECONDS,
    }

    async def create(api: Api) -> dict[str, Any]:
        found: dict[str, Any] = await api.post("/v1/keys", body)
        return found

    write_record(server.ask(create), _show_new, as_json=as_json)


@app.command("list")
@server_command
def list_keys(server: Server, limit: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List keys without their secrets, also revoked and expired ones."""
    write_items(
        server.items("/v1/keys", limit=limit),
        {
            "key": "key_id",
            "name": "name",
            "rights": lambda key: key.get("plugin") or key["rights"],
            "expires": lambda key: moment(key["expires_at"]),
            "state": _state,
        },
        as_json=as_json,
        none="no keys yet except the administrator's: `hostler keys create NAME` creates one",
        spare=("expires",),
    )


@app.command("revoke")
@server_command
def revoke_key(
    server: Server,
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="The id, as in `hostler keys list`.")],
    as_json: JsonOption = False,
) -> None:
    """Revoke a key. It is refused from now on."""
    server.ask(lambda api: api.delete(route("keys", key_id)))
    write_done({"key_id": key_id, "revoked": True}, f"key {key_id} is revoked", as_json=as_json)


def _show_new(made: dict[str, Any]) -> None:
    note(f"key {made['record']['key_id']} ({', '.join(made['record']['rights'])}); shown only now:")
    out().print(made["key"], markup=False, soft_wrap=True)


def _state(key: dict[str, Any]) -> str:
    if key["revoked_at"] is not None:
        return "revoked"
    expires = key["expires_at"]
    return "expired" if expires is not None and expires <= time.time() else "valid"
