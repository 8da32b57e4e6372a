"""Telegram: each kind of update becomes common events, or `platform.` ones with all that Telegram said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hostler_protocol.channels import ChannelEvent
from hostler_protocol.errors import InvalidArgumentError
from support.channel_desk import ChannelDesk, OpenChannel
from support.telegram_desk import connected, desk
from support.telegram_server import ADA, DATE, GROUP, ME, NEWS, PRIVATE, TelegramServer

__all__ = ["desk"]

BOB = {"id": 8, "is_bot": False, "first_name": "Bob"}
IN_GROUP = {"message_id": 5, "from": ADA, "chat": GROUP, "date": DATE}


def change(was: str, now: str, user: dict[str, Any], chat: dict[str, Any] = GROUP) -> dict[str, Any]:
    member = {"administrator": {"can_be_edited": False, "is_anonymous": False}}.get(now, {})
    return {
        "chat": chat,
        "from": ADA,
        "date": DATE,
        "old_chat_member": {"status": was, "user": user, **({"until_date": 0} if was == "kicked" else {})},
        "new_chat_member": {
            "status": now,
            "user": user,
            **({"until_date": 0} if now == "kicked" else {}),
            **dict.fromkeys(RIGHTS, True),
            **member,
        }
        if now == "administrator"
        else {"status": now, "user": user, **({"until_date": 0} if now == "kicked" else {})},
    }


RIGHTS = (
    "can_manage_chat",
    "can_delete_messages",
    "can_manage_video_chats",
    "can_restrict_members",
    "can_promote_members",
    "can_change_info",
    "can_invite_users",
    "can_post_stories",
    "can_edit_stories",
    "can_delete_stories",
    "can_send_welcome_messages",
)


def reaction(*, old: list[dict[str, str]], new: list[dict[str, str]], **more: Any) -> dict[str, Any]:
    base = {"chat": GROUP, "message_id": 5, "date": DATE, "user": ADA}
    return {**base, "old_reaction": old, "new_reaction": new, **more}


THUMB = {"type": "emoji", "emoji": "👍"}
CUSTOM = {"type": "custom_emoji", "custom_emoji_id": "5312"}


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (
            {"edited_message": {**IN_GROUP, "edit_date": DATE + 9, "text": "better"}},
            [("message.edited", "7", {})],
        ),
        (
            {"message_reaction": reaction(old=[], new=[THUMB])},
            [("message.reaction_added", "7", {"emoji": "👍"})],
        ),
        (
            {"message_reaction": reaction(old=[THUMB], new=[CUSTOM])},
            [
                ("message.reaction_removed", "7", {"emoji": "👍"}),
                ("message.reaction_added", "7", {"emoji": "5312"}),
            ],
        ),
        (
            {"my_chat_member": change("left", "member", ME)},
            [("group.bot_invited", "7", {"status": "member", "was": "left"})],
        ),
        (
            {"my_chat_member": change("member", "kicked", ME)},
            [("group.bot_removed", "7", {"status": "kicked"})],
        ),
        (
            {"my_chat_member": change("member", "administrator", ME)},
            [("platform.my_chat_member", "7", {"was": "member"})],
        ),
        (
            {"my_chat_member": change("member", "kicked", ME, PRIVATE)},
            [("platform.my_chat_member", "7", {"status": "kicked"})],
        ),
        (
            {"chat_member": change("left", "member", BOB)},
            [("group.member_joined", "8", {"status": "member"})],
        ),
        ({"chat_member": change("member", "left", BOB)}, [("group.member_left", "8", {"was": "member"})]),
        (
            {"message": {**IN_GROUP, "new_chat_members": [ADA, BOB, ME]}},
            [("group.member_joined", "7", {}), ("group.member_joined", "8", {})],
        ),
        ({"message": {**IN_GROUP, "left_chat_member": BOB}}, [("group.member_left", "8", {})]),
        ({"message": {**IN_GROUP, "new_chat_title": "New"}}, [("platform.new_chat_title", "7", {})]),
        ({"message": {**IN_GROUP, "migrate_to_chat_id": -1009}}, [("platform.migrate_to_chat_id", "7", {})]),
        ({"message": {**IN_GROUP, "of_next_year": {"a": 1}}}, [("platform.of_next_year", "7", {})]),
        ({"poll": {"id": "5", "question": "?"}}, [("platform.poll", None, {"unreadable": ...})]),
        (
            {
                "my_chat_member": {
                    **change("left", "member", ME),
                    "old_chat_member": {"status": "of_tomorrow"},
                }
            },
            [("platform.my_chat_member", "7", {"unreadable": ...})],
        ),
        (
            {"message": {**IN_GROUP, "text": "still said", "reply_to_message": {"of": "tomorrow"}}},
            [("message.received", "7", {"unreadable": ...})],
        ),
        ({"message": {"text": "who?"}}, [("platform.message", None, {"unreadable": ...})]),
        ({"of_tomorrow": {"id": 1}}, [("platform.of_tomorrow", None, {})]),
        (
            {"chat_join_request": {"chat": GROUP, "from": BOB, "user_chat_id": 8, "date": DATE}},
            [("platform.chat_join_request", "8", {})],
        ),
        (
            {"inline_query": {"id": "31", "from": ADA, "query": "q", "offset": ""}},
            [("platform.inline_query", "7", {"query_id": "31"})],
        ),
        (
            {"business_message": {**IN_GROUP, "business_connection_id": "b", "text": "hi"}},
            [("platform.business_message", "7", {})],
        ),
        (
            {"message_reaction_count": {"chat": NEWS, "message_id": 5, "date": DATE, "reactions": []}},
            [("platform.message_reaction_count", None, {})],
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_each_update_becomes_events_and_nothing_of_it_is_lost(
    desk: ChannelDesk, update: dict[str, Any], expected: list[tuple[str, str | None, dict[str, Any]]]
) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        server.update(**update)
        server.say("and then")
        *events, last = await channel.events(len(expected) + 1)
        assert last.text == "and then"
        for event, (event_type, person, data) in zip(events, expected, strict=True):
            assert event.event_type == event_type
            assert (None if event.person is None else event.person.person_id) == person
            assert {name: ... if data[name] is ... else event.data.get(name) for name in data} == data
            assert all(name in event.data for name in data)
            assert event.data["telegram"] == next(iter(update.values()))
        assert len({event.event_id for event in events}) == len(expected)
        await server.until_confirmed()

    connected(desk, body)


def test_who_joined_is_told_once_if_telegram_says_it_twice(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        server.update(chat_member=change("left", "member", BOB))
        server.update(message={**IN_GROUP, "from": BOB, "new_chat_members": [BOB]})
        server.say("next")
        events = await channel.events(2)
        assert [event.event_type for event in events] == ["group.member_joined", "message.received"]
        assert len(channel.ingest.duplicates) == 1

    connected(desk, body)


@pytest.mark.parametrize(
    ("content", "text", "data"),
    [
        (
            {"location": {"latitude": 1.5, "longitude": 2.5}},
            None,
            {"location": {"latitude": 1.5, "longitude": 2.5}},
        ),
        (
            {"contact": {"phone_number": "+49", "first_name": "Bob"}},
            None,
            {"contact": {"phone_number": "+49", "first_name": "Bob"}},
        ),
        ({"dice": {"emoji": "🎲", "value": 6}}, "🎲", {"dice": {"emoji": "🎲", "value": 6}}),
        (
            {
                "poll": {
                    "id": "1",
                    "question": "Tea?",
                    "options": [{"text": "yes", "persistent_id": "1", "voter_count": 0}],
                    "total_voter_count": 0,
                    "is_closed": False,
                    "is_anonymous": True,
                    "type": "regular",
                    "allows_multiple_answers": False,
                    "allows_revoting": False,
                    "members_only": False,
                }
            },
            "Tea?\n- yes",
            {},
        ),
        ({"text": "one of an album", "media_group_id": "77"}, "one of an album", {"media_group_id": "77"}),
        (
            {"text": "see", "quote": {"text": "this", "position": 0}},
            "see",
            {"quote": {"text": "this", "position": 0}},
        ),
    ],
)
def test_what_has_no_text_comes_as_data(
    desk: ChannelDesk, content: dict[str, Any], text: str | None, data: dict[str, Any]
) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        server.say(**content)
        event = await channel.event()
        assert (event.event_type, event.text) == ("message.received", text), event
        assert {name: event.data[name] for name in data} == data

    connected(desk, body)


def test_an_update_that_the_host_will_never_take_holds_nothing_up(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        refused = InvalidArgumentError("data: it is too large")
        channel.ingest.refusals = [refused]
        server.say("too much")
        event: ChannelEvent = await channel.event()
        assert (event.text, event.data) == ("too much", {"left_out": "data: it is too large"})
        channel.ingest.refusals = [refused, refused]
        number = server.say("what nobody else may read")
        server.say("next")
        assert (await channel.event()).text == "next"
        assert number
        while b"is lost" not in channel.plugin._stderr_tail:
            await asyncio.sleep(0.02)
        assert b"nobody else" not in channel.plugin._stderr_tail, "the log has its id alone"
        await server.until_confirmed()

    connected(desk, body)
