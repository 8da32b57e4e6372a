"""Uploads in parts. Each part is a separate blob until the last one joins them.

`prepare` makes the bytes durable and checks them; `commit`, in the transaction that answers the call, records
the part. A part that is sent again because its answer was lost gets the same answer. Retention removes
unfinished uploads, which count as artifacts of what they have so far.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from hostler.domain.quotas import Allotment, Amounts, Holder, QuotaExceeded, added
from hostler.domain.record import Record
from hostler.storage.port import Database, Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import artifacts, blobs, quotas
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


class Part(Record):
    """One received part; parts count from 0. `upload_id` is None for the first part of a new upload."""

    upload_id: str | None
    part: int
    content: bytes
    last: bool


class PreparedPart(Record):
    """A checked part whose bytes are durable as `blob`; for the last part, that is the `whole` content."""

    upload_id: str
    part: int
    blob: Blob
    whole: Blob | None
    is_repeated: bool = False


class ReceivedPart(Record):
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
    allotment: Allotment | None = None,
) -> PreparedPart:
    """Check a part and make it durable; for the last one join all parts and compare size and digest.

    InvalidArgumentError (out of order, or other size or digest than declared), PayloadTooLargeError (also if
    a quota has no room for it, or for the declared size), NotFoundError (no such upload of this run),
    ConflictError (a part sent again with other bytes), StorageError.
    """
    if len(part.content) > MAX_UPLOAD_PART_BYTES:
        raise PayloadTooLargeError(
            f"the part has {len(part.content):,} bytes; at most {MAX_UPLOAD_PART_BYTES:,}: send smaller parts"
        )
    if not part.content and not part.last:
        raise InvalidArgumentError("the part is empty; only the last one may be")
    allowed = allotment or Allotment(Holder(run_id=run_id))

    def known(tx: Tx) -> _Before | None:
        before = _check_order(tx, ws, run_id, part)
        if before is None or before.repeated is None:
            more = _more(before, len(part.content), size_bytes)
            exceeded = quotas.check(tx, ws, allowed, more)
            if exceeded is not None:
                raise exceeded.error
        return before

    before = await database.read(known)
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
    tx: Tx,
    ws: str,
    run_id: str,
    prepared: PreparedPart,
    artifact_of: Callable[[Blob], NewArtifact],
    *,
    allotment: Allotment | None = None,
) -> ReceivedPart | CallerError:
    """Record a part; with the last one store the artifact that `artifact_of(content)` describes.

    Return an error, with nothing written, if another transaction changed the upload since `prepare`, or if a
    quota has no room for the part: then `abandon` the upload.
    """
    if prepared.is_repeated:
        return ReceivedPart(prepared.upload_id, None)
    holder, bounds = allotment or Allotment(Holder(run_id=run_id))
    begun: tuple[Holder, Amounts] | None = None
    if prepared.part > 0:
        where = {"upload_id": prepared.upload_id, "part": prepared.part}
        row = tx.one(_q.expected, ws=ws, run_id=run_id, **where)
        if row is None:
            return ConflictError(f"another part {prepared.part} of this upload was received already")
        begun = _holder(row), _amounts(row)
    if prepared.whole is not None:
        new = artifact_of(prepared.whole)
        return _end(tx, ws, prepared, begun, lambda: artifacts.create(tx, ws, new, bounds))
    run = Holder(holder.agent_id, run_id) if begun is None else begun[0]
    return _continue(tx, ws, prepared, Allotment(run, bounds))


def _continue(tx: Tx, ws: str, prepared: PreparedPart, allotment: Allotment) -> ReceivedPart | CallerError:
    """Record a part that is not the last one."""
    upload_id, part, blob = prepared.upload_id, prepared.part, prepared.blob
    (agent_id, run_id), bounds = allotment
    where = {"ws": ws, "upload_id": upload_id}
    if part == 0:
        counted = tx.one(_q.open_of_run, ws=ws, run_id=run_id)
        if counted is not None and counted["uploads"] >= MAX_OPEN_UPLOADS_PER_RUN:
            return InvalidArgumentError(
                f"the run has {MAX_OPEN_UPLOADS_PER_RUN} unfinished uploads, the most it may: finish one"
            )
    more = Amounts(artifacts=int(part == 0), artifact_bytes=blob.size_bytes)
    exceeded = quotas.take(tx, ws, added(allotment.holder, more), bounds)
    if exceeded is not None:
        return exceeded.error
    if part == 0:
        tx.run(_q.begin, **where, run_id=run_id, agent_id=agent_id, size_bytes=blob.size_bytes, now=tx.now)
    else:
        tx.run(_q.advance, **where, run_id=run_id, part=part, size_bytes=blob.size_bytes)
    kept = {"sha256": blob.sha256, "size_bytes": blob.size_bytes, "stored_as": blob.stored_as}
    tx.run(_q.add_part, **where, part=part, **kept)
    blobs.reference(tx, blob)
    return ReceivedPart(upload_id, None)


def _end(
    tx: Tx,
    ws: str,
    prepared: PreparedPart,
    begun: tuple[Holder, Amounts] | None,
    create: Callable[[], StoredArtifact | Taken | QuotaExceeded],
) -> ReceivedPart | CallerError:
    """Record the last part. `begun`: for whom the upload counts so far, and what."""
    upload_id = prepared.upload_id
    if begun is not None:  # first: the artifact takes its place
        quotas.give_back(tx, ws, *begun)
    stored = create()
    if isinstance(stored, QuotaExceeded):
        if begun is not None:
            quotas.give_back(tx, ws, begun[0], begun[1].negated())
        return stored.error
    if isinstance(stored, Taken):
        raise RuntimeError(f"artifact {stored.artifact_id} of an upload is not new")
    if begun is not None:
        tx.run(_q.end, ws=ws, upload_id=upload_id)
        _release_parts(tx, ws, upload_id)
    return ReceivedPart(upload_id, stored)


def abandon(tx: Tx, ws: str, upload_id: str) -> list[Blob]:
    """Delete an unfinished upload, unless it has ended meanwhile; return the parts that it releases."""
    row = tx.one(_q.delete, ws=ws, upload_id=upload_id)
    if row is None:
        return []
    quotas.give_back(tx, ws, _holder(row), _amounts(row))
    return _release_parts(tx, ws, upload_id)


def _more(before: _Before | None, part_bytes: int, declared_bytes: int | None) -> Amounts:
    """Return what an upload will add at least: the part, or what is missing of its declared size."""
    received = 0 if before is None else before.size_bytes
    missing = 0 if declared_bytes is None else declared_bytes - received
    return Amounts(artifacts=int(before is None), artifact_bytes=max(part_bytes, missing))


def _holder(row: Row) -> Holder:
    return Holder(row["agent_id"], row["run_id"])


def _amounts(row: Row) -> Amounts:
    return Amounts(artifacts=1, artifact_bytes=row["size_bytes"])


class _Before(Record):
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
    return _Before(row["size_bytes"], [_blob_of(row) for row in parts], None)


async def _joined(folder: BlobFolder, parts: list[Blob], last: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        async for chunk in folder.stream(part.name):
            yield chunk
    yield last


def _blob_of(row: Row) -> Blob:
    return Blob(row["sha256"], row["size_bytes"], stored_as=row["stored_as"])


def _release_parts(tx: Tx, ws: str, upload_id: str) -> list[Blob]:
    parts = [_blob_of(row) for row in tx.all(_q.parts, ws=ws, upload_id=upload_id)]
    for part in parts:
        blobs.release(tx, part.name)
    tx.run(_q.delete_parts, ws=ws, upload_id=upload_id)
    return parts
