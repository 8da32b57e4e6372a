"""Every HTTP route by every kind of key, against a host: none lets in whom the table does not."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from hostler.calls.run_tokens import CONFIG_ITEM, CONTEXT_KEY, RunTokens
from hostler.domain.members import ROLE_RIGHTS, ROLES, MemberRole, member_key, subject_of
from hostler.domain.sign_in import Person
from hostler.http import auth
from hostler.http.app import ENDPOINTS
from hostler.http.auth import RIGHTS
from hostler.http.ended_access import end_access
from hostler.http.endpoint import ANY_KEY, Endpoint
from hostler.http.langgraph.dialect import LANGGRAPH
from hostler.http.sessions import SAFE_METHODS, csrf_token
from hostler.storage.port import Tx
from hostler.storage.stores import api_keys, members, sessions
from hostler_protocol.events import AgentRunContext
from support.call_walk import full_grant
from support.identity_provider import SECRET
from support.route_walk import ALONE, FORBIDDEN, ONLY_WRITES, REFUSED, WIDE, expected, path_of
from support.sign_in_desk import Desk, desk

pytestmark = pytest.mark.gate("http-authentication")

NOT_LET_IN = {401, 403}
STREAMED = {"connect_plugin"}
"""Answered before the right is looked at: 426, without a WebSocket."""


@dataclass
class Visitor:
    """A kind of key, as the headers and the query that it sends."""

    headers: dict[str, str]
    write: dict[str, str] = field(default_factory=dict)
    """Further headers of writes."""
    query: dict[str, str] = field(default_factory=dict)

    def of(self, endpoint: Endpoint) -> dict[str, str]:
        return self.headers | ({} if endpoint.method in SAFE_METHODS else self.write)


def bearer(token: str) -> Visitor:
    return Visitor({"authorization": f"Bearer {token}"})


async def ask(client: httpx.AsyncClient, endpoint: Endpoint, visitor: Visitor) -> httpx.Response:
    body: dict[str, Any] = {"json": {}} if endpoint.reads_body else {}
    async with client.stream(
        endpoint.method, path_of(endpoint), headers=visitor.of(endpoint), params=visitor.query, **body
    ) as answer:
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            await answer.aread()  # streams over runs have no end
    return answer


def is_let_in(endpoint: Endpoint, answer: httpx.Response) -> bool:
    """Whether the request came to the route: a 403 of the route itself is about something else."""
    if answer.status_code == 401:
        return False
    if answer.status_code == 403:
        if endpoint.dialect is not None:  # its errors have another shape
            return f"does not have the right '{endpoint.right}'" not in answer.text
        problem = answer.json()
        refused = problem["details"].get("right") == endpoint.right and endpoint.right is not None
        return not refused and "another site" not in problem["detail"]
    return True


def person(sub: str, issuer: str) -> Person:
    return Person(issuer, subject_of(issuer, sub), sub, None, frozenset())


class Cast:
    """Everybody who comes to the host."""

    def __init__(self, made: Desk) -> None:
        self._made = made
        self._number = 0

    async def write(self, work: Callable[[Tx], Any]) -> Any:
        return await self._made.served.host.db.write(work)

    async def member(self, role: MemberRole = "owner", issuer: str | None = None) -> Any:
        """A new member, who has just signed in."""
        self._number += 1
        who = person(f"p{self._number}", issuer or self._made.provider.issuer)
        return await self.write(lambda tx: members.admit(tx, who, {"default": role}).members[0])

    async def session(self, role: MemberRole = "administrator", **fields: Any) -> tuple[Visitor, str, Any]:
        """A new member with a session: the visitor, the session's id, the member."""
        member = await self.member(role)
        number = self._number

        def work(tx: Tx) -> Any:
            session, token, _ = sessions.create(
                tx,
                "default",
                member.member_id,
                f"session-{number}",
                provider="corp",
                agent="test",
                **{"issuer": self._made.provider.issuer, "seconds": 3600, "idle_seconds": 3600, **fields},
            )
            return session.session_id, token

        session_id, token = await self.write(work)
        proof = {"origin": self._made.entry.origin, "x-csrf-token": csrf_token(token)}
        return Visitor({"cookie": f"hostler-session={token}"}, proof), session_id, member

    async def set_role(self, member: Any, role: MemberRole) -> None:
        """Change a role as the route does."""
        await self.write(lambda tx: members.set_role(tx, "default", member.member_id, role, by="test"))
        end_access(self._made.served.server.app.state, [member_key(member.member_id)])

    def run_token(self) -> str:
        """The token of a run at work."""
        tokens: RunTokens = self._made.served.host.assets
        tokens.url = f"{self._made.served.url}/mcp"
        data = {"run_id": "r1", "config": {CONFIG_ITEM: True}, "runtime": {}}
        calls: Any = None
        given = tokens.open(msgspec.convert(data, AgentRunContext), full_grant(), calls, may_wait=False)
        token = str(given.runtime.metadata[CONTEXT_KEY]["token"])
        assert tokens.find(token).run_id == "r1", "it is good where it belongs"
        return token

    async def refused(self) -> dict[str, Visitor]:
        served = self._made.served
        session, _, _ = await self.session()
        over, over_id, _ = await self.session()
        gone_session, _, gone = await self.session("owner")
        expired, _, _ = await self.session(seconds=0.001)
        idle, _, _ = await self.session(idle_seconds=0.001)
        orphan, _, _ = await self.session(issuer="https://id.gone.example")
        key = await served.key("default", "installation")
        elsewhere_signed_in = await self.member(issuer="https://id.gone.example")

        def work(tx: Tx) -> dict[str, str]:
            tokens = {}
            for kind in ("revoked", "expired"):
                key, tokens[kind] = api_keys.create(
                    tx, "default", name="k", subject="k", rights=["installation"], expires_at=tx.now + 60_000
                )
                if kind == "revoked":
                    api_keys.revoke(tx, "default", key.key_id)
            for kind, member in (("removed", gone), ("orphan", elsewhere_signed_in)):
                _, tokens[kind] = api_keys.create(
                    tx, "default", name="k", subject="k", rights=["admin"], member_id=member.member_id
                )
            members.remove(tx, gone, by="test")
            sessions.revoke(tx, "default", over_id)
            return tokens

        tokens = await self.write(work)
        served.server.app.state.keys._now = lambda: 4_000_000_000.0
        basic = base64.b64encode(f"key:{key}".encode()).decode()
        elsewhere = {"x-api-key": key, "authorization": f"Basic {basic}", "cookie": f"key={key}"}
        return {
            "none": Visitor({}),
            "wrong": bearer("hostler_" + "x" * 43),
            "revoked": bearer(tokens["revoked"]),
            "expired": bearer(tokens["expired"]),
            "run token": bearer(self.run_token()),
            "key elsewhere": Visitor(elsewhere, query={"key": key, "access_token": key}),
            "removed member's key": bearer(tokens["removed"]),
            "personal key of no provider": bearer(tokens["orphan"]),
            "removed member's session": gone_session,
            "session over": over,
            "session expired": expired,
            "session idle": idle,
            "session of no provider": orphan,
            "session as key": bearer(session.headers["cookie"].partition("=")[2]),
            "other origin reads": Visitor({**session.headers, "origin": "https://evil.example"}),
            "no CSRF": Visitor(session.headers, {**session.write, "x-csrf-token": ""}),
            "other origin": Visitor(session.headers, {**session.write, "origin": "https://evil.example"}),
        }


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTLER_TEST_CLIENT_SECRET", SECRET)
    monkeypatch.setattr(auth, "FAILED_AUTH_BURST", 100_000.0)


