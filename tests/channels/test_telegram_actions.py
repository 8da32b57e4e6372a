"""Telegram: platform actions are calls of the Bot API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hostler_protocol.channels import Button
from hostler_protocol.errors import InvalidArgumentError, RateLimitedError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.telegram_desk import connected, desk
from support.telegram_server import Refusal, TelegramServer

__all__ = ["desk"]

AT = {"chat_id": "-1001234", "message_id": "12", "person_id": "7"}


@pytest.mark.parametrize(
    ("action", "payload", "method", "params"),
    [
        (
            "message.react",
            {"emoji": "👍"},
            "setMessageReaction",
            {"message_id": "12", "reaction": '[{"type": "emoji", "emoji": "\\ud83d\\udc4d"}]'},
        ),
        ("message.unreact", {}, "setMessageReaction", {"message_id": "12"}),
        ("message.delete", {}, "deleteMessage", {"message_id": "12"}),
        ("message.pin", {}, "pinChatMessage", {"message_id": "12", "disable_notification": "true"}),
        ("typing.start", {}, "sendChatAction", {"action": "typing"}),
        ("member.mute", {"seconds": 60}, "restrictChatMember", {"user_id": "7"}),
        ("member.unmute", {}, "restrictChatMember", {"user_id": "7"}),
        ("member.ban", {}, "banChatMember", {"user_id": "7"}),
        ("member.kick", {}, "unbanChatMember", {"user_id": "7"}),
        ("group.rename", {"title": "New"}, "setChatTitle", {"title": "New"}),
        ("group.leave", {}, "leaveChat", {}),
    ],
)
def test_actions_are_calls_of_the_bot_api(
    desk: ChannelDesk, action: str, payload: dict[str, Any], method: str, params: dict[str, str]
) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        done = await channel.act(action, AT, **payload)
        assert (done.result, done.in_doubt) == ({}, False)
        (call,) = server.called(method)
        assert call.params["chat_id"] == "-1001234"
        assert {name: call.params[name] for name in params} == params
        if method == "restrictChatMember":
            allowed = set(json.loads(call.params["permissions"]).values())
            assert allowed == {action == "member.unmute"}
            assert ("until_date" in call.params) == (action == "member.mute")

    connected(desk, body)


def test_actions_that_answer(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        info = (await channel.act("group.info", AT)).result
        assert (info["title"], info["new_field"]) == ("The group", {"of": "tomorrow"})
        assert (await channel.act("member.info", AT)).result["status"] == "member"
        forwarded = await channel.act("message.forward", AT, to_chat_id="7")
        assert int(forwarded.result["message_id"]) in server.messages
        poll = await channel.act("poll.create", AT, question="Tea?", options=["yes", "no"], multiple=True)
        assert int(poll.result["message_id"]) in server.messages  # though aiogram cannot read the answer
        dice = await channel.act("platform.call", {}, method="setMyName", params={"name": "N"})
        assert dice.result is True
        assert server.called("setMyName")[0].params == {"name": "N"}

    connected(desk, body)


@pytest.mark.parametrize(
    ("action", "target", "payload", "told"),
    [
        ("message.react", {"chat_id": "7"}, {"emoji": "👍"}, "no id of a message"),
        ("message.react", AT, {}, "`emoji`"),
        ("message.delete", {}, {}, "`chat_id`"),
        ("message.edit", AT, {}, "`text`"),
        ("message.edit", {**AT, "message_id": "x"}, {"text": "new"}, "no id of a message"),
        ("poll.create", AT, {"question": "?", "options": "yes"}, "a list of texts"),
        ("member.mute", AT, {"seconds": "tomorrow"}, "from 1 to"),
        ("platform.call", {}, {"method": "../getMe"}, "no method of the Bot API"),
        ("platform.call", {}, {"method": "SetWebhook"}, "connection"),
        ("platform.call", {}, {"method": "nonsense"}, "no method nonsense"),
        ("message.forward", AT, {"to_chat_id": "the lobby"}, "no id of a chat"),
    ],
)
def test_an_action_that_cannot_be_carried_out_says_why(
    desk: ChannelDesk, action: str, target: dict[str, Any], payload: dict[str, Any], told: str
) -> None:
    async def body(channel: OpenChannel, _: TelegramServer) -> None:
        error = await refusal(channel.act(action, target, **payload))
        assert isinstance(error, InvalidArgumentError)
        assert told in error.message

    connected(desk, body)


def test_what_the_bot_said_is_edited_and_nothing_else(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        sent = await channel.send("first", AT["chat_id"], buttons=[[Button(label="Yes", value="y")]])
        mine = {"chat_id": AT["chat_id"], "message_id": sent.message_id}
        done = await channel.act("message.edit", mine, text="**new**")
        assert (done.result, done.in_doubt) == ({}, False)
        assert server.texts() == ["<b>new</b>"]
        server.refusals["editMessageText"] = [Refusal(400, "Bad Request: message can't be edited")]
        refused = await refusal(channel.act("message.edit", AT, text="theirs"))
        assert isinstance(refused, InvalidArgumentError)
        assert "can't be edited" in refused.message
        server.refusals["editMessageText"] = [Refusal(500, "Internal Server Error")]
        assert (await channel.act("message.edit", mine, text="newer")).in_doubt

    connected(desk, body)


def test_an_action_may_be_in_doubt_or_limited_as_well(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        server.refusals["deleteMessage"] = [
            Refusal(500, "Internal Server Error"),
            Refusal(429, "Too Many Requests: retry after 3", retry_after=3),
            Refusal(400, "Bad Request: message can't be deleted"),
        ]
        assert (await channel.act("message.delete", AT)).in_doubt
        assert isinstance(await refusal(channel.act("message.delete", AT)), RateLimitedError)
        assert "can't be deleted" in (await refusal(channel.act("message.delete", AT))).message

    connected(desk, body)
