"""Updates of Telegram as events.

What has a common type gets it; everything else is `platform.<name>`. `data.telegram` is the update's body as
Telegram sent it. An event's id joins `update_id`, which begins anew at a random number after a week of
silence, with an id of what the update is about.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
from aiogram import types
from aiogram.enums import ContentType, UpdateType
from pydantic import ValidationError

from hostler_sdk.channels import ChannelEvent, Person
from hostler_sdk.channels.malformed import MALFORMED, reason_of
from hostler_telegram.messages import (
    CONTENT,
    Drafted,
    chat_of,
    message_event,
    person_of,
    place_of,
    reply_to,
    sender_of,
)

_T = TypeVar("_T", bound=types.TelegramObject)

KINDS = [kind.value for kind in UpdateType]
"""All updates that aiogram knows; without a list Telegram leaves out members and reactions."""
_MESSAGES = {
    "message": "message.received",
    "channel_post": "message.received",
    "edited_message": "message.edited",
    "edited_channel_post": "message.edited",
}
_PLAIN = {
    "message_id",
    "message_thread_id",
    "is_topic_message",
    "from",
    "sender_chat",
    "chat",
    "date",
    "edit_date",
    "text",
    "entities",
    "caption",
    "caption_entities",
    "photo",
    "voice",
    "audio",
    "video",
    "document",
}
"""What is read of a message that cannot be read as a whole."""
_UNREADABLE = (ValidationError, *MALFORMED)
_IN_CHAT = {"creator", "administrator", "member"}


def read_update(raw: dict[str, Any], me: types.User) -> list[Drafted]:
    """Return the events of an update, at least one but for the bot's own messages.

    One that cannot be read, as from a newer Bot API, is a `platform.` event of its kind.
    """
    kind = next((key for key in raw if key != "update_id"), "update")
    body = raw.get(kind)
    data = {"telegram": body}
    try:
        drafts = list(_drafts(kind, types.Update.model_validate(raw), me, data))
    except _UNREADABLE as error:
        data["unreadable"] = reason_of(error)
        drafts = list(_what_can_be_read(kind, body if isinstance(body, dict) else {}, me, data))
    return [_with_id(draft, raw, number) for number, draft in enumerate(drafts)]


def _what_can_be_read(
    kind: str, body: dict[str, Any], me: types.User, data: dict[str, Any]
) -> Iterator[Drafted]:
    """Return an update that cannot be read as a whole: a message by its plain parts, else who and where."""
    if kind in _MESSAGES and ("text" in body or "caption" in body):
        plain = {name: value for name, value in body.items() if name in _PLAIN}
        try:
            yield from list(
                _drafts(kind, types.Update.model_validate({"update_id": 0, kind: plain}), me, data)
            )
        except _UNREADABLE:
            pass  # not even these
        else:
            return
    chat, person = _found(types.Chat, body.get("chat")), _found(types.User, body.get("from"))
    event = ChannelEvent(
        event_type=f"platform.{kind}",
        source_event_type=kind,
        chat=None if chat is None else chat_of(chat),
        person=person_of(person),
        data=data,
    )
    yield Drafted(event)


def _found(kind: type[_T], raw: Any) -> _T | None:
    try:
        return kind.model_validate(raw)
    except _UNREADABLE:
        return None


def _with_id(draft: Drafted, raw: dict[str, Any], number: int) -> Drafted:
    event = draft.event
    if event.event_id is not None:
        return draft
    about = event.message_id or event.data.get("query_id") or event.event_time or ""
    event_id = f"{raw.get('update_id')}:{about}" + (f":{number}" if number else "")
    return Drafted(msgspec.structs.replace(event, event_id=event_id[:512]), draft.files)


def _drafts(kind: str, update: types.Update, me: types.User, data: dict[str, Any]) -> Iterator[Drafted]:
    body = getattr(update, kind, None)
    match body:
        case types.Message() if kind in _MESSAGES:
            if body.from_user is not None and body.from_user.id == me.id:
                return
            if body.content_type in CONTENT:
                yield message_event(body, _MESSAGES[kind], data, me)
            else:
                yield from _happened(body, me, data)
        case types.CallbackQuery():
            yield Drafted(_press(body, data))
        case types.MessageReactionUpdated():
            yield from _reactions(body, data)
        case types.ChatMemberUpdated():
            yield Drafted(_membership(kind, body, data))
        case _:
            yield Drafted(_other(kind, body, data))


def _other(kind: str, body: Any, data: dict[str, Any]) -> ChannelEvent:
    """Return what has no common type, with whom and where it says."""
    raw = data["telegram"] if isinstance(data["telegram"], dict) else {}
    chat = getattr(body, "chat", None)
    person = getattr(body, "from_user", None) or getattr(body, "user", None)
    date, number, query = raw.get("date"), raw.get("message_id"), raw.get("id")
    return ChannelEvent(
        event_type=f"platform.{kind}",
        source_event_type=kind,
        event_time=float(date) if isinstance(date, int) else None,
        chat=chat_of(chat) if isinstance(chat, types.Chat) else None,
        person=person_of(person) if isinstance(person, types.User) else None,
        message_id=None if number is None else str(number),
        data={**data, **({} if query is None else {"query_id": str(query)})},
    )


def _happened(message: types.Message, me: types.User, data: dict[str, Any]) -> Iterator[Drafted]:
    """Return what a message of the chat itself says: members who came and left, and the rest by its name."""
    kind = ContentType(message.content_type).value
    raw = data["telegram"]
    if kind == "unknown":
        kind = next(iter(message.model_extra or {}), "message")
    event = ChannelEvent(
        event_type=f"platform.{kind}",
        source_event_type=kind,
        event_time=float(raw["date"]),
        chat=place_of(message),
        person=sender_of(message.from_user, message.sender_chat),
        message_id=str(message.message_id),
        reply_to=reply_to(message),
        data=data,
    )
    gone = [message.left_chat_member] if message.left_chat_member else []
    came = message.new_chat_members or []
    if not came and not gone:
        yield Drafted(event)
    for event_type, users in (("group.member_joined", came), ("group.member_left", gone)):
        for user in users:
            if user.id != me.id:  # of the bot itself `my_chat_member` says it
                yield Drafted(_member_event(event, event_type, user, data))


def _member_event(
    event: ChannelEvent, event_type: str, user: types.User, data: dict[str, Any]
) -> ChannelEvent:
    """Return who came or left. Telegram may say it in the chat and to administrators: both have one id."""
    where = "" if event.chat is None else event.chat.chat_id
    by = event.person
    return msgspec.structs.replace(
        event,
        event_type=event_type,
        event_id=f"{event_type}:{where}:{user.id}:{event.event_time:.0f}",
        person=person_of(user),
        data={"by": None if by is None else msgspec.to_builtins(by), **data},
    )


def _membership(kind: str, change: types.ChatMemberUpdated, data: dict[str, Any]) -> ChannelEvent:
    """Return a change of the bot's own membership or, where it is an administrator, of somebody's."""
    was, now = _is_in_chat(change.old_chat_member), _is_in_chat(change.new_chat_member)
    event = ChannelEvent(
        event_type=f"platform.{kind}",
        source_event_type=kind,
        event_time=float(data["telegram"]["date"]),
        chat=chat_of(change.chat),
        person=person_of(change.from_user),
        data={"status": change.new_chat_member.status, "was": change.old_chat_member.status, **data},
    )
    if was == now or change.chat.type == "private":
        return event
    if kind == "my_chat_member":
        return msgspec.structs.replace(event, event_type="group.bot_invited" if now else "group.bot_removed")
    event_type = "group.member_joined" if now else "group.member_left"
    return _member_event(event, event_type, change.new_chat_member.user, event.data)


def _is_in_chat(member: Any) -> bool:
    return member.status in _IN_CHAT or (member.status == "restricted" and bool(member.is_member))


def _press(query: types.CallbackQuery, data: dict[str, Any]) -> ChannelEvent:
    """Return the press of a button; of a game's button, which has no value, a `platform.` event."""
    message = query.message
    where = {"value": query.data} if query.data is not None else {}
    number = query.inline_message_id if message is None else str(message.message_id)
    chat = None
    if isinstance(message, types.Message):
        chat = place_of(message)
    elif message is not None:
        chat = chat_of(message.chat)
    return ChannelEvent(
        event_type="interaction.submitted" if where else "platform.callback_query",
        event_id=f"press:{query.id}",
        source_event_type="callback_query",
        chat=chat,
        person=person_of(query.from_user),
        message_id=number,
        data={**where, "query_id": query.id, **data},
    )


def _reactions(change: types.MessageReactionUpdated, data: dict[str, Any]) -> Iterator[Drafted]:
    """Return the reactions that one person added to a message, and took away."""
    old = {_reaction_key(one): one for one in change.old_reaction}
    new = {_reaction_key(one): one for one in change.new_reaction}
    actor: Person | None = sender_of(change.user, change.actor_chat)
    for event_type, keys in (
        ("message.reaction_removed", [key for key in old if key not in new]),
        ("message.reaction_added", [key for key in new if key not in old]),
    ):
        for emoji in keys:
            event = ChannelEvent(
                event_type=event_type,
                source_event_type="message_reaction",
                event_time=float(data["telegram"]["date"]),
                chat=chat_of(change.chat),
                person=actor,
                message_id=str(change.message_id),
                data={"emoji": emoji, **data},
            )
            yield Drafted(event)


def _reaction_key(reaction: types.ReactionTypeUnion) -> str:
    """Return the emoji, the id of a custom one, or `paid`."""
    match reaction:
        case types.ReactionTypeEmoji(emoji=emoji):
            return emoji
        case types.ReactionTypeCustomEmoji(custom_emoji_id=emoji):
            return emoji
    return reaction.type
