"""Documents of knowledge bases: their versions, and the claims of the hosts that index these.

Each PUT of other content makes a version. The earlier one is found until the passages of the new one are
complete, and then replaced in one transaction. A version that nobody needs is `gone`: its bytes are given
back at once, its passages are removed in steps (`knowledge_removal`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from hostler.domain.knowledge import MAX_DOCUMENTS, DocumentState, Value, document_tokens
from hostler.domain.quotas import UNBOUNDED, Amounts, Holder, QuotaExceeded, Quotas, added
from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import blobs, knowledge_bases, quotas
from hostler.storage.stores.blobs import Blob
from hostler.storage.stores.knowledge_bases import StoredBase
from hostler_protocol.errors import ConflictError, NotFoundError
from hostler_protocol.ids import canonical_json, new_id

MAX_ATTEMPTS = 5
"""Times that the indexing of a version may be begun: one that ends its host must not do so for ever."""
MAX_REASON_CHARS = 500
STEP_REMOVED = 200
STEP_DOCUMENTS = 50
"""Documents that one transaction removes, or has cut again."""
_q = load(__file__)
_metadata = msgspec.json.Decoder(dict[str, Any])


class StoredDocument(Record, kw_only=True):
    """A document with its newest version. Times are UTC epoch milliseconds.

    `live_id`: the version that searches find. `passages_total` is None until it is known.
    """

    name: str
    version_id: str
    live_id: str | None
    mime_type: str
    size_bytes: int
    sha256: str
    stored_as: str | None
    metadata: str
    passage_chars: int
    state: DocumentState
    reason: str | None
    passages_done: int
    passages_total: int | None
    put_by: str
    created_at: int
    changed_at: int
    indexed_at: int | None

    @property
    def blob(self) -> Blob:
        """Its bytes."""
        return Blob(self.sha256, self.size_bytes, stored_as=self.stored_as)

    @property
    def values(self) -> dict[str, Value]:
        """Its metadata."""
        return _metadata.decode(self.metadata)


class NewDocument(Record, kw_only=True):
    """What a PUT brings. `blob`: its bytes, which are durable."""

    name: str
    blob: Blob
    mime_type: str
    metadata: Mapping[str, Value]
    put_by: str


class Put(NamedTuple):
    """What came of a PUT: the document, and whether its name is new, and its content."""

    document: StoredDocument
    is_new: bool
    is_changed: bool


class Claim(Record, kw_only=True):
    """A version that this host indexes. `attempts` tells this claim from earlier ones."""

    workspace_id: str
    version_id: str
    base_id: str
    name: str
    mime_type: str
    size_bytes: int
    sha256: str
    stored_as: str | None
    metadata: str
    passage_chars: int
    passages_done: int
    chars: int
    attempts: int

    @property
    def blob(self) -> Blob:
        """Its bytes."""
        return Blob(self.sha256, self.size_bytes, stored_as=self.stored_as)

    @property
    def values(self) -> dict[str, Value]:
        """Its metadata."""
        return _metadata.decode(self.metadata)


def put(tx: Tx, ws: str, kb_id: str, new: NewDocument, bounds: Quotas) -> Put | QuotaExceeded:
    """Store a document, or a new version of it. The same content again changes nothing, unless it failed.

    NotFoundError without such a base; ConflictError if it has too many documents.
    """
    base = knowledge_bases.hold(tx, ws, kb_id)
    known = find(tx, ws, base.base_id, new.name)
    metadata = canonical_json(dict(new.metadata)).decode()
    if known is None:
        row = tx.one(_q.count, ws=ws, base_id=base.base_id)
        if row is not None and row["documents"] >= MAX_DOCUMENTS:
            raise ConflictError(
                f"the knowledge base {kb_id!r} has {MAX_DOCUMENTS:,} documents already: remove some, or use "
                "another base"
            )
    elif known.state != "failed" and _same(known, new, metadata):
        return Put(known, is_new=False, is_changed=False)
    made = _add_version(tx, base, new, metadata, bounds)
    if isinstance(made, QuotaExceeded):
        return made
    return Put(_get(tx, ws, base.base_id, new.name), is_new=known is None, is_changed=True)


def reindex(tx: Tx, ws: str, kb_id: str, name: str, actor: str | None = None) -> StoredDocument:
    """Have a document indexed again, from the bytes that are there. NotFoundError."""
    base = knowledge_bases.hold(tx, ws, kb_id)
    known = get(tx, ws, base, name)
    new = NewDocument(
        name=name,
        blob=known.blob,
        mime_type=known.mime_type,
        metadata={},
        put_by=actor or known.put_by,
    )
    _add_version(tx, base, new, known.metadata, UNBOUNDED)
    return _get(tx, ws, base.base_id, name)


def find(tx: Tx, ws: str, base_id: str, name: str) -> StoredDocument | None:
    """Return the document of this name, or None."""
    row = tx.one(_q.find, ws=ws, base_id=base_id, name=name)
    return None if row is None else from_row(row, StoredDocument)


def get(tx: Tx, ws: str, base: StoredBase, name: str) -> StoredDocument:
    """Return the document of this name. NotFoundError."""
    found = find(tx, ws, base.base_id, name)
    if found is None:
        raise NotFoundError(f"the knowledge base {base.kb_id!r} has no document {name!r}")
    return found


def page(
    tx: Tx, ws: str, base_id: str, *, after: str = "", state: DocumentState | None = None, limit: int
) -> list[StoredDocument]:
    """Return documents by name, after a name."""
    rows = tx.all(_q.page, ws=ws, base_id=base_id, after=after, state=state, limit=limit)
    return [from_row(row, StoredDocument) for row in rows]


def remove(tx: Tx, ws: str, base_id: str, name: str) -> bool:
    """Remove a document; return whether there was one. No search finds it any more."""
    row = tx.one(_q.hold, ws=ws, base_id=base_id, name=name)
    if row is None:
        return False
    _retire(tx, ws, row["live_id"], live=True)
    if row["version_id"] != row["live_id"]:
        _retire(tx, ws, row["version_id"])
    tx.run(_q.delete, ws=ws, base_id=base_id, name=name)
    return True


def remove_next(tx: Tx, ws: str, base_id: str) -> int:
    """Remove the next documents of a base that was removed; return their number."""
    rows = tx.all(_q.next_of_base, ws=ws, base_id=base_id, limit=STEP_DOCUMENTS)
    for row in rows:
        remove(tx, ws, base_id, row["name"])
    return len(rows)


def cut_again(tx: Tx, base: StoredBase) -> int:
    """Have the next documents indexed again that were cut into passages of another length; return their
    number.
    """
    ws = base.workspace_id
    held = knowledge_bases.find_held(tx, ws, base.kb_id)
    if held is None or held.base_id != base.base_id:  # removed since it was read
        return 0
    rows = tx.all(
        _q.cut_otherwise,
        ws=ws,
        base_id=base.base_id,
        passage_chars=held.passage_chars,
        limit=STEP_DOCUMENTS,
    )
    for row in rows:
        reindex(tx, ws, base.kb_id, row["name"])
    if not rows:
        knowledge_bases.is_cut(tx, held)
    return len(rows)


# -- indexing -------------------------------------------------------------------------------------------


def release_own(tx: Tx, host_id: str) -> int:
    """Let go of what an earlier process of this host was indexing; return the number of versions."""
    return tx.run(_q.release_own, host_id=host_id)


def waits(tx: Tx) -> bool:
    """Whether a version of any workspace waits, so that `claim` may find one."""
    return tx.one(_q.waits, now=tx.now) is not None


def claim(tx: Tx, host_id: str, lease_ms: int, *, after_ws: str = "") -> Claim | None:
    """Take the next version that waits, of the next workspace that has one; None if none has.

    One that was begun MAX_ATTEMPTS times without an end fails instead, and the one after it is taken.
    """
    while True:
        row = tx.one(_q.next_work, after_ws=after_ws, now=tx.now)
        if row is None and after_ws:
            row = tx.one(_q.next_work, after_ws="", now=tx.now)
        if row is None:
            return None
        ws, version_id = row["workspace_id"], row["version_id"]
        tx.run(_q.claim, ws=ws, version_id=version_id, host_id=host_id, until=tx.now + lease_ms)
        claimed = from_row(row, Claim, attempts=row["attempts"] + 1)
        if claimed.attempts <= MAX_ATTEMPTS:
            return claimed
        why = f"its indexing was begun {MAX_ATTEMPTS} times and ended with its host each time: split it"
        fail(tx, claimed, host_id, why)


def progress(
    tx: Tx, claim: Claim, host_id: str, lease_ms: int, *, before: int, done: int, total: int, chars: int
) -> bool:
    """Note passages that this transaction adds; False if the claim is lost, or the version is gone."""
    noted = tx.run(
        _q.progress,
        ws=claim.workspace_id,
        version_id=claim.version_id,
        host_id=host_id,
        attempts=claim.attempts,
        before=before,
        done=done,
        total=total,
        chars=chars,
        until=tx.now + lease_ms,
    )
    return noted == 1


def finish(tx: Tx, claim: Claim, host_id: str, passages: int, chars: int) -> bool:
    """Let searches find a version, in place of the one before it; False if the claim is lost."""
    ws, place = claim.workspace_id, {"base_id": claim.base_id, "name": claim.name}
    if not _finish(tx, claim, host_id, "ready", None):
        return False
    row = tx.one(_q.hold, ws=ws, **place)
    if row is None or row["version_id"] != claim.version_id:
        raise RuntimeError(f"version {claim.version_id} of a document is neither the newest nor gone")
    if row["live_id"] != claim.version_id:
        _retire(tx, ws, row["live_id"], live=True)
    tx.run(_q.show, ws=ws, **place, version_id=claim.version_id)
    knowledge_bases.count_passages(tx, ws, claim.base_id, passages, chars)
    return True


def fail(tx: Tx, claim: Claim, host_id: str, reason: str) -> bool:
    """Note why a version cannot be indexed; the one before it stays. False if the claim is lost."""
    return _finish(tx, claim, host_id, "failed", reason[:MAX_REASON_CHARS])


def _finish(tx: Tx, claim: Claim, host_id: str, state: DocumentState, reason: str | None) -> bool:
    done = tx.run(
        _q.finish,
        ws=claim.workspace_id,
        version_id=claim.version_id,
        host_id=host_id,
        attempts=claim.attempts,
        state=state,
        reason=reason,
        indexed_at=tx.now if state == "ready" else None,
    )
    return done == 1


# -- versions -------------------------------------------------------------------------------------------


def next_gone(tx: Tx) -> Row | None:
    """Return the next version whose passages are to be removed, of any workspace; None at the end."""
    return tx.one(_q.next_gone)


def mark_removed(tx: Tx, ws: str, version_id: str) -> None:
    """Note that nothing of a version is left but words in the text index; destroy the key of its content."""
    tx.run(_q.mark_removed, ws=ws, version_id=version_id)
    tx.destroy(ws, f"document:{version_id}")


def removed_versions(tx: Tx) -> list[tuple[str, str]]:
    """Return workspace and id of the next versions of which only words in the text index are left."""
    rows = tx.all(_q.removed, limit=STEP_REMOVED)
    return [(row["workspace_id"], row["version_id"]) for row in rows]


def forget(tx: Tx, versions: Iterable[tuple[str, str]]) -> None:
    """Delete versions of which nothing is left."""
    for ws, version_id in versions:
        tx.run(_q.forget, ws=ws, version_id=version_id)


def tokens_of_version(tx: Tx, ws: str, version_id: str) -> list[str]:
    """Return the tokens that all passages of a version have."""
    row = tx.one(_q.version, ws=ws, version_id=version_id)
    return [] if row is None else document_tokens(row["name"], _metadata.decode(row["metadata"]))


def _add_version(
    tx: Tx, base: StoredBase, new: NewDocument, metadata: str, bounds: Quotas
) -> str | QuotaExceeded:
    ws = base.workspace_id
    row = tx.one(_q.hold, ws=ws, base_id=base.base_id, name=new.name)
    exceeded = quotas.take(tx, ws, added(Holder(), _amounts(new.blob.size_bytes)), bounds)
    if exceeded is not None:
        return exceeded
    version_id = new_id()
    place = {"ws": ws, "base_id": base.base_id, "name": new.name}
    tx.run(
        _q.add_version,
        **place,
        version_id=version_id,
        mime_type=new.mime_type,
        size_bytes=new.blob.size_bytes,
        sha256=new.blob.sha256,
        stored_as=new.blob.stored_as,
        metadata=metadata,
        passage_chars=base.passage_chars,
        now=tx.now,
    )
    blobs.reference(tx, new.blob)
    if row is None:
        tx.run(_q.insert, **place, version_id=version_id, put_by=new.put_by, now=tx.now)
        return version_id
    if row["version_id"] != row["live_id"]:  # it was not ready yet, or has failed
        _retire(tx, ws, row["version_id"])
    tx.run(_q.advance, **place, version_id=version_id, put_by=new.put_by, now=tx.now)
    return version_id


def _retire(tx: Tx, ws: str, version_id: str | None, *, live: bool = False) -> None:
    """Give back what a version holds. `live`: searches found it."""
    row = None if version_id is None else tx.one(_q.version, ws=ws, version_id=version_id)
    if row is None or not tx.run(_q.retire, ws=ws, version_id=row["version_id"]):
        return
    blobs.release(tx, row["stored_as"] or row["sha256"])
    quotas.give_back(tx, ws, Holder(), _amounts(row["size_bytes"]))
    if live:
        knowledge_bases.count_passages(tx, ws, row["base_id"], -row["passages_done"], -row["chars"])


def _amounts(size_bytes: int) -> Amounts:
    return Amounts(artifacts=1, artifact_bytes=size_bytes)


def _same(known: StoredDocument, new: NewDocument, metadata: str) -> bool:
    return (known.sha256, known.mime_type, known.metadata) == (new.blob.sha256, new.mime_type, metadata)


def _get(tx: Tx, ws: str, base_id: str, name: str) -> StoredDocument:
    found = find(tx, ws, base_id, name)
    if found is None:
        raise RuntimeError("a document that was stored is not there")
    return found
