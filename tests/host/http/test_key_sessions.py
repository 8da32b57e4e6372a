"""Browsers sign in with a key, pasted or by a link, and stay signed in no longer than the key is valid."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.storage.stores import api_keys, sign_in_links
from support.http_host import ADMIN_KEY, OTHER, WORKSPACE, Served, serving
from support.identity_provider import Browser
from support.loopback import NO_CERTIFICATES

pytestmark = pytest.mark.gate("console")


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


async def signed_in(served: Served, **body: str) -> Browser:
    browser = Browser(served.url)
    answer = await browser.request("POST", "/v1/auth/session", json=body or {"key": ADMIN_KEY})
    assert answer.status_code == 201, answer.text
    browser.csrf = answer.json()["csrf_token"]
    return browser


async def link(served: Served) -> str:
    answer = await served.client.post("/v1/auth/links", json={})
    assert answer.status_code == 201
    code: str = answer.json()["code"]
    return code


@contextlib.asynccontextmanager
async def following(browser: Browser) -> AsyncIterator[AsyncIterator[str]]:
    """The lines of the workspace's stream, which has begun."""
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    async with (
        httpx.AsyncClient(base_url=browser.url, timeout=60, verify=NO_CERTIFICATES) as client,
        client.stream("GET", "/v1/stream", headers={"cookie": cookies}) as stream,
    ):
        lines = stream.aiter_lines()
        await anext(lines)
        yield lines


async def facts(served: Served, action: str) -> list[dict[str, Any]]:
    found = (await served.client.get("/v1/audit?limit=200")).json()["items"]
    return [one for one in found if one["action"] == action]


async def test_a_pasted_key_opens_a_session_that_reads_writes_and_ends(served: Served) -> None:
    browser = await signed_in(served)
    (cookie,) = browser.set
    assert {"HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={7 * 86_400}"} <= set(cookie.split("; "))
    assert ADMIN_KEY not in cookie
    me = (await browser.get("/v1/auth/session")).json()
    assert (me["subject"], me["key_id"], me["member_id"], me["role"]) == ("admin", "admin", None, None)
    assert me["rights"] == ["installation"]
    assert (await browser.get("/v1/runs")).status_code == 200
    sent = await browser.request(
        "POST", "/v1/events", json={"event_type": "message.received", "input": {"text": "hi"}}
    )
    assert sent.status_code == 202
    (opened,) = await facts(served, "session.opened")
    assert (opened["actor"], opened["target"], opened["body"]["key_id"]) == (
        "admin",
        me["session_id"],
        "admin",
    )
    assert (await browser.request("POST", "/v1/auth/sign-out")).json() == {"url": None}
    assert browser.cookies == {}
    assert (await browser.get("/v1/auth/session")).status_code == 401


async def test_a_session_has_the_workspace_and_rights_of_its_key(served: Served) -> None:
    browser = await signed_in(served, key=await served.key(OTHER, "runs:read"))
    me = (await browser.get("/v1/auth/session")).json()
    assert (me["workspace_id"], me["rights"], me["subject"]) == (OTHER, ["runs:read"], "tester")
    assert (await browser.get("/v1/runs")).json()["items"] == []
    assert (await browser.get("/v1/agents")).status_code == 403


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"origin": "https://evil.example"}, "not the name in its Host"),
        ({"origin": ""}, "not the name in its Host"),
        ({"origin": "null"}, "not the name in its Host"),
        ({"origin": "http://127.0.0.1:1"}, "not the name in its Host"),
        ({"origin": "http://rebound.example", "host": "rebound.example"}, "--public-url http://rebound.ex"),
        ({"origin": "file://localhost", "host": "localhost"}, "not the name in its Host"),
        ({"origin": "http://user@localhost", "host": "user@localhost"}, "not the name in its Host"),
        ({"origin": "http://[::1", "host": "[::1"}, "not the name in its Host"),
    ],
)
async def test_only_a_page_of_this_host_signs_in(served: Served, headers: dict[str, str], told: str) -> None:
    browser = Browser(served.url)
    for body in ({"key": ADMIN_KEY}, {"code": await link(served)}):
        answer = await browser.request("POST", "/v1/auth/session", json=body, headers=headers)
        assert answer.status_code == 403, answer.text
        assert told in answer.json()["detail"]
    assert browser.cookies == {}


