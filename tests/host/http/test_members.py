"""Members, their sessions and their keys: what they may do, and that all of it ends with them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from hostler.domain.approvers import ApproverRule
from hostler.domain.members import ROLE_RIGHTS, ROLES, member_key
from hostler.host.host import Host
from hostler.http import auth, sessions
from hostler.http.routes.personal_keys import MAX_PERSONAL_KEYS
from hostler.storage.port import Query, Tx
from support.http_host import serving
from support.identity_provider import SECRET, Browser, FakeProvider
from support.pauses import call, open_pause, open_run, rule
from support.sign_in_desk import HOLD, Desk, demoted, desk, entry_for, holding, invite, joined, removed_here

pytestmark = pytest.mark.gate("members")


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTLER_TEST_CLIENT_SECRET", SECRET)


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
