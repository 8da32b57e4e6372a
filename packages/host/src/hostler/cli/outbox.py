"""`hostler outbox`: messages that are sent through channels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import JsonOption, LimitOption
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import moment, write_done, write_fields, write_items, write_record
from hostler.cli.terminal import out
from hostler.cli.terminal_text import visible

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Messages sent through channels: list, show, resend, drop.", no_args_is_help=True)
MessageArgument = Annotated[str, typer.Argument(metavar="ID", help="Its id, as in `hostler outbox list`.")]


@app.command("list")
@server_command
def list_messages(
    server: Server,
    status: Annotated[
        str | None,
        typer.Option("--status", help="Only these: pending, sending, sent, in_doubt or failed."),
    ] = None,
    channel: Annotated[str | None, typer.Option("--channel", help="Only of this channel.")] = None,
    run: Annotated[str | None, typer.Option("--run", help="Only of this run.")] = None,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List messages, newest first: those that wait, are in doubt, were given up or sent."""
    write_items(
        server.items("/v1/outbox", limit=limit, status=status, channel=channel, run_id=run),
        {
            "message": "id",
            "channel": "channel",
            "chat": "chat_id",
            "state": "status",
            "tries": "attempts",
            "made": lambda one: moment(one["created_at"]),
            "text": lambda one: " ".join(filter(None, (one["action"], one["text"])))[:60],
            "error": "error",
        },
        as_json=as_json,
        none="no messages: what agents answer through channels appears here",
        spare=("made", "tries", "text"),
    )


@app.command("show")
@server_command
def show_message(server: Server, message: MessageArgument, as_json: JsonOption = False) -> None:
    """Show one message: where it goes, what it says, and what became of it."""
    write_record(server.get(route("outbox", message)), _show, as_json=as_json)


@app.command("resend")
@server_command
def resend_message(server: Server, message: MessageArgument, as_json: JsonOption = False) -> None:
    """Send a message again that was given up, or of which nobody knows whether it was sent."""

    async def resend(api: Api) -> dict[str, Any]:
        found: dict[str, Any] = await api.post(route("outbox", message, "resend"))
        return found

    record = server.ask(resend)
    write_done(record, f"message {message} is {record['status']}", as_json=as_json)


@app.command("drop")
@server_command
def drop_message(server: Server, message: MessageArgument, as_json: JsonOption = False) -> None:
    """Remove a message: it is sent no more."""
    server.ask(lambda api: api.delete(route("outbox", message)))
    write_done({"id": message, "dropped": True}, f"message {message} is dropped", as_json=as_json)


def _show(one: dict[str, Any]) -> None:
    write_fields(
        (
            ("message", one["id"]),
            ("channel", one["channel"]),
            ("chat", one["chat_id"]),
            ("thread", one["thread_id"]),
            ("state", one["status"]),
            ("error", one["error"]),
            ("tries", one["attempts"]),
            ("perhaps twice", "yes" if one["maybe_twice"] else None),
            ("next step", moment(one["due_at"])),
            ("made", moment(one["created_at"])),
            ("settled", moment(one["settled_at"])),
            ("on platform", one["message_id"]),
            ("run", one["run_id"]),
            ("files", ", ".join(one["files"])),
        )
    )
    out().print()
    if one["action"] is not None:
        asked = json.dumps(one["arguments"], ensure_ascii=False)
        out().print(visible(f"{one['action']} {asked}"), markup=False, soft_wrap=True)
        if one["result"] is not None:
            answer = json.dumps(one["result"], ensure_ascii=False)
            out().print(visible(f"answer: {answer}"), markup=False, soft_wrap=True)
        return
    out().print(visible(one["text"]), markup=False, soft_wrap=True)
