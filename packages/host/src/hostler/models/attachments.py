"""Files in model messages: their types, data URLs, and the content of artifacts."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

import msgspec

from hostler.models.limits import MAX_ATTACHMENT_BYTES
from hostler.models.port import ReadArtifact
from hostler_protocol.content import (
    ArtifactElement,
    ContentElement,
    FileBase64Element,
    ImageBase64Element,
    ModelMessage,
    TextElement,
)
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/yaml", "application/x-ndjson"})


def sniff(data: bytes) -> str | None:
    """Return the MIME type of a file by its first bytes; None if they are not known."""
    if data[:4] == b"RIFF" and data[8:12] in (b"WEBP", b"WAVE"):
        return "image/webp" if data[8:12] == b"WEBP" else "audio/wav"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)


def decoded(content: str) -> tuple[bytes, str | None]:
    """Decode base64 or a data URL. Return the bytes and the MIME type from the bytes or the URL.

    InvalidArgumentError if it is not base64.
    """
    stated = None
    if content.startswith("data:"):
        head, _, content = content.partition(",")
        stated = head.removeprefix("data:").split(";")[0] or None
    try:
        data = base64.b64decode(content, validate=False)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgumentError(
            f"an image or file of a model message is not valid base64: {error}"
        ) from error
    return data, sniff(data) or stated


def data_url(data: bytes, mime_type: str) -> str:
    """Return the bytes as a `data:` URL."""
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


def is_text(mime_type: str | None, name: str | None) -> bool:
    """Return whether a file is text, which a model can read without conversion."""
    kind = (mime_type or "").split(";")[0].strip().lower()
    if kind:
        return kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(("+json", "+xml"))
    return (name or "").lower().endswith((".txt", ".md", ".csv", ".json", ".yaml", ".yml", ".xml", ".log"))


async def with_artifacts(
    messages: Sequence[ModelMessage], read_artifact: ReadArtifact | None
) -> list[ModelMessage]:
    """Return the messages with each artifact replaced by its content, or by a line of text if it is gone.

    PayloadTooLargeError if all files together are over 24 MiB.
    """
    budget = _Budget()
    return [
        msgspec.structs.replace(message, content=[await _resolved(e, read_artifact, budget) for e in parts])
        if isinstance(parts := message.content, list)
        else message
        for message in messages
    ]


class _Budget:
    def __init__(self) -> None:
        self._left = MAX_ATTACHMENT_BYTES

    def take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise PayloadTooLargeError(
                f"the files of one model request are over {MAX_ATTACHMENT_BYTES:,} bytes together; send fewer"
            )


async def _resolved(
    element: ContentElement, read_artifact: ReadArtifact | None, budget: _Budget
) -> ContentElement:
    match element:
        case ImageBase64Element(image_base64=inline) | FileBase64Element(file_base64=inline):
            budget.take(len(inline) * 3 // 4)
            return element
        case ArtifactElement():
            stated = element.size_bytes or 0
            budget.take(stated)  # before reading, so that a huge one is never read
            found = await read_artifact(element) if read_artifact else None
            name = element.file_name or element.artifact_id
            if found is None:
                return TextElement(text=f"[attachment {name} is no longer available]")
            budget.take(max(0, len(found.data) - stated))
            encoded = base64.b64encode(found.data).decode()
            mime_type = found.mime_type or element.mime_type or sniff(found.data)
            if (mime_type or "").startswith("image/"):
                return ImageBase64Element(image_base64=encoded, mime_type=mime_type)
            return FileBase64Element(
                file_base64=encoded, file_name=found.name or element.file_name, mime_type=mime_type
            )
        case _:
            return element
