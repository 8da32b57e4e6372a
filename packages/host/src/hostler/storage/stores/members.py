"""Members of workspaces: people who sign in, or are invited to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from hostler.domain.events import Caller
from hostler.domain.members import (
    MAX_MEMBERS,
    ROLE_RIGHTS,
    MemberRole,
    MemberSource,
    is_person,
    member_key,
    rights_within,
    roles_of,
    session_credential,
)
from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.domain.sign_in import Person
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import api_keys, audit, sessions
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError
from hostler_protocol.ids import new_id
from hostler_protocol.limits import MAX_PAGE_ITEMS

_q = load(__file__)
_lists = msgspec.json.Decoder(list[str])
MAX_WORKSPACES = 1_000
"""Workspaces of one person."""


class Member(Record, kw_only=True):
    """One membership. Times are UTC epoch milliseconds. `subject` None: invited, and not signed in yet."""

    workspace_id: str
    member_id: str
    subject: str | None
    email: str | None
    name: str
    role: MemberRole
    source: MemberSource
    groups: frozenset[str]
    created_at: int
    created_by: str
    signed_in_at: int | None
    removed_at: int | None

    def caller(self, rights: frozenset[str] | None = None, *, credential: str) -> Caller:
        """Return the member as a caller. `rights`: those of a key, which can only be fewer."""
        own = ROLE_RIGHTS[self.role]
        return Caller(
            workspace_id=self.workspace_id,
            subject=self.subject or "",
            key_id=member_key(self.member_id),
            roles=roles_of(self.role),
            rights=own if rights is None else rights_within(own, rights),
            groups=self.groups,
            email=self.email,
            credential=credential,
        )


class Admitted(NamedTuple):
    """What a sign-in led to: the person's memberships, and the ids of credentials that ended.

    They ended with memberships that no rule of `sign_in` gives any more, or whose role has changed.
    """

    members: list[Member]
    ended: list[str]


def add(
    tx: Tx,
    workspace_id: str,
    *,
    email: str,
    name: str,
    role: MemberRole,
    by: str,
    source: MemberSource = "invited",
) -> Member:
    """Invite the person with this address. ConflictError if it is a member or invited already."""
    if tx.one(_q.with_email, workspace_id=workspace_id, email=email, limit=1) is not None:
        raise ConflictError(f"{email} is a member already, or invited: change the role instead")
    return _insert(tx, workspace_id, None, email, name, role, source, by=by)


def get(tx: Tx, workspace_id: str, member_id: str) -> Member:
    """Return a member that was not removed. NotFoundError."""
    member = find(tx, workspace_id, member_id)
    if member is None or member.removed_at is not None:
        raise NotFoundError(f"there is no member {member_id!r}")
    return member


def find(tx: Tx, workspace_id: str, member_id: str) -> Member | None:
    """Return a member, removed or not, or None."""
    row = tx.one(_q.find, workspace_id=workspace_id, member_id=member_id)
    return None if row is None else _member(row)


def page(tx: Tx, workspace_id: str, *, after: str = "", limit: int = MAX_PAGE_ITEMS) -> list[Member]:
    """Return the members by id, after the id `after`; those who are invited too."""
    return [_member(row) for row in tx.all(_q.page, workspace_id=workspace_id, after=after, limit=limit)]


def of_subject(tx: Tx, subject: str) -> list[Member]:
    """Return the memberships of one person in all workspaces."""
    return [_member(row) for row in tx.all(_q.of_subject, subject=subject, limit=MAX_WORKSPACES)]


def names(tx: Tx, workspace_id: str, subjects: Iterable[str]) -> dict[str, str]:
    """Return the display names of subjects that are or were members."""
    return {
        str(row["subject"]): str(row["name"])
        for subject in set(subjects)
        if is_person(subject)
        for row in tx.all(_q.names, workspace_id=workspace_id, subject=subject)
    }


def removed(tx: Tx, workspace_id: str, subjects: Iterable[str]) -> set[str]:
    """Return the subjects of people who are not members of a workspace any more."""
    return {
        subject
        for subject in set(subjects)
        if is_person(subject)
        and all(member.workspace_id != workspace_id for member in of_subject(tx, subject))
    }


def admit(tx: Tx, person: Person, roles: Mapping[str, MemberRole]) -> Admitted:
    """Bring the memberships of a person up to date at a sign-in. `roles`: by workspace, from claims.

    An invitation of the person's verified address becomes a membership. Roles that were given by hand stay;
    those from claims follow the claims, and end with them.
    """
    known = {member.workspace_id: member for member in of_subject(tx, person.subject)}
    if person.email is not None:
        for row in tx.all(_q.invitations, email=person.email, limit=MAX_WORKSPACES):
            known.setdefault(str(row["workspace_id"]), _member(row))
    ended: list[str] = []
    for member in list(known.values()):
        if member.source == "claims" and member.workspace_id not in roles:
            ended += remove(tx, member, by=person.subject, cause="no rule of sign_in gives a role any more")
            del known[member.workspace_id]
    for workspace_id, role in roles.items():
        if workspace_id not in known:
            known[workspace_id] = _insert(
                tx, workspace_id, person.subject, person.email, person.name, role, "claims", by=person.subject
            )
    for member in known.values():
        if member.source == "claims" and roles[member.workspace_id] != member.role:
            ended += credentials(tx, member)
    members = [_signed_in(tx, member, person, roles) for member in known.values()]
    return Admitted(sorted(members, key=lambda member: member.workspace_id), ended)


def credentials(tx: Tx, member: Member) -> list[str]:
    """Return the ids of a member's valid sessions and keys."""
    found = [one.session_id for one in sessions.of_member(tx, member.workspace_id, member.member_id)]
    keys = [key.key_id for key in api_keys.of_member(tx, member.workspace_id, member.member_id)]
    return [*map(session_credential, found), *keys]


