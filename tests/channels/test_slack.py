"""Slack: messages to chats, through slack-sdk in a real process, on a server that speaks Slack's wire."""

from __future__ import annotations

from typing import Any

import pytest

from hostler_protocol.channels import Button, ChannelSent
from hostler_protocol.errors import InvalidArgumentError, RateLimitedError, RemoteFaultError, to_fault
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.slack_desk import connected, desk
from support.slack_methods import ADA, DM, GENERAL, Refused
from support.slack_server import SlackServer

__all__ = ["desk"]


def test_a_message_goes_out_as_mrkdwn_in_its_place(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        text = "**Hi** <!channel> & [docs](https://a.example)\n\n```py\nx < y\n```"
        sent = await channel.send(text, GENERAL, at={"thread_id": "5.000001", "reply_to": "6.000001"})
        (call,) = server.called("chat.postMessage")
        assert sent == ChannelSent(message_id=server.last(GENERAL)["ts"])
        assert call.params["text"] == (
            "*Hi* &lt;!channel&gt; &amp; <https://a.example|docs>\n\n```\nx &lt; y\n```"
        )
        assert (call.params["thread_ts"], call.params["mrkdwn"]) == ("5.000001", "true")
        assert (call.params["unfurl_links"], call.params["unfurl_media"]) == ("false", "false")
        assert call.json("metadata") == {"event_type": "hostler_message", "event_payload": {"key": "k"}}
        await channel.send("**no marks** <", DM, plain=True)
        call = server.called("chat.postMessage")[-1]
        assert (call.params["text"], call.params["mrkdwn"]) == ("**no marks** &lt;", "false")
        await channel.send("to a person", ADA)
        assert server.texts()[-1] == "to a person"

    connected(desk, body)


def test_an_answer_grows_by_edits(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        buttons = [[Button(label="Stop", value="stop")]]
        sent = await channel.send("The", DM, buttons=buttons)
        for text in ("The answer", "The answer", "The answer is **42**"):
            await channel.edit(sent.message_id, text, DM)
        assert server.texts() == ["The answer is *42*"]
        assert server.last()["blocks"] == []  # the button is gone
        await channel.edit(sent.message_id, "**as it is** &", DM, plain=True)
        shown = {"type": "plain_text", "text": "**as it is** &"}
        assert server.last()["blocks"] == [{"type": "section", "expand": True, "text": shown}]
        for number, told in (("999.1", "message_not_found"), ("x", "no id of a message")):
            gone = await refusal(channel.edit(number, "lost", DM))
            assert isinstance(gone, InvalidArgumentError)
            assert told in gone.message

    connected(desk, body)


@pytest.mark.parametrize(
    ("refused", "kind", "retryable", "told"),
    [
        (Refused("ratelimited", status=429, retry_after=7), RateLimitedError, True, "rate"),
        (Refused("rate_limited"), RateLimitedError, True, "rate"),
        (Refused("channel_not_found"), InvalidArgumentError, False, "channel_not_found"),
        (Refused("is_archived"), InvalidArgumentError, False, "is_archived"),
        (Refused("invalid_auth"), RemoteFaultError, True, "check `token`"),
        (Refused("token_revoked"), RemoteFaultError, True, "check `token`"),
        (Refused("missing_scope", needed="chat:write"), InvalidArgumentError, False, "the scope chat:write"),
        (
            Refused("invalid_arguments", response_metadata={"messages": ["[ERROR] bad"]}),
            InvalidArgumentError,
            False,
            "[ERROR] bad",
        ),
    ],
)
def test_an_error_says_whether_to_try_again(
    desk: ChannelDesk, refused: Refused, kind: type[Exception], retryable: bool, told: str
) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        server.answers["chat.postMessage"] = [refused]
        error = await refusal(channel.send("hello", DM))
        assert isinstance(error, kind), error
        assert told in error.message
        assert to_fault(error).retryable is retryable
        if isinstance(error, RateLimitedError):
            assert error.retry_after == (refused.retry_after or 30)
        assert (await channel.send("hello", DM)).message_id == server.last()["ts"]

    connected(desk, body)


@pytest.mark.parametrize(
    ("answer", "content_type"),
    [
        (Refused("internal_error"), ""),
        (Refused("fatal_error", status=500), ""),
        (503, ""),
        ("cut", ""),
        ("lost", ""),
        ("<html>a proxy</html>", "text/html"),
        ("a proxy", "text/plain"),
        ("[1]", "application/json"),
        ("null", "application/json"),
        ("{", "application/json"),
        ("{}", "application/json"),
    ],
)
def test_what_may_have_been_sent_is_in_doubt_and_not_sent_again(
    desk: ChannelDesk, answer: Any, content_type: str
) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        server.answers["chat.postMessage"] = [answer]
        server.other_type = content_type
        assert (await channel.send("hello", DM)).in_doubt
        assert len(server.called("chat.postMessage")) == 1

    connected(desk, body)


@pytest.mark.parametrize(
    ("chat", "text", "message", "told"),
    [
        ("the lobby", "hi", {}, "no id of a chat"),
        (DM, "  ", {}, "empty"),
        (DM, "hi", {"buttons": [[Button(label="x", value="x")] * 26]}, "at most 25"),
        (DM, "hi", {"buttons": [[Button(label="x", value="x")]] * 50}, "50 rows"),
        (DM, "hi", {"at": {"thread_id": "yesterday"}}, "no id of a thread"),
    ],
)
def test_what_slack_cannot_take_is_refused_with_the_reason(
    desk: ChannelDesk, chat: str, text: str, message: dict[str, Any], told: str
) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        error = await refusal(channel.send(text, chat, **message))
        assert isinstance(error, InvalidArgumentError)
        assert told in error.message
        assert not server.called("chat.postMessage")

    connected(desk, body)
