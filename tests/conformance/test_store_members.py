"""Members and sessions on both databases."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hostler.domain.members import session_credential
from hostler.domain.sign_in import Person
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import api_keys, audit, members, sessions
from hostler.storage.stores.members import Member
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError

HOUR = 3_600.0


def person(sub: str = "ada", email: str | None = "ada@example.com", **more: Any) -> Person:
    fields = {"name": "Ada", "groups": frozenset({"desk"}), **more}
    return Person("https://id.example", f"oidc:https://id.example#{sub}", email=email, **fields)


def session_for(tx: Tx, member: Member, number: int = 0) -> tuple[str, str]:
    made, token, _ = sessions.create(
        tx,
        member.workspace_id,
        member.member_id,
        f"s{number:04}",
        provider="corp",
        issuer="https://id.example",
        agent="a" * 1_000,
        seconds=HOUR,
        idle_seconds=HOUR / 2,
    )
    assert len(made.agent) == sessions.MAX_AGENT_CHARS
    return made.session_id, token


async def test_memberships_follow_claims_and_invitations_follow_nobody(database: SqlDatabase) -> None:
    def first(tx: Tx) -> list[Member]:
        members.add(tx, "shop", email="ada@example.com", name="A", role="owner", by="test")
        return members.admit(tx, person(), {"main": "reader", "lab": "operator"}).members

    found = await database.write(first)
    assert [(one.workspace_id, one.role, one.source) for one in found] == [
        ("lab", "operator", "claims"),
        ("main", "reader", "claims"),
        ("shop", "owner", "invited"),
    ]

    def second(tx: Tx) -> members.Admitted:
        session_for(tx, next(one for one in found if one.workspace_id == "lab"))
        return members.admit(tx, person(email=None, name="Ada L."), {"main": "approver"})

    again = await database.write(second)
    assert [(one.workspace_id, one.role, one.name) for one in again.members] == [
        ("main", "approver", "Ada L."),
        ("shop", "owner", "Ada L."),
    ]
    assert again.ended == [session_credential("s0000")]
    assert [one.member_id for one in again.members] == [one.member_id for one in found[1:]]


async def test_a_role_by_hand_stays(database: SqlDatabase) -> None:
    def work(tx: Tx) -> Member:
        (member,) = members.admit(tx, person(), {"main": "reader"}).members
        members.set_role(tx, "main", member.member_id, "owner", by="test")
        (kept,) = members.admit(tx, person(), {"main": "reader"}).members
        (without,) = members.admit(tx, person(), {}).members
        assert kept.role == without.role == "owner"
        return without

    await database.write(work)


async def test_an_invitation_is_of_one_address_and_a_removed_member_may_be_invited_again(
    database: SqlDatabase,
) -> None:
    def work(tx: Tx) -> None:
        known = members.add(tx, "main", email="b@c.de", name="B", role="reader", by="test")
        with pytest.raises(ConflictError):
            members.add(tx, "main", email="b@c.de", name="B", role="owner", by="test")
        assert members.remove(tx, known, by="test") == []
        with pytest.raises(NotFoundError):
            members.get(tx, "main", known.member_id)
        with pytest.raises(NotFoundError):
            members.set_role(tx, "main", known.member_id, "owner", by="test")
        members.add(tx, "main", email="b@c.de", name="B", role="reader", by="test")
        assert len(members.page(tx, "main")) == 1
        assert members.page(tx, "other") == []
        assert members.admit(tx, person("other", "x@y.zz"), {}).members == []

    await database.write(work)


async def test_a_workspace_has_so_many_members(
    database: SqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "MAX_MEMBERS", 2)

    def add(tx: Tx, number: int, workspace: str = "main") -> None:
        members.add(tx, workspace, email=f"m{number}@c.de", name="M", role="reader", by="test")

    for number in range(2):
        await database.write(lambda tx, number=number: add(tx, number))  # type: ignore[misc]
    with pytest.raises(InvalidArgumentError, match="may have no more"):
        await database.write(lambda tx: add(tx, 3))
    await database.write(lambda tx: add(tx, 3, "other"))


async def test_everything_of_a_member_ends_and_each_change_is_a_fact(database: SqlDatabase) -> None:
    def work(tx: Tx) -> None:
        (member,) = members.admit(tx, person(), {"main": "operator"}).members
        session_id, token = session_for(tx, member)
        key, secret = api_keys.create(
            tx,
            "main",
            name="k",
            subject=member.subject or "",
            rights=["runs:read"],
            member_id=member.member_id,
        )
        assert members.credentials(tx, member) == [session_credential(session_id), key.key_id]
        assert members.remove(tx, member, by="boss") == [session_credential(session_id), key.key_id]
        found = sessions.find_by_token(tx, token)
        assert found is not None
        assert not found.is_valid(tx.now)
        assert api_keys.find_by_token(tx, secret) is None
        left = members.find(tx, "main", member.member_id)
        assert left is not None
        assert (left.name, left.email, left.groups) == ("Ada", None, frozenset())
        assert members.names(tx, "main", [member.subject or "", "admin"]) == {member.subject: "Ada"}

    await database.write(work)
    facts = await database.read(lambda tx: audit.page(tx, "main"))
    assert [(fact.action, fact.actor) for fact in facts] == [
        ("member.removed", "boss"),
        ("member.added", "oidc:https://id.example#ada"),
    ]


async def test_sessions_are_found_by_their_token_alone_and_bounded(database: SqlDatabase) -> None:
    def work(tx: Tx) -> None:
        (member,) = members.admit(tx, person(), {"main": "reader"}).members
        tokens = [session_for(tx, member, number)[1] for number in range(sessions.MAX_SESSIONS + 2)]
        valid = sessions.of_member(tx, "main", member.member_id)
        assert len(valid) == sessions.MAX_SESSIONS
        assert sessions.of_member(tx, "other", member.member_id) == []
        first, last = sessions.find_by_token(tx, tokens[0]), sessions.find_by_token(tx, tokens[-1])
        assert first is not None
        assert last is not None
        assert (first.is_valid(tx.now), last.is_valid(tx.now)) == (False, True)
        assert not last.is_valid(tx.now + int(HOUR / 2 * 1000)), "not used for half an hour"
        assert not last.is_valid(tx.now + int(HOUR * 1000))
        assert sessions.find_by_token(tx, "") is None
        assert sessions.find_by_token(tx, "\udc80") is None
        assert not sessions.revoke(tx, "other", last.session_id)
        assert sessions.revoke(tx, "main", last.session_id)
        assert not sessions.revoke(tx, "main", last.session_id)

    await database.write(work)


async def test_ended_sessions_go_after_a_month(
    database: SqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(tx: Tx) -> str:
        (member,) = members.admit(tx, person(), {"main": "reader"}).members
        session_for(tx, member, 1)
        sessions.revoke(tx, "main", "s0001")
        session_for(tx, member, 2)
        assert sessions.drop_ended(tx, "main") == 0
        return member.member_id

    await database.write(work)
    monkeypatch.setattr(sessions, "SESSIONS_KEPT_MS", -1)
    assert await database.write(lambda tx: sessions.drop_ended(tx, "other")) == 0
    assert await database.write(lambda tx: sessions.drop_ended(tx, "main")) == 1
    assert await database.read(lambda tx: sessions.find(tx, "main", "s0002")) is not None


async def test_a_sign_in_is_spent_once_also_by_two_at_once(database: SqlDatabase) -> None:
    took = await asyncio.gather(*(database.write(lambda tx: sessions.spend(tx, "state")) for _ in range(8)))
    assert sorted(took) == [False] * 7 + [True]
