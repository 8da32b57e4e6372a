"""What messages of Lark say: their texts as people read them, and their files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hostler_lark.names import fields_of, text_of
from hostler_sdk.channels import ChannelEvent

MAX_FILE_NAME = 255
MAX_DEPTH = 20
"""Of what is in a post or card: deeper parts are left out."""
_KEY = re.compile(r"@_(?:user_\d+|all)\b")
_SAYS = ("text", "summary", "topic", "title", "name")
"""Where messages of rarer types have something to be read, such as a vote or a calendar entry."""
_TYPES = {"audio": "audio/ogg", "media": "video/mp4"}


@dataclass(frozen=True, slots=True)
class FileOf:
    """A file of a message. `kind`: `image` or `file`. `problem`: why it cannot be fetched."""

    message_id: str
    key: str
    kind: str
    name: str | None = None
    mime_type: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Drafted:
    """An event without its files, and these."""

    event: ChannelEvent
    files: list[FileOf] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Content:
    """What a message says."""

    text: str | None
    files: list[FileOf]
    fields: dict[str, Any]


def content_of(message: Mapping[str, Any], names: Mapping[str, str]) -> Content:
    """Return what a message says. `names`: who is meant by `@_user_1` and the like."""
    kind, raw = str(message.get("message_type") or ""), message.get("content")
    try:
        told = fields_of(json.loads(raw)) if isinstance(raw, str) else {}
    except (ValueError, RecursionError):
        told = {}
    message_id = str(message.get("message_id") or "")
    match kind:
        case "text":
            text = _named(str(told.get("text") or ""), names)
        case "post" | "interactive":
            text = "\n".join(_lines(told, names)).strip()
        case "location":
            where = f"{told.get('latitude')}, {told.get('longitude')}"
            text = f"{told.get('name')} ({where})" if told.get("name") else where
        case "image" | "file" | "audio" | "media" | "folder" | "sticker" | "share_chat" | "share_user":
            text = ""
        case _:
            text = _said(told)
    return Content(text or None, list(_files(kind, told, message_id)), told)


def mentioned(message: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return whom a message mentions, by the keys that its text has for them."""
    found = message.get("mentions")
    told = [fields_of(one) for one in (found if isinstance(found, list) else [])]
    return {str(one["key"]): one for one in told if text_of(one.get("key"))}


def _named(text: str, names: Mapping[str, str]) -> str:
    return _KEY.sub(lambda match: f"@{names.get(match[0], match[0].removeprefix('@_'))}", text)


def _said(told: Mapping[str, Any]) -> str:
    for name in _SAYS:
        value = told.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, dict):
            return "\n".join(_lines(value, {})).strip()
    return ""


# -- posts and cards ------------------------------------------------------------------------------


def _lines(told: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a post, or of what Lark tells of a card: both are lists of rows of elements."""
    if text_of(told.get("title")):
        yield str(told["title"])
    rows = told.get("content") if isinstance(told.get("content"), list) else told.get("elements")
    for row in rows if isinstance(rows, list) else []:
        elements = row if isinstance(row, list) else [row]
        yield "".join(_inline(fields_of(one), names) for one in elements)


def _inline(element: Mapping[str, Any], names: Mapping[str, str], depth: int = 0) -> str:  # noqa: PLR0911
    text = str(element.get("text") or "") if isinstance(element.get("text"), str) else ""
    match element.get("tag"):
        case "text" | "md" | "plain_text" | "lark_md" | "markdown":
            return text or str(element.get("content") or "")
        case "a":
            href = str(element.get("href") or "")
            return text if not href or text == href else f"{text} ({href})"
        case "at":
            key, name = str(element.get("user_id") or ""), text_of(element.get("user_name"))
            return f"@{name or names.get(key) or key.removeprefix('@_')}"
        case "emotion":
            return f":{element.get('emoji_type')}:"
        case "code_block":
            language = str(element.get("language") or "").lower()
            return f"```{language}\n{text.rstrip()}\n```"
        case "hr":
            return "———"
        case "img" | "media":
            return ""
    inner = element.get("text") or element.get("elements") or element.get("actions")
    parts = inner if isinstance(inner, list) else [inner]
    if depth >= MAX_DEPTH:
        return ""
    return text or " ".join(found for one in parts if (found := _inline(fields_of(one), names, depth + 1)))


# -- files ----------------------------------------------------------------------------------------


def _files(kind: str, told: Mapping[str, Any], message_id: str) -> Iterator[FileOf]:
    key, name = text_of(told.get("file_key")), text_of(told.get("file_name"))
    match kind:
        case "image" if text_of(told.get("image_key")):
            yield FileOf(message_id, str(told["image_key"]), "image", "image")
        case "file" | "audio" | "media" if key:
            named = (name or {"audio": "voice.ogg", "media": "video.mp4"}.get(kind, "file"))[-MAX_FILE_NAME:]
            yield FileOf(message_id, key, "file", named, _TYPES.get(kind))
        case "sticker" | "folder" if key:
            text = f"Lark does not give a {kind} to apps"
            yield FileOf(message_id, key, "file", name or kind, problem=text)
        case "post":
            yield from _files_of_post(told, message_id)


def _files_of_post(told: Mapping[str, Any], message_id: str) -> Iterator[FileOf]:
    rows = told.get("content")
    for row in rows if isinstance(rows, list) else []:
        for element in row if isinstance(row, list) else []:
            one = fields_of(element)
            if one.get("tag") == "img" and text_of(one.get("image_key")):
                yield FileOf(message_id, str(one["image_key"]), "image", "image")
            elif one.get("tag") == "media" and text_of(one.get("file_key")):
                yield FileOf(message_id, str(one["file_key"]), "file", "video.mp4", _TYPES["media"])
