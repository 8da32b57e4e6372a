"""Discord: repeated events, doubts and death. Nothing is lost, and nothing is said or run twice."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from hostler_protocol.errors import HostlerError, StorageError
from support.channel_desk import ChannelDesk, OpenChannel
from support.discord_desk import POST, config_of, connected, desk, found, serving
from support.discord_server import GENERAL, DiscordServer, Refusal

__all__ = ["desk"]


def test_another_process_goes_on_where_the_last_one_died(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                await server.say("once")
                await channel.event()
                channel.ingest.refusals = [StorageError("the disk is full") for _ in range(1000)]
                await server.say("do not lose me")
                await server.press("5", "yes")
                await channel.until(lambda: len(channel.ingest.refusals) < 999)
                state = await channel.kill()
                assert channel.ingest.events == []
            await server.say("said to nobody")
            async with desk.alone(config_of(server), state=state) as channel:
                events = await channel.events(3)
                told = {event.text or event.data.get("value") for event in events}
                assert told == {"do not lose me", "yes", "said to nobody"}
                assert [one["session_id"] for one in server.gateway.said(6)] == ["session-1"]
                assert len(server.gateway.said(2)) == 1

    desk.run(whole)


def test_a_press_that_goes_before_a_message_does_not_take_its_place(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                await server.say("before")
                await channel.event()
                server.broken_files["F"] = ["hang"]
                await server.say("with a file", attachments=[server.attachment("F", b"x")])
                await server.until_true(lambda: server.broken_files["F"] == [])
                await server.press("5", "yes")
                assert (await channel.event()).data["value"] == "yes"
                state = await channel.kill()
            async with desk.alone(config_of(server), state=state) as channel:
                events = await channel.events(2)  # another host, which does not know the press
                assert {event.text for event in events} == {"with a file", None}

    desk.run(whole)


def test_what_is_repeated_starts_nothing(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            async with desk.opened(config_of(server)) as channel:
                await channel.until_health("connected")
                await channel.until(lambda: (channel.state or {}).get("session") is not None)
                before = channel.state
                await server.say("once")
                await server.press("5", "yes")
                await server.gateway.dispatch("GUILD_BAN_ADD", {"guild_id": "900", "user": {"id": "9"}})
                await channel.events(3)
                ingest = channel.ingest
            async with desk.opened(config_of(server), state=before) as channel:  # its last state is lost
                channel.plugin.session.ingest = channel.ingest = ingest
                await channel.until(lambda: len(ingest.duplicates) == 3)
                assert len(ingest.events) == 3

    desk.run(whole)


def test_other_intents_need_another_session(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            async with desk.opened(config_of(server)) as channel:
                await channel.until_health("connected")
                await server.say("hello")
                await channel.event()
                state = channel.state
            server.write("meanwhile")
            async with desk.opened(config_of(server, members=True), state=state) as channel:
                await channel.until(lambda: any(one.text == "meanwhile" for one in channel.ingest.events))
                assert server.gateway.said(6) == []

    desk.run(whole)


@pytest.mark.parametrize("answer", ["cut", "cut after", "<html>502</html>", Refusal(503, "Unavailable")])
def test_what_may_have_been_sent_is_in_doubt_and_is_said_once(desk: ChannelDesk, answer: Any) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        since = time.time()
        server.tells = False
        server.refusals[POST] = [answer]
        assert (await channel.send("hello", GENERAL)).in_doubt
        assert (await found(channel, "hello", since)).found is False  # its nonce settles it
        sent = await channel.send("hello", GENERAL)
        assert server.texts() == ["hello"]
        again = await found(channel, "hello", since)
        assert (again.found, again.message_id) == (True, sent.message_id)

    connected(desk, body)


def test_the_gateway_tells_what_was_sent_although_the_answer_is_lost(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        server.refusals[POST] = ["cut after"]
        assert (await channel.send("hello", GENERAL)).in_doubt
        await server.say("a sign that the gateway has come so far")
        await channel.event()
        answer = await found(channel, "hello", time.time())
        (mine,) = [one["id"] for one in server.messages.values() if one["author"] == server.gateway.me]
        assert (answer.found, answer.message_id) == (True, mine)

    connected(desk, body)


def test_a_death_between_sending_and_the_answer_says_it_once(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            since = time.time() - 3600
            server.tells = False
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                await channel.send("before", GENERAL, key="other")
                server.silent = True
                sending = asyncio.ensure_future(channel.send("say *this* once", GENERAL))
                await server.until(POST, 2)
                await channel.kill()
                with pytest.raises(HostlerError):
                    await sending
                server.silent = False
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                sent = await channel.send("say *this* once", GENERAL)  # soon: under its nonce
                assert server.texts() == ["before", "say *this* once"]
                server.forget_nonces()
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                for number in range(150):  # more than one page is looked through
                    server.write(f"other {number}", GENERAL)
                there = await found(channel, "say *this* once", since)  # much later: by the history
                assert (there.found, there.message_id) == (True, sent.message_id)
                assert (await found(channel, "say this", since)).found is False
                assert (await found(channel, "say *this* once", time.time() - 61)).found is True
                sent_at = int(sent.message_id or 0)
                del server.messages[str(sent_at)]
                assert (await found(channel, "say *this* once", since)).found is False

    desk.run(whole)


def test_where_the_history_cannot_be_read_a_doubt_stays(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        since = time.time() - 3600
        history = "GET /channels/*/messages"
        server.refusals[history] = [Refusal(403, "Missing Access", 50001)]
        assert (await found(channel, "hello", since)).found is None
        server.refusals[history] = [Refusal(503, "Unavailable")]
        with pytest.raises(HostlerError):
            await found(channel, "hello", since)
        server.write("hello", GENERAL)  # another said the same
        assert (await found(channel, "hello", since)).found is False
        await channel.send("hello", GENERAL, key="other")  # so did the bot, as another message
        assert (await found(channel, "hello", since)).found is False

    connected(desk, body)
