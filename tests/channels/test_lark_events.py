"""Lark: every kind of message and event, its files, and what is no event of Lark."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from hostler_protocol.errors import InvalidArgumentError
from support.channel_desk import ChannelDesk, OpenChannel
from support.lark_desk import connected, desk, send
from support.lark_events import event, ids, message_id_of, pressed, said
from support.lark_frames import CONTROL, DATA, WireFrame
from support.lark_methods import ADA, BEN, DM, GROUP, Refused
from support.lark_server import LarkServer

__all__ = ["desk"]

POST = {
    "title": "News",
    "content": [
        [{"tag": "text", "text": "Hello "}, {"tag": "at", "user_id": "@_user_1", "user_name": "Ben"}],
        [
            {"tag": "a", "text": "docs", "href": "https://a.example"},
            {"tag": "emotion", "emoji_type": "SMILE"},
        ],
        [{"tag": "img", "image_key": "img_1"}],
        [{"tag": "code_block", "language": "PYTHON", "text": "print(1)\n"}],
        [{"tag": "hr"}],
        [{"tag": "media", "file_key": "file_1", "image_key": "img_2"}],
        ["hostile", 7, None, {"tag": {}}],
    ],
}
CARD = {
    "title": "A card",
    "elements": [
        [
            {"tag": "text", "text": "of somebody"},
            {"tag": "button", "text": {"tag": "plain_text", "content": "OK"}},
        ],
        [{"tag": "note", "elements": [{"tag": "text", "text": "small"}]}],
    ],
}


@pytest.mark.parametrize(
    ("kind", "content", "text"),
    [
        ("post", POST, "News\nHello @Ben\ndocs (https://a.example):SMILE:\n\n```python\nprint(1)\n```\n———"),
        ("interactive", CARD, "A card\nof somebodyOK\nsmall"),
        ("location", {"name": "Office", "longitude": "1.5", "latitude": "2.5"}, "Office (2.5, 1.5)"),
        ("vote", {"topic": "Lunch?", "options": ["A", "B"]}, "Lunch?"),
        ("todo", {"summary": {"title": "Do", "content": [[{"tag": "text", "text": "it"}]]}}, "Do\nit"),
        ("share_user", {"user_id": "ou_x"}, None),
        ("hongbao", {"text": "[hongbao]"}, "[hongbao]"),
        ("text", {"text": ["no text"]}, "['no text']"),
    ],
)  # fmt: skip
def test_what_people_send_is_read_as_they_read_it(
    desk: ChannelDesk, kind: str, content: dict[str, Any], text: str | None
) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        server.files |= {"img_1": (b"png", "image/png"), "file_1": (b"mp4", "video/mp4")}
        server.push(said(server, content, kind=kind))
        found = await channel.event()
        assert (found.event_type, found.text) == ("message.received", text)
        assert found.data["message_type"] == kind
        if kind == "post":
            assert [one.name for one in found.attachments] == ["image.png", "video.mp4"]

    connected(desk, body)


def test_files_voice_and_images_are_fetched_with_their_types(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        sent: list[tuple[str, dict[str, Any], bytes, str, Any]] = [
            ("image", {"image_key": "img_1"}, b"\xff\xd8", "image/jpeg", ("image.jpg", "image/jpeg")),
            ("file", {"file_key": "f", "file_name": "a.txt"}, b"x" * 9, "text/plain", ("a.txt", None)),
            ("audio", {"file_key": "v", "duration": 2000}, b"opus", "audio/ogg", ("voice.ogg", "audio/ogg")),
        ]
        for kind, content, given, mime_type, told in sent:
            server.files[str(next(iter(content.values())))] = (given, mime_type)
            server.push(said(server, content, kind=kind))
            found = await channel.event()
            (attachment,) = found.attachments
            assert (attachment.name, attachment.mime_type) == told
            assert channel.ingest.files[attachment.artifact_id] == given
            assert found.text is None

    connected(desk, body)


def test_what_cannot_be_had_is_named_and_of_strangers_nothing_is_fetched(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        server.files = {"big": (b"x" * (1024 * 1024 + 1), "image/png"), "f": (b"whole" * 100, "text/plain")}
        server.broken_files["f"] = ["cut", Refused(99991400, "limit", status=429)]
        for kind, content, reason in (
            ("file", {"file_key": "big", "file_name": "b"}, "over 1 MiB"),
            ("file", {"file_key": "gone", "file_name": "g"}, "File not in msg"),
            ("sticker", {"file_key": "s"}, "does not give a sticker"),
        ):
            server.push(said(server, content, kind=kind))
            found = await channel.event()
            assert found.attachments == []
            assert reason in found.data["missing_files"][0]["reason"]
        server.push(said(server, {"file_key": "f", "file_name": "f"}, kind="file"))
        (attachment,) = (await channel.event()).attachments
        assert attachment.size_bytes == 500
        fetched = server.downloading
        stranger = said(server, {"image_key": "img_1"}, kind="image")
        channel.ingest.unwanted.add(ADA)
        server.push(stranger)
        assert (await channel.event()).attachments == []
        assert server.downloading == fetched

    connected(desk, body, max_file_mib=1)


def test_a_token_that_expired_is_replaced_for_calls_and_files(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        server.token = "t-2"
        await send(channel, "x")
        assert server.texts() == ["x"]
        assert len(server.called("token")) == 2
        server.token = "t-3"
        server.files["f"] = (b"1", "text/plain")
        server.push(said(server, {"file_key": "f", "file_name": "f"}, kind="file"))
        assert len((await channel.event()).attachments) == 1
        assert len(server.called("token")) == 3

    connected(desk, body)


def test_reactions_name_chat_and_topic_of_their_message(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        root = message_id_of(said(server, "a topic", GROUP, thread_id="omt_1"))
        told = {
            "message_id": root,
            "reaction_type": {"emoji_type": "THUMBSUP"},
            "operator_type": "user",
            "user_id": ids(BEN),
            "action_time": "1663054162546",
        }
        for kind, name in (("created", "added"), ("deleted", "removed")):
            server.push(event(server, f"im.message.reaction.{kind}_v1", told))
            found = await channel.event()
            assert found.event_type == f"message.reaction_{name}"
            assert (found.data["emoji"], found.message_id) == ("THUMBSUP", root)
            assert found.event_time == 1663054162.546
            assert found.chat is not None
            assert (found.chat.chat_id, found.chat.thread_id, found.chat.kind) == (GROUP, root, "group")
            assert found.person is not None
            assert found.person.name == "Ben"

    connected(desk, body)


MEMBERS: dict[str, Any] = {
    "chat_id": GROUP,
    "operator_id": ids(ADA),
    "external": False,
    "users": [{"name": "Ben", "user_id": ids(BEN)}, {"name": "Cat", "user_id": ids("ou_cat")}],
}


@pytest.mark.parametrize(
    ("kind", "told", "expected"),
    [
        ("im.message.recalled_v1", {"message_id": "om_9", "chat_id": DM, "recall_type": "message_owner"},
         [("message.recalled", DM, None, "om_9")]),
        ("im.chat.member.user.added_v1", MEMBERS,
         [("group.member_joined", GROUP, BEN, None), ("group.member_joined", GROUP, "ou_cat", None)]),
        ("im.chat.member.user.deleted_v1", {**MEMBERS, "users": MEMBERS["users"][:1]},
         [("group.member_left", GROUP, BEN, None)]),
        ("im.chat.member.bot.added_v1", {"chat_id": GROUP, "operator_id": ids(ADA)},
         [("group.bot_invited", GROUP, ADA, None)]),
        ("im.chat.member.bot.deleted_v1", {"chat_id": GROUP, "operator_id": ids(ADA)},
         [("group.bot_removed", GROUP, ADA, None)]),
        ("im.chat.disbanded_v1", {"chat_id": GROUP, "operator_id": ids(ADA)},
         [("platform.im_chat_disbanded_v1", GROUP, ADA, None)]),
        ("im.message.message_read_v1", {"reader": {"reader_id": ids(BEN)}, "message_id_list": ["om_1"]},
         [("platform.im_message_message_read_v1", None, BEN, None)]),
        ("application.bot.menu_v6", {"operator": {"operator_name": "Ada", "operator_id": ids(ADA)},
                                     "event_key": "help", "timestamp": 1669364458},
         [("command.invoked", ADA, ADA, None)]),
        ("contact.user.created_v3", {"object": {"open_id": "ou_x"}},
         [("platform.contact_user_created_v3", None, None, None)]),
        ("im.chat.member.user.added_v1", {"chat_id": 7, "users": [None, {"user_id": {}}]},
         [("platform.im_chat_member_user_added_v1", None, None, None)]),
    ],
)  # fmt: skip
def test_what_happens_has_its_type(
    desk: ChannelDesk, kind: str, told: dict[str, Any], expected: list[tuple[Any, ...]]
) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        payload = event(server, kind, told)
        assert (await server.acknowledgement(server.push(payload)))["code"] == 200
        found = await channel.events(len(expected))
        got = [
            (
                one.event_type,
                one.chat and one.chat.chat_id,
                one.person and one.person.person_id,
                one.message_id,
            )
            for one in found
        ]
        assert got == expected
        assert len({one.event_id for one in found}) == len(found)
        assert found[0].event_id == payload["header"]["event_id"]
        assert found[0].source_event_type == kind
        server.push(payload)  # redelivered
        await channel.until(lambda: len(channel.ingest.duplicates) == len(expected))

    connected(desk, body)


def test_a_renamed_chat_is_looked_up_again_and_a_system_message_is_none_of_somebody(
    desk: ChannelDesk,
) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        server.push(said(server, "hi", GROUP))
        await channel.event()
        server.chats[GROUP]["name"] = "Renamed"
        server.push(event(server, "im.chat.updated_v1", {"chat_id": GROUP, "operator_id": ids(ADA)}))
        found = await channel.event()
        assert found.chat is not None
        assert found.chat.title == "Renamed"
        system = said(server, {"template": "{from_user} joined"}, GROUP, kind="system")
        server.push(system)
        assert (await channel.event()).event_type == "platform.im_message_receive_v1"

    connected(desk, body)


def test_events_of_version_1_come_too(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        old = {
            "uuid": "f0e1d2",
            "token": "t",
            "ts": "1502199207.7171419",
            "type": "event_callback",
            "event": {"type": "leave_approval", "open_id": ADA},
        }
        server.push(old)
        found = await channel.event()
        assert (found.event_type, found.event_id) == ("platform.leave_approval", "f0e1d2")
        assert found.event_time == 1502199207.7171419

    connected(desk, body)


def test_an_event_in_several_frames_is_put_together(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        frame = server.push(said(server, "long 漢 " * 1_000), parts=5)
        assert (await channel.event()).text == ("long 漢 " * 1_000)
        assert (await server.acknowledgement(frame))["code"] == 200

    connected(desk, body)


def _frame(payload: bytes = b"{}", method: int = DATA, **headers: str) -> WireFrame:
    return WireFrame(method, {"type": "event", "message_id": "m", **headers}, payload)


HOSTILE: list[Any] = [
    b"",
    b"\xff\xff\xff",
    b"\x0a\xff\xff\xff\xff\x0f",
    "a text",
    _frame(method=5),
    _frame(type="other"),
    _frame(type="pong", method=CONTROL, payload=b"{"),
    _frame(type="pong", method=CONTROL, payload=b'{"PingInterval": -1, "ReconnectNonce": "x"}'),
    _frame(sum="x"),
    _frame(sum="2", seq="7"),
    _frame(sum="2", seq="-1"),
    _frame(sum="999999999", seq="0"),
    _frame(b"no json"),
    _frame(b"[]"),
    _frame(b"[" * 100_000),
    _frame(b"{}"),
    _frame(b'{"header": 7, "event": []}'),
    _frame(b'{"schema": "2.0", "header": {"event_type": "im.message.receive_v1"}, "event": {"message": 5}}'),
]


def test_what_is_no_event_holds_nothing_up(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        for hostile in HOSTILE:
            server.frames(hostile)
            after = said(server, "after it")
            assert (await server.acknowledgement(server.push(after)))["code"] == 200
            await channel.until(lambda: any(one.text == "after it" for one in channel.ingest.events))
            kinds = [one.event_type for one in channel.ingest.events if one.text is None]
            assert kinds in ([], ["platform.event"], ["platform.im_message_receive_v1"]), hostile
            channel.ingest.events.clear()
        assert server.opened == 1

    connected(desk, body)


ODD: list[dict[str, Any]] = [
    {"content": r'{"text": "half \ud83d of a character"}'},
    {"odd": [10**30, float("nan"), "\ud83d"]},
    {"deep": json.loads("[" * 400 + "]" * 400)},
    {"content": "{"},
    {"content": "[" * 5_000},
    {"content": 7},
    {"mentions": [1, {"key": 5}, {"key": "@_user_1", "id": "x", "name": 9}]},
    {"mentions": {"key": "no list"}},
    {"create_time": "soon"},
    {"create_time": "9" * 400},
    {"chat_id": "x" * 2_000},
    {"message_type": None},
    {"parent_id": {"an": "object"}, "thread_id": [], "root_id": 5},
]


def test_a_message_that_is_odd_comes_all_the_same(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        for change in ODD:
            payload = said(server, "@_user_1 hi", GROUP)
            payload["event"]["message"] |= change
            assert (await server.acknowledgement(server.push(payload)))["code"] == 200
            assert (await channel.event()).event_type == "message.received", change

    connected(desk, body)


def test_events_of_one_chat_come_in_order_and_those_of_others_do_not_wait(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        server.held, server.files["f"] = asyncio.Event(), (b"1", "text/plain")
        first = server.push(said(server, {"file_key": "f", "file_name": "f"}, kind="file"))
        await server.until_true(lambda: server.downloading)
        second = server.push(said(server, "second"))
        other = server.push(said(server, "other", GROUP))
        press = server.push(pressed(server, {"hostler": "v"}, "om_1"))
        await server.acknowledgement(other)
        await server.acknowledgement(press)  # Lark waits three seconds for it
        assert {first, second} & set(server.acknowledged) == set()
        server.held.set()
        await server.acknowledgement(second)
        texts = [one.text for one in channel.ingest.events if one.chat and one.chat.chat_id == DM]
        assert [one for one in texts if one != "other"][-2:] == [None, "second"]

    connected(desk, body)


def test_what_the_host_refuses_is_delivered_bare_and_acknowledged(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        channel.ingest.refusals = [InvalidArgumentError("too large")]
        frame = server.push(said(server, "kept"))
        assert (await server.acknowledgement(frame))["code"] == 200
        found = await channel.event()
        assert (found.text, found.data) == ("kept", {"left_out": "too large"})
        channel.ingest.refusals = [InvalidArgumentError("no"), InvalidArgumentError("never")]
        frame = server.push(said(server, "lost"))
        assert (await server.acknowledgement(frame))["code"] == 200
        assert channel.ingest.events == []

    connected(desk, body)


def test_people_whom_lark_does_not_show_have_no_name(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        server.answers["user.get"] = [Refused(99991672, "Access denied"), 500]
        server.answers["chat.get"] = ["held"]
        server.push(said(server, "hi", GROUP))
        found = await channel.event()
        assert found.person is not None
        assert found.chat is not None
        assert (found.person.name, found.chat.title) == (None, None)
        server.push(said(server, "hi", GROUP))
        found = await channel.event()
        assert found.chat is not None
        assert found.chat.title == "General"
        assert len(server.called("user.get")) == 1  # what is not allowed is not asked again

    connected(desk, body)
