"""Lives whose people sign in: members of the workspace, with sessions, removed as keys are revoked."""

from __future__ import annotations

from hostler.domain.events import Caller
from hostler.domain.members import member_of_key, session_credential
from hostler.domain.sign_in import Person
from hostler.storage.port import Tx
from hostler.storage.stores import api_keys, members, sessions
from hostler_protocol.ids import new_id
from simulation.life import WORKSPACE
from simulation.plan import Draft

HABIT = "member"
ISSUER = "https://id.example.com"
SESSION_SECONDS = 30 * 86_400.0


def plan(draft: Draft) -> None:
    """In many lives with people that decide: they are members."""
    if draft.people:
        draft.people = {**draft.people, HABIT: 1.0}


def enter(tx: Tx, who: Caller) -> tuple[Caller, str]:
    """Sign a person in, as the identity provider's answer does; the caller of the session, and its token."""
    person = Person(ISSUER, who.subject, who.subject.title(), None, frozenset())
    (member,) = members.admit(tx, person, {who.workspace_id: "owner"}).members
    session, token, _ = sessions.create(
        tx,
        who.workspace_id,
        member.member_id,
        new_id(),
        provider="corp",
        issuer=ISSUER,
        agent="a browser",
        seconds=SESSION_SECONDS,
        idle_seconds=SESSION_SECONDS,
    )
    return member.caller(credential=session_credential(session.session_id)), token


def leave(tx: Tx, key_id: str) -> None:
    """Revoke a key, or remove the member that it stands for."""
    member_id = member_of_key(key_id)
    if member_id is None:
        api_keys.revoke(tx, WORKSPACE, key_id)
        return
    member = members.find(tx, WORKSPACE, member_id)
    if member is not None and member.removed_at is None:  # it may be asked twice
        members.remove(tx, member, by="operator")
