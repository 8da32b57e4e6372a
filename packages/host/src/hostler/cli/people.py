"""`hostler people`: accounts on channels, whom they are bound to, and who asks to be let in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from hostler.cli.options import JsonOption, LimitOption
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import moment, write_done, write_items

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(
    help="People of channels: list, waiting, confirm, reject, code, link, unlink.", no_args_is_help=True
)
CodeArgument = Annotated[str, typer.Argument(metavar="CODE", help="The code that the person was given.")]
ChannelArgument = Annotated[str, typer.Argument(metavar="CHANNEL", help="The channel of the account.")]
PersonArgument = Annotated[str, typer.Argument(metavar="PERSON", help="The platform's id of the person.")]
SubjectOption = Annotated[
    str | None,
    typer.Option("--as", metavar="SUBJECT", help="Whom the account is bound to, like a member's subject."),
]


@app.command("list")
@server_command
def list_people(
    server: Server,
    channel: Annotated[str | None, typer.Option("--channel", help="Of this channel alone.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="Accounts of this one alone.")] = None,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List the accounts on channels that are bound to subjects."""
    given = {"channel": channel, "subject": subject}
    query = {name: value for name, value in given.items() if value is not None}
    write_items(
        server.items("/v1/people", limit=limit, **query),
        {
            "channel": "channel",
            "person": "person_id",
            "name": "name",
            "subject": "subject",
            "how": "how",
            "by": "bound_by",
            "since": lambda one: moment(one["bound_at"]),
        },
        as_json=as_json,
        none="no account is bound yet: `hostler people link CHANNEL PERSON --as SUBJECT` binds one",
        spare=("by", "since"),
    )


@app.command("waiting")
@server_command
def list_waiting(server: Server, limit: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List the unknown people who wrote to bots that pair: who waits, and who was rejected."""
    write_items(
        server.items("/v1/pairings", limit=limit),
        {
            "channel": "channel",
            "person": "person_id",
            "name": "name",
            "status": "status",
            "asked": lambda one: moment(one["asked_at"]),
            "until": lambda one: moment(one["expires_at"]),
        },
        as_json=as_json,
        none="nobody waits",
    )


@app.command("confirm")
@server_command
def confirm_person(
    server: Server, code: CodeArgument, subject: SubjectOption = None, as_json: JsonOption = False
) -> None:
    """Let the person in who was given a code. They are told in their chat."""

    async def confirm(api: Api) -> dict[str, Any]:
        body = {"code": code, "subject": subject}
        found: dict[str, Any] = await api.post("/v1/pairings/confirm", body)
        return found

    found = server.ask(confirm, running=True)
    write_done(found, f"{_named(found)} is let in as {found['subject']}", as_json=as_json)


@app.command("reject")
@server_command
def reject_person(server: Server, code: CodeArgument, as_json: JsonOption = False) -> None:
    """Let the person who was given a code have no other one for a month."""

    async def reject(api: Api) -> dict[str, Any]:
        await api.post("/v1/pairings/reject", {"code": code})
        return {"code": code}

    write_done(server.ask(reject), f"{code} is rejected", as_json=as_json)


@app.command("code")
@server_command
def make_code(server: Server, subject: SubjectOption = None, as_json: JsonOption = False) -> None:
    """Make a code that binds the account of whoever types it in a private chat, once, within an hour."""

    async def make(api: Api) -> dict[str, Any]:
        made: dict[str, Any] = await api.post("/v1/pairings", {"subject": subject})
        return made

    made = server.ask(make)
    text = f"{made['code']} binds whoever types it to {made['subject']}, until {moment(made['expires_at'])}"
    write_done(made, text, as_json=as_json)


@app.command("link")
@server_command
def link_person(
    server: Server,
    channel: ChannelArgument,
    person: PersonArgument,
    subject: SubjectOption = None,
    name: Annotated[str | None, typer.Option("--name", help="How the person is called in lists.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Bind an account on a channel to a subject, and let it in where people are paired."""

    async def link(api: Api) -> dict[str, Any]:
        body = {"subject": subject, "name": name}
        found: dict[str, Any] = await api.put(route("people", channel, person), body)
        return found

    # what may be missing is the channel: a person that nobody knows yet can be bound
    found = replace(server, listed_by="hostler channels list").ask(link)
    write_done(found, f"{_named(found)} is bound to {found['subject']}", as_json=as_json)


@app.command("unlink")
@server_command
def unlink_person(
    server: Server, channel: ChannelArgument, person: PersonArgument, as_json: JsonOption = False
) -> None:
    """Let an account be bound to nobody. Where people are paired it is let in no longer."""

    async def unlink(api: Api) -> dict[str, Any]:
        await api.delete(route("people", channel, person))
        return {"channel": channel, "person_id": person}

    write_done(server.ask(unlink), f"{person} of {channel} is bound to nobody", as_json=as_json)


def _named(found: dict[str, Any]) -> str:
    return f"{found['name'] or found['person_id']} of {found['channel']}"
