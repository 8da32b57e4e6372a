"""Members of a workspace: people who sign in, invited by an owner or let in by claims of their provider."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hostler.domain.epoch import seconds
from hostler.domain.members import MAX_EMAIL_CHARS, MemberRole, MemberSource, normal_email
from hostler.domain.same_fields import with_fields_of
from hostler.http.auth import require_right
from hostler.http.ended_access import end_access
from hostler.http.endpoint import endpoint
from hostler.http.pagination import PageQuery, list_cursors, listing
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Json, Listing
from hostler.http.routes.keys import Name
from hostler.storage.port import Tx
from hostler.storage.stores import members
from hostler.storage.stores.members import Member
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError, UnauthorizedError

Email = Annotated[str, msgspec.Meta(min_length=3, max_length=MAX_EMAIL_CHARS)]


class NewMember(Strict):
    """An invitation. It becomes a membership when the person signs in with this address, verified."""

    email: Email
    role: MemberRole
    name: Name | None = None


class MemberRoleChange(Strict):
    """Another role. From then on claims do not change it."""

    role: MemberRole


class MemberRecord(Strict):
    """A member. `subject`: null until the person has signed in. Times are UTC epoch seconds."""

    member_id: str
    workspace_id: str
    subject: str | None
    email: str | None
    name: str
    role: MemberRole
    source: MemberSource
    groups: list[str]
    created_at: float
    created_by: str
    signed_in_at: float | None


@endpoint("GET", "/v1/members", right="admin", tag="members")
async def list_members(request: ApiRequest, query: PageQuery) -> Listing[MemberRecord]:
    """List the members of the workspace, and the people who are invited."""
    cursors = list_cursors(request.state.host.cursors, "members", request.workspace_id, query)
    after = "" if query.cursor is None else cursors.read_text(query.cursor)
    rows = await request.state.host.db.read(
        lambda tx: members.page(tx, request.workspace_id, after=after, limit=query.size + 1)
    )
    return listing(rows, query.size, member_record, lambda member: member.member_id, cursors)


@endpoint("POST", "/v1/members", right="admin", tag="members", status=201)
async def add_member(request: ApiRequest, body: NewMember) -> Json[MemberRecord]:
    """Invite a person by e-mail address. The host sends no mail: tell the person where to sign in."""
    email = normal_email(body.email)
    if email is None:
        raise InvalidArgumentError(f"email: {body.email!r:.80} is no e-mail address")
    _check_role(request, body.role)
    ws, by = request.workspace_id, request.caller.subject
    made = await request.state.host.db.write(
        lambda tx: members.add(tx, ws, email=email, name=body.name or email, role=body.role, by=by)
    )
    return Json(member_record(made), 201)


@endpoint("GET", "/v1/members/{member_id}", right="admin", tag="members")
async def get_member(request: ApiRequest) -> MemberRecord:
    """Get one member."""
    ws, member_id = request.workspace_id, request.parameters["member_id"]
    return member_record(await request.state.host.db.read(lambda tx: members.get(tx, ws, member_id)))


@endpoint("PUT", "/v1/members/{member_id}", right="admin", tag="members")
async def put_member(request: ApiRequest, body: MemberRoleChange) -> MemberRecord:
    """Change a member's role. Open streams of the member end, and are opened again with the new one."""
    ws, member_id, by = request.workspace_id, request.parameters["member_id"], request.caller.subject
    _check_role(request, body.role)

    def change(tx: Tx) -> tuple[Member, list[str]]:
        known = members.get(tx, ws, member_id)
        _check_role(request, known.role)
        ended = [] if known.role == body.role else members.credentials(tx, known)
        return members.set_role(tx, ws, member_id, body.role, by=by), ended

    member, ended = await request.state.host.db.write(change)
    end_access(request.state, ended)
    return member_record(member)


@endpoint("DELETE", "/v1/members/{member_id}", right="admin", tag="members")
async def remove_member(request: ApiRequest) -> Empty:
    """Remove a member. Its sessions, personal keys and open streams end at once; what it decided stays."""
    ws, member_id, by = request.workspace_id, request.parameters["member_id"], request.caller.subject

    def remove(tx: Tx) -> list[str]:
        member = members.get(tx, ws, member_id)
        _check_role(request, member.role)
        return members.remove(tx, member, by=by)

    end_access(request.state, await request.state.host.db.write(remove))
    return Empty()


def member_record(member: Member) -> MemberRecord:
    """Return a member as the API shows it."""
    return with_fields_of(
        member,
        MemberRecord,
        groups=sorted(member.groups),
        created_at=member.created_at / 1000,
        signed_in_at=seconds(member.signed_in_at),
    )


def _check_role(request: ApiRequest, role: MemberRole) -> None:
    """Check that the caller may give or take this role. UnauthorizedError, InvalidArgumentError."""
    if role != "administrator":
        return
    require_right(request.caller, "installation")
    if request.workspace_id != request.state.host.settings.workspace:
        raise UnauthorizedError("administrators are members of the installation's own workspace")
