"""Discord: connections that break, and what is missed meanwhile."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hostler_protocol.errors import RemoteFaultError, StorageError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.child_plugins import environment, within
from support.discord_desk import FOLDER, config_of, connected, desk, serving
from support.discord_gateway import MEMBERS, MESSAGE_CONTENT
from support.discord_server import GENERAL, PRIVATE, THREAD, TOKEN, DiscordServer, Refusal, guild
from support.ready_candidates import check_folder

__all__ = ["desk"]

POST = "POST /channels/*/messages"


# -- the connection -------------------------------------------------------------------------------


def test_what_is_said_while_discord_is_away_comes_once_and_in_order(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        for number in range(12):
            await server.say(f"number {number}")
            if number % 5 == 2:
                server.cut()
            if number == 6:
                await server.stop()
                note = await channel.until_health("connecting")
                assert note.reason
                error = await refusal(channel.send("hello", PRIVATE))
                assert isinstance(error, RemoteFaultError)  # certainly not sent
                await server.start()
                await channel.until_health("connected")
        events = await channel.events(12)
        assert [event.text for event in events] == [f"number {number}" for number in range(12)]
        assert len(server.gateway.said(2)) == 1  # one session, which was resumed
        assert server.gateway.said(6)
        await channel.send("here again", PRIVATE)

    connected(desk, body)


@pytest.mark.parametrize("how", ["reconnect", "heartbeat", 1000, 1001, 4000, 4008, 4009])
def test_discord_may_ask_for_a_new_connection_or_a_heartbeat(desk: ChannelDesk, how: Any) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        await server.say("before")
        await channel.event()
        beats = len(server.gateway.said(1))
        match how:
            case "reconnect":
                await server.gateway.to_all(lambda socket: socket.send(7))
            case "heartbeat":
                await server.gateway.to_all(lambda socket: socket.send(1))
                await server.until_true(lambda: len(server.gateway.said(1)) > beats)
            case code:
                await server.gateway.to_all(lambda socket: socket.socket.close(code=code))
        if how != "heartbeat":
            await server.until_true(lambda: server.gateway.said(6))
            assert server.gateway.said(6)[0]["session_id"] == "session-1"
        await server.say("after")
        assert (await channel.event()).text == "after"

    connected(desk, body)


def test_after_a_lost_session_messages_are_read_from_the_history(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        await server.say("private")
        await server.say("public", GENERAL)
        await channel.events(2)
        channel.ingest.events.clear()
        server.gateway.forget()
        for number in range(120):  # more than one page
            server.write(f"missed {number}", GENERAL)
        server.write("missed in private", PRIVATE)
        server.write("missed in a thread", THREAD)
        server.write("mine", GENERAL, author=server.gateway.me)
        server.cut()
        events = await channel.events(122)
        texts = [event.text for event in events]
        assert texts[0] == "missed in private"
        assert texts[1:121] == [f"missed {number}" for number in range(120)]
        assert texts[121] == "missed in a thread"
        assert events[121].chat is not None
        assert (events[121].chat.chat_id, events[121].chat.thread_id) == (GENERAL, THREAD)
        assert {event.text for event in channel.ingest.duplicates} <= {"private", "public"}
        await channel.until(lambda: channel.state["session"] is not None)
        assert channel.state["session"]["id"] == server.gateway.newest == "session-2"
        await server.say("and now")
        await channel.until(lambda: channel.ingest.events[-1].text == "and now")

    connected(desk, body)


def test_a_death_while_catching_up_loses_nothing(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            state: Any = {
                "session": None,
                "intents": 0,
                "last": int(server.snowflake(time.time() - 60)),
                "private": [],
            }
            server.write("first", GENERAL)
            server.write("second", GENERAL)
            async with desk.alone(config_of(server), state=state) as channel:
                channel.ingest.refusals = []
                await channel.until(lambda: len(channel.ingest.events) >= 1)
                channel.ingest.refusals = [StorageError("the disk is full") for _ in range(1000)]
                ingest = channel.ingest
                state = await channel.kill()
            ingest.refusals = []
            async with desk.alone(config_of(server), state=state) as channel:
                channel.plugin.session.ingest = channel.ingest = ingest
                await channel.until(lambda: len(ingest.events) == 2)
                assert [event.text for event in ingest.events] == ["first", "second"]

    desk.run(whole)


def test_a_server_that_the_bot_joined_meanwhile_is_told(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            server.gateway.guilds["901"] = guild(id="901", joined_at="2100-01-01T00:00:00.000000+00:00")
            last = int(server.snowflake(time.time() - 60))
            state: Any = {"session": None, "intents": 0, "last": last, "private": []}
            async with desk.opened(config_of(server), state=state) as channel:
                event = await channel.event()
                assert (event.event_type, event.data["guild_id"]) == ("group.bot_invited", "901")

    desk.run(whole)


def test_more_than_can_wait_is_lost_neither(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        channel.ingest.refusals = [StorageError("the disk is full")]
        for number in range(1_200):  # over MAX_WAITING
            await server.say(f"{number}")
        events = await channel.events(1_200)
        assert [event.text for event in events] == [f"{number}" for number in range(1_200)]

    connected(desk, body)


def test_a_long_absence_is_read_for_a_day_alone(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            last = int(server.snowflake(time.time() - 3 * 86_400))
            server.write("two days ago", GENERAL, id=server.snowflake(time.time() - 2 * 86_400))
            server.write("today", GENERAL)
            state: Any = {"session": None, "intents": 0, "last": last, "private": []}
            async with desk.opened(config_of(server), state=state) as channel:
                assert (await channel.event()).text == "today"

    desk.run(whole)


def test_a_first_start_reads_no_history(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            server.write("long before", GENERAL)
            async with desk.opened(config_of(server)) as channel:
                await channel.until_health("connected")
                await server.say("hello", GENERAL)
                assert (await channel.event()).text == "hello"
                assert not server.called("GET /channels/*/messages")

    desk.run(whole)


def test_what_is_no_frame_of_the_gateway_ends_the_session_and_loses_nothing(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        await server.say("before", GENERAL)
        await channel.event()
        await server.gateway.to_all(lambda socket: socket.frame("<html>"))
        server.write("meanwhile", GENERAL)
        assert (await channel.event()).text == "meanwhile"
        assert any("cannot be read" in note.reason for note in channel.ingest.health)
        await server.gateway.to_all(lambda socket: socket.socket.send_bytes(b"\x00 no stream"))
        server.write("and again", GENERAL)
        assert (await channel.event()).text == "and again"
        unread = [note.reason for note in channel.ingest.health if "cannot be read" in (note.reason or "")]
        assert len(unread) == 2, channel.ingest.health
        await server.gateway.to_all(lambda socket: socket.frame("[" * 100_000))
        server.write("and once more", GENERAL)
        assert (await channel.event()).text == "and once more"
        await server.gateway.to_all(lambda socket: socket.send(99, {"of": "tomorrow"}))
        await server.say("still here", GENERAL)
        assert (await channel.event()).text == "still here"

    connected(desk, body)


def test_a_wrong_token_is_told_and_a_right_one_taken_again(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            config = config_of(server)
            server.token = "another-token-of-another-bot"
            async with desk.opened(config) as channel:
                note = await channel.until_health("failed")
                assert "check `token`" in note.reason
                assert isinstance(await refusal(channel.send("hi", PRIVATE)), RemoteFaultError)
                server.token = TOKEN
                await channel.until_health("connected")
                server.gateway.token = "revoked"
                server.cut()
                note = await channel.until_health("failed")
                assert "check `token`" in note.reason
                server.gateway.token = TOKEN
                await channel.until_health("connected")

    desk.run(whole)


@pytest.mark.parametrize("intent", [MESSAGE_CONTENT, MEMBERS])
def test_an_intent_that_is_not_switched_on_is_named(desk: ChannelDesk, intent: int) -> None:
    async def whole() -> None:
        async with serving() as server:
            server.gateway.refused_intents = intent
            async with desk.opened(config_of(server, members=True)) as channel:
                note = await channel.until_health("failed")
                assert "`Message Content Intent`" in note.reason
                assert "`members`" in note.reason
            settings = {"members": False, "message-content": False}
            async with desk.opened(config_of(server, **settings)) as channel:
                await channel.until_health("connected")
                assert server.gateway.said(2)[-1]["intents"] & (MESSAGE_CONTENT | MEMBERS) == 0

    desk.run(whole)


def test_no_session_is_begun_where_discord_allows_none(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            server.starts_left = 0
            async with desk.opened(config_of(server)) as channel:
                await channel.until(
                    lambda: "no further session" in (channel.health.reason if channel.health else "")
                )
                assert server.gateway.said(2) == []

    desk.run(whole)


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("token", "x", "no token of a bot"),
        ("base-url", "discord.com", "https://"),
        ("max-file-mib", 500, "from 0 to 100"),
        ("base-url", "http://127.0.0.1:1/api", "cannot be reached"),
    ],
)
def test_a_setting_that_cannot_work_is_named(desk: ChannelDesk, setting: str, value: Any, told: str) -> None:
    async def whole() -> None:
        async with serving() as server, desk.opened(config_of(server) | {setting: value}) as channel:
            note = await channel.until_health("failed")
            assert told in note.reason
            assert TOKEN not in note.reason

    desk.run(whole)


def test_the_token_is_in_no_message_and_no_log(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server, desk.alone(config_of(server)) as channel:
            await channel.until_health("connected")
            server.broken_files["F"] = [500, 500, "cut"]
            await server.say(attachments=[server.attachment("F", b"xx")])
            await channel.event()
            server.refusals[POST] = ["cut", "<html>", Refusal(503, "Service Unavailable")]
            for key in ("a", "b", "c"):
                assert (await channel.send("hi", PRIVATE, key=key)).in_doubt
            await server.gateway.to_all(lambda socket: socket.frame("{"))
            await server.stop()
            await channel.until_health("connecting")
            said = json.dumps(channel.plugin.frames) + channel.plugin._stderr_tail.decode()
            assert "in doubt" in said
            assert TOKEN not in said

    within(200, whole)


def test_it_reaches_discord_through_the_proxy_of_its_sandbox(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            config = config_of(server) | {"base-url": "http://discord.invalid/api"}
            server.gateway.url = "ws://gateway.invalid/gateway/"
            proxy = {"HTTP_PROXY": server.url, "http_proxy": server.url, "NO_PROXY": "", "no_proxy": ""}
            async with desk.alone(config, **proxy) as channel:
                await channel.until_health("connected")
                file = server.attachment("F", b"x") | {"url": "http://cdn.discordapp.com/attachments/F"}
                await server.say(attachments=[file])
                assert len((await channel.event()).attachments) == 1
                await channel.send("hello", PRIVATE)

    desk.run(whole)


def test_both_compressions_of_the_gateway_are_read(desk: ChannelDesk, tmp_path: Path) -> None:
    async def whole() -> None:
        async with serving() as server:
            (tmp_path / "zstandard.py").write_text("raise ImportError\n")
            for path in ("", str(tmp_path)):
                async with desk.alone(config_of(server), PYTHONPATH=path) as channel:
                    await channel.until_health("connected")
                    for number in range(3):
                        await server.say(f"{number}")
                    assert [event.text for event in await channel.events(3)] == ["0", "1", "2"]
            asked = [query.get("compress") for query in server.gateway.queries]
            assert asked[-1] == ("zlib-stream" if sys.version_info < (3, 14) else "zstd-stream")
            assert set(asked) <= {"zlib-stream", "zstd-stream"}

    desk.run(whole)


def test_it_keeps_the_rules_of_channels() -> None:
    async def whole() -> None:
        results = await check_folder(FOLDER, environment())
        assert [result for result in results if not result.ok] == []
        assert [result.name for result in results if result.left_out and "channel" in result.name] == []

    within(200, whole)