def set_role(tx: Tx, workspace_id: str, member_id: str, role: MemberRole, *, by: str) -> Member:
    """Change a member's role; from now on no claims change it. NotFoundError."""
    member = get(tx, workspace_id, member_id)
    tx.run(_q.set_role, workspace_id=workspace_id, member_id=member_id, role=role)
    body = {"from": member.role, "to": role, "subject": member.subject}
    audit.record(tx, workspace_id, by, "member.role_changed", member_id, body)
    return get(tx, workspace_id, member_id)


def remove(tx: Tx, member: Member, *, by: str, cause: str = "removed") -> list[str]:
    """Remove a member with all sessions and keys; return the ids of the credentials that ended."""
    tx.run(_q.remove, workspace_id=member.workspace_id, member_id=member.member_id, now=tx.now)
    ended = [*map(session_credential, sessions.revoke_all(tx, member.workspace_id, member.member_id))]
    ended += api_keys.revoke_of_member(tx, member.workspace_id, member.member_id)
    body = {"subject": member.subject, "role": member.role, "cause": cause}
    audit.record(tx, member.workspace_id, by, "member.removed", member.member_id, body)
    return ended


def _signed_in(tx: Tx, member: Member, person: Person, roles: Mapping[str, MemberRole]) -> Member:
    role = roles[member.workspace_id] if member.source == "claims" else member.role
    if role != member.role:
        body = {"from": member.role, "to": role, "subject": person.subject, "cause": "claims"}
        audit.record(tx, member.workspace_id, person.subject, "member.role_changed", member.member_id, body)
    if member.subject is None:
        joined = {"subject": person.subject, "role": role}
        audit.record(tx, member.workspace_id, person.subject, "member.joined", member.member_id, joined)
    tx.run(
        _q.sign_in,
        workspace_id=member.workspace_id,
        member_id=member.member_id,
        subject=person.subject,
        email=person.email,
        name=person.name,
        role=role,
        groups=_list(person.groups),
        now=tx.now,
    )
    return get(tx, member.workspace_id, member.member_id)


def _insert(  # noqa: PLR0917
    tx: Tx,
    workspace_id: str,
    subject: str | None,
    email: str | None,
    name: str,
    role: MemberRole,
    source: MemberSource,
    *,
    by: str,
) -> Member:
    row = tx.one(_q.count, workspace_id=workspace_id)
    if row is not None and row["count"] >= MAX_MEMBERS:
        raise InvalidArgumentError(f"the workspace has {MAX_MEMBERS:,} members, and may have no more")
    member_id = new_id()
    tx.run(
        _q.insert,
        workspace_id=workspace_id,
        member_id=member_id,
        subject=subject,
        email=email,
        name=name,
        role=role,
        source=source,
        groups="[]",
        created_at=tx.now,
        created_by=by,
        signed_in_at=None,
    )
    body = {"subject": subject, "email": email, "role": role, "source": source}
    audit.record(tx, workspace_id, by, "member.added", member_id, body)
    return get(tx, workspace_id, member_id)


def _list(groups: Iterable[str]) -> str:
    return msgspec.json.encode(sorted(groups)).decode()


def _member(row: Row) -> Member:
    return from_row(row, Member, groups=frozenset(_lists.decode(row["groups"])))
