"""LINE: messages in, names, signatures, and what a channel needs to begin."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hostler_protocol.channels import ChannelEvent
from support.channel_desk import ChannelDesk, OpenChannel
from support.line_desk import config_of, connected, deliver, desk, serving
from support.line_server import ADA, BOT, CHANNEL_ID, EVE, GROUP, ROOM, LineServer, signed

__all__ = ["desk"]
IN_GROUP = {"type": "group", "groupId": GROUP, "userId": EVE}


async def received(channel: OpenChannel, server: LineServer, event: dict[str, Any]) -> ChannelEvent:
    """What a call of LINE with one event becomes."""
    assert await deliver(channel, server, event) == 200
    return await channel.event()


# -- what comes -----------------------------------------------------------------------------------


def test_a_private_message_is_stored_before_line_is_answered(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        said = server.message(text="hello 😀")
        event = await received(channel, server, said)
        assert event.event_type == "message.received"
        assert (event.event_id, event.message_id) == (said["webhookEventId"], said["message"]["id"])
        assert event.event_time == said["timestamp"] / 1000
        assert (event.text, event.addressed) == ("hello 😀", ["private"])
        assert event.chat is not None
        assert event.person is not None
        assert (event.chat.chat_id, event.chat.kind) == (ADA, "private")
        assert (event.person.person_id, event.person.name, event.person.is_bot) == (ADA, "Ada", False)
        assert event.data["line"]["message"]["text"] == "hello 😀"
        assert said["replyToken"] not in str(event.data)
        assert channel.health is not None
        assert channel.health.account is not None
        assert (channel.health.account.person_id, channel.health.account.name) == (BOT, "Helper")

    connected(desk, body)


def test_in_groups_people_mention_the_bot_and_quote_it(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        mentionees = [
            {"index": 0, "length": 4, "type": "all"},
            {"index": 5, "length": 7, "type": "user", "userId": BOT, "isSelf": True},
        ]
        mention = {"mentionees": mentionees}
        event = await received(
            channel, server, server.message(source=IN_GROUP, text="@All @Helper hi", mention=mention)
        )
        assert event.addressed == ["mention"]
        assert event.chat is not None
        assert (event.chat.chat_id, event.chat.kind, event.chat.title) == (GROUP, "group", "The crew")
        assert event.person is not None
        assert (event.person.person_id, event.person.name) == (EVE, "Eve")
        all_of_us = {"mentionees": mentionees[:1]}
        event = await received(
            channel, server, server.message(source=IN_GROUP, text="@All", mention=all_of_us)
        )
        assert event.addressed == []
        sent = await channel.send("an answer", GROUP)
        quoting = server.message(source=IN_GROUP, text="why?", quotedMessageId=sent.message_id)
        event = await received(channel, server, quoting)
        assert (event.reply_to, event.addressed) == (sent.message_id, ["reply"])
        again = server.message(source=IN_GROUP, text="this", quotedMessageId="12")
        assert (await received(channel, server, again)).addressed == []

    connected(desk, body)


def test_a_multi_person_chat_has_no_name_and_people_may_have_none(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        stranger = "U" + "9" * 32
        event = await received(
            channel, server, server.message(source={"type": "room", "roomId": ROOM, "userId": stranger})
        )
        assert event.chat is not None
        assert (event.chat.chat_id, event.chat.kind, event.chat.title) == (ROOM, "group", None)
        assert event.person is not None
        assert (event.person.person_id, event.person.name) == (stranger, None)
        event = await received(channel, server, server.message(source={"type": "room", "roomId": ROOM}))
        assert event.person is None  # who has not agreed to be known to bots
        assert len(server.called(f"/{stranger}")) == 1

    connected(desk, body)


def test_names_are_looked_up_once_and_events_do_without(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        server.answers[ADA] = [500]
        first = await received(channel, server, server.message(text="1"))
        second = await received(channel, server, server.message(text="2"))
        third = await received(channel, server, server.message(text="3"))
        assert [one.person and one.person.name for one in (first, second, third)] == [None, "Ada", "Ada"]
        assert len(server.called(f"/v2/bot/profile/{ADA}")) == 2

    connected(desk, body)


def test_places_and_stickers_are_readable(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        place: dict[str, Any] = {
            "title": "Home",
            "address": "1-3 Kioicho",
            "latitude": 35.67966,
            "longitude": 139.73669,
        }
        event = await received(channel, server, server.message("location", **place))
        assert event.text == "Home\n1-3 Kioicho\n35.67966, 139.73669"
        sticker: dict[str, Any] = {"packageId": "446", "stickerId": "1988", "stickerResourceType": "MESSAGE"}
        event = await received(channel, server, server.message("sticker", **sticker, text="Let's go"))
        assert event.text == "Let's go"
        event = await received(
            channel, server, server.message("sticker", **sticker, keywords=["hello", "wave", "hi", "x"])
        )
        assert event.text == "(hello, wave, hi)"
        assert (await received(channel, server, server.message("sticker", **sticker))).text is None

    connected(desk, body)


# -- signatures -----------------------------------------------------------------------------------


def test_what_line_did_not_sign_is_refused(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        right = server.webhook(server.message(text="hello"))
        other = signed({"destination": BOT, "events": []})
        wrong = [
            {**right, "headers": {}},
            {**right, "headers": {"x-line-signature": ""}},
            {**right, "headers": {"x-line-signature": "ü"}},
            {**right, "headers": {"x-line-signature": other["headers"]["x-line-signature"]}},
            {**right, "body_base64": other["body_base64"]},
            {**right, "body_base64": "no base64"},
            signed({"events": []}, "another secret"),
            signed(b"\xff\xfe"),
        ]
        assert [(await channel.request(**one)).status for one in wrong] == [401] * len(wrong)
        assert (await channel.request(**{**right, "method": "GET"})).status == 405
        assert channel.ingest.events == []
        assert (await channel.request(**right)).status == 200

    connected(desk, body)


def test_line_verifies_the_address_by_a_call_without_events(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        assert await deliver(channel, server) == 200
        for wrong in (b"", b"[]", b"{}", b'{"events": {}}', b"[" * 100_000):
            assert (await channel.request(**signed(wrong))).status == 400

    connected(desk, body)


def test_hostile_events_come_as_what_they_are_and_stop_nothing(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        strange: list[Any] = [
            None,
            7,
            {},
            {"type": "message", "webhookEventId": "a", "source": "x", "message": [1]},
            {
                "type": "message",
                "webhookEventId": "b",
                "source": {"type": "user", "userId": 7},
                "message": {},
            },
            {"type": ["x"], "webhookEventId": 5, "timestamp": "now", "mode": None},
            {"type": "follow", "source": {"type": "user", "userId": "U1/../../info?"}, "timestamp": True},
            {"type": "memberJoined", "webhookEventId": "c", "joined": {"members": [{"userId": None}, 5]}},
            {"type": "postback", "webhookEventId": "d", "postback": {"data": {"a": 1}}},
            {"type": "ünknown/../x", "webhookEventId": "e" * 600, "timestamp": 10**30},
            {"type": "message", "webhookEventId": "f", "message": {"type": "image", "id": "../../info"}},
            server.message(text="after all of it"),
        ]
        assert await deliver(channel, server, *strange) == 200
        events = channel.ingest.events
        kinds = [event.event_type for event in events]
        assert kinds.count("platform.unreadable") == 2
        assert "platform._nknown____x" in kinds
        assert [event.text for event in events if event.text] == ["after all of it"]
        (image,) = [event for event in events if event.event_id == "f"]
        assert image.data["missing_files"][0]["reason"] == "LINE gives no id of it"
        assert server.called("/info") == server.called("/v2/bot/info")

    connected(desk, body)


# -- opening --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"channel-secret": " "}, "`channel-secret` is needed"),
        ({"token": ""}, "`token` is needed"),
        ({"token": "ü\n"}, "`token` must be"),
        ({"base-url": "ftp://x"}, "`base-url` must"),
        ({"webhook-url": "http://x.example"}, "`webhook-url` must"),
        ({"max-file-mib": 101}, "`max-file-mib` must"),
        ({"token": "wrong"}, "does not know the access token"),
    ],
)
def test_settings_that_cannot_work_are_named(desk: ChannelDesk, settings: dict[str, Any], said: str) -> None:
    async def whole() -> None:
        async with serving() as server, desk.opened(config_of(server, **settings)) as channel:
            assert said in (await channel.until_health("failed")).reason

    desk.run(whole)


def test_line_is_told_the_address_of_the_channel(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        assert server.endpoint == {"endpoint": "https://bots.example.org/v1/x", "active": True}

    connected(desk, body, webhook_url="https://bots.example.org/v1/x")


def test_tokens_are_issued_and_a_refused_one_anew(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        assert server.token == "stateless.1"
        await deliver(channel, server, server.message("file", id="7", fileName="a.txt", fileSize=1))
        server.token = "of which the channel does not know"
        await asyncio.gather(*(channel.send("hello", ADA, key=str(n)) for n in range(3)))
        assert (server.issued, len(server.texts())) == (2, 3)
        channel.ingest.events.clear()
        server.token, server.files["8"] = "another one again", b"x"
        event = await received(channel, server, server.message("file", id="8", fileName="b.txt", fileSize=1))
        assert channel.ingest.files[event.attachments[0].artifact_id] == b"x"

    async def whole() -> None:
        async with serving() as server:
            config = config_of(server, **{"channel-id": CHANNEL_ID, "token": ""})
            async with desk.opened(config) as channel:
                await channel.until_health("connected")
                await body(channel, server)
            wrong = config_of(server, **{"channel-id": "1", "token": ""})
            async with desk.opened(wrong) as channel:
                assert "`channel-id`" in (await channel.until_health("failed")).reason

    desk.run(whole)
