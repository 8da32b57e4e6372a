"""`ctx.artifacts`: files stored by the host."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import IO, Any

from hostler_protocol.limits import DEFAULT_ARTIFACT_READ_BYTES, MAX_UPLOAD_PART_BYTES
from hostler_protocol.runs import ArtifactMetadata, ArtifactReadResult
from hostler_sdk.errors import InvalidArgument
from hostler_sdk.host_api.port import Group, stated

UploadSource = bytes | bytearray | PathLike[str] | IO[bytes]


class Artifacts(Group):
    """`ctx.artifacts`: files stored by the host, by id. Raises NotFound for an id that the run may not see.

    Reading needs the permissions `artifacts: [metadata, read]`.

        artifact_id = await ctx.artifacts.upload(Path("report.pdf"), mime_type="application/pdf")
        yield message("Here it is.", [artifact_id])
    """

    async def metadata(self, artifact_id: str) -> ArtifactMetadata:
        """Return name, type, size in bytes, SHA-256 and other metadata of an artifact."""
        reply: ArtifactMetadata = await self._host.call("artifact.metadata", {"artifact_id": artifact_id})
        return reply

    async def read(self, artifact_id: str, offset: int = 0, limit: int | None = None) -> ArtifactReadResult:
        """Return one range, as base64 in `content_base64`. `limit` in bytes: at most 4 MiB, default 1 MiB."""
        reply: ArtifactReadResult = await self._host.call(
            "artifact.read", stated(artifact_id=artifact_id, offset=offset, limit=limit)
        )
        return reply

    async def stream(
        self, artifact_id: str, part_bytes: int = DEFAULT_ARTIFACT_READ_BYTES
    ) -> AsyncIterator[bytes]:
        """Iterate over all bytes, in parts of at most `part_bytes`."""
        offset = 0
        while True:
            part = await self.read(artifact_id, offset, part_bytes)
            if part.length:
                yield base64.b64decode(part.content_base64)
            offset += part.length
            if not part.has_more or not part.length:
                return

    async def upload(
        self,
        data_or_file: UploadSource,
        *,
        artifact_type: str = "file",
        name: str | None = None,
        mime_type: str | None = None,
        expires_in: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Store bytes, a `pathlib.Path`, or an open binary file (read to its end), and return the id.

        At most 1 GiB, sent in parts with a digest that the host checks. `expires_in` in seconds; None: kept
        as long as the host's retention says. Raises PayloadTooLarge for more, InvalidArgument for another
        source.
        """
        sha256, size, upload_id = hashlib.sha256(), 0, None
        async for number, part, last in _parts(data_or_file):
            sha256.update(part)
            size += len(part)
            params = stated(
                upload_id=upload_id,
                part=number,
                content_base64=base64.b64encode(part).decode(),
                last=last,
                artifact_type=artifact_type,
                name=name,
                mime_type=mime_type,
                expires_in=expires_in,
                metadata=metadata,
            )
            if last:
                params |= {"sha256": sha256.hexdigest(), "size_bytes": size}
            reply = await self._host.call("artifact.upload", params)
            upload_id = reply.upload_id or upload_id
        artifact_id: str = reply.artifact_id
        return artifact_id


async def _parts(source: UploadSource) -> AsyncIterator[tuple[int, bytes, bool]]:
    """Yield (number, bytes, is last) of each part. Empty content is one empty part."""
    with ExitStack() as stack:
        file: IO[bytes]
        if isinstance(source, bytes | bytearray):
            file = BytesIO(source)
        elif isinstance(source, PathLike):
            file = stack.enter_context(await asyncio.to_thread(Path(source).open, "rb"))
        else:
            file = source
        number, part = 0, await _read(file)
        while True:
            following = await _read(file) if part else b""
            yield number, part, not following
            if not following:
                return
            number, part = number + 1, following


async def _read(file: IO[bytes]) -> bytes:
    read = getattr(file, "read", None)
    part = None if read is None else await asyncio.to_thread(read, MAX_UPLOAD_PART_BYTES)
    if not isinstance(part, bytes):
        raise InvalidArgument(
            f"upload takes bytes, a pathlib.Path or an open binary file, not {type(file).__name__}"
        )
    return part
