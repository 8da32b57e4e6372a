"""Uploads in parts. Each part is a separate blob until the last one joins them.

`prepare` makes the bytes durable and checks them; `commit`, in the transaction that answers the call, records
the part. A part that is sent again because its answer was lost gets the same answer. Retention removes
unfinished uploads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from hostler.storage.port import Database, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import artifacts, blobs
from hostler.storage.stores.artifacts import NewArtifact, StoredArtifact, Taken, check_declared
from hostler.storage.stores.blobs import Blob, BlobFolder
from hostler_protocol.errors import (
    CallerError,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    PayloadTooLargeError,
)
from hostler_protocol.ids import new_id
from hostler_protocol.limits import MAX_UPLOAD_BYTES, MAX_UPLOAD_PART_BYTES

_q = load(__file__)

MAX_PARTS = 10_000
"""An upload of 1 GiB takes 256 of the largest parts; more are needed only for smaller parts."""
MAX_OPEN_UPLOADS_PER_RUN = 16


@dataclass(frozen=True, slots=True)
class Part:
    """One received part; parts count from 0. `upload_id` is None for the first part of a new upload."""

    upload_id: str | None
    part: int
    content: bytes
    last: bool


@dataclass(frozen=True, slots=True)
class PreparedPart:
    """A checked part whose bytes are durable as `blob`; for the last part, that is the `whole` content."""

    upload_id: str
    part: int
    blob: Blob
    whole: Blob | None
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class ReceivedPart:
    """The part was recorded; `artifact` is set when the upload is complete."""

    upload_id: str
    artifact: StoredArtifact | None


async def prepare(
    database: Database,
    folder: BlobFolder,
    ws: str,
    run_id: str,
    part: Part,
    *,
    sha256: str | None = None,
    size_bytes: int | None = None,
) -> PreparedPart:
    """Check a part and make it durable; for the last one join all parts and compare size and digest.

    InvalidArgumentError (out of order, or other size or digest than declared), PayloadTooLargeError,
    NotFoundError (no such upload of this run), ConflictError (a part sent again with other bytes),
    StorageError.
    """
    if len(part.content) > MAX_UPLOAD_PART_BYTES:
        raise PayloadTooLargeError(
            f"the part has {len(part.content):,} bytes; at most {MAX_UPLOAD_PART_BYTES:,}: send smaller parts"
        )
    if not part.content and not part.last:
        raise InvalidArgumentError("the part is empty; only the last one may be")
    before = await database.read(lambda tx: _check_order(tx, ws, run_id, part))
    upload_id = part.upload_id or new_id()
    if before is None:
        blob = await folder.put(part.content)
        whole = blob if part.last else None
    else:
        if before.size_bytes + len(part.content) > MAX_UPLOAD_BYTES:
            raise PayloadTooLargeError(f"the upload has more than {MAX_UPLOAD_BYTES:,} bytes")
        if part.last:
            blob = whole = await folder.put(_joined(folder, before.parts, part.content))
        else:
            blob, whole = await folder.put(part.content), None
        if before.repeated is not None:
            if before.repeated != blob.sha256:
                raise ConflictError(f"part {part.part} was received already, with other bytes")
            return PreparedPart(upload_id, part.part, blob, None, is_repeated=True)
    if whole is not None:
        check_declared(whole, size_bytes=size_bytes, sha256=sha256)
    return PreparedPart(upload_id, part.part, blob, whole)


def commit(
    tx: Tx, ws: str, run_id: str, prepared: PreparedPart, artifact_of: Callable[[Blob], NewArtifact]
) -> ReceivedPart | CallerError:
    """Record a part; with the last one store the artifact that `artifact_of(content)` describes.

    Return an error, with nothing written, if another transaction changed the upload since `prepare`.
    """
    upload_id, part, blob = prepared.upload_id, prepared.part, prepared.blob
    where = {"ws": ws, "upload_id": upload_id}
    if prepared.is_repeated:
        return ReceivedPart(upload_id, None)
    if prepared.whole is not None:
        if part > 0 and not tx.run(_q.end_expected, **where, run_id=run_id, part=part):
            return ConflictError("another last part of this upload was received already")
        stored = artifacts.create(tx, ws, artifact_of(prepared.whole))
        if isinstance(stored, Taken):
            raise RuntimeError(f"artifact {stored.artifact_id} of an upload is not new")
        _release_parts(tx, ws, upload_id)
        return ReceivedPart(upload_id, stored)
    if part == 0:
        counted = tx.one(_q.open_of_run, ws=ws, run_id=run_id)
        if counted is not None and counted["uploads"] >= MAX_OPEN_UPLOADS_PER_RUN:
            return InvalidArgumentError(
                f"the run has {MAX_OPEN_UPLOADS_PER_RUN} unfinished uploads, the most it may: finish one"
            )
        tx.run(_q.begin, **where, run_id=run_id, size_bytes=blob.size_bytes, now=tx.now)
    elif not tx.run(_q.advance, **where, run_id=run_id, part=part, size_bytes=blob.size_bytes):
        return ConflictError(f"another part {part} of this upload was received already")
    tx.run(_q.add_part, **where, part=part, sha256=blob.sha256, size_bytes=blob.size_bytes)
    blobs.reference(tx, blob)
    return ReceivedPart(upload_id, None)


def abandon(tx: Tx, ws: str, upload_id: str) -> None:
    """Delete an unfinished upload and release its parts."""
    _release_parts(tx, ws, upload_id)
    tx.run(_q.delete, ws=ws, upload_id=upload_id)


@dataclass(frozen=True, slots=True)
class _Before:
    """An upload before a part; `repeated` is the digest of the part if it was received already."""

    size_bytes: int
    parts: list[Blob]
    repeated: str | None


def _check_order(tx: Tx, ws: str, run_id: str, part: Part) -> _Before | None:
    """Return the upload that the part continues, None for a first part. Raise if it is not the next part."""
    if part.upload_id is None:
        if part.part != 0:
            raise InvalidArgumentError(f"part {part.part} names no upload_id: only part 0 begins an upload")
        return None
    row = tx.one(_q.find, ws=ws, upload_id=part.upload_id, run_id=run_id)
    if row is None:
        raise NotFoundError("there is no such unfinished upload of this run")
    expected = int(row["next_part"])
    if part.part == expected - 1 and not part.last:
        taken = tx.one(_q.part, ws=ws, upload_id=part.upload_id, part=part.part)
        return _Before(row["size_bytes"], [], None if taken is None else taken["sha256"])
    if part.part != expected:
        raise InvalidArgumentError(f"part {part.part} came where part {expected} is next")
    if expected >= MAX_PARTS and not part.last:
        raise InvalidArgumentError(f"an upload has at most {MAX_PARTS:,} parts: send larger ones")
    parts = tx.all(_q.parts, ws=ws, upload_id=part.upload_id) if part.last else []
    return _Before(row["size_bytes"], [Blob(row["sha256"], row["size_bytes"]) for row in parts], None)


async def _joined(folder: BlobFolder, parts: list[Blob], last: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        async for chunk in folder.stream(part.sha256):
            yield chunk
    yield last


def _release_parts(tx: Tx, ws: str, upload_id: str) -> None:
    for row in tx.all(_q.parts, ws=ws, upload_id=upload_id):
        blobs.release(tx, row["sha256"])
    tx.run(_q.delete_parts, ws=ws, upload_id=upload_id)
