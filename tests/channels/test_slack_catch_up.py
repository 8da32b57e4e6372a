"""Slack: what was said while the connection was lost is fetched, once, and holds up nothing."""

from __future__ import annotations

import time
from typing import Any

import pytest

from support.channel_desk import ChannelDesk, OpenChannel
from support.slack_desk import config_of, connected, desk, say, serving
from support.slack_methods import BOT, DM, GENERAL, Refused
from support.slack_server import SlackServer

__all__ = ["desk"]


def test_chats_and_threads_are_caught_up_with(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            server.page = 2
            old = server.write("long ago", GENERAL, user="U0BEN")
            known = server.write("known", GENERAL)
            async with desk.opened(config_of(server)) as channel:
                await channel.until_health("connected")
                server.envelope("events_api", server.said(known, GENERAL))
                await channel.event()
                await channel.send("an answer", GENERAL, at={"thread_id": known["ts"]})
                say(server, "elsewhere")
                await channel.event()
                state = channel.state
            for number in range(3):
                server.write(f"{number}", GENERAL)
            server.write("beginning", GENERAL)
            server.write("below it", GENERAL, thread_ts=server.last(GENERAL)["ts"])
            server.write("more in the thread", GENERAL, thread_ts=known["ts"])
            server.write("the bot's", GENERAL, user=BOT)
            server.write("joined", GENERAL, subtype="channel_join")
            server.answers["conversations.history"] = [
                Refused("ratelimited", status=429, retry_after=0),
                "cut",
            ]
            async with desk.opened(config_of(server), state=state) as channel:
                events = await channel.events(6)
                texts = [event.text for event in events]
                assert sorted(texts, key=str) == [
                    "0",
                    "1",
                    "2",
                    "beginning",
                    "below it",
                    "more in the thread",
                ]
                assert [text for text in texts if text in {"0", "1", "2"}] == ["0", "1", "2"]
                by_text = {event.text: event for event in events}
                assert by_text["more in the thread"].addressed == ["reply"]
                assert by_text["0"].chat is not None
                assert by_text["0"].chat.thread_id == by_text["0"].message_id
                assert old["ts"] not in str(channel.ingest.events)
                await channel.until(lambda: channel.state["since"][GENERAL] > known["ts"])

    desk.run(whole)


@pytest.mark.parametrize("answer", ["missing_scope", "not_in_channel"])
def test_a_chat_that_cannot_be_caught_up_with_holds_up_nothing(desk: ChannelDesk, answer: str) -> None:
    async def whole() -> None:
        async with serving() as server:
            state = {"since": {"C0OTHER": "5.1", DM: server.stamp()}, "threads": [], "uploads": {}}
            server.write("in the gap")
            server.answers["conversations.history"] = []
            server.gone = {"C0OTHER": answer}
            async with desk.opened(config_of(server), state=state) as channel:
                assert (await channel.event()).text == "in the gap"
                say(server, "and on")
                assert (await channel.event()).text == "and on"

    desk.run(whole)


def test_what_is_older_than_a_day_is_not_fetched(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            for days, text in ((3, "long ago"), (2, "before yesterday")):
                server.write(text)["ts"] = f"{time.time() - days * 86_400:.6f}"
            server.write("today")
            state = {"since": {DM: f"{time.time() - 4 * 86_400:.6f}"}}
            async with desk.opened(config_of(server), state=state) as channel:
                assert (await channel.event()).text == "today"
                await channel.until(lambda: channel.state["since"][DM] > state["since"][DM])

    desk.run(whole)


@pytest.mark.parametrize("state", [[], "x", {"since": 5, "threads": {}, "uploads": []}, {"since": {"C": 5}}])
def test_a_state_that_is_none_is_no_harm_and_off_is_off(desk: ChannelDesk, state: Any) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        say(server, "hello")
        assert (await channel.event()).text == "hello"
        assert not server.called("conversations.history")

    connected(desk, body, state=state)


def test_it_catches_up_only_if_it_is_to(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        server.write("in the gap")
        server.cut()
        await server.until_links(0)
        await server.until_links(1)
        say(server, "hello")
        assert (await channel.event()).text == "hello"
        assert not server.called("conversations.history")

    connected(desk, body, state={"since": {DM: "5.1"}}, catch_up=False)