def test_each_right_is_decided() -> None:
    """A right that is added is in none of the wide ones before somebody says so here."""
    assert WIDE["installation"] == RIGHTS
    assert WIDE["admin"] == RIGHTS - {"installation"}
    assert set(ALONE) == RIGHTS
    for role in ROLES:
        assert ROLE_RIGHTS[role] <= RIGHTS
    for endpoint in ENDPOINTS:
        assert endpoint.right is None or endpoint.right in RIGHTS | {ANY_KEY}
        assert not (endpoint.signed_in and endpoint.right is not None), endpoint.name


async def test_no_route_lets_in_a_key_that_is_none(tmp_path: Path) -> None:
    async with asyncio.timeout(200), desk(tmp_path) as made:
        visitors = await Cast(made).refused()
        assert set(visitors) == set(REFUSED)
        async with made.served.as_key(None) as client:
            for kind, visitor in visitors.items():
                for endpoint in ENDPOINTS:
                    if kind in ONLY_WRITES and endpoint.method in SAFE_METHODS:
                        continue
                    if expected(endpoint).open:
                        continue
                    if kind == "run token" and endpoint.path == "/mcp":
                        continue  # it is good there: the run's own server answers
                    if kind == "key elsewhere" and endpoint.dialect is LANGGRAPH:
                        continue  # its clients send the key as X-API-Key: test_langgraph_text.py
                    answer = await ask(client, endpoint, visitor)
                    assert answer.status_code in NOT_LET_IN, (kind, endpoint.name, answer.text)
                    if kind not in FORBIDDEN:
                        assert answer.status_code == 401, (kind, endpoint.name)


