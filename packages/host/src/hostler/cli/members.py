"""`hostler members`: the people who sign in to a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import JsonOption, LimitOption
from hostler.cli.output import fail
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import moment, write_done, write_items

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Members: add, list, set-role, remove.", no_args_is_help=True)
ROLES = "administrator, owner, operator, approver, reader"
MemberArgument = Annotated[
    str,
    typer.Argument(
        metavar="MEMBER", help="The member's id, or e-mail address, as in `hostler members list`."
    ),
]
RoleArgument = Annotated[str, typer.Argument(metavar="ROLE", help=f"One of {ROLES}.")]
MAX_LOOKED_AT = 10_000
"""Members that are searched for an address: as many as a workspace may have."""


@app.command("add")
@server_command
def add_member(
    server: Server,
    email: Annotated[
        str, typer.Argument(metavar="EMAIL", help="The address with which the person signs in.")
    ],
    role: RoleArgument,
    name: Annotated[str | None, typer.Option("--name", help="How the person is called until then.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Invite a person. No mail is sent: tell the person to open /sign-in of this host."""

    async def add(api: Api) -> dict[str, Any]:
        made: dict[str, Any] = await api.post("/v1/members", {"email": email, "role": role, "name": name})
        return made

    made = server.ask(add)
    text = f"{made['email']} is invited as {made['role']}: member {made['member_id']}"
    write_done(made, text, as_json=as_json)


@app.command("list")
@server_command
def list_members(server: Server, limit: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List members, and the people who are invited."""
    write_items(
        server.items("/v1/members", limit=limit),
        {
            "member": "member_id",
            "name": "name",
            "email": "email",
            "role": "role",
            "source": "source",
            "subject": "subject",
            "signed in": lambda member: moment(member["signed_in_at"]),
        },
        as_json=as_json,
        none="no members yet: `hostler members add EMAIL ROLE` invites one",
        spare=("subject", "source"),
    )


@app.command("set-role")
@server_command
def set_role(server: Server, member: MemberArgument, role: RoleArgument, as_json: JsonOption = False) -> None:
    """Change a member's role. From then on claims of the identity provider do not change it."""

    async def change(api: Api) -> dict[str, Any]:
        path = route("members", await _member_id(api, member))
        changed: dict[str, Any] = await api.put(path, {"role": role})
        return changed

    changed = server.ask(change)
    write_done(changed, f"{changed['name']} is {changed['role']}", as_json=as_json)


@app.command("remove")
@server_command
def remove_member(server: Server, member: MemberArgument, as_json: JsonOption = False) -> None:
    """Remove a member: sessions, personal keys and open streams end at once."""

    async def remove(api: Api) -> str:
        member_id = await _member_id(api, member)
        await api.delete(route("members", member_id))
        return member_id

    member_id = server.ask(remove)
    write_done({"member_id": member_id, "removed": True}, f"member {member_id} is removed", as_json=as_json)


async def _member_id(api: Api, named: str) -> str:
    if "@" not in named:
        return named
    found = await api.items("/v1/members", limit=MAX_LOOKED_AT)
    ids = [one["member_id"] for one in found if one["email"] == named.strip().lower()]
    if len(ids) != 1:
        what = "no member has" if not ids else f"{len(ids)} members have"
        fail(f"{what} the address {named!r}: `hostler members list` shows all with their ids")
    return str(ids[0])
