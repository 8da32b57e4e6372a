"""Open streams end with the personal key or the age of the session that opened them, and with the member."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.http.open_keys import OpenKeys
from hostler.storage.port import Tx
from hostler.storage.stores import api_keys, members
from support.http_host import iter_events
from support.identity_provider import SECRET, Browser
from support.loopback import NO_CERTIFICATES
from support.sign_in_desk import Desk, desk

pytestmark = pytest.mark.gate("members", "api-keys")
BOUND_SECONDS = 100
HOLD = {"event_type": "message.received", "agent": "puppet", "input": {"text": "hold"}}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Revocations elsewhere are looked for often."""
    monkeypatch.setenv("HOSTLER_TEST_CLIENT_SECRET", SECRET)
    before = OpenKeys.__init__

    def soon(self: OpenKeys, *arguments: Any, **more: Any) -> None:
        before(self, *arguments, **{**more, "look_seconds": 0.05})

    monkeypatch.setattr(OpenKeys, "__init__", soon)


async def operator(made: Desk) -> tuple[Browser, dict[str, Any]]:
    """A person who may send events, and the session."""
    invited = await made.served.client.post("/v1/members", json={"email": "op@x.org", "role": "operator"})
    assert invited.status_code == 201
    browser = await made.signed_in(sub="op", email="op@x.org", groups=[])
    return browser, (await browser.get("/v1/auth/session")).json()


async def last_events(url: str, headers: dict[str, str], then: Callable[[], Awaitable[Any]]) -> list[Any]:
    """What still comes of a stream after `then`."""
    async with (
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_CERTIFICATES) as client,
        client.stream(
            "POST", "/v1/events", json=HOLD, headers={"accept": "text/event-stream", **headers}
        ) as answer,
    ):
        events = iter_events(answer)
        assert (await anext(events)).type == "message.delta"
        await then()
        return [event async for event in events]


def removed_here(made: Desk, browser: Browser, me: dict[str, Any], key_id: str) -> Awaitable[Any]:
    return made.served.client.delete(f"/v1/members/{me['member_id']}")


def demoted_here(made: Desk, browser: Browser, me: dict[str, Any], key_id: str) -> Awaitable[Any]:
    return made.served.client.put(f"/v1/members/{me['member_id']}", json={"role": "reader"})


def revoked_here(made: Desk, browser: Browser, me: dict[str, Any], key_id: str) -> Awaitable[Any]:
    return browser.request("DELETE", f"/v1/auth/keys/{key_id}")


def removed_elsewhere(made: Desk, browser: Browser, me: dict[str, Any], key_id: str) -> Awaitable[Any]:
    def remove(tx: Tx) -> None:
        members.remove(tx, members.get(tx, "default", me["member_id"]), by="another host")

    return made.served.host.db.write(remove)


def revoked_elsewhere(made: Desk, browser: Browser, me: dict[str, Any], key_id: str) -> Awaitable[Any]:
    return made.served.host.db.write(lambda tx: api_keys.revoke(tx, "default", key_id))


@pytest.mark.parametrize(
    "end", [removed_here, demoted_here, revoked_here, removed_elsewhere, revoked_elsewhere]
)
async def test_a_stream_of_a_personal_key_ends_with_it_and_with_its_member(
    tmp_path: Path, end: Callable[[Desk, Browser, dict[str, Any], str], Awaitable[Any]]
) -> None:
    async with asyncio.timeout(BOUND_SECONDS), desk(tmp_path) as made:
        browser, me = await operator(made)
        body = {"name": "mine", "rights": ["events:write", "runs:read"]}
        key = (await browser.request("POST", "/v1/auth/keys", json=body)).json()
        headers = {"authorization": f"Bearer {key['key']}"}
        (last,) = await last_events(
            made.served.url, headers, lambda: end(made, browser, me, key["record"]["key_id"])
        )
        assert last.type == "problem"
        assert "no longer valid" in last.data


async def test_a_stream_of_a_session_ends_when_the_session_is_too_old(tmp_path: Path) -> None:
    async with asyncio.timeout(BOUND_SECONDS), desk(tmp_path, session_hours=12 / 3600) as made:
        browser, me = await operator(made)
        headers = {
            "origin": browser.origin or browser.url,
            "x-csrf-token": browser.csrf,
            "cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items()),
        }
        (last,) = await last_events(made.served.url, headers, lambda: asyncio.sleep(0))
        assert last.type == "problem"
        assert time.time() - me["expires_at"] < BOUND_SECONDS / 2
