"""Matrix: what breaks. Nothing is lost, and nothing comes twice."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import pytest

from hostler_protocol.errors import HostlerError, RemoteFaultError, StorageError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.child_plugins import environment, within
from support.matrix_desk import FOLDER, config_of, connected, desk, serving
from support.matrix_server import ADA, DM, GROUP, ME, TOKEN, MatrixServer, Refusal
from support.ready_candidates import check_folder

__all__ = ["desk"]


def numbers(first: int, end: int) -> list[str]:
    return [f"number {number}" for number in range(first, end)]


# -- the connection -------------------------------------------------------------------------------


def test_what_is_said_while_the_homeserver_is_away_comes_once_and_in_order(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        for number in range(12):
            server.say(f"number {number}")
            if number % 5 == 2:
                server.cut()
            if number == 6:
                await server.stop()
                note = await channel.until_health("connecting")
                assert note.reason
                error = await refusal(channel.send("hello", DM))
                assert isinstance(error, RemoteFaultError)  # certainly not sent
                await server.start()
                await channel.until_health("connected")
        events = await channel.events(12)
        assert [event.text for event in events] == numbers(0, 12)
        await channel.send("here again", DM)

    connected(desk, body)


def test_a_new_channel_is_connected_once_it_knows_where_it_begins(desk: ChannelDesk) -> None:
    """What is said before that place is not answered, so nobody may take it for connected before."""

    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        told = [one.health for one in channel.ingest.health if one.channel_id == channel.channel_id]
        assert told == ["connecting", "failed", "connecting", "connected"]
        server.say("hello")
        assert (await channel.event()).text == "hello"

    def prepare(server: MatrixServer) -> None:
        server.refusals["sync"] = [Refusal(502, "M_UNKNOWN", "Bad Gateway")]

    connected(desk, body, prepare=prepare)


def test_a_reconnection_is_told_although_nobody_writes(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.refusals["sync"] = [
            Refusal(502, "M_UNKNOWN", "Bad Gateway"),
            "<html>of a proxy</html>",
            Refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=10),
        ]
        before = len(server.waits)
        server.cut()
        await channel.until(lambda: server.refusals["sync"] == [])
        await channel.until_health("connected")
        await channel.until(lambda: len(server.waits) > before)
        reasons = " ".join(note.reason for note in channel.ingest.health)
        assert "Bad Gateway" in reasons
        assert "rate" in reasons
        assert server.waits[before] == 0  # so that the first success is told at once

    connected(desk, body)


@pytest.mark.parametrize(
    "batch", ['{"rooms": {}}', "[]", "nonsense", '{"next_batch": 7}', "[" * 100_000, '{"next_batch": "s1"']
)
def test_a_sync_that_is_none_comes_again(desk: ChannelDesk, batch: str) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.answers["sync"] = [batch]
        server.say("hello")
        await channel.until_health("connecting")
        assert (await channel.event()).text == "hello"
        await channel.until_health("connected")

    connected(desk, body)


@pytest.mark.parametrize("rooms", ["{}", "7", '{"join": 7}', '{"join": {"!a:b": 7, "": {}}, "invite": []}'])
def test_odd_parts_of_a_sync_hold_nothing_up(desk: ChannelDesk, rooms: str) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        place = len(server.stream.events)
        server.answers["sync"] = [f'{{"next_batch": "s{place}", "rooms": {rooms}}}']
        server.cut()
        server.say("hello")
        assert (await channel.event()).text == "hello"

    connected(desk, body)


def test_a_wrong_token_is_told_and_a_right_one_taken_again(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            config = config_of(server)
            server.token = "another"
            async with desk.opened(config) as channel:
                note = await channel.until_health("failed")
                assert "check `access-token`" in note.reason
                assert isinstance(await refusal(channel.send("hi", DM)), RemoteFaultError)
                server.token = TOKEN
                await channel.until_health("connected")
                server.token = "revoked"
                server.cut()
                note = await channel.until_health("failed")
                assert "check `access-token`" in note.reason
                server.token = TOKEN
                await channel.until_health("connected")

    desk.run(whole)


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("access-token", "x y", "no access token"),
        ("access-token", "", "no access token"),
        ("homeserver", "matrix.org", "https://"),
        ("homeserver", "ftp://matrix.org", "https://"),
        ("max-file-mib", 500, "from 0 to 100"),
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
            await server.until_synced()
            server.files["F"] = b"x"
            server.broken_files["F"] = [500, 500, "cut"]
            server.happen("m.room.message", {"msgtype": "m.file", "body": "x", "url": "mxc://hs.example/F"})
            await channel.event()
            server.refusals["send"] = ["<html>", Refusal(500, "M_UNKNOWN", f"bad token {TOKEN}")]
            for key in ("a", "b"):
                assert (await channel.send("hi", DM, key=key)).in_doubt
            server.cut()
            await server.stop()
            await channel.until_health("connecting")
            said = json.dumps(channel.plugin.frames) + channel.plugin._stderr_tail.decode()
            assert "in doubt" in said
            assert TOKEN not in said

    within(200, whole)


def test_it_reaches_the_homeserver_through_the_proxy_of_its_sandbox(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            config = config_of(server) | {"homeserver": "http://matrix.invalid"}
            proxy = {"HTTP_PROXY": server.url, "http_proxy": server.url, "NO_PROXY": "", "no_proxy": ""}
            async with desk.alone(config, **proxy) as channel:
                await channel.until_health("connected")
                await channel.send("hello", DM)
                assert server.texts() == ["hello"]

    desk.run(whole)


# -- gaps -----------------------------------------------------------------------------------------


def test_a_gap_is_filled_in_order(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.most = 4
        server.refusals["messages"] = [Refusal(502, "M_UNKNOWN")]
        for text in numbers(0, 11):
            server.stream.add(DM, "m.room.message", {"msgtype": "m.text", "body": text}, ADA)
        server.say("number 11")
        events = await channel.events(12)
        assert [event.text for event in events] == numbers(0, 12)
        assert len(server.called("messages")) > 2
        server.say("number 12")
        await channel.events(13)
        assert channel.ingest.duplicates == []

    connected(desk, body)


def test_what_was_said_before_the_bot_came_is_not_for_it(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.most = 4
        room = "!later:hs.example"
        server.stream.make(room, ADA)
        for text in numbers(0, 9):
            server.stream.add(room, "m.room.message", {"msgtype": "m.text", "body": text}, ADA)
        server.stream.add(room, "m.room.member", {"membership": "join"}, ME, ME)
        for text in numbers(9, 20):
            server.stream.add(room, "m.room.message", {"msgtype": "m.text", "body": text}, ADA)
        server.say("number 20", room=room)
        events = await channel.events(12)
        assert [event.text for event in events] == numbers(9, 21)

    connected(desk, body)


def test_a_gap_that_is_too_long_is_told(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.most = 2
        for text in numbers(0, 30):
            server.stream.add(GROUP, "m.room.message", {"msgtype": "m.text", "body": text}, ADA)
        server.say("and in another room")
        other, missed, *events = await channel.events(24)
        assert (missed.event_type, missed.data["read"]) == ("platform.messages_missed", 20)
        assert missed.chat is not None
        assert missed.chat.chat_id == GROUP
        assert [event.text for event in events] == numbers(8, 30)
        assert other.text == "and in another room"

    connected(desk, body)


def test_a_position_that_the_homeserver_lost_is_told_and_made_anew(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        event = await channel.event()
        assert (event.event_type, event.data["since"]) == ("platform.position_lost", "of-another-server")
        assert "Invalid stream token" in event.data["reason"]
        await server.until_synced()
        server.say("hello")
        assert (await channel.event()).text == "hello"

    connected(desk, body, state={"since": "of-another-server"})


@pytest.mark.parametrize("state", [None, 7, [], {"since": 7}, {"joins": [7], "told": "x"}])
def test_an_odd_state_begins_anew_and_answers_nothing_from_before(desk: ChannelDesk, state: Any) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.say("hello")
        assert (await channel.event()).text == "hello"

    def prepare(server: MatrixServer) -> None:
        server.say("from before")

    connected(desk, body, state=state, prepare=prepare)


# -- redelivery and death -------------------------------------------------------------------------


def test_a_sync_whose_position_was_not_kept_comes_again_and_starts_nothing(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            async with desk.alone(config_of(server)) as channel:
                await channel.until(lambda: channel.state is not None)
                before = channel.state
                server.say("once")
                server.invite("!party:hs.example")
                await channel.events(2)
                ingest = channel.ingest
                channel.plugin.signal(signal.SIGKILL)  # durable here; its position may not be
                await channel.plugin.exit_status()
            async with desk.alone(config_of(server), state=before) as channel:
                channel.plugin.session.ingest = channel.ingest = ingest
                await channel.until(lambda: len(ingest.duplicates) >= 1)
                await server.until("join")
                server.say("and now")
                await channel.until(lambda: ingest.events[-1].text == "and now")
                assert [event.text for event in ingest.events if event.text] == ["once", "and now"]

    desk.run(whole)


def test_a_death_between_receiving_and_delivering_loses_nothing(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            async with desk.alone(config_of(server)) as channel:
                await channel.until(lambda: channel.state is not None)
                channel.ingest.refusals = [StorageError("the disk is full") for _ in range(1000)]
                server.say("do not lose me")
                server.say("nor me")
                await channel.until(lambda: len(channel.ingest.refusals) < 1000)
                channel.plugin.signal(signal.SIGKILL)
                await channel.plugin.exit_status()
                assert channel.ingest.events == []
                state = channel.state
            async with desk.alone(config_of(server), state=state) as channel:
                events = await channel.events(2)
                assert [event.text for event in events] == ["do not lose me", "nor me"]

    desk.run(whole)


def test_a_death_between_sending_and_the_answer_sends_once(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                server.silent = True
                sending = asyncio.ensure_future(channel.send("once", DM, key="same"))
                await server.until("send")
                channel.plugin.signal(signal.SIGKILL)
                with pytest.raises(HostlerError):
                    await sending
                server.silent = False
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                sent = await channel.send("once", DM, key="same")
                assert server.texts() == ["once"]
                assert sent.message_id == server.sent()[0]["event_id"]

    desk.run(whole)


def test_it_keeps_the_rules_of_channels() -> None:
    async def whole() -> None:
        results = await check_folder(FOLDER, environment())
        assert [result for result in results if not result.ok] == []
        assert [result.name for result in results if result.left_out and "channel" in result.name] == []

    within(200, whole)
