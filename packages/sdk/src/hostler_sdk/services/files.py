"""Files of a message, to be sent to a service."""

from __future__ import annotations

import base64
import binascii
import mimetypes
from dataclasses import dataclass

from hostler_sdk.context import RunContext
from hostler_sdk.errors import HostError
from hostler_sdk.services.failures import ServiceFailure
from hostler_sdk.services.limits import MAX_FILE_BYTES, MAX_FILES, MAX_FILES_BYTES, MIB
from hostler_sdk.types import (
    ArtifactElement,
    ContentElement,
    FileBase64Element,
    FileUrlElement,
    ImageBase64Element,
    ImageUrlElement,
    TextElement,
)

UNKNOWN_TYPE = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file: its bytes, or the `url` where the service finds it."""

    name: str
    mime_type: str
    data: bytes = b""
    url: str | None = None

    @property
    def kind(self) -> str:
        """`image`, `audio`, `video` or `document`."""
        main = self.mime_type.partition("/")[0]
        return main if main in ("image", "audio", "video") else "document"


async def read_files(ctx: RunContext) -> list[InputFile]:
    """Read the files of the message. Raises ServiceFailure for too many, too large or unreadable ones."""
    elements = [e for e in ctx.input.contents if not isinstance(e, TextElement)]
    known = {e.artifact_id for e in elements if isinstance(e, ArtifactElement)}
    elements += [
        ArtifactElement(
            artifact_id=ref.artifact_id,
            mime_type=ref.mime_type,
            file_name=ref.name,
            size_bytes=ref.size_bytes,
        )
        for ref in ctx.input.attachments
        if ref.artifact_id not in known
    ]
    if len(elements) > MAX_FILES:
        raise ServiceFailure("file_invalid", f"the message has {len(elements)} files; at most {MAX_FILES}")
    files: list[InputFile] = []
    for element in elements:
        files.append(await _read(ctx, element))
        if sum(len(file.data) for file in files) > MAX_FILES_BYTES:
            raise ServiceFailure(
                "file_invalid", f"the files of the message have over {MAX_FILES_BYTES // MIB} MiB together"
            )
    return files


async def _read(ctx: RunContext, element: ContentElement) -> InputFile:
    match element:
        case ImageUrlElement(image_url=image) if not image.url.startswith("data:"):
            return InputFile(_name_in(image.url, "picture"), _type_of(image.url, "image/png"), url=image.url)
        case ImageUrlElement(image_url=image):
            return _inline(image.url, None, None, "picture", "image/png")
        case ImageBase64Element():
            return _inline(element.image_base64, None, element.mime_type, "picture", "image/png")
        case FileUrlElement(file_url=url, file_name=name):
            return InputFile(name or _name_in(url, "file"), _type_of(name or url, UNKNOWN_TYPE), url=url)
        case FileBase64Element():
            return _inline(element.file_base64, element.file_name, element.mime_type, "file", UNKNOWN_TYPE)
        case ArtifactElement():
            return await _artifact(ctx, element)
        case _:
            raise ServiceFailure("file_invalid", f"a part of the message is a {type(element).__name__}")


def _inline(text: str, name: str | None, mime_type: str | None, stem: str, default: str) -> InputFile:
    if text.startswith("data:"):
        head, _, text = text.partition(",")
        mime_type = mime_type or head[5:].partition(";")[0] or None
    shown = name or stem
    if len(text) * 3 // 4 > MAX_FILE_BYTES + 3:
        raise _too_large(shown)
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ServiceFailure("file_invalid", f"{shown} of the message is not valid base64") from None
    kind = mime_type or _type_of(name or "", default)
    return InputFile(name or stem + (mimetypes.guess_extension(kind) or ""), kind, data)


async def _artifact(ctx: RunContext, element: ArtifactElement) -> InputFile:
    name, kind, size = element.file_name, element.mime_type, element.size_bytes
    try:
        if not name or not kind or size is None:
            known = await ctx.artifacts.metadata(element.artifact_id)
            name, kind, size = name or known.name, kind or known.mime_type, known.size_bytes
        shown = name or "file"
        if size is not None and size > MAX_FILE_BYTES:
            raise _too_large(shown)
        data = bytearray()
        async for part in ctx.artifacts.stream(element.artifact_id):
            data += part
            if len(data) > MAX_FILE_BYTES:
                raise _too_large(shown)
    except HostError as error:
        if error.code in ("deadline_exceeded", "cancelled"):
            raise
        raise ServiceFailure(
            "file_invalid", f"{name or 'a file'} of the message cannot be read: {error.message}"
        ) from error
    kind = kind or _type_of(shown, UNKNOWN_TYPE)
    return InputFile(name or "file" + (mimetypes.guess_extension(kind) or ""), kind, bytes(data))


def _too_large(name: str) -> ServiceFailure:
    return ServiceFailure(
        "file_invalid", f"{name} of the message has over {MAX_FILE_BYTES // MIB} MiB, the maximum"
    )


def _name_in(url: str, default: str) -> str:
    return url.partition("?")[0].partition("#")[0].rpartition("/")[2] or default


def _type_of(name: str, default: str) -> str:
    return mimetypes.guess_type(name.partition("?")[0])[0] or default
