"""Fetch the files that people send from their platform into the host's store, within bounds.

A message is worth more than its files: what is too large, refused or not to be had is named in `missing`, and
the event is delivered without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from hostler_protocol.channels import ChannelEvent
from hostler_protocol.content import ArtifactRef
from hostler_sdk.channels.channel import Channel
from hostler_sdk.errors import Cancelled, HostError

MIB = 1024 * 1024
_PICTURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
RETRY_SECONDS = 1.0
"""The wait before a file is fetched again; it doubles."""


class FileUnavailableError(Exception):
    """A file cannot be fetched. `final`: nor later. The text, for people, says why."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.final = final


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file on the platform. `open` yields its content anew, or raises FileUnavailableError.

    `size_bytes`: what the platform says; None if it does not.
    """

    open: Callable[[], AsyncIterator[bytes]]
    name: str | None = None
    mime_type: str | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class FileBounds:
    """How much is fetched for one event: files, bytes of each, tries and seconds for each."""

    files: int = 10
    bytes_each: int = 20 * MIB
    tries: int = 3
    seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Fetched:
    """The stored files, and why others are missing: `{"name", "mime_type", "size_bytes", "reason"}`."""

    attachments: list[ArtifactRef] = field(default_factory=list)
    missing: list[dict[str, Any]] = field(default_factory=list)


async def fetch(
    channel: Channel, files: Iterable[RemoteFile], bounds: FileBounds, *, event: ChannelEvent | None = None
) -> Fetched:
    """Fetch files one after the other and store them with `channel.store`.

    `event`: that which brings them. The host is asked first whether it wants that; of somebody who is not let
    in nothing is fetched. While the host cannot store one, this waits. Raises Cancelled if the host is gone.
    """
    fetched, files = Fetched(), list(files)
    if files and event is not None and not await channel.wants(event):
        return fetched
    for number, file in enumerate(files):
        try:
            if number >= bounds.files:
                raise FileUnavailableError(f"more than {bounds.files} files in one message", final=True)
            content = await _content(file, bounds)
            fetched.attachments.append(await _store(channel, file, content))
        except FileUnavailableError as error:
            told = {"name": file.name, "mime_type": file.mime_type, "size_bytes": file.size_bytes}
            fetched.missing.append({**told, "reason": error.message})
    return fetched


async def _content(file: RemoteFile, bounds: FileBounds) -> bytes:
    """Return a file's content. It is held in memory, so that no broken part of it is stored."""
    if file.size_bytes is not None:
        _check_size(file.size_bytes, bounds)
    wait = RETRY_SECONDS
    for last in [*[False] * (bounds.tries - 1), True]:
        try:
            async with asyncio.timeout(bounds.seconds):
                return await _once(file, bounds)
        except TimeoutError as error:
            if last:
                raise FileUnavailableError(f"it did not come within {bounds.seconds:g} seconds") from error
        except FileUnavailableError as error:
            if last or error.final:
                raise
        await asyncio.sleep(wait)
        wait *= 2
    raise FileUnavailableError("no try is allowed")


async def _once(file: RemoteFile, bounds: FileBounds) -> bytes:
    content = bytearray()
    async for piece in file.open():
        content += piece
        _check_size(len(content), bounds)
    return bytes(content)


def _check_size(size: int, bounds: FileBounds) -> None:
    if size > bounds.bytes_each:
        raise FileUnavailableError(
            f"it has over {bounds.bytes_each / MIB:g} MiB, the most that is fetched", final=True
        )


def picture_type(content: bytes) -> str | None:
    """Return the type of a picture by how it begins, where the platform does not say it; None for others."""
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for begin, mime in _PICTURES.items() if content.startswith(begin)), None)


async def _store(channel: Channel, file: RemoteFile, content: bytes) -> ArtifactRef:
    wait = RETRY_SECONDS
    while True:
        try:
            mime_type = file.mime_type or picture_type(content)
            return await channel.store(content, name=file.name, mime_type=mime_type)
        except Cancelled:
            raise
        except HostError as error:
            if not error.retryable:
                text = f"the host does not take it: {error.message}"
                raise FileUnavailableError(text, final=True) from error
            await asyncio.sleep(float(error.details.get("retry_after", wait)))
            wait = min(2 * wait, 30.0)