@pytest.mark.parametrize("name", ["localhost", "hostler.localhost", "127.0.0.1", "[::1]", "192.168.1.5:8420"])
async def test_names_of_this_machine_and_addresses_are_known(served: Served, name: str) -> None:
    browser = Browser(served.url)
    headers = {"origin": f"http://{name}", "host": name}
    answer = await browser.request("POST", "/v1/auth/session", json={"key": ADMIN_KEY}, headers=headers)
    assert answer.status_code == 201, answer.text


async def test_behind_https_the_cookie_is_bound_to_the_host(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", public_url="https://agents.example") as served:
        browser = Browser(served.url)
        browser.origin = "https://agents.example"
        headers = {"host": "agents.example"}
        answer = await browser.request("POST", "/v1/auth/session", json={"key": ADMIN_KEY}, headers=headers)
        assert answer.status_code == 201, answer.text
        (cookie,) = browser.set
        assert cookie.startswith("__Host-hostler-session=")
        assert "Secure" in cookie.split("; ")
        assert (await browser.get("/v1/runs")).status_code == 200
        # another site of the domain can set a cookie without the prefix: it is none of this session
        browser.cookies = {"hostler-session": browser.cookies.popitem()[1]}
        assert (await browser.get("/v1/runs")).status_code == 401


async def test_writes_need_the_token_and_the_origin_of_the_page(served: Served) -> None:
    browser = await signed_in(served)
    event = {"event_type": "message.received", "input": {"text": "hi"}}
    for headers in ({"x-csrf-token": ""}, {"x-csrf-token": "0" * 64}, {"origin": "https://evil.example"}):
        answer = await browser.request("POST", "/v1/events", json=event, headers=headers)
        assert answer.status_code == 403, headers
    # the other name of the same host is another origin
    other = f"http://localhost:{served.port}"
    assert (
        await browser.request("POST", "/v1/events", json=event, headers={"origin": other})
    ).status_code == 403
    assert (await browser.get("/v1/runs", headers={"origin": "https://evil.example"})).status_code == 403
    assert (await served.client.get("/v1/events")).json()["items"] == []


async def test_a_link_signs_one_browser_in_once(served: Served) -> None:
    code = await link(served)
    answers = await asyncio.gather(
        *(Browser(served.url).request("POST", "/v1/auth/session", json={"code": code}) for _ in range(8))
    )
    assert sorted(one.status_code for one in answers) == [201] + [401] * 7
    assert "run `hostler console` again" in next(one.text for one in answers if one.status_code == 401)


async def test_links_end_by_age_by_number_and_with_their_key(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await link(served)
    for _ in range(sign_in_links.MAX_LINKS):
        last = await link(served)
    key, token = await served.host.db.write(
        lambda tx: api_keys.create(tx, WORKSPACE, name="k", subject="s", rights=["runs:read"])
    )
    async with served.as_key(token) as client:
        mine = (await client.post("/v1/auth/links", json={})).json()["code"]
    assert (await served.client.delete(f"/v1/keys/{key.key_id}")).status_code == 204
    monkeypatch.setattr(sign_in_links, "LINK_SECONDS", 0.0)
    old = await link(served)
    for code in (first, mine, old, "", "x" * 300, "no such"):
        answer = await Browser(served.url).request("POST", "/v1/auth/session", json={"code": code})
        assert answer.status_code in (400, 401), (code, answer.text)
    await signed_in(served, code=last)


async def test_a_repeated_request_for_a_link_does_not_show_it_again(served: Served) -> None:
    headers = {"idempotency-key": "one"}
    first = (await served.client.post("/v1/auth/links", json={}, headers=headers)).json()
    again = (await served.client.post("/v1/auth/links", json={}, headers=headers)).json()
    assert first["code"]
    assert again == {**first, "code": None}


async def test_keys_that_are_not_for_browsers_are_refused(served: Served) -> None:
    await served.agent("puppet")
    made = await served.client.post("/v1/tokens", json={"agent": "puppet"})
    plugin = await served.key(WORKSPACE, "plugins:connect", plugin="test/other")
    for key in (made.json()["token"], plugin):
        answer = await Browser(served.url).request("POST", "/v1/auth/session", json={"key": key})
        assert (answer.status_code, "browsers do not sign in" in answer.text) == (403, True), answer.text
    browser = await signed_in(served)
    refused = await browser.request("POST", "/v1/auth/links", json={})
    assert (refused.status_code, "with a key" in refused.text) == (403, True)
    assert (await browser.request("POST", "/v1/tokens", json={"agent": "puppet"})).status_code == 403
    for method, path in (("GET", "/v1/auth/keys"), ("POST", "/v1/auth/workspace")):
        body = {"workspace_id": OTHER} if method == "POST" else None
        answer = await browser.request(method, path, json=body)
        assert (answer.status_code, "signed in with a key" in answer.text) == (403, True), answer.text


@pytest.mark.parametrize(
    "body", [{}, {"key": "a", "code": "b"}, {"key": ""}, {"key": 1}, {"code": "x" * 20_000}, {"name": "a"}]
)
async def test_what_signs_nobody_in_says_why(served: Served, body: dict[str, Any]) -> None:
    answer = await Browser(served.url).request("POST", "/v1/auth/session", json=body)
    assert answer.status_code == 400, answer.text


async def test_a_wrong_key_is_refused_and_strangers_are_slowed_down(served: Served) -> None:
    browser = Browser(served.url)
    statuses = [
        (await browser.request("POST", "/v1/auth/session", json={"key": f"wrong {n}"})).status_code
        for n in range(80)
    ]
    assert statuses[0] == 401
    assert statuses[-1] == 429


async def test_a_session_ends_at_once_with_its_key_and_its_stream_too(served: Served) -> None:
    key, token = await served.host.db.write(
        lambda tx: api_keys.create(tx, WORKSPACE, name="k", subject="s", rights=["runs:read"])
    )
    browser = await signed_in(served, key=token)
    async with following(browser) as lines:
        assert (await served.client.delete(f"/v1/keys/{key.key_id}")).status_code == 204
        async for _ in lines:
            pass
    assert (await browser.get("/v1/runs")).status_code == 401


async def test_a_session_of_the_administrator_ends_by_sign_out_with_its_stream(served: Served) -> None:
    browser = await signed_in(served)
    async with following(browser) as lines:
        assert (await browser.request("POST", "/v1/auth/sign-out")).status_code == 200
        async for _ in lines:
            pass


async def test_sessions_outlive_a_restart_and_end_when_the_administrators_key_is_another(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "data") as served:
        browser = await signed_in(served)
        code = await link(served)
    async with serving(tmp_path / "data") as served:
        browser.url = served.url
        assert (await browser.get("/v1/runs")).status_code == 200
    async with serving(tmp_path / "data", admin_key="another key") as served:
        browser.url = served.url
        assert (await browser.get("/v1/runs")).status_code == 401
        answer = await Browser(served.url).request("POST", "/v1/auth/session", json={"code": code})
        assert answer.status_code == 401


async def test_a_session_is_listed_and_ended_by_others_of_its_key_alone(served: Served) -> None:
    one, two = await signed_in(served), await signed_in(served)
    stranger = await signed_in(served, key=await served.key())
    listed = (await one.get("/v1/auth/sessions")).json()["items"]
    assert [(session["provider"], session["current"]) for session in listed] == [
        ("key", False),
        ("key", True),
    ]
    (other,) = [session["session_id"] for session in listed if not session["current"]]
    assert (await stranger.request("DELETE", f"/v1/auth/sessions/{other}")).status_code == 404
    assert len((await stranger.get("/v1/auth/sessions")).json()["items"]) == 1
    assert (await one.request("DELETE", f"/v1/auth/sessions/{other}")).status_code == 204
    assert (await two.get("/v1/runs")).status_code == 401


async def test_who_signs_in_again_leaves_the_session_of_before(served: Served) -> None:
    browser = await signed_in(served)
    before = dict(browser.cookies)
    assert (await browser.request("POST", "/v1/auth/session", json={"key": ADMIN_KEY})).status_code == 201
    old = Browser(served.url, cookies=before)
    assert (await old.get("/v1/runs")).status_code == 401
    (ended,) = await facts(served, "session.ended")
    assert (ended["body"]["key_id"], ended["body"]["cause"]) == ("admin", "signed in again")


async def test_a_key_with_many_sessions_ends_the_oldest(served: Served) -> None:
    browsers = [await signed_in(served) for _ in range(21)]
    statuses = [(await browser.get("/v1/runs")).status_code for browser in browsers]
    assert statuses == [401] + [200] * 20


async def test_providers_are_named_to_everybody(served: Served) -> None:
    async with served.as_key(None) as client:
        assert (await client.get("/v1/auth/providers")).json()["items"] == []


async def test_secrets_of_sessions_are_in_no_table(served: Served, tmp_path: Path) -> None:
    browser, code = await signed_in(served), await link(served)
    token = browser.cookies["hostler-session"]
    await served.host.db.write(lambda tx: None)
    for path in (tmp_path / "data").glob("hostler.db*"):
        content = path.read_bytes()
        assert code.encode() not in content
        assert token.encode() not in content
    assert json.dumps(token) not in (await served.client.get("/v1/audit?limit=200")).text
