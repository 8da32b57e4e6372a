"""Knowledge bases: what there is, searches, and the bases and documents that the host keeps itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from hostler.domain.config_mistakes import ConfigurationError
from hostler.domain.epoch import seconds
from hostler.domain.knowledge import (
    MAX_DOCUMENT_BYTES,
    MAX_QUERY_CHARS,
    MAX_TOP_K,
    DocumentState,
    KnowledgeBase,
    base_mistakes,
    read_metadata,
)
from hostler.http.downloads import BINARY, BYTES, RANGE, Download, download
from hostler.http.endpoint import Media, endpoint
from hostler.http.pagination import PageQuery, list_cursors, listing
from hostler.http.problems import UnsupportedMediaTypeError
from hostler.http.request import ApiRequest, LenientBody, body_chunks, check_not_encoded
from hostler.http.responses import Empty, Json, Listing, StreamedBody
from hostler.storage.port import Tx
from hostler.storage.stores import knowledge_bases, knowledge_documents
from hostler.storage.stores.knowledge_bases import Holdings, StoredBase
from hostler.storage.stores.knowledge_documents import StoredDocument
from hostler.tools.knowledge.bases import KnowledgeBases, Upload
from hostler.tools.knowledge.readers import READABLE, type_of
from hostler_protocol._base import Strict
from hostler_protocol.calls import RetrieveReply
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError
from hostler_protocol.grants import KnowledgeBaseResource

KeptBy = Literal["host", "service"]


class KnowledgeBaseRecord(Strict):
    """A knowledge base. Times are UTC epoch seconds.

    `kept_by`: `host`, or `service` where the host was given one of its own: then the numbers are 0 and who
    made it and when is null. `documents` counts all, `waiting`, `indexing` and `failed` those in that state;
    `size_bytes` is of all, `passages` of what searches find.
    """

    kb_id: str
    name: str
    description: str
    passage_chars: int | None
    kept_by: KeptBy
    documents: int = 0
    waiting: int = 0
    indexing: int = 0
    failed: int = 0
    size_bytes: int = 0
    passages: int = 0
    made_by: str | None = None
    created_at: float | None = None
    changed_at: float | None = None


class DocumentRecord(Strict):
    """A document of a knowledge base. Times are UTC epoch seconds.

    `document_id` is new with each content, and when it is indexed again. `passages_done` of `passages_total`
    (null until that is known) are indexed. `searchable`: whether searches find it, or what was there before
    it. `reason`: why it failed.
    """

    kb_id: str
    name: str
    document_id: str
    mime_type: str
    size_bytes: int
    sha256: str
    metadata: dict[str, Any]
    state: DocumentState
    passages_done: int
    passages_total: int | None
    searchable: bool
    reason: str | None
    put_by: str
    created_at: float
    changed_at: float
    indexed_at: float | None


class DocumentsQuery(PageQuery):
    """`state`: only documents in this one."""

    state: DocumentState | None = None


class PutDocumentQuery(Strict):
    """`metadata`: a JSON object of texts, numbers and booleans, for filters. `sha256`: the digest of the
    content; other content is refused.
    """

    metadata: str | None = None
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-fA-F]{64}$")] | None = None


class KnowledgeQuery(Strict):
    """A search. `filters`: for keys of the documents' metadata, and `document` for their names, a value or a
    list of values: passages have one of each.
    """

    query: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_QUERY_CHARS)]
    top_k: Annotated[int, msgspec.Meta(ge=1, le=MAX_TOP_K)] = 5
    filters: dict[str, Any] | None = None


@endpoint("GET", "/v1/knowledge", right="knowledge:read", tag="knowledge")
async def list_knowledge_bases(request: ApiRequest, query: PageQuery) -> Listing[KnowledgeBaseRecord]:
    """List the knowledge bases of the workspace by id."""
    cursors = list_cursors(request.state.host.cursors, "knowledge", request.workspace_id, query)
    after = "" if query.cursor is None else cursors.read_text(query.cursor)
    ws, bases = request.workspace_id, request.state.host.bases
    if bases is None:
        records = [one for one in _of_service(request) if one.kb_id > after]
        return listing(records, query.size, lambda one: one, lambda one: one.kb_id, cursors)

    def read(tx: Tx) -> list[tuple[StoredBase, Holdings]]:
        rows = knowledge_bases.page(tx, ws, after=after, limit=query.size + 1)
        return [(row, knowledge_bases.holdings(tx, ws, row.base_id)) for row in rows]

    rows = await request.state.host.db.read(read)
    return listing(rows, query.size, lambda row: _base_record(*row), lambda row: row[0].kb_id, cursors)


@endpoint("POST", "/v1/knowledge", right="knowledge:write", tag="knowledge", status=201)
async def create_knowledge_base(
    request: ApiRequest, body: LenientBody[KnowledgeBase]
) -> Json[KnowledgeBaseRecord]:
    """Make a knowledge base. An id in use is a `conflict`."""
    entry = _checked(body)
    made = await _kept(request).create(request.workspace_id, entry, request.caller.subject)
    return Json(await _with_holdings(request, made), 201)


@endpoint("GET", "/v1/knowledge/{kb_id}", right="knowledge:read", tag="knowledge")
async def get_knowledge_base(request: ApiRequest) -> KnowledgeBaseRecord:
    """Get a knowledge base."""
    ws, kb_id = request.workspace_id, request.parameters["kb_id"]
    if request.state.host.bases is None:
        for one in _of_service(request):
            if one.kb_id == kb_id:
                return one
        raise NotFoundError(f"there is no knowledge base {kb_id!r}")
    base = await request.state.host.db.read(lambda tx: knowledge_bases.get(tx, ws, kb_id))
    return await _with_holdings(request, base)


@endpoint("PUT", "/v1/knowledge/{kb_id}", right="knowledge:write", tag="knowledge")
async def put_knowledge_base(request: ApiRequest, body: LenientBody[KnowledgeBase]) -> KnowledgeBaseRecord:
    """Make or change a knowledge base. Its documents stay; another `passage_chars` has them indexed again.

    The id in the body has to match the path.
    """
    kb_id = request.parameters["kb_id"]
    if body.get().kb_id != kb_id:
        raise InvalidArgumentError(f"kb_id: the path names {kb_id!r}: both must be the same")
    entry = _checked(body)
    stored = await _kept(request).put(request.workspace_id, entry, request.caller.subject)
    return await _with_holdings(request, stored)


@endpoint("DELETE", "/v1/knowledge/{kb_id}", right="knowledge:write", tag="knowledge")
async def delete_knowledge_base(request: ApiRequest) -> Empty:
    """Remove a knowledge base with its documents. It is found no more; the host then removes its data."""
    await _kept(request).remove(request.workspace_id, request.parameters["kb_id"], request.caller.subject)
    return Empty()


@endpoint("POST", "/v1/knowledge/{kb_id}/search", right="knowledge:read", tag="knowledge")
async def search_knowledge_base(request: ApiRequest, body: KnowledgeQuery) -> RetrieveReply:
    """Find the passages that fit a text best, as runs do with `knowledge.retrieve`.

    A score is above 0 and below 1: how much of the query's weight a passage covers, where rare words weigh
    more. Nothing is found without a word in common.
    """
    knowledge, kb_id = request.state.host.knowledge, request.parameters["kb_id"]
    if request.state.host.bases is None and kb_id not in knowledge.offered(request.workspace_id):
        raise NotFoundError(f"there is no knowledge base {kb_id!r}")
    return await knowledge.retrieve(
        request.workspace_id, kb_id, body.query, top_k=body.top_k, filters=body.filters, deadline=None
    )


@endpoint("GET", "/v1/knowledge/{kb_id}/documents", right="knowledge:read", tag="knowledge")
async def list_documents(request: ApiRequest, query: DocumentsQuery) -> Listing[DocumentRecord]:
    """List the documents of a knowledge base by name, with what is indexed of each."""
    _kept(request)
    kb_id, ws = request.parameters["kb_id"], request.workspace_id
    cursors = request.state.host.cursors.scoped("http knowledge documents", [ws, kb_id, query.state])
    after = "" if query.cursor is None else cursors.read_text(query.cursor)

    def read(tx: Tx) -> list[StoredDocument]:
        base = knowledge_bases.get(tx, ws, kb_id)
        return knowledge_documents.page(
            tx, ws, base.base_id, after=after, state=query.state, limit=query.size + 1
        )

    rows = await request.state.host.db.read(read)
    return listing(rows, query.size, lambda row: _document_record(kb_id, row), lambda row: row.name, cursors)


@endpoint(
    "PUT",
    "/v1/knowledge/{kb_id}/documents/{document}",
    right="knowledge:write",
    tag="knowledge",
    media=Media("application/octet-stream", "The content, of any type that can be read", schema=BINARY),
    answers={200: DocumentRecord, 201: DocumentRecord},
)
async def put_document(request: ApiRequest, query: PutDocumentQuery) -> Json[DocumentRecord]:
    """Store a document, or replace the one of its name: the body is its content, at most 16 MiB.

    Its Content-Type says what it is; without one the ending of its name does. It is then indexed; until that
    is done, what was there before is found. The same content again changes nothing, unless it failed.
    """
    bases, name = _kept(request), request.parameters["document"]
    check_not_encoded(request.headers.get("content-encoding"))
    content_type = request.headers.get("content-type")
    mime_type = type_of(name, content_type)
    if mime_type is None:
        said = (content_type or "untyped").partition(";")[0][:80]
        raise UnsupportedMediaTypeError(
            f"the document {name[:80]!r} ({said}) cannot be read; what can: {READABLE}"
        )
    declared = request.headers.get("content-length", "")
    upload = Upload(
        name=name,
        mime_type=mime_type,
        metadata=read_metadata(query.metadata),
        declared_bytes=int(declared) if declared.isdecimal() else 0,
        sha256=query.sha256,
    )
    kb_id, actor = request.parameters["kb_id"], request.caller.subject
    body = body_chunks(request, limit=MAX_DOCUMENT_BYTES)
    async with request.while_key_is_valid():
        stored = await bases.put_document(request.workspace_id, kb_id, upload, body, actor)
    return Json(_document_record(kb_id, stored.document), 201 if stored.is_new else 200)


@endpoint("GET", "/v1/knowledge/{kb_id}/documents/{document}", right="knowledge:read", tag="knowledge")
async def get_document(request: ApiRequest) -> DocumentRecord:
    """Get a document, with what is indexed of it."""
    return _document_record(request.parameters["kb_id"], await _document(request))


@endpoint(
    "GET",
    "/v1/knowledge/{kb_id}/documents/{document}/content",
    right="knowledge:read",
    tag="knowledge",
    answers={200: BYTES, 206: RANGE, 304: None},
)
async def get_document_content(request: ApiRequest) -> StreamedBody | Empty:
    """Get the content of a document as it was sent, whole or one range of it (Range, If-Range, ETag)."""
    document, blobs = await _document(request), request.state.host.blobs
    stored = Download(
        name=document.name,
        mime_type=document.mime_type,
        sha256=document.sha256,
        size_bytes=document.size_bytes,
        stream=lambda offset, length: blobs.stream(document.blob.name, offset, length),
    )
    return download(request, stored)


@endpoint(
    "POST", "/v1/knowledge/{kb_id}/documents/{document}/reindex", right="knowledge:write", tag="knowledge"
)
async def reindex_document(request: ApiRequest) -> DocumentRecord:
    """Have a document indexed again, such as one that failed. What is there is found until that is done."""
    kb_id, name = request.parameters["kb_id"], request.parameters["document"]
    made = await _kept(request).reindex(request.workspace_id, kb_id, name, request.caller.subject)
    return _document_record(kb_id, made)


@endpoint("DELETE", "/v1/knowledge/{kb_id}/documents/{document}", right="knowledge:write", tag="knowledge")
async def delete_document(request: ApiRequest) -> Empty:
    """Remove a document. It is found no more; the host then removes its passages and its content."""
    kb_id, name = request.parameters["kb_id"], request.parameters["document"]
    await _kept(request).remove_document(request.workspace_id, kb_id, name, request.caller.subject)
    return Empty()


def _kept(request: ApiRequest) -> KnowledgeBases:
    """Return the bases that the host keeps itself. ConflictError if a service of its own keeps them."""
    bases = request.state.host.bases
    if bases is None:
        raise ConflictError(
            "the knowledge bases of this host are kept by a service of its own: change them there"
        )
    return bases


def _checked(body: LenientBody[KnowledgeBase]) -> KnowledgeBase:
    """Return an entry. ConfigurationError with all its mistakes."""
    entry = body.get()
    mistakes = [*body.mistakes, *base_mistakes(entry)]
    if mistakes:
        raise ConfigurationError(mistakes)
    return entry


async def _document(request: ApiRequest) -> StoredDocument:
    _kept(request)
    ws, kb_id, name = request.workspace_id, request.parameters["kb_id"], request.parameters["document"]

    def read(tx: Tx) -> StoredDocument:
        return knowledge_documents.get(tx, ws, knowledge_bases.get(tx, ws, kb_id), name)

    return await request.state.host.db.read(read)


async def _with_holdings(request: ApiRequest, base: StoredBase) -> KnowledgeBaseRecord:
    ws = request.workspace_id
    return _base_record(
        base, await request.state.host.db.read(lambda tx: knowledge_bases.holdings(tx, ws, base.base_id))
    )


def _of_service(request: ApiRequest) -> list[KnowledgeBaseRecord]:
    """Return what a service of its own offers, as far as the workspace may use it."""
    host, ws = request.state.host, request.workspace_id
    may = host.allowances.of(ws)
    offered: dict[str, KnowledgeBaseResource] = dict(host.knowledge.offered(ws))
    return [
        KnowledgeBaseRecord(
            kb_id=kb_id, name=offered[kb_id].kb_name, description="", passage_chars=None, kept_by="service"
        )
        for kb_id in sorted(offered)
        if may.knowledge_base(kb_id)
    ]


def _base_record(base: StoredBase, holdings: Holdings) -> KnowledgeBaseRecord:
    try:
        entry = base.entry
    except InvalidArgumentError:  # written by another version
        entry = KnowledgeBase(kb_id=base.kb_id, passage_chars=base.passage_chars)
    return KnowledgeBaseRecord(
        kb_id=base.kb_id,
        name=entry.name,
        description=entry.description,
        passage_chars=entry.passage_chars,
        kept_by="host",
        documents=holdings.documents,
        waiting=holdings.waiting,
        indexing=holdings.indexing,
        failed=holdings.failed,
        size_bytes=holdings.size_bytes,
        passages=base.passages,
        made_by=base.made_by,
        created_at=seconds(base.created_at),
        changed_at=seconds(base.changed_at),
    )


def _document_record(kb_id: str, document: StoredDocument) -> DocumentRecord:
    return DocumentRecord(
        kb_id=kb_id,
        name=document.name,
        document_id=document.version_id,
        mime_type=document.mime_type,
        size_bytes=document.size_bytes,
        sha256=document.sha256,
        metadata=document.values,
        state=document.state,
        passages_done=document.passages_done,
        passages_total=document.passages_total,
        searchable=document.live_id is not None,
        reason=document.reason,
        put_by=document.put_by,
        created_at=document.created_at / 1000,
        changed_at=document.changed_at / 1000,
        indexed_at=seconds(document.indexed_at),
    )
