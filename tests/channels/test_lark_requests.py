"""Lark by HTTP: its requests are verified, decrypted, and answered once what they bring is durable."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from typing import Any

from hostler_protocol.channels import ChannelResponse
from hostler_protocol.errors import InvalidArgumentError, StorageError
from support.channel_desk import ChannelDesk, OpenChannel
from support.lark_desk import connected, desk
from support.lark_events import KEY, TOKEN, encrypted, pressed, said, signed
from support.lark_server import LarkServer

__all__ = ["desk"]

HOOK: dict[str, Any] = {"receive": "webhook", "verification_token": TOKEN, "encrypt_key": KEY}
PLAIN: dict[str, Any] = {"receive": "webhook", "verification_token": TOKEN}


async def call(channel: OpenChannel, body: Any, **more: Any) -> ChannelResponse:
    """Call the channel as Lark does with an encrypt key; `key`: of the encryption and the signature."""
    key = more.pop("key", KEY)
    content = body if isinstance(body, bytes) else encrypted(body, key)
    headers = signed(content, more.pop("signed_with", key)) | more.pop("headers", {})
    whole = {"method": "POST", "headers": headers, "body_base64": base64.b64encode(content).decode()}
    return await channel.request(**(whole | more))


def told(answer: ChannelResponse) -> Any:
    assert answer.headers["content-type"] == "application/json"
    return json.loads(base64.b64decode(answer.body_base64))


def test_an_event_is_answered_once_it_is_durable(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        assert not server.called("endpoint")
        payload = said(server, "kept 漢")
        channel.ingest.refusals = [StorageError("the disk is full")]
        calling = asyncio.ensure_future(call(channel, payload))
        await channel.until(lambda: channel.ingest.refusals == [])
        again = asyncio.ensure_future(call(channel, payload))
        assert [one for one in (calling, again) if one.done()] == []
        assert [(await calling).status, (await again).status] == [200, 200]
        assert told(await calling) == {}
        assert (await channel.event()).text == "kept 漢"
        assert channel.ingest.duplicates == []
        assert (await call(channel, payload)).status == 200
        assert len(channel.ingest.duplicates) == 1

    connected(desk, body, **HOOK)


UNSIGNED: list[dict[str, Any]] = [
    {"key": "another"},
    {"signed_with": "another"},
    {"headers": {"x-lark-signature": ""}},
    {"headers": {"x-lark-signature": "ÿ"}},
    {"headers": {"x-lark-signature": ""}, "signed_with": "another"},
    {"headers": {"x-lark-request-timestamp": "0"}},
    {"headers": {"x-lark-request-nonce": "other"}},
]


def test_what_lark_did_not_sign_is_refused(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        payload = said(server, "forged")
        for changed in UNSIGNED:
            assert (await call(channel, payload, **changed)).status == 401, changed
        assert channel.ingest.events == []
        assert (await call(channel, payload)).status == 200

    connected(desk, body, **HOOK)


NONE: list[tuple[bytes, dict[str, Any], int]] = [
    (b"", {}, 400),
    (b"{", {}, 400),
    (b"[]", {}, 400),
    (b"[" * 100_000, {}, 400),
    (b"{}", {"body_base64": "?"}, 400),
    (b"{}", {"method": "GET"}, 405),
    (b"{}", {}, 401),
    (b'{"encrypt": 7}', {}, 401),
    (b'{"encrypt": "?"}', {}, 401),
    (b'{"encrypt": "AAAA"}', {}, 401),
    (json.dumps({"encrypt": base64.b64encode(b"x" * 64).decode()}).encode(), {}, 401),
    (encrypted(b"no json"), {}, 401),
    (encrypted([]), {}, 401),
    (encrypted({"header": {"token": "other"}, "schema": "2.0", "event": {}}), {}, 401),
    (encrypted({"header": {"token": 7}, "token": [], "event": {}}), {}, 401),
    (encrypted({"token": "ü", "type": "url_verification"}), {}, 401),
    (encrypted(b'{"token": "\\ud800", "type": "url_verification"}'), {}, 401),
    (encrypted({"header": {"token": TOKEN, "create_time": str(int(time.time() - 90_000))}}), {}, 401),
]


def test_what_is_no_event_is_none(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, _: LarkServer) -> None:
        for content, more, status in NONE:
            assert (await call(channel, content, **more)).status == status, content[:80]
        assert channel.ingest.events == []

    connected(desk, body, **HOOK)


def test_lark_asks_whether_the_address_is_ours(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, _: LarkServer) -> None:
        asked = {"challenge": "ajls384kdjx98XX", "token": TOKEN, "type": "url_verification"}
        # it is not signed
        answer = await call(channel, asked, headers={"x-lark-signature": ""})
        assert (answer.status, told(answer)) == (200, {"challenge": "ajls384kdjx98XX"})
        assert channel.ingest.events == []

    connected(desk, body, **HOOK)


def test_without_an_encrypt_key_the_token_shows_who_calls(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        payload = said(server, "plain")
        assert (await call(channel, json.dumps(payload).encode())).status == 200
        assert (await channel.event()).text == "plain"
        payload["header"]["token"] = "another"
        assert (await call(channel, json.dumps(payload).encode())).status == 401
        assert (await call(channel, payload)).status == 401  # encrypted
        asked = {"challenge": "c", "token": TOKEN, "type": "url_verification"}
        assert told(await call(channel, json.dumps(asked).encode())) == {"challenge": "c"}

    connected(desk, body, **PLAIN)


def test_a_press_is_answered_with_its_notice(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        channel.ingest.notice = "noted " * 100
        answer = await call(channel, pressed(server, {"hostler": "yes"}, "om_1"))
        toast = told(answer)["toast"]
        assert (toast["type"], toast["content"]) == ("info", ("noted " * 100)[:200])
        assert (await channel.event()).data["value"] == "yes"

    connected(desk, body, **HOOK)


def test_what_the_host_never_takes_is_answered_so_that_lark_stops(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        channel.ingest.refusals = [InvalidArgumentError("no"), InvalidArgumentError("never")]
        assert (await call(channel, said(server, "lost"))).status == 200
        assert channel.ingest.events == []

    connected(desk, body, **HOOK)


def test_a_channel_with_a_long_connection_takes_no_requests(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        assert (await call(channel, said(server, "hello"))).status == 404
        assert channel.ingest.events == []

    connected(desk, body)
