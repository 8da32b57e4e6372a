"""Messages of Discord as events: who, what was said, how it called the bot, and its files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from discord import MessageType

from hostler_protocol.channels import Addressed
from hostler_sdk.channels import ChannelEvent, Chat, Person

WRITTEN = {0, 19, 20, 23}
"""Types of messages that somebody wrote: plain, replies, answers to commands. Others tell what happened."""
_FORWARD = 1
_EPOCH_MS = 1_420_070_400_000
_MENTION = re.compile(r"<@!?(\d+)>")
_AS_DATA = ("poll", "sticker_items", "embeds", "message_snapshots")
"""Fields of a message that are data of its event under their own name."""


@dataclass(frozen=True, slots=True)
class FileOf:
    """A file of a message."""

    url: str
    name: str | None
    mime_type: str | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class Drafted:
    """An event without its files, and these."""

    event: ChannelEvent
    files: list[FileOf] = field(default_factory=list)


def person_of(user: Any, member: Any = None) -> Person | None:
    """Return a user as a person, by the name that is shown in the server."""
    if not isinstance(user, dict) or not user.get("id"):
        return None
    nick = member.get("nick") if isinstance(member, dict) else None
    name = nick or user.get("global_name") or user.get("username")
    return Person(person_id=str(user["id"]), name=name, is_bot=user.get("bot") is True)


def author_of(message: dict[str, Any]) -> Person | None:
    """Return who wrote a message; what a webhook says, a bot says."""
    person = person_of(message.get("author"), message.get("member"))
    if person is not None and message.get("webhook_id"):
        return Person(person_id=person.person_id, name=person.name, is_bot=True)
    return person


def time_of(text: Any) -> float | None:
    """Return a timestamp of Discord in UTC epoch seconds."""
    return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None


def snowflake_of(seconds: float) -> int:
    """Return the smallest id of something that is made at this time."""
    return max(0, int(seconds * 1000) - _EPOCH_MS) << 22


def seconds_of(snowflake: int) -> float:
    """Return when something with this id was made."""
    return ((snowflake >> 22) + _EPOCH_MS) / 1000


def message_event(
    message: dict[str, Any], event_type: str, source: str, chat: Chat, me: dict[str, Any]
) -> Drafted:
    """Return a message that somebody wrote, or changed, as an event."""
    edited = message.get("edited_timestamp") if event_type == "message.edited" else None
    number, person = str(message["id"]), author_of(message)
    if person is None:
        raise ValueError("a message without its author")
    event = ChannelEvent(
        event_type=event_type,
        event_id=f"message:{number}" if edited is None else f"edit:{number}:{edited}",
        source_event_type=source,
        event_time=time_of(edited or message["timestamp"]),
        chat=chat,
        person=person,
        message_id=number,
        reply_to=reply_to(message),
        text=text_of(message),
        addressed=list(addressed(message, chat, me)),
        data={**{name: message[name] for name in _AS_DATA if message.get(name)}, "discord": message},
    )
    return Drafted(event, list(files_of(message)))


def kind_of(message: dict[str, Any]) -> str:
    """Return what a message of the chat itself tells, by Discord's name in lower case."""
    number = message.get("type")
    known = {kind.value: kind.name for kind in MessageType}
    return known.get(number, f"message_type_{number}") if isinstance(number, int) else "message_create"


def text_of(message: dict[str, Any]) -> str | None:
    """Return the text, with the names of who is mentioned; of a poll its question and options."""
    text = _content(message)
    if text:
        return text
    for forwarded in _forwarded(message):
        if text := _content(forwarded):
            return text
    poll = message.get("poll")
    if isinstance(poll, dict):
        options = [one["poll_media"].get("text", "") for one in poll.get("answers") or []]
        return "\n".join([poll["question"]["text"], *(f"- {option}" for option in options)])
    stickers = [f":{one['name']}:" for one in message.get("sticker_items") or []]
    return " ".join(stickers) or None


def _content(message: dict[str, Any]) -> str:
    users = {str(one["id"]): one for one in message.get("mentions") or []}

    def name(match: re.Match[str]) -> str:
        person = person_of(users.get(match[1]), (users.get(match[1]) or {}).get("member"))
        return match[0] if person is None or person.name is None else f"@{person.name}"

    return _MENTION.sub(name, str(message.get("content") or ""))


def reply_to(message: dict[str, Any]) -> str | None:
    """Return the message that this one answers."""
    reference = message.get("message_reference")
    if not isinstance(reference, dict) or reference.get("type") == _FORWARD or message.get("type") != 19:
        return None
    number = reference.get("message_id")
    return None if number is None else str(number)


def addressed(message: dict[str, Any], chat: Chat, me: dict[str, Any]) -> Iterator[Addressed]:
    """Yield how a message called the bot."""
    if chat.kind == "private":
        yield "private"
    my_id, content = str(me["id"]), str(message.get("content") or "")
    other = message.get("referenced_message") if reply_to(message) is not None else None
    is_reply = isinstance(other, dict) and str((other.get("author") or {}).get("id")) == my_id
    # a reply mentions whom it answers, although the text does not
    if my_id in _MENTION.findall(content) or (not content and not is_reply and _is_mentioned(message, my_id)):
        yield "mention"
    if is_reply:
        yield "reply"


def _is_mentioned(message: dict[str, Any], my_id: str) -> bool:
    return any(str(one["id"]) == my_id for one in message.get("mentions") or [])


def _forwarded(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [one["message"] for one in message.get("message_snapshots") or []]


def files_of(message: dict[str, Any]) -> Iterator[FileOf]:
    """Yield the files of a message, and of what it forwards."""
    for one in [message, *_forwarded(message)]:
        yield from map(_file, one.get("attachments") or [])


def files_of_interaction(data: dict[str, Any]) -> Iterator[FileOf]:
    """Yield the files that were given with a command or a form."""
    resolved = (data.get("data") or {}).get("resolved") or {}
    yield from map(_file, (resolved.get("attachments") or {}).values())


def _file(file: dict[str, Any]) -> FileOf:
    mime_type, size = file.get("content_type"), file.get("size")
    return FileOf(
        str(file["url"]),
        file.get("filename"),
        mime_type.partition(";")[0].strip() if isinstance(mime_type, str) else None,
        size if isinstance(size, int) else None,
    )
