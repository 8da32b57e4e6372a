"""Slack by HTTP: its requests are verified, and answered once what they bring is durable."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from slack_sdk.signature import SignatureVerifier

from hostler_protocol.channels import ChannelResponse
from hostler_protocol.errors import InvalidArgumentError, StorageError
from support.channel_desk import ChannelDesk, OpenChannel
from support.slack_desk import config_of, connected, desk, serving
from support.slack_methods import DM
from support.slack_server import SlackServer

__all__ = ["desk"]

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
HOOK: dict[str, Any] = {"receive": "webhook", "signing_secret": SECRET, "app_token": ""}
FORM = "application/x-www-form-urlencoded"


async def call(
    channel: OpenChannel, body: Any, *, secret: str = SECRET, age: float = 0, **more: Any
) -> ChannelResponse:
    """Call the channel as Slack does."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    stamp = str(int(time.time() - age))
    signature = SignatureVerifier(secret).generate_signature(timestamp=stamp, body=content.decode("latin-1"))
    headers = {"content-type": "application/json", "x-slack-request-timestamp": stamp}
    headers |= {"x-slack-signature": signature or ""} | more.pop("headers", {})
    whole = {"method": "POST", "headers": headers, "body_base64": base64.b64encode(content).decode()}
    return await channel.request(**(whole | more))


def form(**fields: str) -> bytes:
    return urlencode(fields).encode()


def test_an_event_is_answered_once_it_is_durable(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        assert not server.called("apps.connections.open")
        said = server.said(server.write("kept 漢"))
        channel.ingest.refusals = [StorageError("the disk is full")]
        calling = asyncio.ensure_future(call(channel, said))
        await channel.until(lambda: channel.ingest.refusals == [])
        again = asyncio.ensure_future(call(channel, said, headers={"x-slack-retry-num": "1"}))
        assert [one for one in (calling, again) if one.done()] == []
        assert [(await calling).status, (await again).status] == [200, 200]
        assert (await channel.event()).text == "kept 漢"
        assert channel.ingest.duplicates == []
        assert (await call(channel, said, headers={"x-slack-retry-num": "2"})).status == 200
        assert len(channel.ingest.duplicates) == 1
        assert channel.state["since"] == {DM: said["event"]["ts"]}

    connected(desk, body, **HOOK)


@pytest.mark.parametrize(
    "changed",
    [
        {"secret": "another"},
        {"age": 301},
        {"age": -301},
        {"headers": {"x-slack-signature": ""}},
        {"headers": {"x-slack-signature": "v0=" + "0" * 64}},
        {"headers": {"x-slack-signature": "ÿ"}},
        {"headers": {"x-slack-request-timestamp": "soon"}},
        {"headers": {"x-slack-request-timestamp": "9" * 400}},
        {"body_base64": "e30="},
        {"body_base64": "/w=="},
        {"body_base64": "?"},
    ],
)
def test_what_slack_did_not_sign_is_refused(desk: ChannelDesk, changed: dict[str, Any]) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        said = server.said(server.write("forged"))
        assert (await call(channel, said, **changed)).status == 401
        assert channel.ingest.events == []
        assert (await call(channel, said)).status == 200

    connected(desk, body, **HOOK)


@pytest.mark.parametrize(
    ("body", "more", "status"),
    [
        (b"", {}, 400),
        (b"{", {}, 400),
        (b"[" * 9_999, {}, 400),
        (b"[]", {}, 400),
        (b"7", {}, 400),
        (b"\xc3\xbf", {}, 401),  # signed as other bytes
        (form(payload="{"), {"headers": {"content-type": FORM}}, 400),
        (form(payload="[]"), {"headers": {"content-type": FORM}}, 400),
        (form(other="1"), {"headers": {"content-type": FORM}}, 400),
        (b"&".join(b"a=1" for _ in range(200)), {"headers": {"content-type": FORM}}, 400),
        (form(ssl_check="1", token="t"), {"headers": {"content-type": FORM}}, 200),
        (b"{}", {"method": "GET"}, 405),
    ],
)
def test_what_is_no_event_is_none(desk: ChannelDesk, body: bytes, more: dict[str, Any], status: int) -> None:
    async def whole(channel: OpenChannel, _: SlackServer) -> None:
        assert (await call(channel, body, **more)).status == status
        assert channel.ingest.events == []

    connected(desk, whole, **HOOK)


def test_slack_asks_whether_the_address_is_ours(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, _: SlackServer) -> None:
        asked = {"token": "t", "challenge": "3eZbrw1a", "type": "url_verification"}
        answer = await call(channel, asked)
        assert (answer.status, base64.b64decode(answer.body_base64)) == (200, b"3eZbrw1a")
        assert answer.headers["content-type"].startswith("text/plain")
        assert channel.ingest.events == []

    connected(desk, body, **HOOK)


def _press(server: SlackServer) -> bytes:
    return form(payload=json.dumps(server.press("yes & no", ts="5.1")))


def _command(_: SlackServer) -> bytes:
    return form(command="/ask", text="the way", channel_id="D0ADA", user_id="U0ADA", trigger_id="1.2")


@pytest.mark.parametrize(
    ("made", "event_type", "data"),
    [
        (_press, "interaction.submitted", {"value": "yes & no"}),
        (_command, "command.invoked", {"command": {"name": "ask", "arguments": "the way"}}),
    ],
)
def test_presses_and_commands_come_as_forms(
    desk: ChannelDesk, made: Callable[[SlackServer], bytes], event_type: str, data: dict[str, Any]
) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        channel.ingest.notice = "noted"
        answer = await call(channel, made(server), headers={"content-type": FORM})
        assert (answer.status, answer.body_base64) == (200, "")  # nothing is shown in place of the message
        event = await channel.event()
        assert event.event_type == event_type
        assert {name: event.data[name] for name in data} == data
        (shown,) = await server.until_called("chat.postEphemeral")
        assert shown.params["text"] == "noted"

    connected(desk, body, **HOOK)


def test_what_the_host_never_takes_is_answered_so_that_slack_stops(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        channel.ingest.refusals = [InvalidArgumentError("no"), InvalidArgumentError("never")]
        assert (await call(channel, server.said(server.write("lost")))).status == 200
        assert channel.ingest.events == []

    connected(desk, body, **HOOK)


def test_a_channel_with_a_socket_takes_no_requests(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        assert (await call(channel, server.said(server.write("hello")))).status == 404
        assert channel.ingest.events == []

    connected(desk, body)


def test_what_was_said_while_it_was_closed_is_fetched(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            hook = {"receive": "webhook", "signing-secret": SECRET}
            first = server.write("stored")
            server.write("while it was closed")
            state = {"since": {DM: first["ts"]}}
            async with desk.opened(config_of(server) | hook, state=state) as channel:
                event = await channel.event()
                assert (event.text, event.data["caught_up"]) == ("while it was closed", True)

    desk.run(whole)
