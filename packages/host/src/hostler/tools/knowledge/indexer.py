"""The worker that indexes documents, and removes what was replaced or deleted.

A version of a document belongs to the host that has claimed it, for LEASE_SECONDS after each step. Each step
stores some passages and how far it came in one transaction, so that another host, or a later process of this
one, goes on behind them: the same bytes give the same passages. Its passages are found once all are there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import islice

from hostler.domain.knowledge import MAX_DOCUMENT_BYTES, MAX_PASSAGES, document_tokens
from hostler.domain.passages import Passage, cut
from hostler.storage.port import Database, Row, Tx
from hostler.storage.stores import blobs, knowledge_bases, knowledge_documents, knowledge_passages
from hostler.storage.stores.blobs import Blob, BlobFolder
from hostler.storage.stores.knowledge_documents import Claim
from hostler.storage.stores.knowledge_passages import STEP_PASSAGES, IndexedPassage, Place
from hostler.tools.knowledge.bases import KnowledgeBases
from hostler.tools.knowledge.readers import UnreadableError, read
from hostler_protocol.errors import StorageError, UnavailableError

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""Interval of the look for what other hosts changed; own changes wake the worker."""
ALONE_SECONDS = 60.0
"""The same where no other host works on the database: for removals that waited for a backup."""
LEASE_SECONDS = 60.0
"""How long a host that does not answer keeps a document. A step takes milliseconds, reading it seconds."""
PURGE_SECONDS = 600.0
"""Between two times that the text index of a SQLite database is rewritten: it may be large."""
RETRY_SECONDS = 2.0
"""Wait after the database or the disk did not answer."""

Gate = Callable[[], AbstractAsyncContextManager[object]]
"""Opens the gate in front of removals of files. UnavailableError while a backup is being made."""


