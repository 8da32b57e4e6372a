"""Telegram: messages and presses of people, through aiogram in a real process, on a Bot API server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hostler_protocol.channels import Button, ChannelEvent
from support.channel_desk import ChannelDesk, OpenChannel
from support.telegram_desk import connected, desk
from support.telegram_server import GROUP, ME, NEWS, Refusal, TelegramServer

__all__ = ["desk"]

COMMAND = [{"type": "bot_command", "offset": 0, "length": 6}]


def place(event: ChannelEvent) -> tuple[str, str, str | None]:
    assert event.chat is not None
    return event.chat.kind, event.chat.chat_id, event.chat.thread_id


# -- in -------------------------------------------------------------------------------------------


def test_a_private_message_comes_in_with_who_and_where(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        assert channel.health is not None
        assert channel.health.account is not None
        assert (channel.health.account.person_id, channel.health.account.is_bot) == ("4242", True)
        number = server.say("hello 漢字 👋")
        event = await channel.event()
        assert (event.event_type, event.source_event_type) == ("message.received", "text")
        assert (event.text, event.message_id) == ("hello 漢字 👋", str(number))
        assert event.event_id == f"1001:{number}"
        assert event.event_time == 1_764_000_000
        assert place(event) == ("private", "7", None)
        assert event.person is not None
        assert (event.person.person_id, event.person.name, event.person.is_bot) == ("7", "Ada L.", False)
        assert event.addressed == ["private"]
        assert event.data["telegram"]["from"]["language_code"] == "en"
        assert channel.state == {"offset": 1002}
        await server.until_confirmed()

    connected(desk, body)


@pytest.mark.parametrize(
    ("message", "addressed"),
    [
        ({"text": "good morning"}, []),
        (
            {"text": "👋 @Helper_Bot hi", "entities": [{"type": "mention", "offset": 3, "length": 11}]},
            ["mention"],
        ),
        ({"text": "@helper_bots", "entities": [{"type": "mention", "offset": 0, "length": 12}]}, []),
        (
            {"text": "hey you", "entities": [{"type": "text_mention", "offset": 4, "length": 3, "user": ME}]},
            ["mention"],
        ),
        (
            {"text": "yes", "reply_to_message": {"message_id": 3, "from": ME, "chat": GROUP, "date": 1}},
            ["reply"],
        ),
        ({"text": "/start now", "entities": COMMAND}, ["command"]),
        (
            {"text": "/start@helper_bot", "entities": [{"type": "bot_command", "offset": 0, "length": 17}]},
            ["command"],
        ),
        ({"text": "/start@other_bot", "entities": [{"type": "bot_command", "offset": 0, "length": 16}]}, []),
        ({"text": "use /start", "entities": [{"type": "bot_command", "offset": 4, "length": 6}]}, []),
    ],
)
def test_what_calls_the_bot_in_a_group(
    desk: ChannelDesk, message: dict[str, Any], addressed: list[str]
) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        server.say(chat=GROUP, **message)
        event = await channel.event()
        assert place(event) == ("group", "-1001234", None)
        assert event.chat is not None
        assert event.chat.title == "The group"
        assert event.addressed == addressed
        if addressed == ["command"]:
            arguments = "now" if "now" in message["text"] else ""
            assert event.data["command"] == {"name": "start", "arguments": arguments}
        else:
            assert "command" not in event.data

    connected(desk, body)


def test_topics_are_threads_and_replies_outside_of_them_are_not(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        opening = {"message_id": 9, "from": ME, "chat": GROUP, "date": 1, "message_thread_id": 9}
        opening |= {"is_topic_message": True, "forum_topic_created": {"name": "t", "icon_color": 1}}
        server.say(
            "in a topic", chat=GROUP, message_thread_id=9, is_topic_message=True, reply_to_message=opening
        )
        event = await channel.event()
        assert (place(event), event.reply_to) == (("group", "-1001234", "9"), None)
        assert event.addressed == []  # the topic was opened by the bot, and nobody answers that
        other = {
            "message_id": 3,
            "from": {"id": 8, "is_bot": False, "first_name": "B"},
            "chat": GROUP,
            "date": 1,
        }
        server.say("a reply", chat=GROUP, message_thread_id=3, reply_to_message={**other, "text": "?"})
        event = await channel.event()
        assert (place(event), event.reply_to) == (("group", "-1001234", None), "3")

    connected(desk, body)


def test_a_chat_may_speak_for_itself_and_the_bot_is_not_heard(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        server.say("I said so", **{"from": ME})
        anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
        server.say("an admin", chat=GROUP, sender_chat=GROUP, **{"from": anonymous})
        event = await channel.event()
        assert event.person is not None
        assert (event.person.person_id, event.person.name, event.person.is_bot) == (
            "-1001234",
            "The group",
            False,
        )
        post = {"message_id": 5, "sender_chat": NEWS, "chat": NEWS, "date": 1, "text": "news"}
        server.update(channel_post=post)
        event = await channel.event()
        assert (event.event_type, place(event)) == ("message.received", ("broadcast", "-1009876", None))
        server.update(edited_channel_post={**post, "edit_date": 2, "text": "news!"})
        event = await channel.event()
        assert (event.event_type, event.text, event.event_time) == ("message.edited", "news!", 2)

    connected(desk, body)


# -- buttons --------------------------------------------------------------------------------------


def test_a_press_comes_in_and_its_notice_is_shown_to_the_person_alone(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        rows = [
            [
                Button(label="Yes", value="yes:1", style="primary"),
                Button(label="No", value="v" * 64, style="danger"),
            ],
            [Button(label="Later", value="later")],
        ]
        sent = await channel.send("Shall I?", GROUP["id"], buttons=rows)
        shown = json.loads(server.called("sendMessage")[0].params["reply_markup"])["inline_keyboard"]
        assert [[one["text"] for one in row] for row in shown] == [["Yes", "No"], ["Later"]]
        assert shown[0][0] == {"text": "Yes", "callback_data": "yes:1", "style": "primary"}
        channel.ingest.notice = "Only Grace may decide. " * 20
        query = server.press(int(sent.message_id or 0), "yes:1", chat=GROUP)
        event = await channel.event()
        assert (event.event_type, event.message_id) == ("interaction.submitted", sent.message_id)
        assert event.data["value"] == "yes:1"
        assert event.event_id == f"press:{query}"
        assert event.person is not None
        assert event.person.person_id == "7"
        assert place(event) == ("group", "-1001234", None)
        (answer,) = await server.until("answerCallbackQuery")
        assert answer.params["text"] == channel.ingest.notice[:200]
        assert (answer.params["callback_query_id"], answer.params["show_alert"]) == (query, "true")
        channel.ingest.notice = None
        server.press(int(sent.message_id or 0), "later", chat=GROUP)
        answer = (await server.until("answerCallbackQuery", 2))[1]
        assert set(answer.params) == {"callback_query_id"}  # the telephone stops waiting, and shows nothing
        await channel.edit(sent.message_id, "Ada said no", GROUP["id"])
        assert "reply_markup" not in server.messages[int(sent.message_id or 0)]

    connected(desk, body)


def test_a_press_that_is_too_old_to_be_answered_is_no_error(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        server.refusals["answerCallbackQuery"] = [Refusal(400, "Bad Request: query is too old")]
        server.press(5, "a")
        await channel.event()
        server.say("and on it goes")
        assert (await channel.event()).text == "and on it goes"
        # a message that Telegram shows no more, and the button of a game
        gone = {"chat": GROUP, "message_id": 4, "date": 0}
        press = {"id": "77", "from": {"id": 7, "is_bot": False, "first_name": "A"}, "chat_instance": "1"}
        server.update(callback_query={**press, "message": gone, "data": "b"})
        event = await channel.event()
        assert (event.data["value"], event.message_id, place(event)[1]) == ("b", "4", "-1001234")
        server.update(
            callback_query={**press, "id": "78", "inline_message_id": "AbC", "game_short_name": "chess"}
        )
        event = await channel.event()
        assert (event.event_type, event.message_id) == ("platform.callback_query", "AbC")

    connected(desk, body)
