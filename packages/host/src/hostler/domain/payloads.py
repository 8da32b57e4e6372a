"""Check payloads of results, and convert them to projections."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from hostler.domain.grants import Grant
from hostler.domain.keys import base64_of, check_depth, check_id, state_key_of, state_value_of
from hostler.domain.outcomes import ArtifactShown, ArtifactWrite, StateWrite, Uploaded
from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.grants import STATE_SCOPES, StateScope
from hostler_protocol.incoming import ResultArrived
from hostler_protocol.limits import MAX_INLINE_ARTIFACT_BYTES, MAX_JSON_DEPTH, MAX_RESULT_BYTES
from hostler_protocol.results import ArtifactCreated, MessageDelta, StateUpdated

MAX_WORD_CHARS = 255
"""Artifact types, mime types and file names."""
_decode_delta = msgspec.json.Decoder(MessageDelta).decode


def one_line(data: bytes) -> bytes:
    """Return checked JSON (UTF-8, not too deep) on one line, as journal batches need it."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"the payload is not UTF-8: {error.reason} at byte {error.start}"
        ) from None
    if data.count(b"[") + data.count(b"{") > MAX_JSON_DEPTH:  # else it cannot be too deep
        check_depth("the payload", _decoded(data))
    return msgspec.json.format(data, indent=-1) if b"\n" in data or b"\r" in data else data


def unknown_payload(data: bytes) -> bytes:
    """Check a payload of an unknown type: it must be a JSON object."""
    value = _decoded(data)
    if not isinstance(value, dict):
        raise InvalidArgumentError(f"the payload is a {type(value).__name__}; a JSON object is expected")
    return one_line(data)


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except DECODE_ERRORS as error:
        raise InvalidArgumentError(f"the payload is not JSON: {error}") from None


def state_write_of(update: StateUpdated, grant: Grant) -> StateWrite:
    """Convert a state update, within the grant. InvalidArgumentError, PayloadTooLargeError."""
    return StateWrite(
        scope=cast(StateScope, update.scope),
        scope_key=state_scope_key(update.scope, grant),
        key=state_key_of(update.key),
        value=state_value_of(update.value),
    )


def state_scope_key(scope: str, grant: Grant) -> str:
    """Return the storage key of a scope that the grant opens. InvalidArgumentError."""
    if scope not in STATE_SCOPES:
        raise InvalidArgumentError(f"scope is {scope!r:.80}; expected one of {', '.join(STATE_SCOPES)}")
    key = grant.state_keys.get(scope)
    if key is None:
        raise InvalidArgumentError(
            f"scope {scope!r} is not open: {grant.state_closed.get(scope, 'not granted')}"
        )
    return key


def artifact_of(
    created: ArtifactCreated, new_artifact_id: str, uploads: Mapping[str, Uploaded]
) -> tuple[ArtifactCreated, ArtifactWrite | ArtifactShown]:
    """Return the result to store, without its content and with the host's size and digest, and the artifact.

    A result that names an upload of this run writes no new artifact. InvalidArgumentError,
    PayloadTooLargeError.
    """
    for name in ("artifact_type", "mime_type", "name"):
        _check_word(name, getattr(created, name))
    if created.content_base64 is None:
        announced = _announced(created, uploads)
        return announced, ArtifactShown(announced.artifact_id or "")
    if created.artifact_id is not None:
        raise InvalidArgumentError(
            "artifact_id names an uploaded artifact; where content_base64 is given, leave it to the host"
        )
    content = base64_of("content_base64", created.content_base64, MAX_INLINE_ARTIFACT_BYTES)
    sha256 = hashlib.sha256(content).hexdigest()
    _check_stated(created, len(content), sha256)
    stored = msgspec.structs.replace(
        created, artifact_id=new_artifact_id, size_bytes=len(content), sha256=sha256, content_base64=None
    )
    write = ArtifactWrite(
        artifact_id=new_artifact_id,
        artifact_type=created.artifact_type,
        content=content,
        sha256=sha256,
        mime_type=created.mime_type,
        name=created.name,
        metadata=created.metadata,
    )
    return stored, write


def _announced(created: ArtifactCreated, uploads: Mapping[str, Uploaded]) -> ArtifactCreated:
    artifact_id = created.artifact_id
    if artifact_id is None:
        raise InvalidArgumentError("neither content_base64 nor artifact_id is given; one of them is needed")
    check_id("artifact_id", artifact_id)
    upload = uploads.get(artifact_id)
    if upload is None:
        raise InvalidArgumentError(f"artifact_id {artifact_id!r:.80} is no artifact that this run uploaded")
    _check_stated(created, upload.size_bytes, upload.sha256)
    return msgspec.structs.replace(
        created,
        size_bytes=upload.size_bytes,
        sha256=upload.sha256,
        mime_type=created.mime_type or upload.mime_type,
        name=created.name or upload.name,
    )


def _check_stated(created: ArtifactCreated, size: int, sha256: str) -> None:
    if created.size_bytes is not None and created.size_bytes != size:
        raise InvalidArgumentError(f"size_bytes says {created.size_bytes}, the content has {size}")
    if created.sha256 is not None and created.sha256.lower() != sha256:
        raise InvalidArgumentError(f"sha256 says {created.sha256[:64]!r}, the content has {sha256!r}")


def _check_word(name: str, value: Any) -> None:
    if value is not None and (not 1 <= len(value) <= MAX_WORD_CHARS or "\x00" in value):
        raise InvalidArgumentError(f"{name} must have 1 to {MAX_WORD_CHARS} characters and no NUL")


def plain_delta(arrived: ResultArrived, run_id: str) -> bytes | None:
    """Return the payload of a plain text delta of this run, or None for anything else."""
    result = arrived.result
    if result.type != "message.delta" or result.usage is not None or result.timestamp is not None:
        return None
    if result.run_id != run_id or arrived.size > MAX_RESULT_BYTES:
        return None
    payload = bytes(result.data)
    try:
        delta = _decode_delta(payload)
    except DECODE_ERRORS:
        return None
    # plain text cannot be nested too deep
    one_line = b"\n" not in payload and b"\r" not in payload
    return payload if one_line and isinstance(delta.chunk.content, str) else None


def plain_deltas(arrived: Sequence[ResultArrived], start: int, run_id: str) -> list[bytes]:
    """Return the payloads of the consecutive plain text deltas from `start` on."""
    payloads: list[bytes] = []
    for index in range(start, len(arrived)):
        payload = plain_delta(arrived[index], run_id)
        if payload is None:
            break
        payloads.append(payload)
    return payloads