class Indexer:
    """Indexes documents while `work` runs. `gate`: in front of the removal of bytes."""

    def __init__(
        self,
        db: Database,
        folder: BlobFolder,
        bases: KnowledgeBases,
        host_id: str,
        gate: Gate,
        *,
        look_seconds: float = LOOK_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
        purge_seconds: float = PURGE_SECONDS,
    ) -> None:
        self._db, self._blobs, self._bases, self._host_id, self._gate = db, folder, bases, host_id, gate
        self._look_seconds = look_seconds if db.shared else ALONE_SECONDS
        self._lease_ms = int(lease_seconds * 1000)
        self._wake = asyncio.Event()
        self._last_workspace = ""
        self._purge_seconds = purge_seconds
        self._purged_at: float | None = None
        bases.on_work = self.wake

    def wake(self) -> None:
        """Have the worker look at once."""
        self._wake.set()

    async def work(self, succeeded: Callable[[], None]) -> None:
        """Index and remove, until cancelled. A worker."""
        has_begun = False
        while True:
            self._wake.clear()
            try:
                if not has_begun:
                    await self._released()
                    has_begun = True
                await self._bases.follow()
                while (
                    await self.index_next()
                    or await self.remove_next()
                    or await self.cut_next()
                    or await self.purge()
                ):
                    succeeded()
            except StorageError as error:
                log.warning("documents cannot be indexed now: %s", error.message)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            succeeded()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look_seconds):
                    await self._wake.wait()

    async def _released(self) -> None:
        """Let go of what an earlier process of this host has claimed: it has ended."""
        released = await self._db.write(lambda tx: knowledge_documents.release_own(tx, self._host_id))
        if released:
            log.info("the indexing of %d documents goes on where an earlier process ended", released)

    # -- indexing ---------------------------------------------------------------------------------

    async def index_next(self) -> bool:
        """Index the next version that waits; return False if none does."""
        if not await self._db.read(knowledge_documents.waits):  # an idle host writes nothing
            return False
        after = self._last_workspace
        claim = await self._db.write(
            lambda tx: knowledge_documents.claim(tx, self._host_id, self._lease_ms, after_ws=after)
        )
        if claim is None:
            return False
        self._last_workspace = claim.workspace_id  # the next one is of another workspace that waits
        try:
            passages = await self._passages_of(claim)
        except UnreadableError as error:
            await self._fail(claim, error.message)
            return True
        if not passages:
            await self._fail(claim, "it has no text: there is nothing to find in it")
        elif len(passages) > MAX_PASSAGES:
            why = f"it has more than {MAX_PASSAGES:,} passages: split it, or set a larger passage_chars"
            await self._fail(claim, why)
        else:
            await self._store(claim, passages)
        return True

    async def _passages_of(self, claim: Claim) -> list[Passage]:
        """Return the passages of a version; one more than MAX_PASSAGES if there are more."""
        chunks = [chunk async for chunk in self._blobs.stream(claim.blob.name, length=MAX_DOCUMENT_BYTES)]
        return await asyncio.to_thread(_cut, b"".join(chunks), claim.mime_type, claim.passage_chars)

    async def _store(self, claim: Claim, passages: list[Passage]) -> None:
        """Store the passages that are not stored yet, in steps; then let searches find them."""
        of_document = document_tokens(claim.name, claim.values)
        done, chars, total = claim.passages_done, claim.chars, len(passages)
        while done < total:
            batch = passages[done : done + STEP_PASSAGES]
            indexed = await asyncio.to_thread(_indexed, batch, done)
            more = sum(len(one.content) for one in batch)

            step = partial(
                self._step, claim, indexed, of_document, before=done, total=total, chars=chars + more
            )
            if not await self._db.write(step, synced=False):
                log.info("document %s was replaced or removed, or taken by another host", claim.version_id)
                return
            done, chars = done + len(batch), chars + more
        await self._db.write(lambda tx: knowledge_documents.finish(tx, claim, self._host_id, total, chars))

    def _step(
        self,
        claim: Claim,
        indexed: Sequence[IndexedPassage],
        of_document: Sequence[str],
        tx: Tx,
        *,
        before: int,
        total: int,
        chars: int,
    ) -> bool:
        """Store passages, and how far that came; False if this host may not go on."""
        after = before + len(indexed)
        noted = knowledge_documents.progress(
            tx, claim, self._host_id, self._lease_ms, before=before, done=after, total=total, chars=chars
        )
        if noted:
            place = Place(claim.workspace_id, claim.base_id, claim.version_id, of_document)
            knowledge_passages.add(tx, place, indexed)
        return noted

    async def _fail(self, claim: Claim, reason: str) -> None:
        await self._db.write(lambda tx: knowledge_documents.fail(tx, claim, self._host_id, reason))

    async def cut_next(self) -> bool:
        """Have documents indexed again whose base wants passages of another length; False without one."""
        base = await self._db.read(knowledge_bases.to_cut_again)
        if base is None:
            return False
        await self._db.write(lambda tx: knowledge_documents.cut_again(tx, base))
        return True

    # -- removing ---------------------------------------------------------------------------------

    async def remove_next(self) -> bool:
        """Remove what the next version that is gone has left, or a base; return False if nothing is left."""
        row = await self._db.read(knowledge_documents.next_gone)
        if row is not None:
            return await self._remove_version(row)
        found = await self._db.read(knowledge_bases.removed)
        if found is None:
            return False
        ws, base_id = found
        if not await self._db.write(lambda tx: knowledge_documents.remove_next(tx, ws, base_id)):
            await self._db.write(lambda tx: knowledge_bases.forget(tx, ws, base_id))
        return True

    async def _remove_version(self, row: Row) -> bool:
        """Remove passages, then bytes, then what is kept of the version: after a crash the rest follows."""
        ws, version_id = row["workspace_id"], row["version_id"]

        def step(tx: Tx) -> int:
            of_document = knowledge_documents.tokens_of_version(tx, ws, version_id)
            return knowledge_passages.remove_next(tx, ws, version_id, of_document)

        while await self._db.write(step):
            pass
        blob = Blob(row["sha256"], row["size_bytes"], stored_as=row["stored_as"])
        try:
            async with self._gate():
                await blobs.remove(self._db, self._blobs, [blob])
        except UnavailableError:
            return False  # a backup is being made: with the next look
        await self._db.write(lambda tx: knowledge_documents.mark_removed(tx, ws, version_id))
        return True

    async def purge(self) -> bool:
        """Remove the words of removed passages from the file of the text index, which rewrites all of it;
        return whether there were any. Not again within PURGE_SECONDS: others follow together.
        """
        now = asyncio.get_running_loop().time()
        if self._purged_at is not None and now - self._purged_at < self._purge_seconds:
            return False
        versions = await self._db.read(knowledge_documents.removed_versions)
        if not versions:
            return False
        await knowledge_passages.purge(self._db)
        while versions:
            found = versions
            await self._db.write(lambda tx, found=found: knowledge_documents.forget(tx, found))  # type: ignore[misc]
            versions = await self._db.read(knowledge_documents.removed_versions)
        if self._db.dialect == "sqlite":  # there is nothing to rewrite elsewhere
            self._purged_at = now
        return True


def _cut(data: bytes, mime_type: str, chars: int) -> list[Passage]:
    return list(islice(cut(read(data, mime_type), chars), MAX_PASSAGES + 1))


def _indexed(passages: list[Passage], first: int) -> list[IndexedPassage]:
    return [knowledge_passages.indexed(number, one) for number, one in enumerate(passages, start=first)]
