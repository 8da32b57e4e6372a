"""`hostler keys`: API keys of people, programs and remote plugins."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import DataOption, JsonOption, KeyOption, LimitOption, UrlOption
from hostler.cli.output import note, out, when, write_json, write_table

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="API keys: create, list, revoke.", no_args_is_help=True)
DAY_SECONDS = 86_400
DEFAULT_RIGHTS = ["events:write", "events:read", "runs:read", "runs:write", "pauses:read", "pauses:write"]
"""What a person or program needs that talks with agents and answers their questions."""


@app.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    right: Annotated[
        list[str] | None,
        typer.Option(
            "--right", help="Like runs:read; may be given several times. Without: events, runs, pauses."
        ),
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", help="Under which name its holder acts.")
    ] = None,
    role: Annotated[list[str] | None, typer.Option("--role", help="A role of its holder.")] = None,
    plugin: Annotated[
        str | None, typer.Option("--plugin", metavar="AUTHOR/NAME", help="A token of one remote plugin.")
    ] = None,
    days: Annotated[float | None, typer.Option("--days", min=0.001, help="How long it is valid.")] = None,
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Make a key. It is shown this once: standard output holds the key alone."""
    from hostler.cli.reach import with_api

    rights = right or ([] if plugin else DEFAULT_RIGHTS)
    body = {
        "name": name,
        "subject": subject,
        "roles": role or [],
        "rights": rights,
        "plugin": plugin,
        "expires_at": None if days is None else time.time() + days * DAY_SECONDS,
    }

    async def ask(api: Api) -> dict[str, Any]:
        found: dict[str, Any] = await api.post("/v1/keys", body)
        return found

    made = with_api(ask, url=url, key=key, data=data)
    if as_json:
        write_json(made)
        return
    note(f"key {made['record']['key_id']} ({', '.join(made['record']['rights'])}); shown this once:")
    out().print(made["key"], markup=False, soft_wrap=True)


@app.command("list")
def list_keys(
    limit: LimitOption = 100,
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """List keys without their secrets, revoked and expired ones too."""
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> list[Any]:
        return await api.items("/v1/keys", limit=limit)

    found = with_api(ask, url=url, key=key, data=data)
    if as_json:
        write_json(found)
        return
    rows = (
        (k["key_id"], k["name"], k.get("plugin") or ", ".join(k["rights"]), when(k["expires_at"]), _state(k))
        for k in found
    )
    write_table(("key", "name", "rights", "expires", "state"), rows, none="no keys besides the admin key")


@app.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="As `hostler keys list` shows it.")],
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Revoke a key: from now on it opens nothing."""
    from hostler.cli.client import segment
    from hostler.cli.reach import with_api

    with_api(lambda api: api.delete(f"/v1/keys/{segment(key_id)}"), url=url, key=key, data=data)
    note(f"key {key_id} is revoked")


def _state(key: dict[str, Any]) -> str:
    if key["revoked_at"] is not None:
        return f"revoked {when(key['revoked_at'])}"
    expires = key["expires_at"]
    return "expired" if expires is not None and expires <= time.time() else "valid"
