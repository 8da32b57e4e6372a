"""Messages of Matrix as events: who, where, what was said, how it called the bot, and its files."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from hostler_matrix.rooms import Room, relation, text_in
from hostler_protocol.channels import Addressed, ChatKind
from hostler_sdk.channels import ChannelEvent, Chat, Person

FILES = {
    "m.image": "image/jpeg",
    "m.video": "video/mp4",
    "m.audio": "audio/ogg",
    "m.file": None,
    "m.sticker": None,
}
"""Messages that are files, and their types where they name none."""
_COMMAND = re.compile(r"([^\W_][\w-]{0,63})(?:\s+(.*))?", re.DOTALL)
_MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class Me:
    """The bot's own account, and what commands begin with."""

    user_id: str
    name: str | None
    prefix: str


@dataclass(frozen=True, slots=True)
class FileOf:
    """A file of a message, to be fetched by its address; `uri` is None if it cannot be read."""

    uri: str | None
    name: str
    mime_type: str
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class Drafted:
    """An event without its files, and these."""

    event: ChannelEvent
    files: list[FileOf] = field(default_factory=list)


def chat_of(room_id: str, room: Room, thread_id: str | None = None) -> Chat:
    """Return a room as a chat: private if nobody but the bot and one person is in it."""
    kind: ChatKind = "private" if room.joined is not None and room.joined <= 2 else "group"
    return Chat(chat_id=room_id, kind=kind, title=room.title, thread_id=thread_id)


def person_of(user_id: str, room: Room, *, is_bot: bool = False) -> Person:
    """Return somebody in a room."""
    return Person(person_id=user_id, name=room.names.get(user_id), is_bot=is_bot)


def reply_to(content: dict[str, Any]) -> str | None:
    """Return the message that one answers. In a thread old clients are shown one that is not meant."""
    relates = relation(content)
    if relates.get("rel_type") == "m.thread" and relates.get("is_falling_back") is True:
        return None
    return text_in(relates.get("m.in_reply_to"), "event_id")


def body_of(content: dict[str, Any]) -> str:
    """Return what was said, without the copy of what it answers that old clients put above it."""
    body = text_in(content, "body") or ""
    if reply_to(content) is None or not body.startswith("> "):
        return body
    lines = body.split("\n")
    said = next((number for number, line in enumerate(lines) if not line.startswith(">")), len(lines))
    return "\n".join(lines[said:]).removeprefix("\n") or body


def text_of(content: dict[str, Any]) -> str | None:
    """Return the text of a message; of a file its caption."""
    body = body_of(content)
    if content.get("msgtype") in FILES:
        name = text_in(content, "filename")
        return body if name is not None and body != name and body else None
    return body or None


def command_of(text: str, me: Me) -> tuple[str, str] | None:
    """Return the command that a message begins with, and its arguments."""
    if not me.prefix or not text.startswith(me.prefix):
        return None
    found = _COMMAND.fullmatch(text[len(me.prefix) :])
    return None if found is None else (found[1], (found[2] or "").strip())


def mentions(content: dict[str, Any], me: Me) -> bool:
    """Whether a message mentions the bot: as it says itself or, of an old client, as its text does."""
    said = content.get("m.mentions")
    if isinstance(said, dict):
        users = said.get("user_ids")
        return isinstance(users, list) and me.user_id in users
    rich = html.unescape(text_in(content, "formatted_body") or "")
    if "<mx-reply>" in rich:  # a copy of what it answers
        before, _, after = rich.partition("<mx-reply>")
        rich = before + after.partition("</mx-reply>")[2]
    pills = (
        f"matrix.to/#/{me.user_id}",
        f"matrix.to/#/{quote(me.user_id)}",
        f"matrix.to/#/{quote(me.user_id, safe='')}",
    )
    if any(f"{pill}{end}" in rich for pill in pills for end in ('"', "'", "?")):
        return True
    body = body_of(content)
    names = [re.escape(name) for name in (me.user_id, me.name) if name]
    return re.search(rf"(?<![\w@])(?:{'|'.join(names)})(?![.-]?\w)", body, re.IGNORECASE) is not None


def addressed(
    content: dict[str, Any], me: Me, *, is_private: bool, is_command: bool, answers_me: bool
) -> list[Addressed]:
    """Return how a message called the bot."""
    found: list[Addressed] = []
    if is_private:
        found.append("private")
    if is_command:
        found.append("command")
    if mentions(content, me):
        found.append("mention")
    if answers_me:
        found.append("reply")
    return found


def files_of(content: dict[str, Any], msgtype: str) -> list[FileOf]:
    """Return the file of a message."""
    if msgtype not in FILES:
        return []
    info = content.get("info")
    size = info.get("size") if isinstance(info, dict) else None
    is_count = isinstance(size, int) and not isinstance(size, bool) and size >= 0
    name = text_in(content, "filename") or text_in(content, "body") or "file"
    name = re.split(r"[/\\\n]", name)[-1].strip()[:_MAX_NAME] or "file"
    mime_type = text_in(info, "mimetype") or FILES[msgtype] or "application/octet-stream"
    return [FileOf(text_in(content, "url"), name, mime_type[:_MAX_NAME], size if is_count else None)]
