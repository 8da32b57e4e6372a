"""Lark at its worst: limits, errors, broken connections, what is in doubt, and apps that it does not know."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hostler_protocol.channels import ChannelFound
from hostler_protocol.errors import InvalidArgumentError, RateLimitedError, RemoteFaultError, StorageError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.child_plugins import environment
from support.lark_desk import FOLDER, config_of, connected, desk, send, serving
from support.lark_events import said
from support.lark_methods import DM, LIMITED, SECRET, Refused
from support.lark_server import LarkServer
from support.ready_candidates import check_folder

__all__ = ["desk"]

LIBRARY = Path(__file__).parents[1] / "support" / "lark_library.py"
CREATE = "message.create"


async def find(channel: OpenChannel, key: str, since: float) -> ChannelFound:
    return await channel.find("x", DM, key=key, since=since)


# -- what is sent ---------------------------------------------------------------------------------


BROKEN: list[Any] = ["lost", "cut", 502, "{}", "[]", "<html>", "[" * 9_999, Refused(1500, "x", status=500)]


def test_what_is_in_doubt_is_sent_again_under_its_uuid(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        for number, broken in enumerate(BROKEN):
            key, began = str(number), time.time()
            server.answers[CREATE] = [broken]
            assert (await send(channel, key, key=key)).in_doubt
            assert (await find(channel, key, began)).found is False
            sent = await send(channel, key, key=key)
            assert server.texts()[number:] == [key]
            assert sent.message_id == server.sent()[number]["message_id"]
            first, second = server.called(CREATE)[-2:]
            assert first.body["uuid"] == second.body["uuid"]

    connected(desk, body)


def test_after_an_hour_nobody_knows(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        assert (await find(channel, "k", time.time() - 3_100)).found is None
        assert (await find(channel, "k", time.time() + 60)).found is None  # the clock was set back
        assert (await find(channel, "k", time.time() - 2_900)).found is False
        await send(channel, "in time")
        assert server.texts() == ["in time"]

    connected(desk, body)


LIMITS: list[tuple[Any, float]] = [
    (LIMITED(), 7.0),
    (Refused(99991400, "request trigger frequency limit", headers={"x-ogw-ratelimit-reset": "3"}), 3.0),
    (Refused(230020, "This operation triggers the frequency limit."), 5.0),
    (Refused(230020, "limit", headers={"x-ogw-ratelimit-reset": "soon"}), 5.0),
    (Refused(230020, "limit", headers={"x-ogw-ratelimit-reset": "-4"}), 5.0),
    (Refused(230049, "The message is being sent."), 5.0),
    (429, 5.0),
]


def test_a_limit_is_told_with_its_time(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        for refused, seconds in LIMITS:
            server.answers[CREATE] = [refused]
            error = await refusal(send(channel, "later"))
            assert isinstance(error, RateLimitedError)
            assert error.details["retry_after"] == seconds
        await send(channel, "later")
        assert server.texts() == ["later"]

    connected(desk, body)


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        (Refused(230013, "Bot has NO availability to this user."), "NO availability"),
        (Refused(230022, "The content of the message contains sensitive information."), "sensitive"),
        (
            Refused(
                99991672,
                "Access denied.",
                error={"permission_violations": [{"subject": "im:message:send_as_bot"}]},
            ),
            "needs im:message:send_as_bot",
        ),
    ],
)
def test_what_lark_refuses_is_final_and_says_why(desk: ChannelDesk, refused: Refused, told: str) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        server.answers[CREATE] = [refused]
        error = await refusal(send(channel, "no"))
        assert isinstance(error, InvalidArgumentError)
        assert told in error.message

    connected(desk, body)


def test_a_token_that_is_never_taken_is_asked_for_once_and_tried_again_later(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        refused = Refused(99991663, "Invalid access token for authorization.")
        server.answers[CREATE] = [refused, refused]
        assert isinstance(await refusal(send(channel, "x")), RemoteFaultError)
        assert len(server.called("token")) == 2
        server.token, server.answers["token"] = "t-2", ["lost"]
        assert isinstance(await refusal(send(channel, "x")), RemoteFaultError)
        for odd in ('{"code": 0}', '{"code": 0, "tenant_access_token": "a\\nb", "expire": 1}'):
            server.answers["token"] = [odd]
            assert isinstance(await refusal(send(channel, "x")), RemoteFaultError)
        await send(channel, "x")
        assert server.texts() == ["x"]

    connected(desk, body)


def test_many_calls_ask_for_one_token(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        server.token = "t-2"
        await asyncio.gather(*(send(channel, str(number), key=str(number)) for number in range(5)))
        assert sorted(server.texts()) == [str(number) for number in range(5)]
        assert len(server.called("token")) == 2

    connected(desk, body)


# -- the long connection --------------------------------------------------------------------------


def test_a_connection_that_breaks_is_made_again_and_events_come_again(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        payload = said(server, "while the host could not store it")
        channel.ingest.refusals = [StorageError("the disk is full")]
        server.push(payload)
        await channel.until(lambda: channel.ingest.refusals == [])
        assert server.acknowledged == {}
        server.cut()
        await channel.until(lambda: server.opened == 2)
        await channel.until_health("connected")
        assert (await server.acknowledgement(server.push(payload)))["code"] == 200
        assert len(await channel.events(1)) == 1
        await server.links[-1].close()
        await channel.until(lambda: server.opened == 3)

    connected(desk, body)


def test_a_server_that_is_gone_is_waited_for(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        await server.stop()
        await channel.until(
            lambda: channel.health is not None and "cannot be reached" in channel.health.reason
        )
        error = await refusal(send(channel, "x"))
        assert isinstance(error, RemoteFaultError)
        server.answers["endpoint"] = [Refused(1, "system busy", status=200), 502, LIMITED_SOON]
        await server.start()
        await channel.until_health("connected")
        server.push(said(server, "again"))
        assert (await channel.event()).text == "again"

    connected(desk, body)


LIMITED_SOON = Refused(99991400, "limit", status=429, headers={"x-ogw-ratelimit-reset": "0"})


@pytest.mark.parametrize(
    "headers",
    [
        {"Handshake-Status": "514", "Handshake-Msg": "old ticket", "Handshake-Autherrcode": "1000040350"},
        {"Handshake-Status": "514", "Handshake-Msg": "old ticket", "Handshake-Autherrcode": "1"},
        {"Handshake-Status": "500"},
        {},
    ],
)
def test_a_handshake_that_is_refused_is_made_again(desk: ChannelDesk, headers: dict[str, str]) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        server.handshakes = [headers]
        server.cut()
        await channel.until(lambda: server.opened == 2)
        await channel.until_health("connected")

    connected(desk, body)


def test_an_app_that_lark_refuses_while_it_is_connected_is_told(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        server.handshakes = [{"Handshake-Status": "403", "Handshake-Msg": "forbidden"}]
        server.cut()
        assert "refuses the connection: forbidden" in (await channel.until_health("failed")).reason
        await channel.until_health("connected")

    connected(desk, body)


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("app-id", "1", "begins with cli_"),
        ("app-id", "cli_other", "check `app-id`, `app-secret` and `domain`"),
        ("app-secret", "wrong", "check `app-id`, `app-secret` and `domain`"),
        ("app-secret", " ", "App Secret of the app"),
        ("base-url", "open.feishu.cn", "https://"),
        ("max-file-mib", 500, "from 0 to 100"),
        ("base-url", "http://127.0.0.1:1", "cannot be reached"),
        ("receive", "webhook", "`encrypt-key` or `verification-token`"),
    ],
)
def test_a_setting_that_cannot_work_is_named(desk: ChannelDesk, setting: str, value: Any, told: str) -> None:
    async def whole() -> None:
        async with serving() as server, desk.opened(config_of(server) | {setting: value}) as channel:
            note = await channel.until_health("failed")
            assert told in note.reason
            assert SECRET not in note.reason

    desk.run(whole)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"bot.info": [Refused(11205, "app do not have bot")]}, "app do not have bot"),
        ({"bot.info": ['{"code": 0, "bot": {}}']}, "add the feature Bot"),
        ({"endpoint": [Refused(1000040350, "limit", status=200)]}, "50 at once"),
        ({"endpoint": [Refused(514, "app_id is invalid", status=200)]}, "app_id is invalid"),
        ({"endpoint": ['{"code": 0, "data": {"URL": "https://a.example/?service_id=1"}}']}, "is none"),
        ({"endpoint": ['{"code": 0, "data": {"URL": "wss://a.example/"}}']}, "names no service"),
    ],
)  # fmt: skip
def test_why_it_cannot_connect_is_told_and_it_does_later(
    desk: ChannelDesk, answer: dict[str, list[Any]], told: str
) -> None:
    async def whole() -> None:
        async with serving() as server:
            server.answers.update(answer)
            async with desk.opened(config_of(server)) as channel:
                assert told in (await channel.until_health("failed")).reason
                await channel.until_health("connected")

    desk.run(whole)


def test_the_secret_is_in_no_message_and_no_log(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server, desk.alone(config_of(server)) as channel:
            await channel.until_health("connected")
            server.answers[CREATE] = ["cut", Refused(230001, f"you sent {SECRET}"), 500]
            await send(channel, "x")
            await refusal(send(channel, "x", key="2"))
            await send(channel, "x", key="3")
            await server.stop()
            await channel.until_health("connecting")
            said_ = json.dumps(channel.plugin.frames) + channel.plugin._stderr_tail.decode()
            assert "[secret]" in said_
            assert SECRET not in said_.replace(json.dumps(SECRET), "")
            assert server.token not in said_
            assert "ticket-" not in said_

    desk.run(whole)


def test_a_process_that_is_killed_leaves_the_event_to_the_next(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            server.held, server.files["f"] = asyncio.Event(), (b"1", "text/plain")
            payload = said(server, {"file_key": "f", "file_name": "f"}, kind="file")
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                server.push(payload)
                await server.until_true(lambda: server.downloading)
                channel.plugin.signal(signal.SIGKILL)
                await channel.plugin.exit_status()
                await server.until_links(0)
            server.held.set()
            assert server.acknowledged == {}
            async with desk.opened(config_of(server)) as channel:
                await channel.until_health("connected")
                frame = server.push(payload)  # Lark sends again what was not acknowledged
                assert (await server.acknowledgement(frame))["code"] == 200
                assert len((await channel.event()).attachments) == 1

    desk.run(whole)


def test_the_server_of_these_tests_speaks_as_the_library_does() -> None:
    """The maker's own clients send a message here, and receive an event, which they acknowledge."""

    async def whole() -> None:
        async with serving() as server:
            command = [sys.executable, str(LIBRARY), server.app_id, SECRET, server.address]
            process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
            try:
                await server.until_links(1)
                assert server.texts() == ["sent by the library"]
                frame = server.push(said(server, "to the library"), parts=2)
                assert (await server.acknowledgement(frame))["code"] == 200
                assert process.stdout is not None
                while b"to the library" not in (line := await process.stdout.readline()):
                    assert line, "the library has ended"
            finally:
                process.kill()
                await process.wait()

    asyncio.run(whole())


def test_it_keeps_the_rules_of_channels() -> None:
    async def whole() -> None:
        results = await check_folder(FOLDER, environment())
        assert [result for result in results if not result.ok] == []
        assert [result.name for result in results if result.left_out and "channel" in result.name] == []

    asyncio.run(whole())
