"""`hostler tokens`: front-end tokens, for one agent and one conversation each."""

from __future__ import annotations

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

app = typer.Typer(
    help="Front-end tokens for browsers: create, list, revoke.",
    no_args_is_help=True,
)


@app.command("create")
@server_command
def create_token(
    server: Server,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent that it reaches.")],
    conversation: Annotated[
        str | None, typer.Option("--conversation", help="The conversation. Default: a new one.")
    ] = None,
    minutes: Annotated[float | None, typer.Option("--minutes", help="Minutes until it expires: 15.")] = None,
    right: Annotated[
        list[str] | None,
        typer.Option("--right", help="A right like runs:read; repeatable. Default: what front ends use."),
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", help="The person for whom its holder acts.")
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option("--origin", metavar="URL", help="Only pages of this origin may use it; repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token. It is shown only now, alone on standard output."""
    body = {
        "agent": agent,
        "conversation_id": conversation,
        "rights": right or None,
        "subject": subject,
        "origins": origin or [],
        **({} if minutes is None else {"minutes": minutes}),
    }

    async def create(api: Api) -> dict[str, Any]:
        found: dict[str, Any] = await api.post("/v1/tokens", body)
        return found

    write_record(server.ask(create), _show_new, as_json=as_json)


@app.command("list")
@server_command
def list_tokens(server: Server, limit: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List valid tokens without their text: those of the own key, for administrators of all keys."""
    write_items(
        server.items("/v1/tokens", limit=limit),
        {
            "token": "token_id",
            "agent": "agent",
            "conversation": "conversation_id",
            "subject": "subject",
            "rights": "rights",
            "origins": "origins",
            "made by": "made_by",
            "expires": lambda token: moment(token["expires_at"]),
        },
        as_json=as_json,
        none="no valid tokens: `hostler tokens create AGENT` makes one",
        spare=("rights", "origins", "made by", "subject"),
    )


@app.command("revoke")
@server_command
def revoke_token(
    server: Server,
    token_id: Annotated[str, typer.Argument(metavar="TOKEN_ID", help="The id, as in `hostler tokens list`.")],
    as_json: JsonOption = False,
) -> None:
    """Revoke a token. It is refused from now on, and its streams end."""
    server.ask(lambda api: api.delete(route("tokens", token_id)))
    write_done({"token_id": token_id, "revoked": True}, f"token {token_id} is revoked", as_json=as_json)


def _show_new(made: dict[str, Any]) -> None:
    note(
        f"token {made['token_id']} for agent {made['agent']} and conversation {made['conversation_id']}, "
        f"until {moment(made['expires_at'])}; shown only now:"
    )
    out().print(made["token"], markup=False, soft_wrap=True)
