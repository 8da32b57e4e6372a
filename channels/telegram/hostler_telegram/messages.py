"""Messages of Telegram as events: who, where, what was said, how it called the bot, and its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from aiogram.enums import ContentType
from aiogram.types import Chat as TelegramChat
from aiogram.types import Message, MessageEntity, User

from hostler_protocol.channels import Addressed, ChatKind
from hostler_sdk.channels import ChannelEvent, Chat, Person

CONTENT = {
    ContentType.ANIMATION,
    ContentType.AUDIO,
    ContentType.CHECKLIST,
    ContentType.CONTACT,
    ContentType.DICE,
    ContentType.DOCUMENT,
    ContentType.GAME,
    ContentType.LIVE_PHOTO,
    ContentType.LOCATION,
    ContentType.PAID_MEDIA,
    ContentType.PHOTO,
    ContentType.POLL,
    ContentType.RICH_MESSAGE,
    ContentType.STICKER,
    ContentType.STORY,
    ContentType.TEXT,
    ContentType.VENUE,
    ContentType.VIDEO,
    ContentType.VIDEO_NOTE,
    ContentType.VOICE,
}
"""What people send; the other kinds of messages tell what happened in the chat."""
_AS_DATA = ("contact", "dice", "location", "poll", "venue", "checklist", "media_group_id", "quote")
"""Fields of a message that are data of its event under their own name."""
_STICKERS = {
    "static": ("webp", "image/webp"),
    "animated": ("tgs", "application/x-tgsticker"),
    "video": ("webm", "video/webm"),
}


@dataclass(frozen=True, slots=True)
class FileOf:
    """A file of a message, to be fetched by its id."""

    file_id: str
    name: str
    mime_type: str
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class Drafted:
    """An event without its files, and these."""

    event: ChannelEvent
    files: list[FileOf] = field(default_factory=list)


def person_of(user: User | None) -> Person | None:
    """Return a user as a person."""
    if user is None:
        return None
    return Person(person_id=str(user.id), name=user.full_name or user.username, is_bot=user.is_bot)


def sender_of(user: User | None, sender_chat: TelegramChat | None) -> Person | None:
    """Return who sent it: a user or, for anonymous administrators and channels, the chat they speak for."""
    if sender_chat is not None:
        return Person(person_id=str(sender_chat.id), name=sender_chat.title or sender_chat.full_name)
    return person_of(user)


def chat_of(chat: TelegramChat, thread_id: int | None = None) -> Chat:
    """Return a chat, or one of its topics."""
    kinds: dict[str, ChatKind] = {"private": "private", "channel": "broadcast"}
    return Chat(
        chat_id=str(chat.id),
        kind=kinds.get(chat.type, "group"),
        title=chat.title or chat.full_name or None,
        thread_id=None if thread_id is None else str(thread_id),
    )


def place_of(message: Message) -> Chat:
    """Return where a message is. Replies outside of topics have a thread id as well, which is no place."""
    return chat_of(message.chat, message.message_thread_id if message.is_topic_message else None)


def message_event(message: Message, event_type: str, data: dict[str, Any], me: User) -> Drafted:
    """Return a message that somebody wrote as an event."""
    raw = data["telegram"]
    told = {name: raw[name] for name in _AS_DATA if raw.get(name) is not None}
    if message.sticker is not None:
        told["sticker"] = {"emoji": message.sticker.emoji, "set_name": message.sticker.set_name}
    command = command_of(message, me)
    if command is not None:
        told["command"] = {"name": command[0], "arguments": command[1]}
    event = ChannelEvent(
        event_type=event_type,
        source_event_type=ContentType(message.content_type).value,
        event_time=float(raw.get("edit_date") or raw["date"]),
        chat=place_of(message),
        person=sender_of(message.from_user, message.sender_chat),
        message_id=str(message.message_id),
        reply_to=reply_to(message),
        text=text_of(message),
        addressed=list(addressed(message, me, is_command=command is not None)),
        data={**told, **data},
    )
    return Drafted(event, list(files_of(message)))


def text_of(message: Message) -> str | None:
    """Return text or caption; of a poll its question and options, of a sticker or dice its emoji."""
    if message.text or message.caption:
        return message.text or message.caption
    if message.poll is not None:
        return "\n".join([message.poll.question, *(f"- {one.text}" for one in message.poll.options)])
    if message.sticker is not None:
        return message.sticker.emoji
    return message.dice.emoji if message.dice is not None else None


def reply_to(message: Message) -> str | None:
    """Return the message that this one answers. In a topic every message answers the one that opened it."""
    other = message.reply_to_message
    if other is None or other.forum_topic_created is not None:
        return None
    return str(other.message_id)


def command_of(message: Message, me: User) -> tuple[str, str] | None:
    """Return name and arguments of a command to this bot, like `/start@my_bot x`; None for other bots'."""
    text = message.text or message.caption or ""
    entities = message.entities or message.caption_entities or []
    entity = next((one for one in entities if one.type == "bot_command" and one.offset == 0), None)
    if entity is None:
        return None
    written = entity.extract_from(text)
    name, _, bot = written[1:].partition("@")
    if bot and bot.lower() != (me.username or "").lower():
        return None
    return name, text[len(written) :].strip()


def addressed(message: Message, me: User, *, is_command: bool) -> Iterator[Addressed]:
    """Yield how a message called the bot."""
    if message.chat.type == "private":
        yield "private"
    if is_command:
        yield "command"
    text = message.text or message.caption or ""
    entities = message.entities or message.caption_entities or []
    if any(_mentions(entity, text, me) for entity in entities):
        yield "mention"
    other = message.reply_to_message
    author = None if other is None or reply_to(message) is None else other.from_user
    if author is not None and author.id == me.id:
        yield "reply"


def _mentions(entity: MessageEntity, text: str, me: User) -> bool:
    if entity.type == "text_mention":
        return entity.user is not None and entity.user.id == me.id
    name = f"@{me.username}".lower()
    return entity.type == "mention" and entity.extract_from(text).lower() == name


def files_of(message: Message) -> Iterator[FileOf]:
    """Yield the files of a message; of a photo the largest of its sizes."""
    number = message.message_id
    if message.photo:
        photo = max(message.photo, key=lambda size: (size.width * size.height, size.file_size or 0))
        yield FileOf(photo.file_id, f"photo_{number}.jpg", "image/jpeg", photo.file_size)
    for one, kind, ending, mime_type in (
        (message.voice, "voice", "ogg", "audio/ogg"),
        (message.audio, "audio", "mp3", "audio/mpeg"),
        (message.video, "video", "mp4", "video/mp4"),
        (message.video_note, "video_note", "mp4", "video/mp4"),
        (message.animation, "animation", "mp4", "video/mp4"),
        # an animation is in `document` a second time, for programs that know none
        (None if message.animation else message.document, "document", "bin", "application/octet-stream"),
    ):
        if one is not None:
            name = getattr(one, "file_name", None) or f"{kind}_{number}.{ending}"
            yield FileOf(one.file_id, name, getattr(one, "mime_type", None) or mime_type, one.file_size)
    if message.sticker is not None:
        sticker = message.sticker
        form = "animated" if sticker.is_animated else "video" if sticker.is_video else "static"
        ending, mime_type = _STICKERS[form]
        yield FileOf(sticker.file_id, f"sticker_{number}.{ending}", mime_type, sticker.file_size)
