"""Messages of LINE: their text, how they called the bot, and their files."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hostler_protocol.channels import Addressed

_KINDS = {
    "image": ("jpg", "image/jpeg"),
    "video": ("mp4", "video/mp4"),
    "audio": ("m4a", "audio/mp4"),
}
"""What LINE makes of what people send."""
_MESSAGE_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")


@dataclass(frozen=True, slots=True)
class FileOf:
    """A file of a message. `problem`: why it cannot be fetched."""

    message_id: str
    name: str
    mime_type: str | None
    size_bytes: int | None
    problem: str | None = None


def text_of_message(message: dict[str, Any]) -> str | None:
    """Return the text of a message; of a place its name and address, of a sticker what it says or shows."""
    match message.get("type"):
        case "text":
            return _text(message.get("text"))
        case "location":
            places = [_text(message.get("title")), _text(message.get("address"))]
            where = f"{message.get('latitude')}, {message.get('longitude')}"
            return "\n".join([*[one for one in places if one], where])
        case "sticker":
            words = message.get("keywords")
            words = words if isinstance(words, list) else []
            shown = ", ".join(one for one in words[:3] if isinstance(one, str))
            return _text(message.get("text")) or (f"({shown})" if shown else None)
    return None


def addressed(message: dict[str, Any], *, is_private: bool, quotes_own: bool) -> Iterator[Addressed]:
    """Yield how a message called the bot. That it mentions all (@All) calls nobody."""
    if is_private:
        yield "private"
    mention = message.get("mention")
    mentionees = mention.get("mentionees") if isinstance(mention, dict) else None
    for one in mentionees if isinstance(mentionees, list) else []:
        if isinstance(one, dict) and one.get("isSelf") is True:
            yield "mention"
            break
    if quotes_own:
        yield "reply"


def files_of(message: dict[str, Any]) -> Iterator[FileOf]:
    """Yield the file of a message, if it is one."""
    kind, message_id = str(message.get("type")), message.get("id")
    if kind not in {*_KINDS, "file"}:
        return
    known = isinstance(message_id, str) and _MESSAGE_ID.fullmatch(message_id) is not None
    if kind == "file":
        name = (_text(message.get("fileName")) or f"file-{message_id}")[:255]
        mime_type = mimetypes.guess_type(name)[0]
    else:
        ending, mime_type = _KINDS[kind]
        name = f"{kind}-{message_id}.{ending}"[:255]
    size = message.get("fileSize")
    provider = message.get("contentProvider")
    problem = None if known else "LINE gives no id of it"
    if isinstance(provider, dict) and provider.get("type") == "external":
        problem = "it is kept outside of LINE"
    yield FileOf(
        message_id=str(message_id),
        name=name,
        mime_type=mime_type,
        size_bytes=size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None,
        problem=problem,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
