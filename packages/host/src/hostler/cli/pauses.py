"""`hostler pauses`: calls and questions that wait for a person or a client, and their decisions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import JsonOption, LimitOption
from hostler.cli.output import USAGE, fail
from hostler.cli.pause_decisions import (
    ask_person,
    at_terminal,
    decide,
    find_call,
    find_pause,
    object_of,
    text_of,
    with_top_up,
)
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import moment, write_done, write_items, write_record

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Calls and questions that wait for people: list, show, decide.", no_args_is_help=True)
UNSETTLED = ("open", "needs_review", "ready", "resuming")

PauseArgument = Annotated[
    str, typer.Argument(metavar="PAUSE", help="The id, as in `hostler pauses list`, or its beginning.")
]
CallArgument = Annotated[
    str | None, typer.Argument(metavar="[CALL]", help="Its id or number; not needed if only one waits.")
]
CommentOption = Annotated[str | None, typer.Option("--comment", "-m", help="Shown to the agent.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@app.command("list")
@server_command
def list_pauses(
    server: Server,
    status: Annotated[str | None, typer.Option("--status", help="Like open, ready, resumed.")] = None,
    conversation: Annotated[str | None, typer.Option("--conversation", "-c", metavar="ID")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="ID")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List pauses, newest first."""
    from hostler.cli.pause_show import COLUMNS

    found = server.items("/v1/pauses", limit=limit, status=status, conversation_id=conversation, run_id=run)
    write_items(
        [p for p in found if everything or status is not None or p["status"] in UNSETTLED],
        COLUMNS,
        as_json=as_json,
        none="no pauses",
        spare=("requester",),
    )


@app.command("show")
@server_command
def show(server: Server, pause: PauseArgument, as_json: JsonOption = False) -> None:
    """Show a pause: its calls with full arguments, their digests and decisions."""
    from hostler.cli.pause_show import show_pause

    write_record(server.ask(lambda api: find_pause(api, pause)), show_pause, as_json=as_json)


