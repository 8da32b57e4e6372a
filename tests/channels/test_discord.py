"""Discord: messages both ways, by discord.py in a real process, on a server that speaks API and gateway."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hostler_protocol.channels import Button, ChannelEvent, ChannelSent
from hostler_protocol.errors import InvalidArgumentError, RateLimitedError, RemoteFaultError, to_fault
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.discord_desk import connected, desk
from support.discord_server import (
    ADA,
    GENERAL,
    ME,
    NEWS,
    PRIVATE,
    THREAD,
    DiscordServer,
    Refusal,
    limited,
)

__all__ = ["desk"]

MINE = {"id": "55", "channel_id": GENERAL, "author": ME, "content": "?", "type": 0}


def place(event: ChannelEvent) -> tuple[str, str, str | None]:
    assert event.chat is not None
    return event.chat.kind, event.chat.chat_id, event.chat.thread_id


# -- in -------------------------------------------------------------------------------------------


def test_a_private_message_comes_in_with_who_and_where(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        assert channel.health is not None
        assert channel.health.account is not None
        account = channel.health.account
        assert (account.person_id, account.name, account.is_bot) == ("4242", "Helper", True)
        said = await server.say("hello 漢字 👋")
        event = await channel.event()
        assert (event.event_type, event.source_event_type) == ("message.received", "MESSAGE_CREATE")
        assert (event.text, event.message_id) == ("hello 漢字 👋", said["id"])
        assert event.event_id == f"message:{said['id']}"
        assert event.event_time == 1_764_000_000.123
        assert place(event) == ("private", PRIVATE, None)
        assert event.person is not None
        assert (event.person.person_id, event.person.name, event.person.is_bot) == ("7", "Ada L.", False)
        assert event.addressed == ["private"]
        assert event.data["discord"]["author"]["username"] == "ada"
        assert channel.state["session"] == {
            "id": "session-1",
            "url": server.gateway.url,
            "seq": len(server.gateway.sessions["session-1"].events),
        }
        # A session that begins after it was written begins later than it: nothing before that is missing.
        assert channel.state["last"] >= int(said["id"])
        assert channel.state["private"] == [PRIVATE]

    connected(desk, body)


@pytest.mark.parametrize(
    ("message", "text", "addressed"),
    [
        ({"text": "good morning"}, "good morning", []),
        ({"text": "👋 <@4242> hi", "mentions": [ME]}, "👋 @Helper hi", ["mention"]),
        ({"text": "hi <@!4242>", "mentions": [ME]}, "hi @Helper", ["mention"]),
        ({"text": "ask <@7>", "mentions": [ADA]}, "ask @Ada L.", []),
        ({"text": "ask <@8>"}, "ask <@8>", []),
        (
            {"text": "", "mentions": [ME], "sticker_items": [{"id": "3", "name": "wave"}]},
            ":wave:",
            ["mention"],
        ),
        (
            {
                "text": "yes",
                "type": 19,
                "mentions": [ME],
                "referenced_message": MINE,
                "message_reference": {"type": 0, "message_id": "55", "channel_id": GENERAL},
            },
            "yes",
            ["reply"],
        ),
    ],
)
def test_what_calls_the_bot_in_a_server(
    desk: ChannelDesk, message: dict[str, Any], text: str, addressed: list[str]
) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        await server.say(channel=GENERAL, **message)
        event = await channel.event()
        assert place(event) == ("group", GENERAL, None)
        assert event.chat is not None
        assert event.chat.title == "general"
        assert event.person is not None
        assert event.person.name == "Countess"
        assert (event.text, event.addressed) == (text, addressed)
        assert event.reply_to == ("55" if addressed == ["reply"] else None)

    connected(desk, body)


def test_threads_are_threads_and_announcements_a_broadcast(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        await server.say("in a thread", THREAD)
        event = await channel.event()
        assert (place(event), event.reply_to) == (("group", GENERAL, THREAD), None)
        assert event.chat is not None
        assert event.chat.title == "general"
        await server.say("news", NEWS)
        assert place(await channel.event()) == ("broadcast", NEWS, None)
        await channel.send("there", GENERAL, at={"thread_id": THREAD})
        (call,) = server.called("POST /channels/*/messages")
        assert call.path == f"/channels/{THREAD}/messages"

    connected(desk, body)


def test_bots_are_told_from_people_and_the_bot_is_not_heard(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        await server.say("I said so", GENERAL, author=ME)
        await server.say("a hook", GENERAL, author={"id": "77", "username": "CI"}, webhook_id="77")
        event = await channel.event()
        assert event.person is not None
        assert (event.person.person_id, event.person.is_bot) == ("77", True)

    connected(desk, body)


# -- out ------------------------------------------------------------------------------------------


def test_a_message_goes_out_with_discords_marks_in_its_place(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        text = "# Title\n**Hi** <you> & `x<y` *so* snake_case [docs](https://example.org/a_b)\n\n- one"
        sent = await channel.send(text, GENERAL, at={"reply_to": "33"})
        (call,) = server.called("POST /channels/*/messages")
        assert sent == ChannelSent(message_id=max(server.messages))
        assert call.body["content"] == (
            "**Title**\n\n**Hi** \\<you\\> & `x<y` *so* snake\\_case [docs](<https://example.org/a_b>)"
            "\n\n• one"
        )
        assert call.body["message_reference"] == {"message_id": "33", "fail_if_not_exists": False}
        assert call.body["allowed_mentions"] == {"parse": [], "replied_user": False}
        assert call.body["flags"] == 4  # no previews
        await channel.send("**no marks** @everyone", GENERAL, key="k2", plain=True)
        assert server.texts()[-1] == "\\*\\*no marks\\*\\* @everyone"
        await channel.send(
            "```py\nx = a_b * 2 # \\n\n```\n> so\n\nhttps://example.org/a_b", PRIVATE, key="k3"
        )
        assert server.texts()[-1] == "```py\nx = a_b * 2 # \\n\n```\n\n> so\n\n<https://example.org/a_b>"

    connected(desk, body)


def test_people_are_notified_if_the_operator_wants_it(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        await channel.send("<@7> look_at <#200> <:a_b:31> <b>", GENERAL)
        (call,) = server.called("POST /channels/*/messages")
        assert call.body["content"] == "<@7> look\\_at <#200> <:a_b:31> \\<b\\>"
        assert call.body["allowed_mentions"] == {"parse": ["users"], "replied_user": True}
        assert call.body["flags"] == 0

    connected(desk, body, mentions=True, link_previews=True)


def test_an_answer_grows_by_edits(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        sent = await channel.send("The", PRIVATE, key="s")
        for text in ("The answer", "The answer", "The answer is **4", "The answer is **42**"):
            await channel.edit(sent.message_id, text, PRIVATE)
        assert server.texts() == ["The answer is **42**"]
        assert len(server.called("PATCH /channels/*/messages/*")) == 4
        gone = await refusal(channel.edit("999", "lost", PRIVATE))
        assert isinstance(gone, InvalidArgumentError)
        assert "Unknown Message" in gone.message
        assert isinstance(await refusal(channel.edit(sent.message_id, " ", PRIVATE)), InvalidArgumentError)

    connected(desk, body)


@pytest.mark.parametrize("text", ["x" * 2000, "漢" * 2000, "👋" * 2000, "**b** " * 333])
def test_the_longest_message_is_sent_whole(desk: ChannelDesk, text: str) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        await channel.send(text, PRIVATE)
        (sent,) = server.texts()
        assert sent.strip() == text.strip()

    connected(desk, body)


@pytest.mark.parametrize(
    ("refused", "kind", "retryable", "told"),
    [
        (limited(61.5), RateLimitedError, True, "rate"),
        (Refusal(404, "Unknown Channel", 10003), InvalidArgumentError, False, "Unknown Channel"),
        (Refusal(403, "Cannot send messages to this user", 50007), InvalidArgumentError, False, "this user"),
        (Refusal(403, "Missing Permissions", 50013), InvalidArgumentError, False, "Missing Permissions"),
        (Refusal(401, "401: Unauthorized"), RemoteFaultError, True, "check `token`"),
        (Refusal(413, "Request entity too large", 40005), InvalidArgumentError, False, "too large"),
        (
            Refusal(400, "Invalid Form Body", 50035, errors={"content": {"_errors": [{"message": "no"}]}}),
            InvalidArgumentError,
            False,
            "In content: no",
        ),
    ],
)
def test_an_error_says_whether_to_try_again(
    desk: ChannelDesk, refused: Refusal, kind: type[Exception], retryable: bool, told: str
) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        server.refusals["POST /channels/*/messages"] = [refused]
        error = await refusal(channel.send("hello", PRIVATE))
        assert isinstance(error, kind), error
        assert told in error.message
        assert to_fault(error).retryable is retryable
        if isinstance(error, RateLimitedError):
            assert error.retry_after == 61.5
        assert await channel.send("hello", PRIVATE) == ChannelSent(message_id=max(server.messages))

    connected(desk, body)


def test_short_limits_are_waited_for_and_long_ones_are_the_hosts(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        name = "POST /channels/*/messages"
        server.refusals[name] = [limited(0.01), limited(0.01, **{"global": True})]
        await channel.send("soon", PRIVATE)
        assert len(server.called(name)) == 3
        assert server.texts() == ["soon"]
        banned = Refusal(429, "", headers={"Via": "", "Retry-After": "300"})
        server.refusals[name] = [banned]
        error = await refusal(channel.send("later", PRIVATE, key="b"))
        assert isinstance(error, RateLimitedError)
        assert error.retry_after == 300
        server.remaining = [(0, 0.2)]
        before = time.monotonic()
        await channel.send("the last one for now", PRIVATE, key="c")
        await channel.send("the next", PRIVATE, key="d")
        assert time.monotonic() - before > 0.19  # without asking Discord in vain
        assert len(server.called(name)) == 6

    connected(desk, body)


@pytest.mark.parametrize(
    ("chat", "text", "message", "told"),
    [
        ("the lobby", "hi", {}, "no id of a channel"),
        (PRIVATE, "  ", {}, "empty"),
        (PRIVATE, "hi", {"buttons": [[Button(label="x", value="a"), Button(label="y", value="a")]]}, "same"),
        (PRIVATE, "hi", {"buttons": [[Button(label="x", value=f"{n}")] for n in range(6)]}, "6 rows"),
    ],
)
def test_what_discord_cannot_take_is_refused_with_the_reason(
    desk: ChannelDesk, chat: str, text: str, message: dict[str, Any], told: str
) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        error = await refusal(channel.send(text, chat, **message))
        assert isinstance(error, InvalidArgumentError)
        assert told in error.message
        assert not server.called("POST /channels/*/messages")

    connected(desk, body)
