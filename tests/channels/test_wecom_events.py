"""What members of WeCom do, as events: messages of each kind, files, presses, and what else happens."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hostler_wecom.envelopes import Envelopes

from hostler_protocol.errors import InvalidArgumentError
from support.channel_desk import ChannelDesk, OpenChannel
from support.wecom_desk import come, connected, desk
from support.wecom_envelopes import AES_KEY, CORP, TOKEN, event, message, seal
from support.wecom_server import WecomServer, refused

__all__ = ["desk"]

JPEG = b"\xff\xd8\xff image"


@pytest.mark.parametrize(
    ("said", "event_type", "text", "data"),
    [
        (message(Content="hello 漢 <b>]]>"), "message.received", "hello 漢 <b>]]>", {}),
        (
            message("location", Location_X="23.134", Location_Y="113.358", Scale="20", Label="广州"),
            "message.received",
            "广州 (23.134, 113.358)",
            {},
        ),
        (
            message("link", Title="T", Description="D", Url="https://e.org", PicUrl="https://p"),
            "message.received",
            "T\nD\nhttps://e.org",
            {},
        ),
        (message("sticker", Emoji="1"), "platform.sticker", None, {}),
        (message(Content=""), "platform.text", None, {}),
        (event("subscribe", EventKey=""), "friend.added", None, {}),
        (event("unsubscribe", EventKey=""), "platform.unsubscribe", None, {}),
        (event("enter_agent", EventKey=""), "platform.enter_agent", None, {}),
        (event("LOCATION", Latitude="23.1", Longitude="113.3"), "platform.location", None, {}),
        (event("view", EventKey="https://e.org"), "platform.view", None, {}),
        (event("click", EventKey="help"), "interaction.submitted", None, {"value": "help"}),
        (
            event("template_card_menu_event", EventKey="mute", TaskId="t", ResponseCode="c"),
            "interaction.submitted",
            None,
            {"value": "mute"},
        ),
        (event("a New-event!"), "platform.a_new_event", None, {}),
        (event("漢"), "platform.unknown", None, {}),
    ],
)
def test_what_members_do_comes_as_events(
    desk: ChannelDesk, said: str, event_type: str, text: str | None, data: dict[str, Any]
) -> None:
    async def body(channel: OpenChannel, _: WecomServer) -> None:
        assert await come(channel, said) == 200
        found = await channel.event()
        assert (found.event_type, found.text) == (event_type, text)
        assert found.chat is not None
        assert found.person is not None
        assert (found.chat.chat_id, found.chat.kind) == ("ada", "private")
        assert (found.person.person_id, found.person.name) == ("ada", "Ada 李")
        assert found.addressed == (["private"] if event_type == "message.received" else [])
        assert {name: found.data[name] for name in data} == data
        assert found.event_time is not None
        assert "ResponseCode" not in found.data["wecom"]

    connected(desk, body)


def test_what_the_company_says_is_of_nobody(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        said = event("change_contact", "sys", ChangeType="create_user", UserID="eve")
        assert await come(channel, said) == 200
        found = await channel.event()
        assert (found.event_type, found.person, found.chat) == ("platform.change_contact", None, None)
        assert found.data["wecom"]["ChangeType"] == "create_user"
        assert server.called("user/get") == []

    connected(desk, body)


def test_odd_messages_come_all_the_same(desk: ChannelDesk) -> None:
    odd = [
        "<xml><A>1</A></xml>",
        "<xml><MsgType>text</MsgType></xml>",
        "<xml><MsgType><B>x</B></MsgType><FromUserName><C>y</C></FromUserName><MsgId>-7</MsgId></xml>",
        "<xml><MsgType>event</MsgType><Event>click</Event><CreateTime>never</CreateTime></xml>",
        f"<xml><MsgType>text</MsgType><FromUserName>{'a' * 999}</FromUserName><Content>x</Content></xml>",
        "<xml><MsgType>image</MsgType><FromUserName>ada</FromUserName><MediaId>no</MediaId></xml>",
        "<xml><MsgType>voice</MsgType><MediaId>no</MediaId><Format>../x</Format></xml>",
    ]

    async def body(channel: OpenChannel, _: WecomServer) -> None:
        for said in [*odd, message(Content="and on")]:
            assert await come(channel, said) == 200
        assert "and on" in [one.text for one in await channel.events(len(odd) + 1)]

    connected(desk, body)


# -- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "media", "name", "mime_type"),
    [
        (
            message("image", PicUrl="http://p", MediaId="m"),
            (JPEG, "image/png", "m.png"),
            "image.jpg",
            "image/png",
        ),
        (
            message("voice", MediaId="m", Format="amr"),
            (b"#!AMR", "audio/amr", "v.amr"),
            "voice.amr",
            "audio/amr",
        ),
        (
            message("video", MediaId="m", ThumbMediaId="t"),
            (b"video" * 200_000, "application/octet-stream", "v"),
            "video.mp4",
            "video/mp4",
        ),
        (message("file", MediaId="m"), (b"%PDF", "application/pdf", "a b.pdf"), "a b.pdf", "application/pdf"),
    ],
)
def test_files_come_with_their_message(
    desk: ChannelDesk, said: str, media: tuple[bytes, str, str], name: str, mime_type: str
) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        server.media["m"] = media
        assert await come(channel, said) == 200
        found = await channel.event()
        (file,) = found.attachments
        assert found.event_type == "message.received"
        assert (file.name, file.mime_type, file.size_bytes) == (name, mime_type, len(media[0]))
        assert channel.ingest.files[file.artifact_id] == media[0]
        assert "missing_files" not in found.data
        assert "PicUrl" not in found.data["wecom"]
        assert channel.state["pending"] == {}

    connected(desk, body)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (["cut", "cut"], None),
        ([503], None),
        ([refused(42001), refused(42001)], None),
        ([refused(40007, "invalid media_id")] * 2, "40007"),
        ([404, 404], "404"),
        ([refused(-1, "busy")] * 4, "busy"),
    ],
)
def test_a_file_that_does_not_come_is_tried_again_or_named(
    desk: ChannelDesk, broken: list[Any], why: str | None
) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        server.media["m"] = (JPEG, "image/jpeg", "m.jpg")
        server.broken_media = list(broken)
        assert await come(channel, message("image", MediaId="m", PicUrl="http://p")) == 200
        found = await channel.event()
        assert len(found.attachments) == (1 if why is None else 0)
        if why is not None:
            (missing,) = found.data["missing_files"]
            assert why in missing["reason"]
            assert "token" not in missing["reason"]

    connected(desk, body)


def test_a_file_that_is_too_large_is_not_fetched(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        server.media["m"] = (bytes(2**20 + 1), "video/mp4", "m.mp4")
        assert await come(channel, message("video", MediaId="m")) == 200
        (missing,) = (await channel.event()).data["missing_files"]
        assert "over 1 MiB" in missing["reason"]

    connected(desk, body, max_file_mib=1)


def test_nothing_is_fetched_of_who_is_not_let_in(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        channel.ingest.unwanted = {"ada"}
        server.media["m"] = (JPEG, "image/jpeg", "m.jpg")
        assert await come(channel, message("image", MediaId="m", PicUrl="http://p")) == 200
        assert (await channel.event()).attachments == []
        assert server.called("media/get") == []

    connected(desk, body)


def test_wecom_need_not_wait_for_a_file(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        server.held_media = asyncio.Event()
        server.media["m"] = (JPEG, "image/jpeg", "m.jpg")
        said = message("image", MediaId="m", PicUrl="http://p")
        assert await come(channel, said) == 200
        (kept,) = channel.state["pending"].values()
        assert b"MediaId" in Envelopes(TOKEN, AES_KEY, CORP).unseal(kept), "in WeCom's ciphertext"
        assert await come(channel, said) == 200
        assert channel.ingest.events == []
        server.held_media.set()
        assert len((await channel.event()).attachments) == 1
        assert channel.state["pending"] == {}
        assert channel.ingest.duplicates == []

    connected(desk, body)


def test_what_was_kept_is_delivered_at_the_next_opening(desk: ChannelDesk) -> None:
    kept = seal(message("image", MediaId="m").encode())
    other = seal(message("image", MediaId="m").encode(), key="A" * 43)

    async def body(channel: OpenChannel, _: WecomServer) -> None:
        unread, found = sorted(await channel.events(2), key=lambda one: len(one.attachments))
        assert (unread.event_type, "another key" in unread.data["unreadable"]) == (
            "platform.unreadable",
            True,
        )
        assert len(found.attachments) == 1
        assert channel.state == {"pending": {}, "uploads": {}}

    def prepared(server: WecomServer) -> None:
        server.media["m"] = (JPEG, "image/jpeg", "m.jpg")

    state = {"pending": {"a": kept, "b": other}, "uploads": {"k": 7}}
    connected(desk, body, prepare=prepared, state=state)


@pytest.mark.parametrize("state", [7, [], {"pending": [], "uploads": []}, {"pending": {"a": 1}}])
def test_a_state_of_another_form_stops_nothing(desk: ChannelDesk, state: Any) -> None:
    async def body(channel: OpenChannel, _: WecomServer) -> None:
        assert await come(channel, message(Content="x")) == 200
        assert (await channel.event()).text == "x"

    connected(desk, body, state=state)


def test_more_files_than_can_be_kept_are_waited_for(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        server.held_media = asyncio.Event()
        server.media["m"] = (JPEG, "image/jpeg", "m.jpg")
        large = message("image", MediaId="m", PicUrl="http://p/" + "x" * 24_000)
        assert await come(channel, large) == 200
        second = asyncio.ensure_future(come(channel, message("image", MediaId="m", PicUrl="y" * 24_000)))
        third = message("image", "bob", MediaId="m", PicUrl="z")
        assert await come(channel, third) == 200, "there is room for it"
        assert not second.done()
        server.held_media.set()
        assert await second == 200
        await channel.events(3)
        assert channel.state["pending"] == {}

    connected(desk, body)


def test_a_file_that_the_host_refuses_is_named(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        server.media["m"] = (JPEG, "image/jpeg", "m.jpg")
        channel.ingest.refusals = [InvalidArgumentError("no such file")]
        assert await come(channel, message("image", MediaId="m", PicUrl="http://p")) == 200
        found = await channel.event()
        assert (found.attachments, found.data) == ([], {"left_out": "no such file"})
        assert channel.state["pending"] == {}

    connected(desk, body)