@app.command("approve")
@server_command
def approve(
    server: Server,
    pause: PauseArgument,
    call: CallArgument = None,
    comment: CommentOption = None,
    edited: Annotated[
        str | None,
        typer.Option("--edit", metavar="JSON", help="All arguments, changed; @FILE reads them from a file."),
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option("--digest", metavar="HASH", help="Only if the arguments still have this digest."),
    ] = None,
    uses: Annotated[
        int | None, typer.Option("--similar", metavar="N", help="Also approve up to N similar calls later.")
    ] = None,
    minutes: Annotated[float | None, typer.Option("--similar-minutes", help="Only during this time.")] = None,
    top_up: Annotated[
        float | None,
        typer.Option("--top-up", metavar="AMOUNT", help="What to add to a budget, if not what is proposed."),
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Approve a call with the arguments that are shown, or more for a budget."""
    more: dict[str, Any] = {"comment": comment, "edited_args": object_of(edited)}
    if uses is not None or minutes is not None:
        more["similar"] = {"uses": uses, "minutes": minutes}

    def action(found: dict[str, Any]) -> dict[str, Any]:
        if top_up is not None:
            more["edited_args"] = with_top_up(found, top_up)
        return {"type": "approve", "args_hash": digest or found["args_hash"], **more}

    decide(server, pause, call, ("approval", "budget"), action, yes or as_json, as_json)


@app.command("deny")
@server_command
def deny(
    server: Server,
    pause: PauseArgument,
    call: CallArgument = None,
    comment: CommentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Deny a call, or more for a budget. The call is not made, and the agent is informed."""

    def action(found: dict[str, Any]) -> dict[str, Any]:
        return {"type": "deny", "args_hash": found["args_hash"], "comment": comment}

    decide(server, pause, call, ("approval", "budget"), action, True, as_json)


@app.command("answer")
@server_command
def answer(
    server: Server,
    pause: PauseArgument,
    call: CallArgument = None,
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="A value; JSON if possible.")
    ] = None,
    button: Annotated[str | None, typer.Option("--action", help="The name of the button to press.")] = None,
    comment: CommentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a question; at a terminal, field by field."""
    from hostler.cli.run import parse_settings

    given = parse_settings(values or [])

    def action(found: dict[str, Any]) -> dict[str, Any] | None:
        if not given and button is None and at_terminal():
            return ask_person(found)
        return {"type": "answer", "values": given, "action": button, "comment": comment}

    decide(server, pause, call, ("question",), action, True, as_json)


@app.command("result")
@server_command
def result(
    server: Server,
    pause: PauseArgument,
    call: CallArgument = None,
    value: Annotated[
        str | None, typer.Option("--value", metavar="JSON", help="Or text; @FILE; default: standard input.")
    ] = None,
    error: Annotated[
        str | None, typer.Option("--error", metavar="TEXT", help="The tool failed with this error.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Send the result of a tool that runs on the client."""
    from hostler.cli.pause_prompt import value_of

    def action(found: dict[str, Any]) -> dict[str, Any] | None:
        if error is not None:
            return {"type": "error", "error": error}
        if value is None and at_terminal():
            return ask_person(found)
        return {"type": "result", "result": value_of(text_of(value) if value else sys.stdin.read())}

    decide(server, pause, call, ("client_tool",), action, True, as_json)


@app.command("cancel")
@server_command
def cancel(
    server: Server,
    pause: PauseArgument,
    reason: Annotated[str | None, typer.Option("--reason", help="Written into the run's journal.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel a pause and its run."""

    async def ask(api: Api) -> Any:
        found = await find_pause(api, pause)
        return await api.post(route("pauses", found["id"], "cancel"), {"reason": reason})

    _show_status(server.ask(ask), as_json)


@app.command("resolve")
@server_command
def resolve(
    server: Server,
    pause: PauseArgument,
    outcome: Annotated[str, typer.Argument(metavar="happened|not-happened", help="Whether it was made.")],
    call: CallArgument = None,
    value: Annotated[
        str | None, typer.Option("--result", metavar="JSON", help="Its result, if it happened.")
    ] = None,
    comment: CommentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resolve a call in doubt, after checking whether it was made."""
    from hostler.cli.pause_prompt import value_of

    word = outcome.replace("-", "_")
    if word not in ("happened", "not_happened"):
        fail(f"{outcome!r} is not an outcome: write happened or not-happened", USAGE)
    body = {"outcome": word, "comment": comment}
    if value is not None:
        body["result"] = value_of(text_of(value))

    async def ask(api: Api) -> Any:
        found = await find_pause(api, pause)
        one = find_call(found, call, None, lambda c: c.get("review") or c["execution"] == "in_doubt")
        path = route("pauses", found["id"], "calls", one["call_id"], "resolve")
        return await api.post(path, body)

    _show_status(server.ask(ask), as_json)


@app.command("similar")
@server_command
def list_similar(server: Server, limit: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List the approvals of similar calls ahead that have uses and time left."""
    write_items(
        server.items("/v1/approval-rules", limit=limit),
        {
            "rule": "rule_id",
            "tool": "tool",
            "equal arguments": lambda rule: _names(rule["arguments"]),
            "agent": "agent",
            "conversation": "conversation_id",
            "for": "requester",
            "by": lambda rule: rule["approved_by_name"] or rule["approved_by"],
            "uses left": "uses_left",
            "in force": lambda rule: "no: whoever approved may no longer" if rule["lapsed"] else "yes",
            "until": lambda rule: moment(rule["expires_at"]),
        },
        as_json=as_json,
        none="no approvals of similar calls",
        spare=("for", "conversation"),
    )


def _names(arguments: list[str] | None) -> str:
    return "all" if arguments is None else ", ".join(arguments) or "none"


@app.command("revoke")
@server_command
def revoke(
    server: Server,
    rule: Annotated[str, typer.Argument(metavar="RULE", help="The id, as in `hostler pauses similar`.")],
    as_json: JsonOption = False,
) -> None:
    """Revoke an approval of similar calls: from now on people are asked."""
    server.ask(lambda api: api.delete(route("approval-rules", rule)))
    write_done({"rule_id": rule, "revoked": True}, f"approval rule {rule} is revoked", as_json=as_json)


@app.command("inbox")
@server_command
def inbox(server: Server, limit: LimitOption = 50, as_json: JsonOption = False) -> None:
    """List events of pauses, newest first."""
    write_items(
        server.items("/v1/inbox", limit=limit),
        {
            "when": lambda entry: moment(entry["at"]),
            "what": lambda entry: entry["event"].removeprefix("pause."),
            "pause": "pause_id",
            "title": "title",
            "now": _state,
        },
        as_json=as_json,
        none="no events yet",
        spare=("when",),
    )


def _state(entry: dict[str, Any]) -> str:
    return "waits for you" if entry["waiting"] and entry["status"] == "open" else entry["status"]


def _show_status(pause: dict[str, Any], as_json: bool) -> None:
    write_done(pause, f"pause {pause['id']} is {pause['status']}", as_json=as_json)
