"""The address of a channel: what reaches its plugin, and what the platform is answered. Real sockets."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.channels import channel_requests, open_channel
from hostler.domain.channel_requests import MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES
from hostler.storage.stores import events
from support.channel_host import Chatting, chatting
from support.chat_platform import TOKEN, ChatPlatform, platform
from support.databases import TEST_SECONDS
from support.http_host import WORKSPACE

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 10), pytest.mark.gate("channel-calls")]
ADDRESS = "/v1/channels/chat/webhook"
SIGNED = {"x-token": TOKEN}


@pytest.fixture
async def chat() -> AsyncIterator[ChatPlatform]:
    async with platform() as found, asyncio.timeout(TEST_SECONDS):
        yield found


@contextlib.asynccontextmanager
async def called(
    folder: Path, chat: ChatPlatform, channel: str = "called", **fields: Any
) -> AsyncIterator[tuple[Chatting, httpx.AsyncClient]]:
    """A host whose channel is connected, and a client without any key."""
    async with chatting(folder, chat, channel, **fields) as host, host.served.as_key(None) as outside:
        if fields.get("enabled", True):
            await host.connected()
            await host.until(lambda: is_open(host))
        yield host, outside


async def is_open(host: Chatting) -> bool:
    return host.host.channels.find_open("chat") is not None


async def stored(host: Chatting) -> list[Any]:
    return list(await host.host.db.read(lambda tx: events.page(tx, WORKSPACE)))


async def audited(host: Chatting) -> list[dict[str, Any]]:
    answer = await host.served.client.get("/v1/audit", params={"action": "channel.refused"})
    return list(answer.json()["items"])


def counted(host: Chatting, outcome: str) -> int:
    return host.host.channel_requests.counts["chat", outcome]


async def test_a_call_is_answered_once_its_event_is_stored_and_repeated_ones_start_nothing(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with called(tmp_path, chat) as (host, outside):
        said = {"id": "7", "text": "hello"}
        answer = await outside.post(ADDRESS, json=said, headers=SIGNED)
        assert (answer.status_code, answer.json()) == (200, {})
        assert [one.input_summary for one in await stored(host)] == ["hello"]
        again = await outside.post(ADDRESS, json=said, headers=SIGNED)
        assert again.status_code == 200
        assert len(await stored(host)) == 1
        await host.until(lambda: host.ended(1))
        assert counted(host, "answered") == 2
        metrics = (await host.served.client.get("/metrics")).text
        assert 'hostler_channel_requests_total{channel="chat",outcome="answered"} 2' in metrics


async def test_the_address_is_shown_where_the_plugin_takes_calls(tmp_path: Path, chat: ChatPlatform) -> None:
    async with called(tmp_path, chat) as (host, outside):
        shown = (await host.served.client.get("/v1/channels/chat")).json()["webhook"]
        assert shown == f"{host.served.url}{ADDRESS}"
        assert (await outside.post(shown, json={"id": "1", "text": "a"}, headers=SIGNED)).status_code == 200
        (listed,) = (await host.served.client.get("/v1/channels")).json()["items"]
        assert listed["webhook"] == shown
    async with called(tmp_path / "polls", chat, "keyed") as (host, outside):
        assert (await host.served.client.get("/v1/channels/chat")).json()["webhook"] is None
        assert (await outside.post(ADDRESS, json={}, headers=SIGNED)).status_code == 404


async def test_who_may_call_says_the_plugin_and_its_refusals_are_audited_within_bounds(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with called(tmp_path, chat) as (host, outside):
        for secret in ({}, {"x-token": "wrong"}, {"x-token": "wrong"}):
            answer = await outside.post(ADDRESS, json={"id": "1", "text": "a"}, headers=secret)
            assert (answer.status_code, answer.content) == (401, b"")
        assert await stored(host) == []
        (fact,) = await audited(host)
        assert (fact["actor"], fact["target"], fact["body"]["reason"]) == ("channel:chat", "chat", "401")
        await host.host.channel_requests.close()
        assert [one["body"]["count"] for one in await audited(host)] == [2, 1]
        assert counted(host, "refused") == 3


async def test_a_challenge_is_asked_by_get(tmp_path: Path, chat: ChatPlatform) -> None:
    async with called(tmp_path, chat) as (_, outside):
        answer = await outside.get(ADDRESS, params={"echostr": "äö &", "nonce": "1"}, headers=SIGNED)
        assert json.loads(answer.content) == {"echostr": "äö &", "nonce": "1"}
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        twice = await outside.get(f"{ADDRESS}?nonce=1&nonce=2", headers=SIGNED)
        assert (twice.status_code, "names a field twice" in twice.text) == (400, True)
        broken = await outside.get(f"{ADDRESS}?nonce=%FF", headers=SIGNED)
        assert (broken.status_code, "query cannot be read" in broken.text) == (400, True)
        for method in ("PUT", "PATCH", "DELETE"):
            assert (await outside.request(method, ADDRESS, headers=SIGNED)).status_code == 405


async def test_no_session_of_a_person_reaches_the_plugin(tmp_path: Path, chat: ChatPlatform) -> None:
    async with called(tmp_path, chat) as (_, outside):
        sent = {**SIGNED, "cookie": "hostler_session=secret", "te": "trailers", "x-signature": "v0=ab"}
        answer = await outside.post(f"{ADDRESS}?a=1", json={"mood": "mirror"}, headers=sent)
        got = json.loads(answer.content)
        assert got["query"] == {"a": "1"}
        assert (got["headers"]["x-signature"], got["headers"]["x-token"]) == ("v0=ab", TOKEN)
        assert not {"cookie", "te", "connection"} & set(got["headers"])


async def test_what_a_plugin_answers_cannot_harm_the_site_of_the_host(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    harm = {
        "Set-Cookie": "hostler_session=theirs",
        "Location": "https://evil.example",
        "Content-Type": "text/html",
        "X-Accel-Redirect": "/etc/passwd",
        "Access-Control-Allow-Origin": "*",
        "Retry-After": "1\r\nset-cookie: a=b",
        "Content-Length": "3",
        "Allow": "POST",
    }
    body = base64.b64encode(b"<script>alert(1)</script>").decode()
    async with called(tmp_path, chat) as (_, outside):
        answer = await outside.post(
            ADDRESS, json={"answer": {"status": 418, "headers": harm, "body_base64": body}}, headers=SIGNED
        )
        assert (answer.status_code, answer.content) == (418, b"<script>alert(1)</script>")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["allow"] == "POST"
        assert set(map(str.lower, harm)) & set(answer.headers) == {"content-type", "content-length", "allow"}
        kind = {"content-type": "application/xml; charset=utf-8"}
        xml = {"status": 200, "headers": kind, "body_base64": body}
        answer = await outside.post(ADDRESS, json={"answer": xml}, headers=SIGNED)
        assert answer.headers["content-type"] == "application/xml; charset=utf-8"
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": 302, "headers": {"location": "https://evil.example"}},
        {"body_base64": "no base64"},
        {"body_base64": base64.b64encode(b"x" * (MAX_RESPONSE_BYTES + 1)).decode()},
    ],
)
async def test_an_answer_that_no_platform_gets_is_an_error(
    tmp_path: Path, chat: ChatPlatform, wrong: dict[str, Any]
) -> None:
    async with called(tmp_path, chat) as (host, outside):
        answer = await outside.post(ADDRESS, json={"answer": wrong}, headers=SIGNED)
        assert (answer.status_code, "evil" in answer.text) == (502, False)
        assert counted(host, "failed") == 1
        assert (await outside.post(ADDRESS, json={"id": "1", "text": "a"}, headers=SIGNED)).status_code == 200


async def test_a_plugin_that_fails_tells_strangers_nothing(tmp_path: Path, chat: ChatPlatform) -> None:
    async with called(tmp_path, chat) as (host, outside):
        answer = await outside.post(ADDRESS, json={"mood": "fail"}, headers=SIGNED)
        assert (answer.status_code, TOKEN in answer.text) == (503, False)
        assert int(answer.headers["retry-after"]) >= 1
        assert counted(host, "failed") == 1
        assert (await outside.post(ADDRESS, content=b"no json", headers=SIGNED)).status_code == 503


async def test_a_plugin_that_does_not_answer_holds_a_bounded_number_of_calls(
    tmp_path: Path, chat: ChatPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_channel, "MAX_REQUESTS_AT_ONCE", 2)
    async with called(tmp_path, chat) as (host, outside):
        host.host.channel_requests.answer_seconds = 0.1
        for _ in range(2):  # given up here, yet still with the plugin
            answer = await outside.post(ADDRESS, json={"mood": "hang"}, headers=SIGNED)
            assert answer.status_code == 503
        host.host.channel_requests.answer_seconds = 60.0
        full = await outside.post(ADDRESS, json={"id": "1", "text": "a"}, headers=SIGNED)
        assert (full.status_code, await stored(host)) == (503, [])
        assert (await host.served.client.post("/v1/channels/chat/restart")).status_code == 200

        async def answered() -> bool:
            answer = await outside.post(ADDRESS, json={"id": "1", "text": "a"}, headers=SIGNED)
            return answer.status_code == 200

        await host.until(answered)  # the channel is open anew, and what it was asked before is over


async def test_large_bodies_and_compressed_ones_do_not_reach_the_plugin(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with called(tmp_path, chat) as (host, outside):
        said = json.dumps({"id": "1", "text": "a", "pad": "x" * MAX_REQUEST_BYTES}).encode()
        assert (await outside.post(ADDRESS, content=said, headers=SIGNED)).status_code == 413

        async def dripping() -> AsyncIterator[bytes]:
            for at in range(0, len(said), 65_536):
                yield said[at : at + 65_536]

        assert (await outside.post(ADDRESS, content=dripping(), headers=SIGNED)).status_code == 413
        packed = {**SIGNED, "content-encoding": "gzip"}
        assert (await outside.post(ADDRESS, content=b"x", headers=packed)).status_code == 415
        large = {**SIGNED, "x-much": "x" * 20_000}
        assert (await outside.post(ADDRESS, content=b"x", headers=large)).status_code == 431
        whole = json.dumps({"id": "1", "text": "a", "pad": "x" * (MAX_REQUEST_BYTES - 99)}).encode()
        assert (await outside.post(ADDRESS, content=whole, headers=SIGNED)).status_code == 200
        assert sum(host.host.channel_requests.counts.values()) == 1


async def test_an_address_that_asks_too_often_waits_and_others_do_not(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with called(tmp_path, chat) as (host, outside):
        requests = host.host.channel_requests
        for _ in range(int(channel_requests.REQUEST_BURST)):
            await requests.admit("chat", "127.0.0.1")

        async def limited() -> bool:
            answer = await outside.get(ADDRESS)
            return answer.status_code == 429 and int(answer.headers["retry-after"]) >= 1

        await host.until(limited)
        assert counted(host, "rate") >= 1
        assert await requests.admit("chat", "198.51.100.7") is host.host.channels.find_open("chat")


async def test_a_channel_that_is_not_open_asks_to_be_called_again(tmp_path: Path, chat: ChatPlatform) -> None:
    async with called(tmp_path, chat, enabled=False) as (host, outside):
        answer = await outside.post(ADDRESS, json={"id": "1", "text": "a"}, headers=SIGNED)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert counted(host, "closed") == 1
        for unknown in ("/v1/channels/none/webhook", "/v1/channels/%00/webhook"):
            assert (await outside.post(unknown, json={}, headers=SIGNED)).status_code in {400, 404}
        assert set(host.host.channel_requests.counts) == {("chat", "closed")}, "unknown names are not counted"


async def test_what_comes_after_the_address_reaches_the_plugin_if_it_leads_nowhere(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with called(tmp_path, chat) as (host, outside):
        for written, path in {
            "events": "events",
            "interactive/a%20b": "interactive/a b",
            "_matrix/app/v1/transactions/%241": "_matrix/app/v1/transactions/$1",
        }.items():
            answer = await outside.get(f"{ADDRESS}/{written}", headers=SIGNED)
            assert (answer.status_code, answer.json()) == (200, {"path": path})
        assert (await outside.get(f"{ADDRESS}/events")).status_code == 401
        posted = await outside.post(f"{ADDRESS}/events", json={"id": "9", "text": "hi"}, headers=SIGNED)
        assert posted.status_code == 200
        assert [one.input_summary for one in await stored(host)] == ["hi"]
        port = httpx.URL(host.served.url).port
        for wrong in ("a/../b", "..", "./a", "a//b", "a%2fb", "a%5Cb", "%2e%2e/a", "a%00", "a%FF", "%252e"):
            status = await raw_status(port, f"{ADDRESS}/{wrong}")
            assert status == 400, wrong
        assert await raw_status(port, f"{ADDRESS}/" + "/".join("abcdefghi")) == 400
        assert await raw_status(port, f"{ADDRESS}/{'a' * 513}") == 400
        assert await raw_status(port, f"{ADDRESS}/") == 404
        assert (await outside.put(f"{ADDRESS}/events")).status_code == 405
        assert (await outside.get("/v1/channels/other/webhook/events", headers=SIGNED)).status_code == 404


async def raw_status(port: int | None, path: str) -> int:
    """Ask for a path as it is, which clients would tidy up; return the status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nx-token: {TOKEN}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])
