"""Artifacts: upload, metadata, content and its ranges."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from hostler.domain.narrow_callers import sees_work
from hostler.domain.place import Place
from hostler.domain.quotas import UNBOUNDED, Allotment, QuotaExceeded, quotas_of
from hostler.http.downloads import BINARY, BYTES, RANGE, Download, download
from hostler.http.endpoint import Media, endpoint
from hostler.http.idempotency import run_once
from hostler.http.limits import MAX_UPLOAD_BODY_BYTES
from hostler.http.narrow import check_run
from hostler.http.pagination import Moment, PageQuery, list_cursors, listing
from hostler.http.request import ApiRequest, body_chunks
from hostler.http.responses import Empty, Json, Listing, StreamedBody
from hostler.storage.port import Tx
from hostler.storage.stores import artifacts, audit, blobs
from hostler.storage.stores.artifacts import NewArtifact, StoredArtifact
from hostler.storage.stores.quota_puts import put_within_quota
from hostler_protocol._base import Strict
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError
from hostler_protocol.runs import ArtifactMetadata

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}")


class UploadQuery(Strict):
    """Metadata of the content. `sha256`: its digest; other content is refused."""

    name: Text | None = None
    artifact_type: Text = "file"
    conversation_id: Text | None = None
    thread_id: Text | None = None
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-fA-F]{64}$")] | None = None
    expires_at: Moment | None = None


@endpoint(
    "POST",
    "/v1/artifacts",
    right="artifacts:write",
    tag="artifacts",
    status=201,
    media=Media("application/octet-stream", "The content, of any type", schema=BINARY),
    narrow=("conversation_id",),
)
async def upload_artifact(request: ApiRequest, query: UploadQuery) -> Json[ArtifactMetadata]:
    """Upload a file: the body is its content, the Content-Type its type. At most 1 GiB."""
    host, ws = request.state.host, request.workspace_id
    bounds = quotas_of(host.allowances.of(ws).quota)
    most = host.widgets.upload_limit(request.caller, MAX_UPLOAD_BODY_BYTES)
    body = body_chunks(request, limit=most)
    declared = request.headers.get("content-length", "")
    async with request.while_key_is_valid():
        blob = await put_within_quota(
            host.db,
            host.blobs,
            body,
            ws=ws,
            # a repeated request gets the answer of the first, whatever room is left
            allotment=Allotment(bounds=bounds if request.idempotency_key() is None else UNBOUNDED),
            declared_bytes=int(declared) if declared.isdecimal() else 0,
            max_bytes=most,
        )
    artifacts.check_declared(blob, size_bytes=None, sha256=query.sha256)
    new = NewArtifact(
        artifact_type=query.artifact_type,
        blob=blob,
        source="upload",
        mime_type=_media_type(request.headers.get("content-type")),
        name=query.name,
        place=Place(conversation_id=query.conversation_id, thread_id=query.thread_id),
        expires_at=None if query.expires_at is None else int(query.expires_at * 1000),
    )

    async def create() -> Json[ArtifactMetadata]:
        stored = await host.db.write(lambda tx: artifacts.create(tx, ws, new, bounds))
        if isinstance(stored, QuotaExceeded):
            await blobs.discard(host.db, host.blobs, [blob])
            raise stored.error
        if not isinstance(stored, StoredArtifact):
            raise ConflictError(f"there is an artifact {stored.artifact_id!r} with other content")
        return Json(stored.record(), 201)

    return await run_once(request, blob.sha256, create)  # type: ignore[return-value]


class ArtifactsQuery(PageQuery):
    """Whose files: one of both."""

    conversation_id: str | None = None
    run_id: str | None = None


@endpoint("GET", "/v1/artifacts", right="artifacts:read", tag="artifacts", narrow=("conversation_id",))
async def list_artifacts(request: ApiRequest, query: ArtifactsQuery) -> Listing[ArtifactMetadata]:
    """List the files of a conversation or of a run, newest first.

    A front-end token without `runs:read` gets those that people are shown, and not what tools returned.
    """
    conversation_id, run_id = query.conversation_id, query.run_id
    if request.caller.scope is not None and run_id is not None:
        await check_run(request, run_id)
        conversation_id = None  # its own, which every run that it reaches is in
    if (conversation_id is None) == (run_id is None):
        raise InvalidArgumentError("send either conversation_id or run_id: whose files")
    cursors = list_cursors(request.state.host.cursors, "artifacts", request.workspace_id, query)
    before = None if query.cursor is None else cursors.read_place(query.cursor)
    rows = await request.state.host.db.read(
        lambda tx: artifacts.page(
            tx,
            request.workspace_id,
            conversation_id=conversation_id,
            run_id=run_id,
            only_shown=not sees_work(request.caller),
            before=before,
            limit=query.size + 1,
        )
    )
    return listing(
        rows, query.size, StoredArtifact.record, lambda one: [one.created_at, one.artifact_id], cursors
    )


@endpoint("GET", "/v1/artifacts/{artifact_id}", right="artifacts:read", tag="artifacts", narrow=())
async def get_artifact(request: ApiRequest) -> ArtifactMetadata:
    """Get the metadata of an artifact."""
    return (await _find(request)).record()


@endpoint(
    "GET",
    "/v1/artifacts/{artifact_id}/content",
    right="artifacts:read",
    tag="artifacts",
    answers={
        200: BYTES,
        206: RANGE,
        304: None,
    },
    narrow=(),
)
async def get_artifact_content(request: ApiRequest) -> StreamedBody | Empty:
    """Get an artifact's content, whole or one range of it (Range, If-Range, ETag)."""
    artifact, folder = await _find(request), request.state.host.blobs
    stored = Download(
        name=artifact.name,
        mime_type=_media_type(artifact.mime_type) or "application/octet-stream",
        sha256=artifact.sha256,
        size_bytes=artifact.size_bytes,
        stream=lambda offset, length: artifacts.stream(artifact, folder, offset, length),
    )
    return download(request, stored)


@endpoint("DELETE", "/v1/artifacts/{artifact_id}", right="artifacts:write", tag="artifacts")
async def delete_artifact(request: ApiRequest) -> Empty:
    """Delete an artifact, and its bytes unless another artifact shares them. Messages keep its id."""
    artifact_id, workspace, actor = (
        request.parameters["artifact_id"],
        request.workspace_id,
        request.caller.subject,
    )

    def delete(tx: Tx) -> StoredArtifact | None:
        removed = artifacts.remove(tx, workspace, artifact_id)
        if removed is not None:
            details = {"sha256": removed.sha256, "size_bytes": removed.size_bytes}
            audit.record(tx, workspace, actor, "artifact.deleted", artifact_id, details)
        return removed

    data = request.state.host.data
    async with data.gate.open():
        removed = await data.db.write(delete)
        if removed is None:
            raise NotFoundError(f"there is no artifact {artifact_id!r}")
        if removed.registered is None:
            await blobs.remove(data.db, data.blobs, [removed.blob])
    return Empty()


async def _find(request: ApiRequest) -> StoredArtifact:
    artifact_id = request.parameters["artifact_id"]
    found = await request.state.host.db.read(lambda tx: artifacts.find(tx, request.workspace_id, artifact_id))
    if found is None:
        raise NotFoundError(f"there is no artifact {artifact_id!r}")
    return found


def _media_type(text: str | None) -> str | None:
    """Return a media type without its parameters; None if it is invalid."""
    kind = (text or "").partition(";")[0].strip().lower()
    return kind if _MEDIA_TYPE.fullmatch(kind) else None
