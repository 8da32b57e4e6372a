"""Pictures and files of a conversation: which are sent with a request, and kept with a summary. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler_sdk.types import (
    ArtifactElement,
    ContentElement,
    FileBase64Element,
    FileUrlElement,
    ImageBase64Element,
    ImageUrlElement,
    ModelMessage,
    TextElement,
)

MAX_SENT_BYTES = 20 * 1024 * 1024
"""All files of one request: the host accepts 24 MiB, and not every size is known."""
MAX_KEPT_FILES = 8
"""The newest files, kept with the summary of a conversation."""
MAX_ADDRESS_CHARS = 2_000
_HEAD = "Files from the earlier part of this conversation:"
_REST = "\nThe message:"


def files_of(message: ModelMessage) -> list[ContentElement]:
    """Return the elements of a message other than text."""
    content = message.content
    if content is None or isinstance(content, str):
        return []
    return [element for element in content if not isinstance(element, TextElement)]


def lasting(messages: Sequence[ModelMessage]) -> list[ContentElement]:
    """Return the newest files of these messages that can be kept as references: oldest first, each once."""
    kept: dict[bytes, ContentElement] = {}
    for message in reversed(messages):
        for element in reversed(files_of(message)):
            if _is_reference(element):
                kept.setdefault(msgspec.json.encode(element), element)
    return list(kept.values())[:MAX_KEPT_FILES][::-1]


def with_files(messages: Sequence[ModelMessage], files: Sequence[ContentElement]) -> list[ModelMessage]:
    """Put files at the beginning of the first message of the user.

    They are not a separate message, because many chat templates require user and assistant to alternate.
    """
    place = next((n for n, message in enumerate(messages) if message.role == "user"), None)
    if not files or place is None:
        return list(messages)
    first = messages[place]
    own = [TextElement(text=first.content)] if isinstance(first.content, str) else first.content or []
    content = [TextElement(text=_HEAD), *files, TextElement(text=_REST), *own]
    return [
        *messages[:place],
        msgspec.structs.replace(first, content=content),
        *messages[place + 1 :],
    ]


def within_bytes(messages: Sequence[ModelMessage], always: ModelMessage) -> list[ModelMessage]:
    """Replace the oldest files by their names if all files together are too large to be sent.

    The files of `always` stay in any case: if they are too large, the host refuses the request.
    """
    room = MAX_SENT_BYTES - sum(map(_size, files_of(always)))
    if sum(_size(e) for m in messages if m is not always for e in files_of(m)) <= room:
        return list(messages)
    fitting: list[ModelMessage] = []
    for message in reversed(messages):
        if message is always or not files_of(message):
            fitting.append(message)
            continue
        content: list[ContentElement] = []
        for element in reversed(message.content if isinstance(message.content, list) else []):
            size = _size(element)
            room -= size
            content.append(element if room >= 0 or not size else TextElement(text=f"[{name_of(element)}]"))
        fitting.append(msgspec.structs.replace(message, content=content[::-1]))
    return fitting[::-1]


def without_files(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Replace all files by their names."""
    return [
        msgspec.structs.replace(
            message,
            content=[
                element if isinstance(element, TextElement) else TextElement(text=f"[{name_of(element)}]")
                for element in message.content
            ],
        )
        if isinstance(message.content, list)
        else message
        for message in messages
    ]


def name_of(element: ContentElement) -> str:
    """Return the text that replaces a file."""
    match element:
        case ArtifactElement(file_name=None, mime_type=kind) if (kind or "").startswith("image/"):
            return "a picture"
        case ArtifactElement() | FileUrlElement() | FileBase64Element():
            return element.file_name or "a file"
        case ImageUrlElement() | ImageBase64Element():
            return "a picture"
        case _:
            return "text"


def _size(element: ContentElement) -> int:
    match element:
        case ArtifactElement(size_bytes=size):
            return size or 0
        case ImageBase64Element(image_base64=inline) | FileBase64Element(file_base64=inline):
            return len(inline) * 3 // 4
        case _:
            return 0


def _is_reference(element: ContentElement) -> bool:
    match element:
        case ArtifactElement():
            return True
        case ImageUrlElement(image_url=image):
            return len(image.url) <= MAX_ADDRESS_CHARS
        case FileUrlElement(file_url=url):
            return len(url) <= MAX_ADDRESS_CHARS
        case _:
            return False
