"""DingTalk: connections, events and processes that break."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import pytest

from hostler_protocol.errors import (
    InvalidArgumentError,
    StorageError,
)
from support.channel_desk import ChannelDesk, OpenChannel
from support.child_plugins import environment, within
from support.dingtalk_calls import ADA, GROUP, Answer, Refused
from support.dingtalk_desk import FOLDER, config_of, connected, desk, serving
from support.dingtalk_server import CARDS, MESSAGES, DingTalkServer
from support.ready_candidates import check_folder

__all__ = ["desk"]


OPEN = "/v1.0/gateway/connections/open"


TOKEN = "/v1.0/oauth2/accessToken"


# -- opening --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"client-secret": "wrong"}, "check `client-id` and `client-secret`"),
        ({"client-secret": ""}, "`client-id` and `client-secret` are needed"),
        ({"base-url": "ftp://x"}, "`base-url` must begin with"),
        ({"files-url": "x"}, "`files-url` must begin with"),
        ({"max-file-mib": 101}, "`max-file-mib` must be a number"),
        ({"base-url": "http://127.0.0.1:9"}, "DingTalk cannot be reached"),
    ],
)
def test_settings_that_cannot_work_are_named(desk: ChannelDesk, settings: dict[str, Any], why: str) -> None:
    async def body() -> None:
        async with serving() as server, desk.opened(config_of(server) | settings) as channel:
            health = await channel.until_health("failed")
            assert why in health.reason
            assert "s3cret" not in health.reason

    desk.run(body)


@pytest.mark.parametrize(
    ("path", "answer", "why"),
    [
        (OPEN, {"endpoint": "https://elsewhere.example", "ticket": "t"}, "wss:// is expected"),
        (OPEN, {"endpoint": "ws://127.0.0.1:9/connect", "ticket": "t"}, "the connection could not be made"),
        (OPEN, {"endpoint": "ws://[bad", "ticket": "t"}, "for a connection is none"),
        (OPEN, {"endpoint": 7}, "wss:// is expected"),
        (OPEN, 502, "DingTalk has an error: status 502"),
        (OPEN, "[]", "DingTalk has an error"),
        (OPEN, Refused("authFailed", 400, "鉴权失败"), "check `client-id` and `client-secret`"),
        (TOKEN, {"accessToken": ""}, "DingTalk gave no access token"),
        (TOKEN, "lost", "the connection to DingTalk broke"),
    ],
)
def test_why_no_connection_is_made_is_told(desk: ChannelDesk, path: str, answer: Answer, why: str) -> None:
    async def body() -> None:
        async with serving() as server:
            server.answers[path].append(answer)
            async with desk.opened(config_of(server)) as channel:
                assert why in (await channel.until_health("failed")).reason
                await channel.until_health("connected")  # it is tried again

    desk.run(body)


# -- the connection -------------------------------------------------------------------------------


def test_a_connection_that_breaks_is_made_again(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.answers[OPEN].append(Refused("ServiceUnavailable", 503))
        server.cut()
        await channel.until(
            lambda: "DingTalk has an error" in (channel.health.reason if channel.health else "")
        )
        await channel.until_health("connected")
        server.say("after it")
        assert (await channel.event()).text == "after it"
        assert server.opened == 2

    connected(desk, body)


def test_an_app_that_is_refused_later_fails(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.answers[OPEN].append(Refused("authFailed", 401))
        server.cut()
        assert "check `client-id`" in (await channel.until_health("failed")).reason
        await channel.until_health("connected")

    connected(desk, body)


def test_before_dingtalk_closes_a_connection_another_one_is_there(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        before = server.links[0]
        server.frame("SYSTEM", "disconnect", {"reason": "persistent connection is timeout"})
        await server.until_links(2)
        late = json.loads(json.dumps(server.message("through the old one")))
        headers = {"messageId": "late", "topic": MESSAGES, "contentType": "application/json", "time": "1"}
        await before.send_str(json.dumps({"type": "CALLBACK", "headers": headers, "data": json.dumps(late)}))
        assert (await channel.event()).text == "through the old one"
        await server.until_acknowledged("late")
        await before.close()
        server.say("through the new one")
        assert (await channel.event()).text == "through the new one"
        assert [note.health for note in channel.ingest.health] == ["connecting", "connected"]

    connected(desk, body)


def test_pings_are_answered_with_what_they_bring(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        answer = await server.until_acknowledged(server.frame("SYSTEM", "ping", {"opaque": "0d7e"}))
        assert (answer["code"], json.loads(answer["data"])) == (200, {"opaque": "0d7e"})

    connected(desk, body)


# -- events ---------------------------------------------------------------------------------------


def test_an_event_is_acknowledged_once_it_is_durable_and_runs_once(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.held = asyncio.Event()
        server.files = {"pdf": b"%PDF"}
        channel.ingest.refusals = [StorageError("the disk is full")]
        message = server.message(msgtype="file", content={"downloadCode": "pdf", "fileName": "a.pdf"})
        first = server.frame("CALLBACK", MESSAGES, message)
        await server.until_true(lambda: server.downloading)
        again = server.frame("CALLBACK", MESSAGES, message)  # DingTalk has waited for too long
        server.held.set()
        await channel.until(lambda: not channel.ingest.refusals)
        assert server.acknowledged == {}
        for frame_id in (first, again, server.frame("CALLBACK", MESSAGES, message)):
            await server.until_acknowledged(frame_id)
        assert [event.event_type for event in channel.ingest.events] == ["message.received"]
        assert server.downloading == 1

    connected(desk, body)


def test_what_one_chat_says_stays_in_order_while_a_file_is_fetched(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.held = asyncio.Event()
        server.files = {"pdf": b"%PDF"}
        server.say(group=True, msgtype="file", content={"downloadCode": "pdf", "fileName": "a.pdf"})
        server.say("second", group=True)
        await server.until_true(lambda: server.downloading)
        server.say("of another chat")
        assert (await channel.event()).text == "of another chat"
        server.held.set()
        one, two = await channel.events(2)
        assert ([ref.name for ref in one.attachments], two.text) == (["a.pdf"], "second")

    connected(desk, body)


def test_a_file_that_breaks_off_is_fetched_again(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.files, server.broken_files = {"pdf": b"%PDF" * 1000}, [0]
        server.say(msgtype="file", content={"downloadCode": "pdf", "fileName": "a.pdf"})
        event = await channel.event()
        assert channel.ingest.files[event.attachments[0].artifact_id] == b"%PDF" * 1000

    connected(desk, body)


UNREADABLE: list[tuple[str, Any]] = [
    (MESSAGES, {"msgtype": "text", "msgId": "msg1"}),
    (MESSAGES, {"msgtype": "\ud800", "text": {"content": "\ud800"}, "senderNick": "\udfff\0"}),
    (MESSAGES, {"msgtype": "text", "text": {"content": "x"}, "hostingContext": 7}),
    (MESSAGES, {"atUsers": 7}),
    (MESSAGES, {"msgtype": "text", "text": {"content": "x"}, "sessionWebhookExpiredTime": "soon"}),
    (MESSAGES, "{"),
    (MESSAGES, "[1]"),
    (MESSAGES, {}),
    (CARDS, {"content": "{", "extension": "{", "userId": 7, "outTrackId": []}),
    (CARDS, {"content": {"cardPrivateData": {"actionIds": {"a": 1}, "params": [1]}}}),
]


def test_what_cannot_be_read_comes_as_it_is_and_is_acknowledged(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        for topic, data in UNREADABLE:
            frame_id = server.frame("CALLBACK", topic, data)
            assert (await channel.event()).event_type.startswith("platform.")
            await server.until_acknowledged(frame_id)

    connected(desk, body)


def test_hostile_frames_hold_nothing_up(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        frames = [
            "{",
            "[]",
            "7",
            json.dumps({"type": "CALLBACK", "headers": 7}),
            json.dumps({"type": "CALLBACK", "headers": {"topic": MESSAGES}, "data": 7}),
            json.dumps({"type": "SYSTEM", "headers": {"time": "x", "messageId": "s"}}),
            json.dumps({"type": "NEW", "headers": {"messageId": "n"}}),
            json.dumps({"type": "CALLBACK", "headers": {"topic": "/other", "messageId": "o"}, "data": "{}"}),
            json.dumps({"type": "EVENT", "headers": {"messageId": "e", "time": "x"}, "data": "{}"}),
            "[" * 100_000,
            *(
                json.dumps({"type": "CALLBACK", "headers": {"topic": MESSAGES, "messageId": str(depth)}})[:-1]
                + ', "data": '
                + json.dumps('{"msgtype": "new", "deep": ' + "[" * depth + "]" * depth + "}")
                + "}"
                for depth in (50, 50_000)
            ),
        ]
        for frame in frames:
            server.raw(frame)
        server.say("still here")
        events = await channel.events(4)
        kinds = sorted(event.event_type for event in events)
        assert kinds == ["message.received", "platform.message", *["platform.unreadable"] * 2]
        await server.until_acknowledged("e")
        assert server.opened == 1

    connected(desk, body)


def test_an_event_that_the_host_refuses_comes_bare(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        channel.ingest.refusals = [InvalidArgumentError("too deep")]
        frame_id = server.press("hostler-x", "v:1", spaceType="IM_GROUP", spaceId=GROUP)
        event = await channel.event()
        assert event.data == {"value": "v:1", "left_out": "too deep"}
        await server.until_acknowledged(frame_id)
        channel.ingest.refusals = [InvalidArgumentError("no"), InvalidArgumentError("never")]
        await server.until_acknowledged(server.say("lost"))  # the log has its id
        assert channel.ingest.events == []

    connected(desk, body)


# -- processes that are killed --------------------------------------------------------------------


def test_a_process_that_is_killed_before_an_event_is_durable_gets_it_again(desk: ChannelDesk) -> None:
    async def body() -> None:
        async with serving() as server:
            server.held = asyncio.Event()
            server.files = {"pdf": b"%PDF"}
            message = server.message(msgtype="file", content={"downloadCode": "pdf", "fileName": "a.pdf"})
            desk.channel = "dingtalk"
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                first = server.frame("CALLBACK", MESSAGES, message)
                await server.until_true(lambda: server.downloading)
                channel.plugin.signal(signal.SIGKILL)
                await channel.plugin.exit_status()
            await server.until_links(0)
            assert first not in server.acknowledged
            server.held.set()
            again = server.frame("CALLBACK", MESSAGES, message)
            async with desk.opened(config_of(server)) as channel:
                event = await channel.event()
                assert [one.name for one in event.attachments] == ["a.pdf"]
                await server.until_acknowledged(again)

    desk.run(body)


def test_what_was_kept_is_known_to_the_next_process(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.press("hostler-1", "v:1")
        event = await channel.event()
        assert event.chat is not None
        assert event.chat.chat_id == GROUP
        server.say("yes", group=True, originalProcessQueryKey="carrier-1")
        assert (await channel.event()).reply_to == "hostler-1"
        await channel.act("message.react", {"chat_id": f"user:{ADA}", "message_id": "m"}, emoji="👍")

    state = {"cards": {"hostler-1": [GROUP, "carrier-1"]}, "conversations": {f"user:{ADA}": "cidX=="}}
    connected(desk, body, state=state)


@pytest.mark.parametrize(
    "state", [7, {"cards": 7, "conversations": {"a": 7}}, {"cards": {"x": [1, 2], "y": []}}]
)
def test_a_state_that_is_none_of_it_is_passed_over(desk: ChannelDesk, state: Any) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.say("hi")
        await channel.event()
        assert channel.state == {"cards": {}, "conversations": {f"user:{ADA}": "cidPrivate=="}} or (
            channel.state["cards"] == {}
        )

    connected(desk, body, state=state)


def test_it_passes_the_checks_that_authors_run() -> None:
    async def body() -> None:
        results = await check_folder(FOLDER, environment())
        assert [result for result in results if not result.ok] == []
        assert [result.name for result in results if result.left_out and "channel" in result.name] == []

    within(200, body)
