"""`artifact.*`: artifacts the run made, its event refers to, or its conversation and thread hold."""

from __future__ import annotations

import base64
from functools import partial

from hostler.calls.scope import CallScope, Effect
from hostler.domain.child_runs import artifact_references, unreachable
from hostler.domain.keys import base64_of
from hostler.domain.outcomes import Uploaded
from hostler.domain.place import Place
from hostler.domain.quotas import REASON as QUOTA_EXCEEDED
from hostler.domain.reach import artifact_in_reach
from hostler.models.limits import MAX_ATTACHMENT_BYTES
from hostler.models.port import Attachment, ReadArtifact
from hostler.storage.port import Tx
from hostler.storage.stores import artifacts, blobs, uploads
from hostler.storage.stores.artifacts import NewArtifact, StoredArtifact
from hostler.storage.stores.blobs import Blob
from hostler.storage.stores.uploads import Part
from hostler_protocol.calls import (
    ArtifactMetadataParams,
    ArtifactReadParams,
    ArtifactUploadParams,
    ArtifactUploadReply,
)
from hostler_protocol.content import ArtifactElement
from hostler_protocol.errors import HostlerError, NotFoundError, PayloadTooLargeError
from hostler_protocol.events import Input
from hostler_protocol.limits import MAX_ARTIFACT_READ_BYTES, MAX_UPLOAD_PART_BYTES
from hostler_protocol.runs import ArtifactMetadata, ArtifactReadResult


async def metadata(scope: CallScope, params: ArtifactMetadataParams) -> ArtifactMetadata:
    """`artifact.metadata`: the metadata of an artifact, without its place in storage."""
    return (await _artifact(scope, params.artifact_id)).record()


async def read(scope: CallScope, params: ArtifactReadParams) -> ArtifactReadResult:
    """`artifact.read`: one range, at most 4 MiB; past the end nothing."""
    artifact = await _artifact(scope, params.artifact_id)
    content = await read_range(scope, artifact, params.offset, params.limit)
    return ArtifactReadResult(
        artifact_id=artifact.artifact_id,
        mime_type=artifact.mime_type,
        size_bytes=artifact.size_bytes,
        offset=params.offset,
        length=len(content),
        content_base64=base64.b64encode(content).decode(),
        has_more=params.offset + len(content) < artifact.size_bytes,
    )


async def upload(scope: CallScope, params: ArtifactUploadParams) -> Effect:
    """`artifact.upload`: one part; the last one makes the artifact, in the run's conversation."""
    content = base64_of("content_base64", params.content_base64, MAX_UPLOAD_PART_BYTES)
    services, ws = scope.services, scope.workspace_id
    try:
        prepared = await uploads.prepare(
            services.db,
            services.blobs,
            ws,
            scope.run_id,
            Part(params.upload_id, params.part, content, params.last),
            sha256=params.sha256,
            size_bytes=params.size_bytes,
            allotment=scope.allotment,
        )
    except PayloadTooLargeError as error:
        await _clear_up(scope, params.upload_id, [], error)
        raise

    def work(tx: Tx) -> ArtifactUploadReply | HostlerError:
        def artifact_of(blob: Blob) -> NewArtifact:
            return _uploaded(scope, params, blob, tx.now)

        received = uploads.commit(tx, ws, scope.run_id, prepared, artifact_of, allotment=scope.allotment)
        if isinstance(received, HostlerError):
            return received
        if received.artifact is None:
            return ArtifactUploadReply(upload_id=received.upload_id)
        return ArtifactUploadReply(artifact_id=received.artifact.artifact_id)

    async def then(reply: ArtifactUploadReply) -> ArtifactUploadReply:
        """From here on the runner may announce it with `artifact.created`."""
        if reply.artifact_id is not None and prepared.whole is not None:
            whole = prepared.whole
            scope.uploads[reply.artifact_id] = Uploaded(
                whole.size_bytes, whole.sha256, params.mime_type, params.name
            )
        return reply

    return Effect(work, then, refused=partial(_clear_up, scope, params.upload_id, [prepared.blob]))


