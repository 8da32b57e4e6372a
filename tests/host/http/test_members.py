"""Members, their sessions and their keys: what they may do, and that all of it ends with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.domain.approvers import ApproverRule
from hostler.domain.members import ROLE_RIGHTS, ROLES, member_key
from hostler.host.host import Host
from hostler.http import auth, sessions
from hostler.http.limits import FAILED_AUTH_BURST
from hostler.http.open_keys import OpenKeys
from hostler.http.routes.personal_keys import MAX_PERSONAL_KEYS
from hostler.storage.port import Query, Tx
from hostler.storage.stores import members as store
from hostler.storage.stores import sessions as session_store
from support.http_host import Event, iter_events, serving
from support.identity_provider import SECRET, Browser, FakeProvider
from support.loopback import NO_CERTIFICATES
from support.pauses import call, open_pause, open_run, rule
from support.sign_in_desk import Desk, desk, entry_for

pytestmark = pytest.mark.gate("members")

HOLD = {"event_type": "message.received", "agent": "puppet", "input": {"text": "hold"}}


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTLER_TEST_CLIENT_SECRET", SECRET)


@pytest.fixture
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    before = OpenKeys.__init__

    def often(self: OpenKeys, *arguments: Any, **more: Any) -> None:
        before(self, *arguments, **{**more, "look_seconds": 0.05})

    monkeypatch.setattr(OpenKeys, "__init__", often)


async def invite(made: Desk, email: str, role: str, **more: Any) -> dict[str, Any]:
    answer = await made.served.client.post("/v1/members", json={"email": email, "role": role, **more})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def joined(made: Desk, email: str, role: str) -> tuple[Browser, dict[str, Any]]:
    """A person who was invited and has signed in; the browser and the session."""
    await invite(made, email, role)
    browser = await made.signed_in(sub=f"of {email}", email=email, groups=[], name=email.partition("@")[0])
    return browser, (await browser.get("/v1/auth/session")).json()


# -- members ------------------------------------------------------------------------------------------


def test_every_right_of_a_role_is_one_that_keys_have() -> None:
    assert set(ROLE_RIGHTS) == set(ROLES)
    for role, rights in ROLE_RIGHTS.items():
        assert rights <= auth.RIGHTS, role
        assert not rights & {"plugins:connect", "pauses:decide_blind"}, role


async def test_a_person_who_is_invited_joins_with_the_address_and_keeps_the_role(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        known = await invite(made, "Bea@Example.com ", "operator", name="Bea")
        assert (known["email"], known["subject"], known["source"]) == ("bea@example.com", None, "invited")
        again = await made.served.client.post(
            "/v1/members", json={"email": "bea@example.com", "role": "reader"}
        )
        assert again.status_code == 409
        browser = await made.signed_in(sub="bea", email="bea@example.com", groups=["desk"])
        me = (await browser.get("/v1/auth/session")).json()
        assert (me["member_id"], me["role"]) == (known["member_id"], "operator")
        changed = await made.served.client.put(f"/v1/members/{me['member_id']}", json={"role": "reader"})
        assert (changed.json()["role"], changed.json()["subject"]) == ("reader", me["subject"])
        assert (await browser.get("/v1/auth/session")).json()["role"] == "reader"
        listed = (await made.served.client.get("/v1/members")).json()["items"]
        assert [one["member_id"] for one in listed] == [me["member_id"]]
        one = await made.served.client.get(f"/v1/members/{me['member_id']}")
        assert one.json()["signed_in_at"] is not None
        actions = [
            fact["action"]
            for action in ("added", "joined", "role_changed")
            for fact in await made.facts(f"member.{action}")
        ]
        assert actions == ["member.added", "member.joined", "member.role_changed"]


@pytest.mark.parametrize(
    "email", ["bea", "bea@", "@b.c", "a b@c.d", "bea@c", "b\u0435a@c.de", "a@b@c.d", "x" * 300]
)
async def test_what_is_no_address_is_invited_nowhere(tmp_path: Path, email: str) -> None:
    async with desk(tmp_path) as made:
        answer = await made.served.client.post("/v1/members", json={"email": email, "role": "reader"})
        assert answer.status_code == 400


async def test_an_owner_gives_no_more_than_the_workspace(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        browser, me = await joined(made, "own@x.org", "owner")
        body = {"email": "b@x.org", "role": "administrator"}
        refused = await browser.request("POST", "/v1/members", json=body)
        assert (refused.status_code, "'installation'" in refused.json()["detail"]) == (403, True)
        made_by_admin = await invite(made, "root@x.org", "administrator")
        for answer in (
            await browser.request("DELETE", f"/v1/members/{made_by_admin['member_id']}"),
            await browser.request(
                "PUT", f"/v1/members/{made_by_admin['member_id']}", json={"role": "reader"}
            ),
            await browser.request("PUT", f"/v1/members/{me['member_id']}", json={"role": "administrator"}),
        ):
            assert answer.status_code == 403
        fine = await browser.request("POST", "/v1/members", json={"email": "c@x.org", "role": "owner"})
        assert fine.status_code == 201
        token = await made.served.key("other", "installation")
        async with made.served.as_key(token) as elsewhere:
            assert (await elsewhere.post("/v1/members", json=body)).status_code == 403


@pytest.mark.gate("subjects")
async def test_no_key_passes_for_a_person(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        _, me = await joined(made, "own@x.org", "owner")
        for body in ({"name": "k", "subject": me["subject"]}, {"name": "oidc:somebody"}):
            answer = await made.served.client.post("/v1/keys", json={**body, "rights": ["runs:read"]})
            assert (answer.status_code, "people who sign in" in answer.json()["detail"]) == (400, True)


# -- writes of other sites ----------------------------------------------------------------------------


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


async def test_wrong_cookies_of_an_address_lock_out_no_right_one(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        good = await made.signed_in()
        statuses = set()
        for number in range(int(FAILED_AUTH_BURST) + 10):
            wrong = Browser(made.served.url, {"hostler-session": f"wrong-{number}"})
            statuses.add((await wrong.get("/v1/runs")).status_code)
        assert statuses == {401, 429}
        made.served.server.app.state.sessions._known.clear()
        assert (await good.get("/v1/runs")).status_code == 200


# -- everything ends with the member ------------------------------------------------------------------


@asynccontextmanager
async def holding(browser: Browser) -> AsyncIterator[AsyncIterator[Event]]:
    """A stream of a run that goes on, opened with a session."""
    headers = {
        "accept": "text/event-stream",
        "origin": browser.origin or browser.url,
        "x-csrf-token": browser.csrf,
        "cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items()),
    }
    async with (
        httpx.AsyncClient(base_url=browser.url, timeout=60, verify=NO_CERTIFICATES) as client,
        client.stream("POST", "/v1/events", json=HOLD, headers=headers) as answer,
    ):
        events = iter_events(answer)
        assert (await anext(events)).type == "message.delta"
        yield events


Ending = Callable[[Desk, Browser, dict[str, Any]], Awaitable[None]]


async def removed_here(made: Desk, browser: Browser, me: dict[str, Any]) -> None:
    assert (await made.served.client.delete(f"/v1/members/{me['member_id']}")).status_code == 204


async def removed_elsewhere(made: Desk, browser: Browser, me: dict[str, Any]) -> None:
    def remove(tx: Tx) -> None:
        store.remove(tx, store.get(tx, "default", me["member_id"]), by="another host")

    await made.served.host.db.write(remove)


async def demoted(made: Desk, browser: Browser, me: dict[str, Any]) -> None:
    path = f"/v1/members/{me['member_id']}"
    assert (await made.served.client.put(path, json={"role": "reader"})).status_code == 200


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


async def test_a_removed_member_is_refused_at_once_with_all_keys_and_sessions(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        browser, me = await joined(made, "op@x.org", "operator")
        second = await made.signed_in()
        key = (
            await browser.request("POST", "/v1/auth/keys", json={"name": "k", "rights": ["runs:read"]})
        ).json()
        async with made.served.as_key(key["key"]) as client:
            assert (await client.get("/v1/runs")).status_code == 200
            await removed_here(made, browser, me)
            assert (await client.get("/v1/runs")).status_code == 401
        for one in (browser, second):
            assert (await one.get("/v1/auth/session")).status_code == 401
        missing = await made.served.client.delete(f"/v1/members/{me['member_id']}")
        assert missing.status_code == 404
        shown = (await made.served.client.get("/v1/audit?limit=200")).json()["items"]
        names = {one["actor_name"] for one in shown if one["actor"] == me["subject"]}
        assert names == {"op"}, "facts go on naming the person"
        answer = await made.browser().sign_in(made.provider)
        assert answer.headers["location"].endswith("not_member")


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


# -- personal keys ------------------------------------------------------------------------------------


async def test_a_personal_key_is_its_member_with_no_more_than_the_role(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        browser, me = await joined(made, "op@x.org", "operator")
        for rights in (["admin"], ["installation"], ["plugins:connect"], []):
            refused = await browser.request("POST", "/v1/auth/keys", json={"name": "k", "rights": rights})
            assert refused.status_code in (400, 403), rights
        body = {"name": "mine", "rights": ["runs:read", "events:write", "audit:read"]}
        key = (await browser.request("POST", "/v1/auth/keys", json=body)).json()
        assert key["record"]["member_id"] == me["member_id"]
        assert 89 < (key["record"]["expires_at"] - time.time()) / 86_400 < 91
        far = {**body, "expires_at": time.time() + 86_400 * 400}
        assert (await browser.request("POST", "/v1/auth/keys", json=far)).status_code == 400
        async with made.served.as_key(key["key"]) as client:
            assert (
                await client.post("/v1/events?wait=30", json={**HOLD, "input": {"text": "say 1"}})
            ).is_success
            assert (await client.get("/v1/audit")).status_code == 200
            assert (await client.get("/v1/agents")).status_code == 403
            assert (await client.get("/v1/auth/keys")).status_code == 401, "keys make no keys"
            await demoted(made, browser, me)
            assert (await client.get("/v1/audit")).status_code == 403
            assert (await client.get("/v1/runs")).status_code == 200
            listed = (await browser.get("/v1/auth/keys")).json()["items"]
            assert [one["key_id"] for one in listed] == [key["record"]["key_id"]]
            path = f"/v1/auth/keys/{key['record']['key_id']}"
            stranger = await made.signed_in(sub="other", email="other@example.com")
            assert (await stranger.request("DELETE", path)).status_code == 404
            assert (await browser.request("DELETE", path)).status_code == 204
            assert (await client.get("/v1/runs")).status_code == 401


async def test_personal_keys_rest_until_their_person_signs_in_again(tmp_path: Path) -> None:
    """Who has left signs in no more, and the provider says nothing of it by itself."""
    async with desk(tmp_path, personal_key_days=2.0) as made:
        browser, me = await joined(made, "op@x.org", "operator")
        key = (
            await browser.request("POST", "/v1/auth/keys", json={"name": "k", "rights": ["runs:read"]})
        ).json()["key"]
        ring = made.served.server.app.state.keys

        async def signed_in(days_ago: float) -> None:
            at = int((time.time() - days_ago * 86_400) * 1000)
            text = f"UPDATE members SET signed_in_at = {at} WHERE member_id = '{me['member_id']}'"
            await made.served.host.db.write(lambda tx: tx.run(Query("t.age", text, text)))
            ring.forget(member_key(me["member_id"]))

        async with made.served.as_key(key) as client:
            for days, status in ((1.9, 200), (2.1, 401), (0.0, 200)):
                await signed_in(days)
                assert (await client.get("/v1/runs")).status_code == status, days
            await signed_in(3)
            assert (await client.get("/v1/runs")).status_code == 401
            await made.signed_in(sub="of op@x.org", email="op@x.org", groups=[], name="op")
            ring.forget(member_key(me["member_id"]))
            assert (await client.get("/v1/runs")).status_code == 200
            assert (await made.served.client.delete("/v1/config/sign_in/corp")).status_code == 200
            ring.forget(member_key(me["member_id"]))
            assert (await client.get("/v1/runs")).status_code == 401
            await made.configure(personal_key_days=30.0)
            assert (await client.get("/v1/runs")).status_code == 200


async def test_the_number_of_personal_keys_is_bounded(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        browser, _ = await joined(made, "op@x.org", "operator")
        body = {"name": "k", "rights": ["runs:read"]}
        statuses = [
            (await browser.request("POST", "/v1/auth/keys", json=body)).status_code
            for _ in range(MAX_PERSONAL_KEYS + 1)
        ]
        assert statuses == [201] * MAX_PERSONAL_KEYS + [400]


# -- decisions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "may"),
    [
        ("role:approver", True),
        ("role:owner", False),
        ("group:desk", True),
        ("group:des", False),
        ("member:ada@example.com", True),
        ("member:ada@example.org", False),
        ("user:SUBJECT", True),
        ("user:ada@example.com", False),
    ],
)
async def test_rules_name_members_by_role_group_address_and_subject(
    tmp_path: Path, subject: str, may: bool
) -> None:
    async with desk(tmp_path) as made:
        browser = await made.signed_in()
        me = (await browser.get("/v1/auth/session")).json()

        def work(tx: Tx) -> None:
            open_run(tx, "r1", "default")
            open_pause(
                tx, call(rule=rule(subject.replace("SUBJECT", me["subject"]))), run_id="r1", pause_id="p1"
            )

        await made.served.host.db.write(work)
        pause = (await made.served.client.get("/v1/pauses/p1")).json()
        action = {"call_id": "k1", "type": "approve", "args_hash": pause["calls"][0]["args_hash"]}
        body = {"revision": pause["revision"], "actions": [action]}
        answer = await browser.request("POST", "/v1/pauses/p1/actions", json=body)
        assert answer.status_code == (202 if may else 404), answer.text
        if may:
            (vote,) = (await made.served.client.get("/v1/pauses/p1")).json()["calls"][0]["votes"]
            assert vote["subject"] == me["subject"]
            assert vote["name"] == "Ada"
            (fact,) = await made.facts("pause.call.approved")
            assert (fact["actor"], fact["actor_name"]) == (me["subject"], "Ada")


@pytest.mark.gate("subjects")
async def test_a_vote_counts_no_more_once_its_member_is_removed(tmp_path: Path) -> None:
    async with desk(tmp_path) as made:
        browser, me = await joined(made, "ap@x.org", "approver")

        def work(tx: Tx) -> None:
            open_run(tx, "r1", "default")
            open_pause(
                tx, call(rule=ApproverRule(subjects=("*",), min_approvals=2)), run_id="r1", pause_id="p1"
            )

        await made.served.host.db.write(work)
        pause = (await made.served.client.get("/v1/pauses/p1")).json()
        action = {"call_id": "k1", "type": "approve", "args_hash": pause["calls"][0]["args_hash"]}
        body = {"revision": pause["revision"], "actions": [action]}
        assert (await browser.request("POST", "/v1/pauses/p1/actions", json=body)).status_code == 202
        await removed_here(made, browser, me)
        assert (await made.served.client.post("/v1/pauses/p1/actions", json=body)).status_code == 202
        call_ = (await made.served.client.get("/v1/pauses/p1")).json()["calls"][0]
        assert call_["decision"] == "undecided", "one of the two who approved is gone"


# -- two hosts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_what_ends_on_one_host_ends_on_the_other_in_seconds(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One database, two hosts: the second has the session in its cache, and a stream open."""
    monkeypatch.setattr(sessions, "KEY_CACHE_SECONDS", 0.2)
    async with (
        asyncio.timeout(200),
        FakeProvider() as provider,
        serving(tmp_path / "a", database=database_url) as first,
        serving(tmp_path / "b", database=database_url) as second,
    ):
        one = Desk(first, provider, entry_for(provider, first.url))
        await one.configure()
        await until(second.host, provider.issuer)
        browser, me = await joined(one, "op@x.org", "operator")
        elsewhere = Browser(second.url, dict(browser.cookies), csrf=browser.csrf, origin=first.url)
        assert (await elsewhere.get("/v1/auth/session")).json()["session_id"] == me["session_id"]
        async with holding(elsewhere) as events:
            assert (await browser.request("POST", "/v1/auth/sign-out")).status_code == 200
            (last,) = [event async for event in events]
            assert last.type == "problem"
        assert (await elsewhere.get("/v1/auth/session")).status_code == 401


async def until(host: Host, issuer: str) -> None:
    """Wait until another host's configuration has come."""
    while not host.providers.vouches(issuer):
        await asyncio.sleep(0.05)
