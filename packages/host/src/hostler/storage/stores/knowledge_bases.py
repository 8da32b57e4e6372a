"""Knowledge bases of a workspace: their entries, and counts of what is in them."""

from __future__ import annotations

import msgspec

from hostler.domain.knowledge import MAX_BASES, KnowledgeBase
from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.domain.type_fit import convert
from hostler.storage.port import Row, Tx
from hostler.storage.sealing.columns import WORDS_OF_BASE
from hostler.storage.sql.statements import load
from hostler.storage.stores import installation
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError
from hostler_protocol.ids import canonical_json, new_id

EVERY_LIMIT = 1_000
"""Bases of all workspaces that are read at once."""
_q = load(__file__)


class StoredBase(Record, kw_only=True):
    """A knowledge base. Times are UTC epoch milliseconds.

    `base_id` is its own: one that is made again under the same `kb_id` is another. `passages` and `chars`:
    of what searches find.
    """

    workspace_id: str
    base_id: str
    kb_id: str
    spec: str
    passage_chars: int
    passages: int
    chars: int
    made_by: str
    created_at: int
    changed_at: int

    @property
    def entry(self) -> KnowledgeBase:
        """Its entry. InvalidArgumentError if that does not fit this version of the host."""
        try:
            found = msgspec.json.decode(self.spec)
        except msgspec.DecodeError as error:
            raise InvalidArgumentError(
                f"knowledge base {self.kb_id!r}: the stored text is no JSON"
            ) from error
        return convert(found, KnowledgeBase, self.kb_id)


class Holdings(Record, kw_only=True):
    """The documents of a base: how many, their bytes, and how many are in the states that pass."""

    documents: int
    size_bytes: int
    waiting: int
    indexing: int
    failed: int


def create(tx: Tx, ws: str, entry: KnowledgeBase, made_by: str) -> bool:
    """Store a new base; return False if there is one of this id. ConflictError if there are too many."""
    if tx.one(_q.hold, ws=ws, kb_id=entry.kb_id) is not None:
        return False
    row = tx.one(_q.count, ws=ws)
    if row is not None and row["bases"] >= MAX_BASES:
        raise ConflictError(
            f"there are {MAX_BASES} knowledge bases already: remove some, or put more into one"
        )
    tx.run(
        _q.insert,
        ws=ws,
        base_id=new_id(),
        kb_id=entry.kb_id,
        spec=_text(entry),
        passage_chars=entry.passage_chars,
        made_by=made_by,
        now=tx.now,
    )
    _changed(tx)
    return True


def put(tx: Tx, ws: str, entry: KnowledgeBase, made_by: str) -> bool:
    """Store a base, or change the entry of the one of its id; return False if unchanged. ConflictError."""
    row = tx.one(_q.hold, ws=ws, kb_id=entry.kb_id)
    if row is None:
        return create(tx, ws, entry, made_by)
    text = _text(entry)
    if row["spec"] == text:
        return False
    tx.run(_q.change, ws=ws, base_id=row["base_id"], spec=text, passage_chars=entry.passage_chars, now=tx.now)
    _changed(tx)
    return True


def find(tx: Tx, ws: str, kb_id: str) -> StoredBase | None:
    """Return the base of this id, or None."""
    row = tx.one(_q.find, ws=ws, kb_id=kb_id)
    return None if row is None else _base(row)


def get(tx: Tx, ws: str, kb_id: str) -> StoredBase:
    """Return the base of this id. NotFoundError."""
    found = find(tx, ws, kb_id)
    if found is None:
        raise NotFoundError(f"there is no knowledge base {kb_id!r}")
    return found


def hold(tx: Tx, ws: str, kb_id: str) -> StoredBase:
    """Return the base of this id, which nobody else changes or removes until `tx` ends. NotFoundError."""
    held = find_held(tx, ws, kb_id)
    if held is None:
        raise NotFoundError(f"there is no knowledge base {kb_id!r}")
    return held


def find_held(tx: Tx, ws: str, kb_id: str) -> StoredBase | None:
    """Return the base of this id as `hold` does, or None."""
    row = tx.one(_q.hold, ws=ws, kb_id=kb_id)
    return None if row is None else _base(row)


def page(tx: Tx, ws: str, *, after: str = "", limit: int = MAX_BASES) -> list[StoredBase]:
    """Return bases by id, after an id."""
    return [_base(row) for row in tx.all(_q.page, ws=ws, after=after, limit=limit)]


def every(tx: Tx, after: StoredBase | None = None) -> list[StoredBase]:
    """Return the next bases of all workspaces, after another one of them; none at the end."""
    last = ("", "") if after is None else (after.workspace_id, after.base_id)
    return [_base(row) for row in tx.all(_q.every, after_ws=last[0], after_id=last[1], limit=EVERY_LIMIT)]


def remove(tx: Tx, ws: str, kb_id: str) -> bool:
    """Remove a base; return whether there was one. `knowledge_removal` removes what was in it."""
    row = tx.one(_q.hold, ws=ws, kb_id=kb_id)
    if row is None or not tx.run(_q.remove, ws=ws, base_id=row["base_id"], now=tx.now):
        return False
    _changed(tx)
    return True


def to_cut_again(tx: Tx) -> StoredBase | None:
    """Return a base with documents that were cut into passages of another length than it wants, or None."""
    row = tx.one(_q.to_cut_again)
    return None if row is None else _base(row)


def is_cut(tx: Tx, base: StoredBase) -> None:
    """Note that no document of a base has to be cut again, unless its entry has changed since it was read."""
    tx.run(_q.is_cut, ws=base.workspace_id, base_id=base.base_id, passage_chars=base.passage_chars)


def removed(tx: Tx) -> tuple[str, str] | None:
    """Return workspace and own id of a base that was removed and still has documents or passages, or None."""
    row = tx.one(_q.removed)
    return None if row is None else (row["workspace_id"], row["base_id"])


def forget(tx: Tx, ws: str, base_id: str) -> None:
    """Delete a removed base that has nothing any more, with the key under which its words were indexed."""
    tx.run(_q.forget, ws=ws, base_id=base_id)
    tx.destroy(ws, f"search:{words_of(base_id)}")


def words_of(base_id: str) -> str:
    """Return what the words of a base are blinded for, where content is sealed."""
    return WORDS_OF_BASE + base_id


def count_passages(tx: Tx, ws: str, base_id: str, passages: int, chars: int) -> None:
    """Count passages that searches find from now on, or (below 0) no longer."""
    if passages or chars:
        tx.run(_q.count_passages, ws=ws, base_id=base_id, passages=passages, chars=chars)


def holdings(tx: Tx, ws: str, base_id: str) -> Holdings:
    """Count the documents of a base."""
    row = tx.one(_q.documents, ws=ws, base_id=base_id)
    if row is None:
        raise RuntimeError("a count gave no row")
    return from_row(row, Holdings)


def _changed(tx: Tx) -> None:
    installation.change_knowledge_revision(tx)  # other hosts of the database look for it


def _text(entry: KnowledgeBase) -> str:
    return canonical_json(msgspec.to_builtins(entry)).decode()


def _base(row: Row) -> StoredBase:
    return from_row(row, StoredBase)
