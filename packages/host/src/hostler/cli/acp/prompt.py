"""A prompt of the editor as the input of an event."""

from __future__ import annotations

import base64
import binascii
import mimetypes
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from hostler.cli.acp.faults import invalid
from hostler.cli.acp.host_access import HostAccess
from hostler.cli.acp.limits import MAX_EMBEDDED_TEXT_CHARS, MAX_INLINE_BYTES, MAX_INLINE_TOTAL_BYTES
from hostler_protocol.content import (
    ArtifactElement,
    ContentElement,
    FileBase64Element,
    ImageBase64Element,
    TextElement,
)

Block = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)
BINARY = "application/octet-stream"
MAX_NAME_CHARS = 200


class PromptReader:
    """Reads one prompt. Small files go into the event, larger ones are uploaded first."""

    def __init__(self, host: HostAccess, conversation_id: str) -> None:
        self._host = host
        self._conversation_id = conversation_id
        self._inline = 0

    async def read(self, blocks: Sequence[Block]) -> list[ContentElement]:
        """Return the content. RequestError (invalid params) for content that is none; HostlerError."""
        found: list[ContentElement] = []
        for number, block in enumerate(blocks):
            found.append(await self._element(number, block))
        return found

    async def _element(self, number: int, block: Block) -> ContentElement:
        match block:
            case TextContentBlock(text=text):
                return TextElement(text=text)
            case ResourceContentBlock():
                return TextElement(text=f"[{block.title or block.name}]({block.uri})")
            case ImageContentBlock(data=data, mime_type=mime_type):
                return await self._file(_bytes(number, data), mime_type, _name(block.uri, mime_type))
            case AudioContentBlock(data=data, mime_type=mime_type):
                return await self._file(_bytes(number, data), mime_type, _name(None, mime_type))
            case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
                return await self._text(resource)
            case EmbeddedResourceContentBlock(resource=BlobResourceContents() as resource):
                mime_type = resource.mime_type or BINARY
                name = _name(resource.uri, mime_type)
                return await self._file(_bytes(number, resource.blob), mime_type, name)
        raise invalid(f"prompt[{number}]: content of this type is not understood")

    async def _text(self, resource: TextResourceContents) -> ContentElement:
        if len(resource.text) > MAX_EMBEDDED_TEXT_CHARS:
            mime_type = resource.mime_type or "text/plain"
            data = resource.text.encode(errors="replace")
            return await self._file(data, mime_type, _name(resource.uri, mime_type))
        return TextElement(text=f'<context ref="{resource.uri}">\n{resource.text}\n</context>')

    async def _file(self, data: bytes, mime_type: str, name: str) -> ContentElement:
        is_image = mime_type.startswith("image/")
        if len(data) > MAX_INLINE_BYTES or self._inline + len(data) > MAX_INLINE_TOTAL_BYTES:
            stored: dict[str, Any] = await self._host.ask(
                lambda api: api.upload(
                    "/v1/artifacts",
                    data,
                    mime_type,
                    name=name,
                    artifact_type="image" if is_image else "file",
                    conversation_id=self._conversation_id,
                )
            )
            return ArtifactElement(
                artifact_id=stored["artifact_id"],
                mime_type=mime_type,
                file_name=name,
                size_bytes=stored["size_bytes"],
            )
        self._inline += len(data)
        encoded = base64.b64encode(data).decode()
        if is_image:
            return ImageBase64Element(image_base64=encoded, mime_type=mime_type)
        return FileBase64Element(file_base64=encoded, file_name=name, mime_type=mime_type)


def text_of_prompt(blocks: Sequence[Block]) -> str:
    """Return the typed text of a prompt, without what was attached."""
    return "\n".join(block.text for block in blocks if isinstance(block, TextContentBlock)).strip()


def _bytes(number: int, data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise invalid(f"prompt[{number}]: data is not valid base64") from None


def _name(uri: str | None, mime_type: str) -> str:
    """Return the file name of a resource: the end of its path, else one for its type."""
    path = "" if uri is None else urlsplit(uri).path
    name = unquote(path).rstrip("/").rpartition("/")[2][-MAX_NAME_CHARS:]
    return name or f"file{mimetypes.guess_extension(mime_type) or ''}"
