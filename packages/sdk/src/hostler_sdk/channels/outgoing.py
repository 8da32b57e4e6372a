"""Read the files of a message before any of it is sent, within what the platform takes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from hostler_protocol.content import ArtifactRef
from hostler_sdk.channels.attachments import MIB
from hostler_sdk.channels.channel import Channel, NotSent


@dataclass(frozen=True, slots=True)
class FileLimits:
    """What a platform takes of the files of one message, which are in memory while it is sent.

    `mime_types`: patterns such as `image/*`. `empty`: whether it takes files without content.
    """

    files: int = 10
    bytes_each: int = 50 * MIB
    bytes_all: int = 100 * MIB
    mime_types: Collection[str] = ("*",)
    empty: bool = True


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """A file of a message that is being sent. Its name and type are those of the artifact, if it has some."""

    ref: ArtifactRef
    content: bytes

    @property
    def name(self) -> str:
        """Its name; `file` if it has none."""
        return self.ref.name or "file"

    @property
    def mime_type(self) -> str:
        """Its type in lower case and without parameters; `application/octet-stream` if it has none."""
        return mime_type_of(self.ref)


def mime_type_of(ref: ArtifactRef) -> str:
    """Return the type of a file in lower case and without parameters."""
    return (ref.mime_type or "").partition(";")[0].strip().lower() or "application/octet-stream"


async def read_files(
    channel: Channel, attachments: Sequence[ArtifactRef], limits: FileLimits | None = None
) -> list[OutgoingFile]:
    """Read the attachments of a message. Raises NotSent: for good, if there are more or larger ones than are
    sent, or of another type.

    What is said of their sizes is checked before anything is read, and what is read once more.
    """
    limits = FileLimits() if limits is None else limits
    _check(attachments, limits)
    room, files = limits.bytes_all, []
    for ref in attachments:
        content = bytearray()
        async for piece in channel.read(ref):
            content += piece
            _check_size(ref, len(content), limits)
            if len(content) > room:
                raise _too_large_together(limits)
        if not content and not limits.empty:
            text = f"{ref.name or 'a file'} is empty, which the platform does not take"
            raise NotSent(text, final=True)
        room -= len(content)
        files.append(OutgoingFile(ref, bytes(content)))
    return files


def _check(attachments: Sequence[ArtifactRef], limits: FileLimits) -> None:
    if len(attachments) > limits.files:
        text = f"the message has {len(attachments)} files; at most {limits.files} are sent"
        raise NotSent(text, final=True)
    if sum(ref.size_bytes or 0 for ref in attachments) > limits.bytes_all:
        raise _too_large_together(limits)
    for ref in attachments:
        _check_size(ref, ref.size_bytes or 0, limits)
        if not any(fnmatchcase(mime_type_of(ref), pattern) for pattern in limits.mime_types):
            taken = ", ".join(limits.mime_types)
            text = f"{ref.name or 'a file'} is {mime_type_of(ref)}; files of these types are sent: {taken}"
            raise NotSent(text, final=True)


def _check_size(ref: ArtifactRef, size: int, limits: FileLimits) -> None:
    if size > limits.bytes_each:
        text = f"{ref.name or 'a file'} has over {limits.bytes_each / MIB:g} MiB, the most that is sent"
        raise NotSent(text, final=True)


def _too_large_together(limits: FileLimits) -> NotSent:
    text = f"the files of the message have over {limits.bytes_all / MIB:g} MiB together"
    return NotSent(text, final=True)
