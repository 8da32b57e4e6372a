"""Artifacts: metadata of stored bytes, their origin and their expiry.

The host computes size and digest itself. The bytes are a blob (counted as a reference) or a file registered
in place; both are read in ranges, and no public record contains a path.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Literal

import msgspec

from hostler.domain.epoch import seconds
from hostler.domain.place import NOWHERE, Place
from hostler.domain.quotas import UNBOUNDED, Amounts, Holder, QuotaExceeded, Quotas, added
from hostler.domain.record import Record
from hostler.domain.same_fields import from_row, with_fields_of
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import blobs, copies, quotas
from hostler.storage.stores.blob_files import CHUNK_BYTES
from hostler.storage.stores.blobs import Blob, BlobFolder
from hostler.storage.stores.filters import NEWEST
from hostler.storage.stores.nul import without_nul
from hostler.storage.stores.registered_files import (
    RegisteredFile,
    RegisteredFiles,
    decode_registered,
    encode_registered,
)
from hostler_protocol.errors import InvalidArgumentError, StorageError
from hostler_protocol.ids import new_id
from hostler_protocol.runs import ArtifactMetadata

_q = load(__file__)
_objects = msgspec.json.Decoder(dict[str, Any])

_MAX_UPLOADED = 10_000
"""Uploads of one run that a later attempt may announce."""

Source = Literal["event", "run", "upload", "tool", "tool_shown", "registered"]
"""`tool_shown`: a tool made it, and a message or an `artifact.created` of its run has named it since."""
TOOL_RESULT = "tool_result"
"""The type of results of tools that are too large for the journal."""


class NewArtifact(Record, kw_only=True):
    """An artifact to store: its bytes are a durable blob, or a checked file in place (`registered`).

    `event_id` is the event that brought the bytes, if any. `expires_at` is in UTC epoch milliseconds.
    """

    artifact_type: str
    blob: Blob
    source: Source
    artifact_id: str | None = None
    registered: RegisteredFile | None = None
    mime_type: str | None = None
    name: str | None = None
    event_id: str | None = None
    place: Place = NOWHERE
    run_id: str | None = None
    agent_id: str | None = None
    runner_id: str | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    expires_at: int | None = None

    @property
    def amounts(self) -> Amounts:
        """What it counts. A file in place takes no room."""
        return _amounts(self.blob, self.registered)

    @property
    def holder(self) -> Holder:
        """For whom it counts."""
        return Holder(self.agent_id, self.run_id)


class StoredArtifact(Record):
    """A stored artifact. Times are UTC epoch milliseconds. `registered` never leaves the host."""

    workspace_id: str
    artifact_id: str
    artifact_type: str
    mime_type: str | None
    name: str | None
    size_bytes: int
    sha256: str
    source: Source
    registered: RegisteredFile | None
    event_id: str | None
    place: Place
    run_id: str | None
    agent_id: str | None
    runner_id: str | None
    metadata: dict[str, Any]
    created_at: int
    expires_at: int | None
    stored_as: str | None

    @property
    def blob(self) -> Blob:
        """The digest, size and name of the bytes."""
        return Blob(self.sha256, self.size_bytes, stored_as=self.stored_as)

    @property
    def is_shown(self) -> bool:
        """Whether people in the conversation are shown it: what tools returned is the agent's alone, unless
        it has shown one of their files. `shown_of_conversation` and `shown_of_run` say the same.
        """
        return self.source != "tool"

    def record(self) -> ArtifactMetadata:
        """Return the metadata for runners and clients."""
        return with_fields_of(
            self,
            ArtifactMetadata,
            source="tool" if self.source == "tool_shown" else self.source,
            conversation_id=self.place.conversation_id,
            created_at=self.created_at / 1000,
            expires_at=seconds(self.expires_at),
        )


class Taken(Record):
    """The id belongs to an artifact with other bytes. Nothing was written."""

    artifact_id: str


def check_declared(blob: Blob, *, size_bytes: int | None, sha256: str | None) -> None:
    """Compare a declared size and digest with those of the bytes. InvalidArgumentError if they differ."""
    if size_bytes is not None and size_bytes != blob.size_bytes:
        raise InvalidArgumentError(
            f"size_bytes says {size_bytes:,}, but the content has {blob.size_bytes:,} bytes"
        )
    if sha256 is not None and sha256.lower() != blob.sha256:
        raise InvalidArgumentError(f"sha256 says {sha256!r}, but the content's is {blob.sha256}")


def create(
    tx: Tx, ws: str, new: NewArtifact, bounds: Quotas = UNBOUNDED
) -> StoredArtifact | Taken | QuotaExceeded:
    """Store an artifact and return it, or the quota that has no room for it: then nothing was written.

    If the id exists with the same bytes, return the stored one unchanged.
    """
    artifact_id = new.artifact_id or new_id()
    if new.artifact_id is not None and (row := tx.one(_q.held, ws=ws, artifact_id=artifact_id)) is not None:
        return _same_or_taken(row, new)
    exceeded = quotas.take(tx, ws, added(new.holder, new.amounts), bounds)
    if exceeded is not None:
        return exceeded
    inserted = tx.run(
        _q.insert,
        ws=ws,
        artifact_id=artifact_id,
        artifact_type=without_nul(new.artifact_type),
        mime_type=without_nul(new.mime_type),
        name=without_nul(new.name),
        size_bytes=new.blob.size_bytes,
        sha256=new.blob.sha256,
        source=new.source,
        registered_path=None if new.registered is None else encode_registered(new.registered),
        event_id=new.event_id,
        **new.place._asdict(),
        run_id=new.run_id,
        agent_id=new.agent_id,
        runner_id=new.runner_id,
        metadata=msgspec.json.encode(without_nul(new.metadata)).decode(),
        created_at=tx.now,
        expires_at=new.expires_at,
        stored_as=new.blob.stored_as,
    )
    if not inserted:  # another host has taken the id since
        quotas.give_back(tx, ws, new.holder, new.amounts)
    elif new.registered is None:
        blobs.reference(tx, new.blob)
    row = tx.one(_q.held, ws=ws, artifact_id=artifact_id)
    if row is None:
        raise RuntimeError(f"artifact {artifact_id} is neither new nor known")
    return _same_or_taken(row, new)


def find(tx: Tx, ws: str, artifact_id: str) -> StoredArtifact | None:
    """Return the artifact with this id; None if there is none or it has expired."""
    row = tx.one(_q.find, ws=ws, artifact_id=artifact_id, now=tx.now)
    return None if row is None else _stored(row)


def uploaded_by(tx: Tx, ws: str, run_id: str) -> list[StoredArtifact]:
    """Return the artifacts that a run uploaded or its tools made and that still exist, at most 10,000."""
    rows = tx.all(_q.uploaded_by, ws=ws, run_id=run_id, now=tx.now, limit=_MAX_UPLOADED)
    return [_stored(row) for row in rows]


def page(
    tx: Tx,
    ws: str,
    *,
    conversation_id: str | None = None,
    run_id: str | None = None,
    only_shown: bool = False,
    before: tuple[int, str] | None = None,
    limit: int,
) -> list[StoredArtifact]:
    """Return artifacts of a run, or else of a conversation, before (creation time, id), newest first.

    `only_shown`: without those that are not `is_shown`.
    """
    at, artifact_id = before or (NEWEST, "")
    query, named = _q.shown_of_run if only_shown else _q.of_run, {"run_id": run_id}
    if run_id is None:
        query = _q.shown_of_conversation if only_shown else _q.of_conversation
        named = {"conversation_id": conversation_id}
    rows = tx.all(query, ws=ws, **named, now=tx.now, before_at=at, before_id=artifact_id, limit=limit)
    return [_stored(row) for row in rows]


def show(tx: Tx, ws: str, run_id: str, artifact_id: str) -> None:
    """Note that a run has named a file that a tool made for it. Other artifacts, and large results, stay."""
    tx.run(_q.show, ws=ws, run_id=run_id, artifact_id=artifact_id, tool_result=TOOL_RESULT)


def exists(tx: Tx, ws: str, artifact_id: str) -> bool:
    """Whether the artifact is still stored, expired or not."""
    return tx.one(_q.held, ws=ws, artifact_id=artifact_id) is not None


def attach(tx: Tx, ws: str, artifact_id: str, event_id: str, place: Place) -> bool:
    """Give a file that came before its event to that event, and let it expire no more.

    False if there is no such file, or another event has it.
    """
    named = {"artifact_id": artifact_id, "event_id": event_id}
    return tx.run(_q.attach, ws=ws, **named, **place._asdict()) == 1


def remove(tx: Tx, ws: str, artifact_id: str) -> StoredArtifact | None:
    """Delete an artifact and release its blob; return it. A file registered in place stays."""
    row = tx.one(_q.held, ws=ws, artifact_id=artifact_id)
    if row is None:
        return None
    stored = _stored(row)
    if not tx.run(_q.delete, ws=ws, artifact_id=artifact_id):  # another host was faster
        return None
    copies.forget_file(tx, ws, artifact_id)
    if stored.registered is None:
        blobs.release(tx, stored.blob.name)
    holder = Holder(stored.agent_id, stored.run_id)
    quotas.give_back(tx, ws, holder, _amounts(stored.blob, stored.registered))
    return stored


async def read(
    artifact: StoredArtifact,
    folder: BlobFolder,
    offset: int,
    length: int,
    *,
    registered: RegisteredFiles | None = None,
) -> bytes:
    """Return at most `length` bytes from `offset` on; fewer only at the end.

    StorageError if the bytes are missing, or if a file registered in place has changed.
    """
    if artifact.registered is None:
        return await folder.read(artifact.blob.name, offset, length)
    if registered is None:
        raise StorageError("the folders of registered files are not open on this host")
    return await registered.read(artifact.registered, offset, length)


async def stream(
    artifact: StoredArtifact,
    folder: BlobFolder,
    offset: int = 0,
    length: int | None = None,
    *,
    registered: RegisteredFiles | None = None,
) -> AsyncIterator[bytes]:
    """Yield the bytes of a range (None: to the end), holding one chunk in memory."""
    end = artifact.size_bytes if length is None else min(artifact.size_bytes, offset + length)
    while offset < end:
        size = min(CHUNK_BYTES, end - offset)
        chunk = await read(artifact, folder, offset, size, registered=registered)
        if len(chunk) != size:
            raise StorageError(
                f"artifact {artifact.artifact_id} ends before its {artifact.size_bytes:,} bytes"
            )
        yield chunk
        offset += size


def _amounts(blob: Blob, registered: RegisteredFile | None) -> Amounts:
    return Amounts(artifacts=1, artifact_bytes=blob.size_bytes if registered is None else 0)


def _same_or_taken(row: Row, new: NewArtifact) -> StoredArtifact | Taken:
    stored = _stored(row)
    return stored if stored.blob == new.blob else Taken(stored.artifact_id)


def _stored(row: Row) -> StoredArtifact:
    registered = row["registered_path"]
    return from_row(
        row,
        StoredArtifact,
        registered=None if registered is None else decode_registered(registered),
        place=Place(row["bot_id"], row["conversation_id"], row["thread_id"]),
        metadata=_objects.decode(row["metadata"]),
    )
