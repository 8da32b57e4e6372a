"""Lark: files that are sent, and platform actions."""

from __future__ import annotations

import json
from typing import Any

from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import RemoteFaultError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.lark_desk import connected, desk, send
from support.lark_events import message_id_of, said
from support.lark_methods import ADA, BEN, DM, GROUP, LIMITED, OTHER, Refused
from support.lark_server import LarkServer

__all__ = ["desk"]

MIB = 1024 * 1024


def stored(channel: OpenChannel, content: bytes, name: str, mime_type: str | None) -> ArtifactRef:
    """A file that the host has."""
    channel.ingest.files[name] = content
    return ArtifactRef(artifact_id=name, name=name, mime_type=mime_type, size_bytes=len(content))


def test_files_are_sent_as_what_they_are_after_the_text(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        files = [
            stored(channel, b"\x89PNG", "a.png", "image/png"),
            stored(channel, b"text", "ä\r\n漢.txt", "text/plain"),
            stored(channel, b"Ogg", "v.ogg", "audio/ogg; codecs=opus"),
            stored(channel, b"mp4", "v.mp4", "video/mp4"),
            stored(channel, b"%PDF", "d.pdf", "application/pdf"),
            stored(channel, b"?", "none", None),
        ]
        sent = await send(channel, "see", attachments=files)
        found = server.sent()
        assert sent.message_id == found[0]["message_id"]
        assert [one["msg_type"] for one in found] == [
            "interactive", "image", "file", "audio", "media", "file", "file",
        ]  # fmt: skip
        keys = [next(iter(json.loads(one["body"]["content"]).values())) for one in found[1:]]
        assert [server.uploads[key] for key in keys] == [
            ("image", b"\x89PNG"),
            ("stream", b"text"),
            ("opus", b"Ogg"),
            ("mp4", b"mp4"),
            ("pdf", b"%PDF"),
            ("stream", b"?"),
        ]
        assert server.called("file.create")[0].body["file_name"] == "ä  漢.txt"

    connected(desk, body)


def test_an_image_that_lark_refuses_is_sent_as_a_file(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        server.answers["image.create"] = [Refused(234011, "Can't recognize the image format.")]
        await send(channel, "see", attachments=[stored(channel, b"no image", "a.png", "image/png")])
        assert [one["msg_type"] for one in server.sent()] == ["interactive", "file"]
        server.answers["image.create"] = [LIMITED()]
        file = stored(channel, b"\x89PNG", "b.png", "image/png")
        error = await refusal(send(channel, "see", key="2", attachments=[file]))
        assert error.details["retry_after"] == 7.0

    connected(desk, body)


def test_a_file_alone_has_its_own_id_and_a_large_image_is_a_file(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        sent = await send(channel, attachments=[stored(channel, b"x" * (10 * MIB + 1), "i", "image/png")])
        (message,) = server.sent()
        assert (message["msg_type"], message["message_id"]) == ("file", sent.message_id)

    connected(desk, body)


def test_what_lark_does_not_take_is_refused_before_anything_is_sent(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        small = stored(channel, b"x", "x", None)
        for attachments in (
            [stored(channel, b"", "empty", None)],
            [ArtifactRef(artifact_id="x", name="said to be large", size_bytes=30 * MIB + 1)],
            [ArtifactRef(artifact_id="x", name=str(n), size_bytes=26 * MIB) for n in range(4)],
            [small] * 11,
            [small, ArtifactRef(artifact_id="unknown")],
        ):
            assert (await refusal(send(channel, "t", attachments=attachments))).code != "rate_limited"
        assert (await refusal(send(channel, " "))).code == "invalid_argument"
        assert server.sent() == []
        assert server.uploads == {}

    connected(desk, body)


def test_a_rest_that_is_limited_is_waited_for_and_nothing_is_sent_twice(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        files = [stored(channel, b"1", "1", None), stored(channel, b"2", "2", None)]
        limited = Refused(
            230020, "This operation triggers the frequency limit.", headers={"retry-after": "0"}
        )
        server.answers["message.create"] = [None, limited, None]  # type: ignore[list-item]
        await send(channel, "see", attachments=files)
        assert [one["msg_type"] for one in server.sent()] == ["interactive", "file", "file"]
        server.answers["message.create"] = [None, *[limited] * 3]  # type: ignore[list-item]
        sent = await send(channel, "more", attachments=files, key="2")
        assert sent.in_doubt
        await send(channel, "more", attachments=files, key="2")
        assert [one["msg_type"] for one in server.sent()][3:] == ["interactive", "file", "file"]
        server.answers["message.create"] = [None, Refused(230017, "no owner")]  # type: ignore[list-item]
        error = await refusal(send(channel, "x", attachments=files, key="3"))
        assert (error.code, "a part of the message was sent" in error.message) == ("invalid_argument", True)

    connected(desk, body)


def test_an_upload_that_breaks_is_made_anew(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        file = stored(channel, b"1", "1", None)
        for broken in ("lost", "cut", 502):
            server.answers["file.create"] = [broken]
            assert isinstance(await refusal(send(channel, "t", attachments=[file])), RemoteFaultError)
            assert server.sent() == []
        await send(channel, "t", attachments=[file])
        assert len(server.sent()) == 2

    connected(desk, body)


# -- actions --------------------------------------------------------------------------------------


def test_actions_on_messages(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        theirs = message_id_of(said(server, "hi", GROUP))
        target = {"chat_id": GROUP, "message_id": theirs}
        for emoji in ("👍", "+1", "HEART"):
            await channel.act("message.react", target, emoji=emoji)
        server.reactions["theirs"] = (theirs, "HEART", ADA)
        await channel.act("message.unreact", target, emoji="❤️")
        assert [one[1:] for one in server.reactions.values()] == [
            ("THUMBSUP", server.app_id), ("THUMBSUP", server.app_id), ("HEART", ADA),
        ]  # fmt: skip
        await channel.act("message.unreact", target)
        assert list(server.reactions) == ["theirs"]
        await channel.act("message.pin", target)
        assert server.pinned == [theirs]
        mine = str((await send(channel, "mine", GROUP, key="m")).message_id)
        await channel.act("message.edit", {"chat_id": GROUP, "message_id": mine}, text="**new**")
        assert server.texts(GROUP) == ["**new**"]
        forward = {"chat_id": GROUP, "message_id": mine}
        once = await channel.act("message.forward", forward, to_chat_id=DM)
        again = await channel.act("message.forward", forward, to_chat_id=DM)
        assert once.result == again.result
        assert server.texts(DM) == ["**new**"]
        await channel.act("message.delete", {"chat_id": GROUP, "message_id": mine})
        assert server.messages[mine]["deleted"]

    connected(desk, body)


def test_history_is_read_in_pages_also_of_a_topic(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        root = message_id_of(said(server, "topic", GROUP, thread_id="omt_1"))
        said(server, "in it", GROUP, thread_id="omt_1", root_id=root)
        last = message_id_of(said(server, "outside", GROUP))
        page = (await channel.act("history.fetch", {"chat_id": GROUP}, limit=2)).result
        assert page["messages"][0]["message_id"] == last
        rest = (await channel.act("history.fetch", {"chat_id": GROUP}, cursor=page["next_cursor"])).result
        assert [one["message_id"] for one in rest["messages"]] == [root]
        assert rest["next_cursor"] is None
        topic = (await channel.act("history.fetch", {"chat_id": GROUP, "thread_id": root})).result
        assert [json.loads(one["body"]["content"])["text"] for one in topic["messages"]] == ["in it", "topic"]
        error = await refusal(channel.act("history.fetch", {"chat_id": GROUP, "thread_id": last}))
        assert "begins no topic" in error.message

    connected(desk, body)


def test_actions_on_groups_and_people(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        target = {"chat_id": GROUP}
        assert (await channel.act("group.info", target)).result["name"] == "General"
        await channel.act("group.rename", target, title="New")
        assert server.chats[GROUP]["name"] == "New"
        members = (await channel.act("member.list", target)).result
        assert [one["member_id"] for one in members["members"]] == [ADA, BEN]
        assert (await channel.act("member.info", {"person_id": BEN})).result["name"] == "Ben"
        await channel.act("member.kick", {"chat_id": GROUP, "person_id": BEN})
        await channel.act("group.leave", target)
        assert server.removed == [BEN, server.app_id]
        kick = channel.act("member.kick", {"chat_id": GROUP, "person_id": "ou_nobody"})
        assert "does not know" in (await refusal(kick)).message

    connected(desk, body)


def test_any_call_of_lark_can_be_made(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        listed = await channel.act(
            "platform.call",
            {},
            method=f"GET /open-apis/im/v1/chats/{GROUP}/members",
            params={"member_id_type": "open_id"},
        )
        assert listed.result["member_total"] == 2
        me = await channel.act("platform.call", {}, method="GET /open-apis/bot/v3/info")
        assert me.result["bot"]["app_name"] == "helper"
        body = {"receive_id": GROUP, "msg_type": "interactive", "content": "{}", "uuid": "u"}
        call = channel.act(
            "platform.call",
            {},
            method="POST /open-apis/im/v1/messages?receive_id_type=chat_id",
            params=body | {"content": CARD},
        )
        assert (await call).result["chat_id"] == GROUP

    connected(desk, body)


CARD = json.dumps({"schema": "2.0", "config": {"update_multi": True}, "body": {"elements": []}})


IMPOSSIBLE: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("message.react", {"message_id": "om_1"}, {"emoji": "🦄"}),
    ("message.react", {"message_id": "om_1"}, {}),
    ("message.react", {"message_id": "../x"}, {"emoji": "OK"}),
    ("message.delete", {"message_id": None}, {}),
    ("message.delete", {"message_id": 5}, {}),
    ("message.forward", {"message_id": "om_1"}, {"to_chat_id": "nowhere"}),
    ("group.info", {"chat_id": ADA}, {}),
    ("member.info", {"person_id": GROUP}, {}),
    ("member.list", {"chat_id": GROUP}, {"limit": 0}),
    ("platform.call", {}, {"method": "im.v1.messages"}),
    ("platform.call", {}, {"method": "GET https://elsewhere.example/open-apis/x"}),
    ("platform.call", {}, {"method": "GET /open-apis/../x"}),
    ("platform.call", {}, {"method": "GET /open-apis/x y"}),
    ("platform.call", {}, {"method": "POST /open-apis/auth/v3/tenant_access_token/internal"}),
    ("platform.call", {}, {"method": "GET /open-apis/im/v1/chats", "params": []}),
]


def test_what_cannot_be_is_refused_and_not_sent(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        before = len(server.calls)
        for action, target, payload in IMPOSSIBLE:
            error = await refusal(channel.act(action, target, **payload))
            assert error.code == "invalid_argument", (action, target, payload)
        assert len(server.calls) == before

    connected(desk, body)


def test_chats_that_are_none_are_dead_letters(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        for chat in ("7", "om_1", "oc_../x", OTHER, "oc_unknown"):
            assert (await refusal(send(channel, "x", chat))).code == "invalid_argument"
        thread = send(channel, "x", GROUP, at={"thread_id": "omt_1"})
        assert (await refusal(thread)).code == "invalid_argument"
        assert (
            await refusal(send(channel, "x", GROUP, at={"thread_id": "om_none"}))
        ).code == "invalid_argument"

    connected(desk, body)
