"""The message of a run as the content of a prompt."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from pathlib import Path

from acp.schema import (
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    PromptCapabilities,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from hostler_acp.failures import AcpFailure
from hostler_acp.limits import KIB
from hostler_sdk.services import InputFile, Turn

ATTACHMENTS = "attachments"
MAX_EMBEDDED_BYTES = 256 * KIB
"""A text file that is sent in the prompt; a larger one becomes a file in the agent's folder."""
_UNSAFE = re.compile(r"[^\w.-]+")
Block = TextContentBlock | ImageContentBlock | EmbeddedResourceContentBlock | ResourceContentBlock


def text_block(text: str) -> TextContentBlock:
    """Return a text as content."""
    return TextContentBlock(type="text", text=text)


async def prompt_of(turn: Turn, offered: PromptCapabilities | None, folder: Path) -> list[Block]:
    """Return text and files of the message, as the agent takes them. Raises AcpFailure, ServiceFailure.

    Pictures and short texts are in the prompt if the agent takes them there; other files are put into
    `attachments` in its folder, and named.
    """
    files = await turn.files()
    text = turn.ctx.input.text.strip()
    blocks: list[Block] = [text_block(text)] if text else []
    taken = offered or PromptCapabilities()
    blocks += [await asyncio.to_thread(_block, file, taken, folder) for file in files]
    if not blocks:
        raise AcpFailure("empty_input", "the message is empty; a coding agent needs a text or a file")
    return blocks


def _block(file: InputFile, offered: PromptCapabilities, folder: Path) -> Block:
    if file.url is not None:
        return ResourceContentBlock(
            type="resource_link", name=file.name, uri=file.url, mime_type=file.mime_type
        )
    if offered.image and file.kind == "image":
        data = base64.b64encode(file.data).decode()
        return ImageContentBlock(type="image", data=data, mime_type=file.mime_type)
    path = _path(file, folder)
    if offered.embedded_context and file.kind == "document" and (text := _short_text(file)) is not None:
        resource = TextResourceContents(uri=path.as_uri(), text=text, mime_type=file.mime_type)
        return EmbeddedResourceContentBlock(type="resource", resource=resource)
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(file.data)
    except OSError as error:
        raise AcpFailure(
            "file_invalid", f"{file.name} of the message cannot be put into the agent's folder: {error}"
        ) from None
    return ResourceContentBlock(
        type="resource_link",
        name=file.name,
        uri=path.as_uri(),
        mime_type=file.mime_type,
        size=len(file.data),
    )


def _path(file: InputFile, folder: Path) -> Path:
    digest = hashlib.sha256(file.data).hexdigest()[:8]
    name = _UNSAFE.sub("_", file.name.rpartition("/")[2])[-80:].lstrip(".")
    return folder / ATTACHMENTS / f"{digest}-{name or 'file'}"


def _short_text(file: InputFile) -> str | None:
    if len(file.data) > MAX_EMBEDDED_BYTES:
        return None
    try:
        return file.data.decode()
    except UnicodeDecodeError:
        return None
