"""Files that are sent: pictures as pictures, documents as documents, and all others in an archive.

DingTalk takes few types of documents from robots, and says so in its documentation alone: another one is
stored, and cannot be sent then.
"""

from __future__ import annotations

import asyncio
import io
import mimetypes
import zipfile
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from hostler_dingtalk.api import Api
from hostler_sdk.channels import ArtifactRef, Channel, NotSent
from hostler_sdk.channels.attachments import MIB
from hostler_sdk.channels.outgoing import FileLimits, OutgoingFile, read_files

LIMITS = FileLimits(bytes_each=20 * MIB, empty=False)
"""Of one message. DingTalk takes 20 MB each."""
MAX_NAME = 100
_PICTURES = {"image/png", "image/jpeg", "image/gif", "image/bmp"}
_DOCUMENTS = {"doc", "docx", "pdf", "rar", "xlsx", "zip"}
"""By the end of the name, as DingTalk documents them."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A file as it is sent."""

    name: str
    content: bytes
    mime_type: str

    @property
    def is_picture(self) -> bool:
        """Whether it is shown in the chat."""
        return self.mime_type in _PICTURES

    @property
    def suffix(self) -> str:
        """The end of its name, without the dot."""
        return PurePosixPath(self.name).suffix.lower().lstrip(".")


async def outgoing_files(channel: Channel, attachments: list[ArtifactRef]) -> list[Outgoing]:
    """Read the files of a message. Raises NotSent."""
    files = await read_files(channel, attachments, LIMITS)
    return [await asyncio.to_thread(_outgoing, file) for file in files]


def _outgoing(given: OutgoingFile) -> Outgoing:
    """Return a file as DingTalk takes it: what it does not know goes into an archive."""
    name = _name(given.name)
    if not PurePosixPath(name).suffix:
        name += mimetypes.guess_extension(given.mime_type) or ""
    file = Outgoing(name, given.content, given.mime_type)
    if file.is_picture or file.suffix in _DOCUMENTS:
        return file
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr(zipfile.ZipInfo(file.name), file.content)
    packed = archive.getvalue()
    if len(packed) > LIMITS.bytes_each:
        raise NotSent(
            f"{file.name} has over {LIMITS.bytes_each // MIB} MiB, the most that is sent", final=True
        )
    return Outgoing(f"{file.name}.zip", packed, "application/zip")


def _name(name: str) -> str:
    """Return a file's name: of a path its end, without what ends a header or a line."""
    bare = "".join(char for char in name.replace("\\", "/").rsplit("/", 1)[-1] if char.isprintable())
    bare = bare.replace('"', "'").strip(". ") or "file"
    if len(bare) <= MAX_NAME:
        return bare
    suffix = PurePosixPath(bare).suffix[:20]
    return f"{bare[: MAX_NAME - len(suffix)]}{suffix}"


async def stored(api: Api, file: Outgoing) -> tuple[str, dict[str, Any]]:
    """Store a file at DingTalk; return the key and the parameters of its message. Raises NotSent."""
    kind = "image" if file.is_picture else "file"
    media_id = await api.upload(kind, file.name, file.mime_type, file.content)
    if file.is_picture:
        return "sampleImageMsg", {"photoURL": media_id}
    return "sampleFile", {"mediaId": media_id, "fileName": file.name, "fileType": file.suffix}
