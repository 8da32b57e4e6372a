"""Calls of artifacts and files."""

from __future__ import annotations

from typing import Any

from hostler_protocol._base import Sparse, Strict
from hostler_protocol.calls.params import CallParams
from hostler_protocol.limits import DEFAULT_ARTIFACT_READ_BYTES, Count


class ArtifactMetadataParams(CallParams):
    """`artifact.metadata`."""

    artifact_id: str


class ArtifactReadParams(CallParams):
    """`artifact.read`: `limit` bytes from `offset`; at most 4 MiB."""

    artifact_id: str
    offset: Count = 0
    limit: Count = DEFAULT_ARTIFACT_READ_BYTES


class ArtifactUploadParams(CallParams):
    """`artifact.upload`: one part; `part` counts from 0. The host reads the metadata of the last part."""

    part: Count
    content_base64: str
    last: bool
    upload_id: str | None = None
    artifact_type: str = "file"
    mime_type: str | None = None
    name: str | None = None
    sha256: str | None = None
    size_bytes: Count | None = None
    expires_in: float | None = None
    metadata: dict[str, Any] = {}


class ArtifactUploadReply(Sparse):
    """`upload_id` is sent with the next part; `artifact_id` answers the last one."""

    upload_id: str | None = None
    artifact_id: str | None = None


class FileGetParams(CallParams):
    """`file.get`: a range of a configuration or knowledge file."""

    file_id: str
    offset: Count = 0
    limit: Count = DEFAULT_ARTIFACT_READ_BYTES


class FileGetReply(Strict):
    """One range of a file."""

    file_id: str
    size_bytes: Count
    offset: Count
    length: Count
    content_base64: str
    has_more: bool
    mime_type: str | None = None
