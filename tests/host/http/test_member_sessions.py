"""Sessions of members: cookies, the tokens of their writes, what ends them and the streams they opened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hostler.http import auth, sessions
from hostler.http.limits import FAILED_AUTH_BURST
from hostler.http.open_keys import OpenKeys
from hostler.storage.port import Tx
from hostler.storage.stores import members as store
from hostler.storage.stores import sessions as session_store
from support.identity_provider import SECRET, Browser
from support.sign_in_desk import Desk, demoted, desk, holding, invite, joined, removed_here

pytestmark = pytest.mark.gate("members")


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTLER_TEST_CLIENT_SECRET", SECRET)


@pytest.fixture
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    before = OpenKeys.__init__

    def often(self: OpenKeys, *arguments: Any, **more: Any) -> None:
        before(self, *arguments, **{**more, "look_seconds": 0.05})

    monkeypatch.setattr(OpenKeys, "__init__", often)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 204),
        ({"x-csrf-token": ""}, 403),
        ({"x-csrf-token": "0" * 64}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"origin": "SAME.evil"}, 403),
    ],
)
async def test_a_write_needs_the_origin_and_the_token_of_its_session(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    async with desk(tmp_path) as made:
        browser, me = await joined(made, "own@x.org", "owner")
        member = await invite(made, "b@x.org", "reader")
        if headers.get("origin") == "SAME.evil":
            headers = {"origin": f"{made.served.url}.evil.example"}
        answer = await browser.request("DELETE", f"/v1/members/{member['member_id']}", headers=headers)
        assert answer.status_code == status, answer.text
        if status == 403:
            assert "another site" in answer.json()["detail"]
        other = await made.signed_in(sub="second", email="own2@example.com", groups=["desk"])
        mixed = await browser.request(
            "DELETE", f"/v1/auth/sessions/{me['session_id']}", headers={"x-csrf-token": other.csrf}
        )
        assert mixed.status_code == 403, "the token of another session"


async def test_a_bearer_key_counts_before_a_cookie_and_needs_no_token(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        browser, _ = await joined(made, "r@x.org", "reader")
        token = await made.served.key()
        headers = {"authorization": f"Bearer {token}", "x-csrf-token": "", "origin": "https://evil.example"}
        body = {"email": "new@x.org", "role": "reader"}
        assert (await browser.request("POST", "/v1/members", json=body, headers=headers)).status_code == 201
        wrong = {"authorization": "Bearer no-such-key"}
        assert (await browser.get("/v1/runs", headers=wrong)).status_code == 401
        person = await browser.get("/v1/auth/session", headers={"authorization": f"Bearer {token}"})
        assert person.status_code == 200, "routes for people take the session"
        async with made.served.as_key(token) as client:
            assert (await client.get("/v1/auth/session")).status_code == 401


@pytest.mark.parametrize("value", ["", "x", "x" * 5_000, "\u00e9", "a b", '"quoted"'])
async def test_a_cookie_that_is_no_session_is_refused(tmp_path: Path, value: str) -> None:
    async with desk(tmp_path) as made:
        browser = made.browser()
        for name in ("hostler-session", "__Host-hostler-session"):
            answer = await browser.get("/v1/runs", headers={"cookie": f"{name}={value}".encode()})
            assert answer.status_code == 401
        known = await made.signed_in()
        good = known.cookies["hostler-session"]
        twice = await browser.get(
            "/v1/runs", headers={"cookie": f"hostler-session=x; hostler-session={good}"}
        )
        assert twice.status_code == 401, "one of two may be of another site"


async def test_wrong_cookies_of_an_address_lock_out_no_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "FAILED_AUTH_PER_SECOND", 0.001)  # however long the guesses take
    async with desk(tmp_path) as made:
        good = await made.signed_in()
        statuses = set()
        for number in range(int(FAILED_AUTH_BURST) + 10):
            wrong = Browser(made.served.url, {"hostler-session": f"wrong-{number}"})
            statuses.add((await wrong.get("/v1/runs")).status_code)
        assert statuses == {401, 429}
        made.served.server.app.state.sessions._known.clear()
        assert (await good.get("/v1/runs")).status_code == 200


Ending = Callable[[Desk, Browser, dict[str, Any]], Awaitable[None]]


async def removed_elsewhere(made: Desk, browser: Browser, me: dict[str, Any]) -> None:
    def remove(tx: Tx) -> None:
        store.remove(tx, store.get(tx, "default", me["member_id"]), by="another host")

    await made.served.host.db.write(remove)


async def demoted_elsewhere(made: Desk, browser: Browser, me: dict[str, Any]) -> None:
    await made.served.host.db.write(
        lambda tx: store.set_role(tx, "default", me["member_id"], "reader", by="another host")
    )


async def signed_out(made: Desk, browser: Browser, me: dict[str, Any]) -> None:
    assert (await browser.request("POST", "/v1/auth/sign-out")).status_code == 200


async def ended_by_another_session(made: Desk, browser: Browser, me: dict[str, Any]) -> None:
    other = await made.signed_in()
    ended = await other.request("DELETE", f"/v1/auth/sessions/{me['session_id']}")
    assert ended.status_code == 204


async def revoked_elsewhere(made: Desk, browser: Browser, me: dict[str, Any]) -> None:
    await made.served.host.db.write(lambda tx: session_store.revoke(tx, "default", me["session_id"]))


async def provider_removed(made: Desk, browser: Browser, me: dict[str, Any]) -> None:
    assert (await made.served.client.delete("/v1/config/sign_in/corp")).status_code == 200


@pytest.mark.usefixtures("looking_often")
@pytest.mark.parametrize(
    "end",
    [
        removed_here,
        removed_elsewhere,
        demoted,
        demoted_elsewhere,
        signed_out,
        ended_by_another_session,
        revoked_elsewhere,
        provider_removed,
    ],
)
async def test_open_streams_end_with_the_session_the_member_or_the_role(tmp_path: Path, end: Ending) -> None:
    async with asyncio.timeout(100), desk(tmp_path) as made:
        browser, me = await joined(made, "op@x.org", "operator")
        async with holding(browser) as events:
            await end(made, browser, me)
            (last,) = [event async for event in events]
            assert last.type == "problem"
            assert "no longer valid" in last.data


async def test_sessions_end_by_age_and_by_disuse(tmp_path: Path) -> None:
    async with desk(tmp_path, session_hours=1.0, idle_minutes=10.0) as made:
        ring = made.served.server.app.state.sessions
        assert isinstance(ring, sessions.SessionRing)
        for minutes in (11, 61):
            browser = await made.signed_in()
            assert (await browser.get("/v1/auth/session")).status_code == 200
            ring._now = lambda minutes=minutes: time.time() + minutes * 60  # type: ignore[misc]
            assert (await browser.get("/v1/auth/session")).status_code == 401
            ring._now = time.time

        def age(tx: Tx) -> None:
            for session in session_store.of_member(tx, "default", member):
                session_store.revoke(tx, "default", session.session_id)

        browser = await made.signed_in()
        member = (await browser.get("/v1/auth/session")).json()["member_id"]
        await made.served.host.db.write(age)
        ring._known.clear()
        assert (await browser.get("/v1/auth/session")).status_code == 401


async def test_the_number_of_sessions_is_bounded(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        made.served.server.app.state.sign_ins._rates.rate = 10_000.0
        first = await made.signed_in()
        for _ in range(session_store.MAX_SESSIONS):
            last = await made.signed_in()
        listed = (await last.get("/v1/auth/sessions")).json()["items"]
        assert len(listed) == session_store.MAX_SESSIONS
        assert [one["current"] for one in listed] == [True] + [False] * (session_store.MAX_SESSIONS - 1)
        assert (await first.get("/v1/auth/session")).status_code == 401
