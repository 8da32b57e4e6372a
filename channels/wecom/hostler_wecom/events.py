"""What WeCom sends, as events: messages of members to the application, presses, and what else happens."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import msgspec

from hostler_sdk.channels import ChannelEvent, Chat, Person
from hostler_wecom.xml_fields import text_of

MAX_ID_CHARS = 512
SYSTEM = "sys"
"""Who sends events of the company, like changes of its address book; nobody may have this id."""
_PRESSES = {"click", "template_card_event", "template_card_menu_event"}
"""Events of buttons on cards and of the menu; `EventKey` is the value."""
_FILES = {"image": ("jpg", "image/jpeg"), "voice": ("amr", "audio/amr"), "video": ("mp4", "video/mp4")}
_RESPONSE_CODE = "ResponseCode"


@dataclass(frozen=True, slots=True)
class MediaOf:
    """A file of a message. `name` and `mime_type`: if WeCom does not say better."""

    media_id: str
    name: str
    mime_type: str | None


@dataclass(frozen=True, slots=True)
class Drafted:
    """An event without its file, and this. `response_code`: it allows one change of a card."""

    event: ChannelEvent
    media: MediaOf | None = None
    response_code: str | None = None


def event_id_of(fields: dict[str, Any]) -> str:
    """Return what is the same of each delivery: the id of a message; of events, which have none, a digest."""
    message_id = text_of(fields, "MsgId")
    if message_id is not None and message_id.isascii() and message_id.isdecimal():
        return f"message:{message_id}"[:MAX_ID_CHARS]
    said = {name: value for name, value in fields.items() if name != _RESPONSE_CODE}
    return f"event:{hashlib.sha256(msgspec.json.encode(said, order='sorted')).hexdigest()}"


def user_of(fields: dict[str, Any]) -> str | None:
    """Return the member whom something comes from; None if it comes from the company."""
    user = text_of(fields, "FromUserName")
    is_event = text_of(fields, "MsgType") == "event"
    return None if user is None or (is_event and user == SYSTEM) else user[:MAX_ID_CHARS]


def has_file(fields: dict[str, Any]) -> bool:
    """Whether a message brings a file, which takes time to fetch."""
    return text_of(fields, "MsgType") != "event" and text_of(fields, "MediaId") is not None


def read_event(fields: dict[str, Any], name: str | None) -> Drafted:
    """Return what WeCom sent as an event. `name`: of the member."""
    kind = (text_of(fields, "MsgType") or "unknown").lower()
    if kind == "event":
        return _happened(fields, name)
    event_type = "message.received"
    text = _text(kind, fields)
    media_id = text_of(fields, "MediaId")
    media = None if media_id is None else _media(kind, media_id, fields)
    if text is None and media is None:
        event_type = _platform(kind)
    return Drafted(_event(fields, name, event_type, kind, text=text), media)


def unreadable(content: bytes, reason: str) -> ChannelEvent:
    """Return an event for what cannot be read, as of a newer WeCom: it comes all the same."""
    return ChannelEvent(
        event_type="platform.unreadable",
        event_id=f"event:{hashlib.sha256(content).hexdigest()}",
        data={"unreadable": reason, "wecom": content[:20_000].decode("utf-8", "replace")},
    )


def _happened(fields: dict[str, Any], name: str | None) -> Drafted:
    kind = text_of(fields, "Event") or "unknown"
    more: dict[str, Any] = {}
    if kind.lower() in _PRESSES:
        event_type = "interaction.submitted"
        more["value"] = text_of(fields, "EventKey") or ""
    elif kind.lower() == "subscribe":
        event_type = "friend.added"
    else:
        event_type = _platform(kind)
    event = _event(fields, name, event_type, kind, more=more)
    return Drafted(event, response_code=text_of(fields, _RESPONSE_CODE))


def _event(
    fields: dict[str, Any],
    name: str | None,
    event_type: str,
    kind: str,
    *,
    text: str | None = None,
    more: dict[str, Any] | None = None,
) -> ChannelEvent:
    user = user_of(fields)
    message_id = text_of(fields, "MsgId") or text_of(fields, "TaskId")
    return ChannelEvent(
        event_type=event_type,
        event_id=event_id_of(fields),
        source_event_type=kind[:100],
        event_time=_time(fields),
        chat=None if user is None else Chat(chat_id=user, kind="private"),
        person=None if user is None else Person(person_id=user, name=name),
        message_id=None if message_id is None else message_id[:MAX_ID_CHARS],
        text=text,
        addressed=["private"] if event_type == "message.received" else [],
        data={"wecom": fields, **(more or {})},
    )


def _text(kind: str, fields: dict[str, Any]) -> str | None:
    match kind:
        case "text":
            return text_of(fields, "Content")
        case "location":
            place = f"{text_of(fields, 'Location_X') or '?'}, {text_of(fields, 'Location_Y') or '?'}"
            label = text_of(fields, "Label")
            return place if label is None else f"{label} ({place})"
        case "link":
            told = [text_of(fields, name) for name in ("Title", "Description", "Url")]
            return "\n".join(one for one in told if one is not None) or None
    return None


def _media(kind: str, media_id: str, fields: dict[str, Any]) -> MediaOf:
    named = text_of(fields, "FileName") or text_of(fields, "Title")
    ending, mime_type = _FILES.get(kind, ("bin", None))
    ending = (text_of(fields, "Format") or ending).lower() if kind == "voice" else ending
    if not re.fullmatch(r"[a-z0-9]{1,8}", ending):
        ending = "bin"
    return MediaOf(media_id, named or f"{kind}.{ending}"[:100], mime_type if ending != "bin" else None)


def _platform(kind: str) -> str:
    """Return WeCom's name of something as the type of an event, in lower case."""
    name = re.sub(r"[^a-z0-9]+", "_", kind.lower()).strip("_")
    return f"platform.{name[:80] if name[:1].isalpha() else 'unknown'}"


def _time(fields: dict[str, Any]) -> float | None:
    time = text_of(fields, "CreateTime") or ""
    return float(time) if time.isascii() and time.isdecimal() and len(time) < 13 else None
