"""DingTalk: messages in, and platform actions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hostler_protocol.errors import InvalidArgumentError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.dingtalk_calls import ADA, CLIENT_ID, GROUP
from support.dingtalk_desk import connected, desk, place
from support.dingtalk_server import BOT, DingTalkServer

__all__ = ["desk"]


PRIVATE = f"user:{ADA}"


# -- in -------------------------------------------------------------------------------------------


def test_a_private_message_comes_in_with_who_and_where_and_is_acknowledged(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        assert channel.health is not None
        assert channel.health.account is not None
        assert (channel.health.account.person_id, channel.health.account.is_bot) == (CLIENT_ID, True)
        frame_id = server.say(" hello 漢字 👋 <b> ", msgId="msgA==")
        event = await channel.event()
        assert (event.event_type, event.source_event_type) == ("message.received", "text")
        assert (event.text, event.message_id) == ("hello 漢字 👋 <b>", "msgA==")
        assert (event.event_id, event.event_time) == ("message:msgA==", 1769851697.611)
        assert place(event) == ("private", PRIVATE)
        assert event.person is not None
        assert (event.person.person_id, event.person.name, event.person.is_bot) == (ADA, "Ada L.", False)
        assert event.addressed == ["private"]
        assert event.data["dingtalk"]["senderCorpId"] == "dingcorp"
        assert not [name for name in event.data["dingtalk"] if name.startswith("sessionWebhook")]
        answer = await server.until_acknowledged(frame_id)
        assert answer["code"] == 200
        assert json.loads(answer["data"]) == {"response": {}}

    connected(desk, body)


def test_a_mention_in_a_group_comes_in(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.say(" hi", group=True)
        event = await channel.event()
        assert place(event) == ("group", GROUP)
        assert event.chat is not None
        assert (event.chat.title, event.text, event.addressed) == ("Team", "hi", ["mention"])
        server.say("in passing", group=True, isInAtList=False)
        assert (await channel.event()).addressed == []
        server.say("of itself", group=True, senderId=BOT, senderStaffId=None)
        event = await channel.event()
        assert event.person is not None
        assert event.person.is_bot

    connected(desk, body)


def test_somebody_of_whom_the_id_is_not_told_comes_in_and_cannot_be_answered(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.say("hi", senderStaffId=None)
        event = await channel.event()
        assert place(event) == ("private", "unnamed:$:LWCP_v1:$ada")
        assert event.person is not None
        assert event.person.person_id == "$:LWCP_v1:$ada"
        assert "publish the app" in (await refusal(channel.send("hi", place(event)[1]))).message

    connected(desk, body)


def test_a_reply_names_the_message_as_it_was_sent(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        card = await channel.send("a card", GROUP, key="k1")
        carrier = server.card(card.message_id)["carrier"]
        quoted = {"msgType": "interactiveCard", "msgId": "msgX==", "senderId": BOT}
        text = {"content": "yes", "isReplyMsg": True, "repliedMsg": quoted}
        server.say(group=True, text=text, originalProcessQueryKey=carrier, originalMsgId="msgX==")
        event = await channel.event()
        assert (event.text, event.reply_to, event.addressed) == ("yes", card.message_id, ["mention", "reply"])
        server.say(group=True, text=text | {"repliedMsg": {"senderId": "other"}}, originalMsgId="msgY==")
        event = await channel.event()
        assert (event.reply_to, event.addressed) == ("msgY==", ["mention"])
        assert channel.state["cards"] == {card.message_id: [GROUP, carrier]}

    connected(desk, body)


def test_a_reply_to_an_ordinary_message_names_it(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        sent = await channel.send("a message", GROUP)
        server.say("yes", group=True, originalProcessQueryKey=sent.message_id)
        assert (await channel.event()).reply_to == sent.message_id

    connected(desk, body, cards=False)


@pytest.mark.parametrize(
    ("kind", "content", "text", "names", "types"),
    [
        ("picture", {"downloadCode": "png"}, "", ["picture"], ["image/png"]),
        (
            "audio",
            {"downloadCode": "amr", "duration": 4000, "recognition": "said this"},
            "said this",
            ["voice.amr"],
            ["audio/amr"],
        ),
        ("video", {"downloadCode": "mp4", "videoType": "mp4"}, "", ["video.mp4"], ["video/mp4"]),
        ("file", {"downloadCode": "pdf", "fileName": "a.pdf", "fileId": "1"}, "", ["a.pdf"], [None]),
        (
            "richText",
            {"richText": [{"text": "look"}, {"type": "picture", "downloadCode": "png"}, {"text": " here"}]},
            "look here",
            ["picture"],
            ["image/png"],
        ),
    ],
)
def test_files_and_voice_come_in_with_their_content(
    desk: ChannelDesk, kind: str, content: dict[str, Any], text: str, names: list[str], types: list[str]
) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.files = {"png": b"\x89PNG\r\n\x1a\n...", "amr": b"#!AMR", "mp4": b"mp4", "pdf": b"%PDF"}
        frame_id = server.say(msgtype=kind, content=content, text=None)
        event = await channel.event()
        await server.until_acknowledged(frame_id)
        assert (event.event_type, event.text) == ("message.received", text)
        assert [one.name for one in event.attachments] == names
        assert [one.mime_type for one in event.attachments] == types
        codes = [
            part["downloadCode"] for part in content.get("richText", [content]) if "downloadCode" in part
        ]
        stored = [channel.ingest.files[one.artifact_id] for one in event.attachments]
        assert stored == [server.files[code] for code in codes]

    connected(desk, body)


def test_a_file_that_cannot_be_had_is_named(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.files = {"large": b"x" * (1024**2 + 1)}
        content = {"richText": [{"text": "see"}, {"downloadCode": "gone"}, {"downloadCode": "large"}]}
        server.say(msgtype="richText", content=content, text=None)
        event = await channel.event()
        assert (event.text, event.attachments) == ("see", [])
        gone, large = event.data["missing_files"]
        assert "downloadCode无效" in gone["reason"]
        assert "1 MiB" in large["reason"]

    connected(desk, body, max_file_mib=1)


def test_of_somebody_who_is_not_let_in_nothing_is_fetched(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        channel.ingest.unwanted = {ADA}
        server.files = {"pdf": b"%PDF"}
        server.say(msgtype="file", content={"downloadCode": "pdf", "fileName": "a.pdf"})
        assert (await channel.event()).attachments == []
        assert server.downloading == 0

    connected(desk, body)


def test_members_of_a_group_and_what_has_no_common_type(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        told = {"openConversationId": GROUP, "userId": ["u1", "u2"], "operator": ADA, "title": "Team"}
        frame_id = server.event("chat_add_member", told)
        one, two = await channel.events(2)
        assert [one.event_type, two.event_type] == ["group.member_joined"] * 2
        assert [event.person.person_id for event in (one, two) if event.person] == ["u1", "u2"]
        assert (one.event_id, two.event_id) == ("event:e7ee3e9b:0", "event:e7ee3e9b:1")
        assert (place(one), one.data["by"]) == (("group", GROUP), ADA)
        answer = await server.until_acknowledged(frame_id)
        assert json.loads(answer["data"])["status"] == "SUCCESS"
        channel.ingest.events.clear()
        server.event("chat_quit", told | {"userId": ["u1"]}, "e2")
        assert (await channel.event()).event_type == "group.member_left"
        server.event("user_modify_org", {"userId": ["u1"], "optStaffId": "boss"}, "e3")
        event = await channel.event()
        assert (event.event_type, event.source_event_type) == ("platform.user_modify_org", "user_modify_org")
        assert (event.event_time, event.chat) == (1684467623.381, None)
        assert event.person is not None
        assert event.person.person_id == "boss"
        server.say(msgtype="chatRecord", content={"chatRecord": "[]"})
        event = await channel.event()
        assert (event.event_type, event.source_event_type) == ("platform.message", "chatRecord")

    connected(desk, body)


# -- actions --------------------------------------------------------------------------------------


def test_actions(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.say("hi", msgId="msgR==")
        await channel.event()
        where = {"chat_id": PRIVATE, "message_id": "msgR=="}
        await channel.act("message.react", where, emoji="👍")
        await channel.act("message.unreact", where, emoji="👍")
        assert [one["openConversationId"] for one in server.emotions] == ["cidPrivate=="] * 2
        assert [one["openMsgId"] for one in server.emotions] == ["msgR=="] * 2
        assert (
            "is not known"
            in (
                await refusal(channel.act("message.react", where | {"chat_id": "user:other"}, emoji="👍"))
            ).message
        )
        sent = await channel.send("x", GROUP)
        of_card = {"chat_id": GROUP, "message_id": sent.message_id}
        await channel.act("message.edit", of_card, text="y")
        assert server.texts(GROUP) == ["y"]
        assert "no card be recalled" in (await refusal(channel.act("message.delete", of_card))).message
        info = await channel.act("member.info", {"person_id": ADA})
        assert info.result == {"userid": ADA, "name": "Ada L."}
        assert "60121" in (await refusal(channel.act("member.info", {"person_id": "x"}))).message
        called = await channel.act(
            "platform.call", {}, method="POST /v1.0/robot/groups/robots/query", params={"a": 1}
        )
        assert called.result == {"chatbotInstanceVOList": [{"a": 1}]}
        called = await channel.act(
            "platform.call", {}, method="POST /topapi/v2/user/get", params={"userid": ADA}
        )
        assert called.result["result"]["name"] == "Ada L."

    connected(desk, body)


@pytest.mark.parametrize("chat", [GROUP, PRIVATE])
def test_an_ordinary_message_is_recalled(desk: ChannelDesk, chat: str) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        sent = await channel.send("x", chat)
        where = {"chat_id": chat, "message_id": sent.message_id}
        await channel.act("message.delete", where)
        assert server.texts(chat) == []
        assert "消息不存在" in (await refusal(channel.act("message.delete", where))).message

    connected(desk, body, cards=False)


NOT_FOR_AGENTS: list[dict[str, Any]] = [
    {"method": "POST /v1.0/oauth2/accessToken"},
    {"method": "POST /v1.0/gateway/connections/open"},
    {"method": "POST /v1.0/robot/../oauth2/accessToken"},
    {"method": "POST /v1.0/robot/%2E%2e/oauth2/accessToken"},
    {"method": "POST /v1.0//oauth2/accessToken"},
    {"method": "POST /v1.0/OAuth2/accessToken"},
    {"method": "GET /topapi/v2/user/get"},
    {"method": "GET https://elsewhere.example/v1.0/x"},
    {"method": "POST /media/upload"},
    {"method": "POST /topapi/v2/user/get", "params": {"access_token": "x"}},
    {"method": "POST /v1.0/robot/x", "params": [1]},
    {},
]


def test_calls_that_are_not_for_agents_are_refused(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        before = len(server.calls)
        for payload in NOT_FOR_AGENTS:
            error = await refusal(channel.act("platform.call", {}, **payload))
            assert isinstance(error, InvalidArgumentError), payload
        assert len(server.calls) == before

    connected(desk, body)
