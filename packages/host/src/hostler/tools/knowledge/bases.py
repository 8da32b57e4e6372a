"""The knowledge bases that the host keeps itself: they are made, filled, searched and offered to runs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from hostler.domain.knowledge import (
    MAX_DOCUMENT_BYTES,
    MAX_QUERY_CHARS,
    MAX_TOP_K,
    KnowledgeBase,
    Value,
    check_document_name,
    read_filters,
)
from hostler.domain.quotas import Allotment, QuotaExceeded, Quotas
from hostler.domain.record import Record
from hostler.storage.port import Database, Tx
from hostler.storage.stores import (
    audit,
    blobs,
    installation,
    knowledge_bases,
    knowledge_documents,
    knowledge_passages,
)
from hostler.storage.stores.artifacts import check_declared
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.knowledge_bases import StoredBase
from hostler.storage.stores.knowledge_documents import NewDocument, Put, StoredDocument
from hostler.storage.stores.knowledge_passages import FoundPassage
from hostler.storage.stores.quota_puts import put_within_quota
from hostler_protocol.calls import KnowledgeItem, RetrieveReply
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError
from hostler_protocol.grants import KnowledgeBaseResource

KB_TYPE = "host"
"""`kb_type` of the bases that the host keeps."""
OPERATIONS = ("list", "retrieve")


class Upload(Record, kw_only=True):
    """A document as it is sent. `declared_bytes`: 0 if that is not said."""

    name: str
    mime_type: str
    metadata: Mapping[str, Value]
    declared_bytes: int = 0
    sha256: str | None = None


class KnowledgeBases:
    """The knowledge bases of all workspaces: a `KnowledgeService`, and what people do with them.

    `quota_of`: workspace -> how much it may keep. `on_work` is called when there is something to index.
    """

    def __init__(self, db: Database, folder: BlobFolder, quota_of: Callable[[str], Quotas]) -> None:
        self._db, self._blobs, self._quota_of = db, folder, quota_of
        self._offered: dict[str, dict[str, KnowledgeBaseResource]] = {}
        self._revision: bytes | None = None
        self.on_work: Callable[[], None] = lambda: None

    # -- what runs get ----------------------------------------------------------------------------

    def offered(self, workspace_id: str) -> Mapping[str, KnowledgeBaseResource]:
        """Return the knowledge bases of a workspace by id."""
        return self._offered.get(workspace_id, {})

    async def retrieve(
        self,
        workspace_id: str,
        kb_id: str,
        query_text: str,
        *,
        top_k: int,
        filters: dict[str, Any] | None,
        deadline: float | None,
    ) -> RetrieveReply:
        """Return the passages that fit best. Of a longer query the beginning is searched for.

        A search is bounded by what it reads, so the deadline is not needed. NotFoundError;
        InvalidArgumentError for filters that are none.
        """
        found = await self.search(workspace_id, kb_id, query_text[:MAX_QUERY_CHARS], top_k, filters)
        return RetrieveReply(items=[knowledge_item(one) for one in found])

    async def search(
        self, ws: str, kb_id: str, query: str, top_k: int, filters: Mapping[str, Any] | None
    ) -> list[FoundPassage]:
        """Return at most `top_k` passages, the best first. Errors as `retrieve`."""
        wanted, most = read_filters(filters), min(top_k, MAX_TOP_K)

        def find(tx: Tx) -> list[FoundPassage]:
            base = knowledge_bases.get(tx, ws, kb_id)
            return knowledge_passages.search(tx, base, query, wanted, most)

        return await self._db.read(find)

    # -- bases ------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read what is offered, as it is now."""

        def read(tx: Tx) -> tuple[bytes | None, list[StoredBase]]:
            found = knowledge_bases.every(tx)
            while len(found) % knowledge_bases.EVERY_LIMIT == 0 and found:
                more = knowledge_bases.every(tx, found[-1])
                if not more:
                    break
                found += more
            return installation.knowledge_revision(tx), found

        revision, found = await self._db.read(read)
        offered: dict[str, dict[str, KnowledgeBaseResource]] = {}
        for base in found:
            offered.setdefault(base.workspace_id, {})[base.kb_id] = _resource(base)
        self._offered, self._revision = offered, revision

    async def follow(self) -> bool:
        """Read again what is offered if it was changed, here or by another host; return whether it was."""
        revision = await self._db.read(installation.knowledge_revision)
        if revision == self._revision:
            return False
        await self.load()
        return True

    async def create(self, ws: str, entry: KnowledgeBase, actor: str) -> StoredBase:
        """Make a base. ConflictError if there is one of its id, or there are too many."""

        def add(tx: Tx) -> StoredBase:
            if not knowledge_bases.create(tx, ws, entry, actor):
                raise ConflictError(f"there is a knowledge base {entry.kb_id!r} already; PUT changes it")
            audit.record(tx, ws, actor, "knowledge_base.added", entry.kb_id, {})
            return knowledge_bases.get(tx, ws, entry.kb_id)

        made = await self._db.write(add)
        await self.load()
        return made

    async def put(self, ws: str, entry: KnowledgeBase, actor: str) -> StoredBase:
        """Make a base, or change the entry of the one of its id. ConflictError if there are too many."""

        def store(tx: Tx) -> StoredBase:
            known = knowledge_bases.find(tx, ws, entry.kb_id)
            if knowledge_bases.put(tx, ws, entry, actor):
                action = "knowledge_base.added" if known is None else "knowledge_base.changed"
                audit.record(tx, ws, actor, action, entry.kb_id, {})
            return knowledge_bases.get(tx, ws, entry.kb_id)

        stored = await self._db.write(store)
        await self.load()
        self.on_work()  # its documents may have to be cut again
        return stored

    async def remove(self, ws: str, kb_id: str, actor: str) -> None:
        """Remove a base with all that is in it: it is found no more, and its data follow. NotFoundError."""

        def remove(tx: Tx) -> None:
            if not knowledge_bases.remove(tx, ws, kb_id):
                raise NotFoundError(f"there is no knowledge base {kb_id!r}")
            audit.record(tx, ws, actor, "knowledge_base.removed", kb_id, {})

        await self._db.write(remove)
        await self.load()
        self.on_work()

    # -- documents --------------------------------------------------------------------------------

    async def put_document(
        self, ws: str, kb_id: str, upload: Upload, content: AsyncIterator[bytes], actor: str
    ) -> Put:
        """Store a document, to be indexed next.

        NotFoundError; InvalidArgumentError; ConflictError if there are too many; PayloadTooLargeError over
        MAX_DOCUMENT_BYTES, or if a quota has no room.
        """
        check_document_name(upload.name)
        await self._db.read(lambda tx: knowledge_bases.get(tx, ws, kb_id))  # before the bytes are read
        bounds = self._quota_of(ws)
        blob = await put_within_quota(
            self._db,
            self._blobs,
            content,
            ws=ws,
            allotment=Allotment(bounds=bounds),
            declared_bytes=upload.declared_bytes,
            max_bytes=MAX_DOCUMENT_BYTES,
        )
        kept = False
        try:
            check_declared(blob, size_bytes=None, sha256=upload.sha256)
            if not blob.size_bytes:
                raise InvalidArgumentError("the body is empty: send the content of the document")
            new = NewDocument(
                name=upload.name,
                blob=blob,
                mime_type=upload.mime_type,
                metadata=upload.metadata,
                put_by=actor,
            )

            def store(tx: Tx) -> Put | QuotaExceeded:
                outcome = knowledge_documents.put(tx, ws, kb_id, new, bounds)
                if isinstance(outcome, Put) and outcome.is_changed:
                    details = {"sha256": blob.sha256, "size_bytes": blob.size_bytes}
                    audit.record(
                        tx, ws, actor, "knowledge_document.put", _target(kb_id, upload.name), details
                    )
                return outcome

            outcome = await self._db.write(store)
            if isinstance(outcome, QuotaExceeded):
                raise outcome.error
            kept = outcome.is_changed
        finally:
            if not kept:
                with contextlib.suppress(OSError):
                    blobs.discard_later(self._db, self._blobs, [blob])
        self.on_work()
        return outcome

    async def reindex(self, ws: str, kb_id: str, name: str, actor: str) -> StoredDocument:
        """Have a document indexed again. NotFoundError."""

        def again(tx: Tx) -> StoredDocument:
            made = knowledge_documents.reindex(tx, ws, kb_id, name, actor)
            audit.record(tx, ws, actor, "knowledge_document.reindexed", _target(kb_id, name), {})
            return made

        made = await self._db.write(again)
        self.on_work()
        return made

    async def remove_document(self, ws: str, kb_id: str, name: str, actor: str) -> None:
        """Remove a document: it is found no more, and its data follow. NotFoundError."""

        def remove(tx: Tx) -> None:
            base = knowledge_bases.hold(tx, ws, kb_id)
            if not knowledge_documents.remove(tx, ws, base.base_id, name):
                raise NotFoundError(f"the knowledge base {kb_id!r} has no document {name!r}")
            audit.record(tx, ws, actor, "knowledge_document.removed", _target(kb_id, name), {})

        await self._db.write(remove)
        self.on_work()


def knowledge_item(found: FoundPassage) -> KnowledgeItem:
    """Return a passage as runs and people get it."""
    metadata: dict[str, Any] = {
        "source": found.document,
        "heading": found.heading,
        "passage": found.number,
        "passages": found.passages,
        "mime_type": found.mime_type,
        "document_id": found.version_id,
        "document_metadata": dict(found.metadata),
    }
    return KnowledgeItem(content=found.content, score=found.score, metadata=metadata)


def _resource(base: StoredBase) -> KnowledgeBaseResource:
    try:
        name = base.entry.name
    except InvalidArgumentError:  # written by another version: its documents are found all the same
        name = ""
    return KnowledgeBaseResource(
        kb_id=base.kb_id, kb_name=name or base.kb_id, kb_type=KB_TYPE, operations=list(OPERATIONS)
    )


def _target(kb_id: str, name: str) -> str:
    return f"{kb_id}/{name}"
