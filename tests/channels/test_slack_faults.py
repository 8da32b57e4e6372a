"""Slack: what breaks. Nothing is lost, and nothing is run or sent twice."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from typing import Any

import pytest

from hostler_protocol.errors import HostlerError, InvalidArgumentError, RemoteFaultError, StorageError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.child_plugins import environment, within
from support.ready_candidates import check_folder
from support.slack_desk import FOLDER, config_of, connected, desk, say, serving
from support.slack_methods import ADA, APP_TOKEN, DM, GENERAL, TOKEN, Refused
from support.slack_server import SlackServer

__all__ = ["desk"]


# -- the connection -------------------------------------------------------------------------------


def test_what_is_said_while_slack_is_away_comes_once(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        say(server, "number 0")
        await channel.events(1)
        await server.stop()
        note = await channel.until_health("connecting")
        assert note.reason
        error = await refusal(channel.send("hello", DM))
        assert isinstance(error, RemoteFaultError)  # certainly not sent
        say(server, "number 1")
        server.write("number 2")  # of this Slack has given up to send it
        await server.start()
        await channel.until_health("connected")
        say(server, "number 3")
        events = await channel.events(4)
        assert sorted(event.text or "" for event in events) == [f"number {number}" for number in range(4)]
        assert [event.text for event in events if event.data.get("caught_up")] != []
        await channel.send("here again", DM)

    connected(desk, body)


def test_a_socket_that_slack_wants_to_close_is_left_for_another_one(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        (first,) = server.links
        server.disconnect("refresh_requested")
        await server.until_links(2)
        one = server.envelope("events_api", server.said(server.write("through the old one")), through=first)
        two = say(server, "through the new one")
        await server.until_acknowledged(one, two)
        await server.close_link()
        await server.until_links(1)
        three = say(server, "and on")
        await server.until_acknowledged(three)
        assert len(channel.ingest.events) == 3
        assert [note.health for note in channel.ingest.health] == [
            "connecting",
            "connected",
        ]  # of the opening
        assert not server.called("conversations.history")  # nothing can be missing

    connected(desk, body)


@pytest.mark.parametrize("how", ["cut", "close"])
def test_a_lost_socket_is_opened_again_and_told(desk: ChannelDesk, how: str) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        server.answers["apps.connections.open"] = [
            502,
            Refused("ratelimited", status=429, retry_after=0),
            "cut",
        ]
        if how == "cut":
            server.cut()
        else:
            await server.close_link()
        await channel.until(lambda: server.answers["apps.connections.open"] == [])
        await channel.until_health("connected")
        reasons = [note.reason for note in channel.ingest.health if note.health == "connecting"]
        assert any("closed the connection" in reason for reason in reasons)
        assert any("rate" in reason for reason in reasons)
        say(server, "hello")
        assert (await channel.event()).text == "hello"

    connected(desk, body)


def test_frames_that_are_no_messages_of_slack_break_nothing(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        for frame in (
            "",
            "{",
            "[]",
            "7",
            "null",
            '{"type": 5}',
            '{"type": "events_api"}',
            b"\x00",
            "[" * 9_999,
        ):
            server.raw(frame)
        server.raw(json.dumps({"type": "events_api", "envelope_id": 7, "payload": {}}))
        odd: list[Any] = [
            {"event": "x"},
            {"event": {"type": "message", "channel": DM, "ts": "5.1", "text": ["x"], "files": "y"}},
            {"event": {"type": "message", "channel": DM, "ts": 5, "user": {}}},
            {"event": {"type": "message", "channel": DM, "ts": "9.9", "subtype": {"a": 1}}},
            {"event": {"type": "reaction_added", "user": 7, "item": []}},
            {},
        ]
        envelopes = [
            server.envelope("events_api", {**one, "event_id": f"Ev{number}"})
            for number, one in enumerate(odd)
        ]
        envelopes.append(server.envelope("interactive", {"type": "block_actions", "actions": [None]}))
        envelopes.append(server.envelope("of_tomorrow", {"trigger_id": "1"}))
        await server.until_acknowledged(*envelopes)
        kinds = {event.event_type.partition(".")[0]: event for event in channel.ingest.events}
        assert set(kinds) == {"platform", "message"}
        assert kinds["message"].message_id == "5.1"
        assert len(channel.ingest.events) == len(envelopes)
        channel.ingest.events.clear()
        say(server, "and on")
        assert (await channel.event()).text == "and on"
        assert server.opened == 1

    connected(desk, body)


def test_a_wrong_token_is_told_and_a_right_one_taken_again(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            config = config_of(server)
            server.token = "xoxb-another"
            async with desk.opened(config) as channel:
                assert "check `token`" in (await channel.until_health("failed")).reason
                assert isinstance(await refusal(channel.send("hi", DM)), RemoteFaultError)
                server.token, server.app_token = TOKEN, "xapp-another"
                await channel.until(lambda: "check `app-token`" in str(channel.health))
                server.app_token = APP_TOKEN
                await channel.until_health("connected")
                server.app_token = "xapp-revoked"
                server.cut()
                assert "check `app-token`" in (await channel.until_health("failed")).reason
                server.app_token = APP_TOKEN
                await channel.until_health("connected")

    desk.run(whole)


def test_a_socket_without_a_hello_is_none(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            server.hello = "not today"
            async with desk.opened(config_of(server)) as channel:
                assert "did not say hello" in (await channel.until_health("failed")).reason
                server.hello = None
                await channel.until_health("connected")

    desk.run(whole)


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("token", "x", "begins with xoxb-"),
        ("app-token", TOKEN, "begins with xapp-"),
        ("base-url", "slack.com/api", "https://"),
        ("max-file-mib", 500, "from 0 to 100"),
        ("receive", "webhook", "`signing-secret` is needed"),
    ],
)
def test_a_setting_that_cannot_work_is_named(desk: ChannelDesk, setting: str, value: Any, told: str) -> None:
    async def whole() -> None:
        async with serving() as server, desk.opened(config_of(server) | {setting: value}) as channel:
            note = await channel.until_health("failed")
            assert told in note.reason
            assert TOKEN not in note.reason

    desk.run(whole)


def test_the_tokens_are_in_no_message_and_no_log(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server, desk.alone(config_of(server)) as channel:
            await channel.until_health("connected")
            server.answers["chat.postMessage"] = ["cut", 502, Refused("invalid_auth"), "lost"]
            for key in ("a", "b"):
                assert (await channel.send("hi", DM, key=key)).in_doubt
            await refusal(channel.send("hi", DM, key="c"))
            server.answers["apps.connections.open"] = [502, "cut"]
            server.cut()
            await channel.until(lambda: server.answers["apps.connections.open"] == [])
            await server.stop()
            await channel.until_health("connecting")
            await server.start()
            await channel.until_health("connected")
            said = json.dumps(channel.plugin.frames) + channel.plugin._stderr_tail.decode()
            assert "in doubt" in said
            assert TOKEN not in said
            assert APP_TOKEN not in said
            assert "ticket=" not in said

    within(200, whole)


def test_it_reaches_slack_through_the_proxy_of_its_sandbox(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            config = config_of(server) | {"base-url": "http://slack.invalid/api/"}
            server.public = "http://slack.invalid"
            proxy = {
                "HTTP_PROXY": server.address,
                "http_proxy": server.address,
                "NO_PROXY": "",
                "no_proxy": "",
            }
            async with desk.alone(config, **proxy) as channel:
                await channel.until_health("connected")
                server.files["F1"] = b"x"
                address = "http://files.slack.invalid/files/F1"
                file = {"id": "F1", "name": "a", "mode": "hosted", "url_private_download": address}
                say(server, "see", files=[file])
                assert len((await channel.event()).attachments) == 1
                await channel.send("hello", DM)

    desk.run(whole)


# -- order, redelivery and death ------------------------------------------------------------------


def test_a_chat_is_delivered_in_order_and_a_slow_one_holds_up_no_other(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        server.files["F1"] = b"slow"
        server.held = asyncio.Event()
        file = {"id": "F1", "name": "a", "mode": "hosted", "url_private": f"{server.address}/files/F1"}
        slow = server.write("with a file", files=[file])
        first = server.envelope("events_api", server.said(slow))
        second = say(server, "after it")
        other = say(server, "elsewhere", GENERAL)
        await server.until_acknowledged(other)
        again = server.envelope("events_api", server.said(slow), retry=1)  # Slack waits for 3 seconds only
        third = say(server, "elsewhere again", GENERAL)
        await server.until_acknowledged(third)
        assert set(server.acknowledged) == {other, third}
        server.held.set()
        await server.until_acknowledged(first, second, again)
        texts = [event.text for event in channel.ingest.events]
        assert texts == ["elsewhere", "elsewhere again", "with a file", "after it"]
        assert channel.ingest.duplicates == []  # it was not even begun twice

    connected(desk, body)


def test_an_envelope_that_was_not_acknowledged_comes_again_and_starts_nothing(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            said = server.said(server.write("once"))
            press = server.press("yes", ts="5.1")
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                server.envelope("events_api", said)
                server.envelope("interactive", press)
                await channel.events(2)
                ingest, state = channel.ingest, channel.state
                channel.plugin.signal(signal.SIGKILL)  # durable here; Slack may or may not know
                await channel.plugin.exit_status()
            await server.until_links(0)
            async with desk.alone(config_of(server)) as channel:  # its state is lost, too
                channel.plugin.session.ingest = channel.ingest = ingest
                again = [server.envelope("events_api", said, retry=1), server.envelope("interactive", press)]
                await server.until_acknowledged(*again)
                assert len(ingest.duplicates) == 2
                assert len(ingest.events) == 2
            async with desk.alone(config_of(server), state=state) as channel:
                await channel.until_health("connected")
                say(server, "and now")
                assert (await channel.event()).text == "and now"

    desk.run(whole)


def test_a_death_between_receiving_and_delivering_loses_nothing(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                say(server, "before")
                await channel.event()
                state = channel.state
                channel.ingest.refusals = [StorageError("the disk is full") for _ in range(1000)]
                envelopes = [say(server, "do not lose me"), say(server, "nor me")]
                await channel.until(lambda: len(channel.ingest.refusals) < 1000)
                channel.plugin.signal(signal.SIGKILL)
                await channel.plugin.exit_status()
                assert channel.ingest.events == []
                assert set(envelopes) & set(server.acknowledged) == set()
                assert channel.state == state
            # Slack has given up to send them: they are fetched
            async with desk.alone(config_of(server), state=state) as channel:
                events = await channel.events(2)
                assert [event.text for event in events] == ["do not lose me", "nor me"]
                assert [event.addressed for event in events] == [["private"], ["private"]]

    desk.run(whole)


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_death_between_sending_and_the_answer_is_settled_by_looking(
    desk: ChannelDesk, carried_out: bool
) -> None:
    async def whole() -> None:
        async with serving() as server:
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                begun = time.time()
                if carried_out:
                    server.silent = "chat.postMessage"
                else:
                    server.answers["chat.postMessage"] = ["held"]
                sending = asyncio.ensure_future(channel.send("once", DM))
                await server.until_called("chat.postMessage")
                channel.plugin.signal(signal.SIGKILL)
                with pytest.raises(HostlerError):
                    await sending
                server.silent = None
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                found = await channel.find("once", DM, since=begun)
                assert found.found is carried_out
                if not found.found:
                    await channel.send("once", DM)
                assert server.texts() == ["once"]

    desk.run(whole)


def test_it_keeps_the_rules_of_channels() -> None:
    async def whole() -> None:
        results = await check_folder(FOLDER, environment())
        assert [result for result in results if not result.ok] == []
        assert [result.name for result in results if result.left_out and "channel" in result.name] == []

    within(200, whole)


def test_the_host_refuses_an_event_and_gets_it_bare(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        channel.ingest.refusals = [InvalidArgumentError("the data is too large")]
        envelope = say(server, "hello")
        event = await channel.event()
        assert (event.text, event.data) == ("hello", {"left_out": "the data is too large"})
        assert event.person is not None
        assert event.person.person_id == ADA
        channel.ingest.refusals = [InvalidArgumentError("no"), InvalidArgumentError("never")]
        lost = say(server, "lost")
        say(server, "and on")
        assert (await channel.event()).text == "and on"
        await server.until_acknowledged(envelope, lost)

    connected(desk, body)
