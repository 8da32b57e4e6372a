"""Telegram: messages to chats, through aiogram in a real process, on a server that speaks the Bot API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hostler_protocol.channels import Button, ChannelSent
from hostler_protocol.errors import InvalidArgumentError, RateLimitedError, RemoteFaultError, to_fault
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.telegram_desk import connected, desk
from support.telegram_server import GROUP, Refusal, TelegramServer

__all__ = ["desk"]


def test_a_message_goes_out_as_html_in_its_place(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        sent = await channel.send(
            "**Hi** <you> & `x<y`", GROUP["id"], at={"thread_id": "9", "reply_to": "33"}
        )
        (call,) = server.called("sendMessage")
        assert sent == ChannelSent(message_id=str(max(server.messages)))
        assert call.params["text"] == "<b>Hi</b> &lt;you&gt; &amp; <code>x&lt;y</code>"
        assert (call.params["parse_mode"], call.params["message_thread_id"]) == ("HTML", "9")
        reply = json.loads(call.params["reply_parameters"])
        assert (reply["message_id"], reply["allow_sending_without_reply"]) == (33, True)
        assert json.loads(call.params["link_preview_options"])["is_disabled"] is True
        await channel.send("**no marks**", plain=True)
        assert server.texts()[-1] == "**no marks**"
        assert "parse_mode" not in server.called("sendMessage")[-1].params

    connected(desk, body)


def test_an_answer_grows_by_edits_and_nothing_new_is_no_error(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        sent = await channel.send("The", key="s")
        for text in ("The answer", "The answer", "The answer is **4", "The answer is **42**"):
            await channel.edit(sent.message_id, text)
        assert server.texts() == ["The answer is <b>42</b>"]
        assert len(server.called("editMessageText")) == 4
        gone = await refusal(channel.edit("999", "lost"))
        assert isinstance(gone, InvalidArgumentError)
        assert "message to edit not found" in gone.message

    connected(desk, body)


@pytest.mark.parametrize("text", ["x" * 4096, "漢" * 4096, "👋" * 2048, "**b** " * 1000 + "&" * 96])
def test_the_longest_message_is_sent_whole(desk: ChannelDesk, text: str) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        await channel.send(text[:4096] if text.isascii() else text)
        assert len(server.messages) == 1

    connected(desk, body)


def test_what_telegram_refuses_as_html_is_sent_as_it_is_written(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        refused = Refusal(400, "Bad Request: can't parse entities: unexpected tag")
        server.refusals["sendMessage"] = [refused]
        await channel.send("**bold**")
        assert server.texts()[-1] == "**bold**"
        server.refusals["editMessageText"] = [refused]
        await channel.edit(str(max(server.messages)), "**bolder**")
        assert server.texts()[-1] == "**bolder**"

    connected(desk, body)


@pytest.mark.parametrize(
    ("refused", "kind", "retryable", "told"),
    [
        (Refusal(429, "Too Many Requests: retry after 7", retry_after=7), RateLimitedError, True, "rate"),
        (Refusal(429, "Too Many Requests: retry after 0", retry_after=0), RemoteFaultError, True, "Too Many"),
        (Refusal(400, "Bad Request: chat not found"), InvalidArgumentError, False, "chat not found"),
        (Refusal(403, "Forbidden: bot was blocked by the user"), InvalidArgumentError, False, "blocked"),
        (Refusal(401, "Unauthorized"), RemoteFaultError, True, "check `token`"),
        (Refusal(413, "Request Entity Too Large"), InvalidArgumentError, False, "too large"),
    ],
)
def test_an_error_says_whether_to_try_again(
    desk: ChannelDesk, refused: Refusal, kind: type[Exception], retryable: bool, told: str
) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        server.refusals["sendMessage"] = [refused]
        error = await refusal(channel.send("hello"))
        assert isinstance(error, kind), error
        assert told in error.message
        assert to_fault(error).retryable is retryable
        if retryable and isinstance(error, RateLimitedError):
            assert error.retry_after == 7
        assert await channel.send("hello") == ChannelSent(message_id=str(max(server.messages)))

    connected(desk, body)


@pytest.mark.parametrize(
    "answer", [Refusal(500, "Internal Server Error"), "<html>502 Bad Gateway</html>", "cut"]
)
def test_what_may_have_been_sent_is_in_doubt(desk: ChannelDesk, answer: Any) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        server.refusals["sendMessage"] = [answer]
        assert (await channel.send("hello")).in_doubt

    connected(desk, body)


def test_a_group_that_became_a_supergroup_is_reached_under_its_new_id(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        text = "Bad Request: group chat was upgraded to a supergroup chat"
        server.refusals["sendMessage"] = [Refusal(400, text, migrate_to_chat_id=-1001234)]
        await channel.send("hello", -55)
        assert [call.params["chat_id"] for call in server.called("sendMessage")] == ["-55", "-1001234"]
        assert server.texts() == ["hello"]

    connected(desk, body)


@pytest.mark.parametrize(
    ("chat", "text", "message", "told"),
    [
        ("the lobby", "hi", {}, "no id of a chat"),
        ("7", "  ", {}, "empty"),
        ("7", "hi", {"buttons": [[Button(label="x", value="漢" * 22)]]}, "over 64 bytes"),
    ],
)
def test_what_telegram_cannot_take_is_refused_with_the_reason(
    desk: ChannelDesk, chat: str, text: str, message: dict[str, Any], told: str
) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        error = await refusal(channel.send(text, chat, **message))
        assert isinstance(error, InvalidArgumentError)
        assert told in error.message
        assert not server.called("sendMessage")

    connected(desk, body)
