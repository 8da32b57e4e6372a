"""The artifacts and files of a scripted host."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Mapping
from typing import Any

from hostler_protocol import calls
from hostler_protocol.runs import ArtifactMetadata, ArtifactReadResult
from hostler_sdk.errors import InvalidArgument, NotFound


class ArtifactShelf:
    """Artifacts in memory, by id. Raises NotFound for an unknown id."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[ArtifactMetadata, bytes]] = {}
        self._uploads: dict[str, list[bytes]] = {}
        self._upload_count = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, run_id: str, content: bytes, **stated: Any) -> ArtifactMetadata:
        """Store an artifact."""
        meta = ArtifactMetadata(
            artifact_id=f"a{len(self._kept) + 1}",
            size_bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            created_at=time.time(),
            run_id=run_id,
            **stated,
        )
        self._kept[meta.artifact_id] = (meta, content)
        return meta

    def metadata(self, artifact_id: str) -> ArtifactMetadata:
        """Return the metadata of an artifact."""
        return self._find(artifact_id)[0]

    def content(self, artifact_id: str) -> bytes:
        """Return all bytes of an artifact."""
        return self._find(artifact_id)[1]

    def read(self, params: calls.ArtifactReadParams) -> ArtifactReadResult:
        """Return one range of an artifact."""
        meta, content = self._find(params.artifact_id)
        part = content[params.offset : params.offset + params.limit]
        return ArtifactReadResult(
            artifact_id=meta.artifact_id,
            size_bytes=len(content),
            offset=params.offset,
            length=len(part),
            content_base64=base64.b64encode(part).decode(),
            has_more=params.offset + len(part) < len(content),
            mime_type=meta.mime_type,
        )

    def upload(self, params: calls.ArtifactUploadParams) -> calls.ArtifactUploadReply:
        """Take one part; the last part creates the artifact."""
        upload_id = params.upload_id
        if upload_id is None:
            self._upload_count += 1
            upload_id = f"u{self._upload_count}"
        parts = self._uploads.setdefault(upload_id, [])
        if params.part != len(parts):
            raise InvalidArgument(f"part {params.part} of {upload_id}: part {len(parts)} is next")
        parts.append(base64.b64decode(params.content_base64))
        if not params.last:
            return calls.ArtifactUploadReply(upload_id=upload_id)
        content = b"".join(self._uploads.pop(upload_id))
        if params.sha256 not in (None, hashlib.sha256(content).hexdigest()):
            raise InvalidArgument("the sha256 is not that of the uploaded bytes")
        meta = self.add(
            params.run_id,
            content,
            artifact_type=params.artifact_type,
            mime_type=params.mime_type,
            name=params.name,
            metadata=params.metadata,
        )
        return calls.ArtifactUploadReply(artifact_id=meta.artifact_id)

    def _find(self, artifact_id: str) -> tuple[ArtifactMetadata, bytes]:
        if artifact_id not in self._kept:
            raise NotFound(f"there is no artifact {artifact_id!r}")
        return self._kept[artifact_id]


def file_range(files: Mapping[str, bytes], params: calls.FileGetParams) -> calls.FileGetReply:
    """Return one range of a configuration or knowledge file. Raises NotFound for an unknown file."""
    if params.file_id not in files:
        raise NotFound(f"there is no file {params.file_id!r}")
    content = files[params.file_id]
    part = content[params.offset : params.offset + params.limit]
    return calls.FileGetReply(
        file_id=params.file_id,
        size_bytes=len(content),
        offset=params.offset,
        length=len(part),
        content_base64=base64.b64encode(part).decode(),
        has_more=params.offset + len(part) < len(content),
    )