async def _clear_up(scope: CallScope, upload_id: str | None, put: list[Blob], error: HostlerError) -> None:
    """Leave no bytes of a part that was refused, and none of its upload if a quota has no room for that."""
    services, released = scope.services, put
    if upload_id is not None and error.details.get("reason") == QUOTA_EXCEEDED:
        parts = await services.db.write(lambda tx: uploads.abandon(tx, scope.workspace_id, upload_id))
        released = [*put, *parts]
    await blobs.discard(services.db, services.blobs, released)


async def read_range(scope: CallScope, artifact: StoredArtifact, offset: int, limit: int) -> bytes:
    """A range of an artifact that was found to be in reach; capped, and empty past the end."""
    length = min(limit, MAX_ARTIFACT_READ_BYTES, max(0, artifact.size_bytes - offset))
    if length == 0:
        return b""
    services = scope.services
    return await artifacts.read(artifact, services.blobs, offset, length, registered=services.registered)


def attachment_reader(scope: CallScope) -> ReadArtifact:
    """Gives model providers the bytes behind a message's references, within the run's reach."""

    async def read(element: ArtifactElement) -> Attachment | None:
        found = await find_in_reach(scope, element.artifact_id)
        if found is None:
            return None
        if found.size_bytes > MAX_ATTACHMENT_BYTES:
            raise PayloadTooLargeError(
                f"artifact {element.artifact_id!r:.80} has {found.size_bytes:,} bytes; "
                f"at most {MAX_ATTACHMENT_BYTES:,} go to a model",
                limit_bytes=MAX_ATTACHMENT_BYTES,
            )
        services = scope.services
        data = await artifacts.read(
            found, services.blobs, 0, found.size_bytes, registered=services.registered
        )
        return Attachment(data, found.mime_type, found.name)

    return read


async def _artifact(scope: CallScope, artifact_id: str) -> StoredArtifact:
    found = await find_in_reach(scope, artifact_id)
    if found is None:
        raise NotFoundError(f"artifact_id {artifact_id[:100]!r} is no artifact that this run may see")
    return found


async def find_in_reach(scope: CallScope, artifact_id: str) -> StoredArtifact | None:
    """The artifact, if there is one of this id that the run may see."""
    return await scope.services.db.read(lambda tx: find_in_reach_of(tx, scope, artifact_id))


async def check_references(scope: CallScope, given: Input) -> None:
    """Check that the run may read every artifact that the input of a child run refers to. NotFoundError."""
    references = list(artifact_references(given))
    if not references:
        return

    def first_unreachable(tx: Tx) -> NotFoundError | None:
        for place, artifact_id in references:
            if find_in_reach_of(tx, scope, artifact_id) is None:
                return unreachable(place, artifact_id)
        return None

    if (error := await scope.services.db.read(first_unreachable)) is not None:
        raise error


def find_in_reach_of(tx: Tx, scope: CallScope, artifact_id: str) -> StoredArtifact | None:
    """The artifact, if there is one of this id that the run may see, in a transaction."""
    found = artifacts.find(tx, scope.workspace_id, artifact_id)
    if found is None:
        return None
    in_reach = artifact_in_reach(
        artifact_id,
        found.place,
        found.run_id,
        run_id=scope.run_id,
        grant=scope.grant,
        event_input=scope.event.envelope.input,
    )
    return found if in_reach else None


def _uploaded(scope: CallScope, params: ArtifactUploadParams, blob: Blob, now: int) -> NewArtifact:
    grant = scope.grant
    return NewArtifact(
        artifact_type=params.artifact_type,
        blob=blob,
        source="upload",
        mime_type=params.mime_type,
        name=params.name,
        place=Place.of(grant),
        run_id=scope.run_id,
        agent_id=grant.agent_id,
        runner_id=grant.runner_id,
        metadata=params.metadata,
        expires_at=None if params.expires_in is None else now + round(params.expires_in * 1000),
    )
