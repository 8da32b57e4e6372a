"""Files of a channel: those that the platform's people send, and those that answers bring."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hostler.domain.channels import MAX_FILES_PER_EVENT, ChannelEntry, file_mistake
from hostler.domain.keys import base64_of
from hostler.domain.place import Place
from hostler.domain.quotas import Allotment, Holder, WorkspaceQuota, quotas_of
from hostler.storage.port import Database, Tx
from hostler.storage.stores import artifacts, blobs, uploads
from hostler.storage.stores.artifacts import NewArtifact, StoredArtifact
from hostler.storage.stores.blobs import Blob, BlobFolder
from hostler.storage.stores.uploads import Part, PreparedPart
from hostler_protocol.channels import (
    IngestFileParams,
    IngestFileReply,
    IngestReadParams,
    IngestReadReply,
)
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import (
    CallerError,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    PayloadTooLargeError,
)
from hostler_protocol.limits import MAX_ARTIFACT_READ_BYTES, MAX_UPLOAD_PART_BYTES

UNATTACHED_KEPT_MS = 86_400_000
"""How long a file is kept that no event brings: its event comes right after it."""
CHANNEL = "channel"
"""The key in an artifact's metadata that names the channel it came through."""


@dataclass(slots=True)
class ChannelFiles:
    """The files of one open channel. `quota_of` returns how much a workspace may keep stored."""

    db: Database
    blobs: BlobFolder
    workspace_id: str
    entry: ChannelEntry
    quota_of: Callable[[str], WorkspaceQuota]
    _sizes: dict[str, int] = field(default_factory=dict)
    """Bytes received so far, by unfinished upload of this opening."""
    _readable: Counter[str] = field(default_factory=Counter)
    """Files of the messages that are being sent."""

    @property
    def _allotment(self) -> Allotment:
        return Allotment(Holder(), quotas_of(self.quota_of(self.workspace_id)))

    # -- in ---------------------------------------------------------------------------------------

    async def receive(self, params: IngestFileParams) -> IngestFileReply:
        """Store a part of a file; the last one makes it an artifact. CallerError, StorageError."""
        upload_id, entry = params.upload_id, self.entry
        if upload_id is not None and upload_id not in self._sizes:
            raise NotFoundError("there is no such unfinished upload of this channel: begin again with part 0")
        content = base64_of("content_base64", params.content_base64, MAX_UPLOAD_PART_BYTES)
        size = self._sizes.get(upload_id or "", 0) + len(content)
        try:
            if size > entry.max_file_bytes:
                raise PayloadTooLargeError(
                    f"the file has over {entry.max_file_bytes:,} bytes, the most for channel {entry.name}",
                    limit_bytes=entry.max_file_bytes,
                )
            if params.last and (wrong := file_mistake(entry, params.mime_type)) is not None:
                raise InvalidArgumentError(wrong)
            return await self._store(params, content, size)
        except CallerError:
            await self._abandon(upload_id)
            raise

    async def _store(self, params: IngestFileParams, content: bytes, size: int) -> IngestFileReply:
        part = Part(params.upload_id, params.part, content, params.last)
        ws, owner, allotment = self.workspace_id, self.entry.subject, self._allotment
        prepared: PreparedPart = await uploads.prepare(
            self.db, self.blobs, ws, owner, part, allotment=allotment
        )

        def commit(tx: Tx) -> uploads.ReceivedPart | CallerError:
            return uploads.commit(
                tx,
                ws,
                owner,
                prepared,
                lambda blob: self._artifact(tx.now, params, blob),
                allotment=allotment,
            )

        received = await self.db.write(commit)
        if isinstance(received, HostlerError):
            await blobs.discard(self.db, self.blobs, [prepared.blob])
            raise received
        if received.artifact is not None:
            self._sizes.pop(received.upload_id, None)
            return IngestFileReply(artifact_id=received.artifact.artifact_id)
        self._sizes[received.upload_id] = size
        return IngestFileReply(upload_id=received.upload_id)

    def _artifact(self, now: int, params: IngestFileParams, blob: Blob) -> NewArtifact:
        mime = params.mime_type or "application/octet-stream"
        return NewArtifact(
            artifact_type="image" if mime.startswith("image/") else "file",
            blob=blob,
            source="event",
            mime_type=mime,
            name=params.name,
            metadata={CHANNEL: self.entry.name},
            expires_at=now + UNATTACHED_KEPT_MS,
        )

    async def _abandon(self, upload_id: str | None) -> None:
        if upload_id is None or self._sizes.pop(upload_id, None) is None:
            return
        parts = await self.db.write(lambda tx: uploads.abandon(tx, self.workspace_id, upload_id))
        await blobs.discard(self.db, self.blobs, parts)

    def known(self, tx: Tx, refs: Iterable[ArtifactRef], event_id: str) -> list[ArtifactRef]:
        """Return the files of an event as the host knows them.

        InvalidArgumentError for one that did not come through this channel, or that another event has.
        """
        found: list[ArtifactRef] = []
        for ref in refs:
            artifact = artifacts.find(tx, self.workspace_id, ref.artifact_id)
            if artifact is None or artifact.metadata.get(CHANNEL) != self.entry.name:
                raise InvalidArgumentError(f"attachment {ref.artifact_id!r:.100} is no file of this channel")
            if artifact.event_id not in {None, event_id} or artifact.run_id is not None:
                raise InvalidArgumentError(f"attachment {ref.artifact_id!r:.100} is of another event")
            found.append(_ref_of(artifact))
        return found

    def attach(self, tx: Tx, refs: Iterable[ArtifactRef], event_id: str, place: Place) -> None:
        """Give the files of an event to it, in the transaction that stores it. InvalidArgumentError."""
        for ref in self.known(tx, refs, event_id):
            artifacts.attach(tx, self.workspace_id, ref.artifact_id, event_id, place)

    def drop(self, tx: Tx, refs: Iterable[ArtifactRef]) -> None:
        """Delete files that came with an event that is known, or left out."""
        for ref in refs:
            artifact = artifacts.find(tx, self.workspace_id, ref.artifact_id)
            if artifact is not None and _is_unattached(artifact, self.entry.name):
                artifacts.remove(tx, self.workspace_id, ref.artifact_id)

    # -- out --------------------------------------------------------------------------------------

    @contextmanager
    def readable(self, refs: Iterable[ArtifactRef]) -> Iterator[None]:
        """Let the plugin read these files: those of a message while it is being sent."""
        ids = [ref.artifact_id for ref in refs]
        self._readable.update(ids)
        try:
            yield
        finally:
            self._readable.subtract(ids)
            self._readable += Counter()  # without those at zero

    async def read(self, params: IngestReadParams) -> IngestReadReply:
        """Return a range of a file that is being sent. NotFoundError for any other."""
        artifact: StoredArtifact | None = None
        if self._readable[params.artifact_id] > 0:
            artifact = await self.db.read(
                lambda tx: artifacts.find(tx, self.workspace_id, params.artifact_id)
            )
        if artifact is None or artifact.registered is not None:
            raise NotFoundError(f"{params.artifact_id!r:.100} is no file of a message that is being sent")
        room = max(0, artifact.size_bytes - params.offset)
        length = min(params.limit, MAX_ARTIFACT_READ_BYTES, room)
        data = await artifacts.read(artifact, self.blobs, params.offset, length) if length else b""
        return IngestReadReply(
            content_base64=base64.b64encode(data).decode("ascii"),
            size_bytes=artifact.size_bytes,
            has_more=params.offset + len(data) < artifact.size_bytes,
        )


def check_count(refs: list[ArtifactRef]) -> None:
    """Refuse an event with too many files. PayloadTooLargeError."""
    if len(refs) > MAX_FILES_PER_EVENT:
        raise PayloadTooLargeError(f"the event has {len(refs)} attachments; at most {MAX_FILES_PER_EVENT}")


def _is_unattached(artifact: StoredArtifact, channel: str) -> bool:
    return artifact.event_id is None and artifact.run_id is None and artifact.metadata.get(CHANNEL) == channel


def _ref_of(artifact: StoredArtifact) -> ArtifactRef:
    return ArtifactRef(
        artifact_id=artifact.artifact_id,
        artifact_type=artifact.artifact_type,
        mime_type=artifact.mime_type,
        name=artifact.name,
        size_bytes=artifact.size_bytes,
    )
