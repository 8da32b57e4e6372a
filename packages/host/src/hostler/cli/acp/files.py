"""Files of a run, and of a stored message, as content for the editor."""

from __future__ import annotations

import base64
from typing import Any

from acp.schema import (
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from hostler.cli.acp.host_access import HostAccess, quietly
from hostler.cli.acp.limits import MAX_FETCHED_BYTES, MAX_SHOWN_TEXT_BYTES
from hostler.cli.acp.prompt import BINARY
from hostler.cli.acp.updates import text_block
from hostler.cli.routes import route
from hostler_protocol.content import (
    ArtifactElement,
    ContentElement,
    FileBase64Element,
    FileUrlElement,
    ImageBase64Element,
    ImageUrlElement,
    TextElement,
)

Block = TextContentBlock | ImageContentBlock | ResourceContentBlock | EmbeddedResourceContentBlock


async def block_of(host: HostAccess, element: ContentElement) -> Block:
    """Return an element as content: pictures and short texts whole, of anything else its address."""
    match element:
        case TextElement(text=text):
            return text_block(text)
        case ImageUrlElement(image_url=image):
            return _link(image.url, "image", None)
        case FileUrlElement(file_url=url, file_name=name):
            return _link(url, name or "file", None)
        case ImageBase64Element(image_base64=data, mime_type=mime_type):
            return ImageContentBlock(type="image", data=data, mime_type=mime_type or "image/png")
        case FileBase64Element(file_base64=data, file_name=name, mime_type=mime_type):
            content = base64.b64decode(data)
            return _content(content, f"file:///{name or 'file'}", name or "file", mime_type or BINARY)
        case ArtifactElement():
            return await _artifact(host, element)


async def _artifact(host: HostAccess, element: ArtifactElement) -> Block:
    path = route("artifacts", element.artifact_id)
    uri = f"{host.where}{path}/content"
    size, mime_type, name = element.size_bytes, element.mime_type, element.file_name
    if size is None or mime_type is None or name is None:
        known: dict[str, Any] = await quietly(host.ask(lambda api: api.get(path))) or {}
        size, mime_type, name = (
            known.get("size_bytes", size),
            known.get("mime_type") or mime_type,
            known.get("name") or name,
        )
    name, mime_type = name or element.artifact_id, mime_type or BINARY
    if size is not None and size <= _most(mime_type):
        content = await quietly(host.ask(lambda api: api.content(f"{path}/content")))
        if content is not None:
            return _content(content, uri, name, mime_type)
    return _link(uri, name, mime_type, size)


def _most(mime_type: str) -> int:
    if mime_type.startswith("image/"):
        return MAX_FETCHED_BYTES
    return MAX_SHOWN_TEXT_BYTES if _is_text(mime_type) else -1


def _is_text(mime_type: str) -> bool:
    return mime_type.startswith("text/") or mime_type in ("application/json", "application/yaml")


def _content(content: bytes, uri: str, name: str, mime_type: str) -> Block:
    if mime_type.startswith("image/"):
        data = base64.b64encode(content).decode()
        return ImageContentBlock(type="image", data=data, mime_type=mime_type, uri=uri)
    if _is_text(mime_type) and len(content) <= MAX_SHOWN_TEXT_BYTES:
        text = content.decode(errors="replace")
        resource = TextResourceContents(uri=uri, text=text, mime_type=mime_type)
        return EmbeddedResourceContentBlock(type="resource", resource=resource)
    return _link(uri, name, mime_type, len(content))


def _link(uri: str, name: str, mime_type: str | None, size: int | None = None) -> ResourceContentBlock:
    return ResourceContentBlock(type="resource_link", uri=uri, name=name, mime_type=mime_type, size=size)