async def test_each_right_alone_opens_its_own_routes_and_no_other(tmp_path: Path) -> None:
    async with asyncio.timeout(230), desk(tmp_path) as made:
        for right in ALONE:
            token = await made.served.key("default", right)
            async with made.served.as_key(None) as client:
                for endpoint in ENDPOINTS:
                    answer = await ask(client, endpoint, bearer(token))
                    assert answer.status_code < 500, (right, endpoint.name, answer.text)
                    let_in = is_let_in(endpoint, answer)
                    assert let_in == expected(endpoint).lets_in(right), (right, endpoint.name, answer.text)


async def test_the_token_of_a_plugin_opens_its_own_route_alone(tmp_path: Path) -> None:
    async with asyncio.timeout(200), desk(tmp_path) as made:
        token = await made.served.key("default", "plugins:connect", plugin="acme/far")
        async with made.served.as_key(None) as client:
            for endpoint in ENDPOINTS:
                answer = await ask(client, endpoint, bearer(token))
                assert is_let_in(endpoint, answer) == expected(endpoint).lets_in("plugins:connect"), (
                    endpoint.name
                )


@pytest.mark.parametrize("role", ROLES)
async def test_a_personal_key_has_no_more_than_its_member_whatever_it_says(
    tmp_path: Path, role: MemberRole
) -> None:
    """Keys that say all, a part of the role, and what the role has not; then the role becomes less."""
    async with asyncio.timeout(200), desk(tmp_path) as made:
        cast = Cast(made)
        _, _, member = await cast.session(role)
        some = "runs:read"
        beyond = next((right for right in sorted(RIGHTS) if not may(ROLE_RIGHTS[role], right)), None)
        async with made.served.as_key(None) as client:
            for rights in (["installation"], ["admin"], [some], *([] if beyond is None else [[beyond]])):
                token = await made.served.key("default", **{"rights": rights, "member_id": member.member_id})
                for endpoint in ENDPOINTS:
                    right, who = endpoint.right, expected(endpoint)
                    has = (
                        right is not None and may(ROLE_RIGHTS[role], right) and may(frozenset(rights), right)
                    )
                    answer = await ask(client, endpoint, bearer(token))
                    assert is_let_in(endpoint, answer) == (who.open or has), (rights, endpoint.name)
                await cast.set_role(member, "reader")
                for endpoint in ENDPOINTS:
                    right, who = endpoint.right, expected(endpoint)
                    has = may(ROLE_RIGHTS["reader"], str(right)) and may(frozenset(rights), str(right))
                    answer = await ask(client, endpoint, bearer(token))
                    assert is_let_in(endpoint, answer) == (who.open or has), (rights, endpoint.name, "less")
                await cast.set_role(member, role)


def may(rights: frozenset[str], right: str) -> bool:
    """Whether these rights hold that one, as the table says."""
    return right == ANY_KEY or right in rights or any(right in WIDE[wide] for wide in rights & WIDE.keys())


@pytest.mark.parametrize("role", ROLES)
async def test_a_session_opens_what_its_role_has_and_the_routes_for_people(
    tmp_path: Path, role: MemberRole
) -> None:
    async with asyncio.timeout(200), desk(tmp_path) as made:
        cast = Cast(made)
        visitor, _, _ = await cast.session(role)
        async with made.served.as_key(None) as client:
            for endpoint in ENDPOINTS:
                who = expected(endpoint)
                answer = await ask(client, endpoint, visitor)
                wanted = who.open or who.people or bool(who.rights & ROLE_RIGHTS[role])
                assert is_let_in(endpoint, answer) == wanted, (role, endpoint.name, answer.text)
                if endpoint.name == "sign_out":
                    visitor, _, _ = await cast.session(role)
