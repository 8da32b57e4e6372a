"""The text index of the transcript: which messages are in it, and when.

On SQLite several messages of a workspace are indexed together; on PostgreSQL each is indexed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Protocol

import msgspec

from hostler.domain.place import HasPlace, Place
from hostler.storage.port import Database, Row, Tx
from hostler.storage.sealing.envelope import MARK
from hostler.storage.sql.statements import load
from hostler.storage.stores.filters import NEWEST
from hostler.storage.stores.search_tokens import blinded_tokens, indexed_tokens, tokens_of

INDEX_EVERY = 32
"""SQLite: messages of a workspace that are indexed together, in the transaction of the last of them, as one
segment of the index instead of one each. Searches read those that are not indexed yet."""
LONG_TEXT_CHARS = 8 * 1024
"""A longer text is indexed at once, so that a search reads at most 256 KiB of unindexed text, and no group of
writes indexes more than that and its own texts."""
_MERGE_PAGES = 500
"""Pages rewritten in one transaction, about 2 MB."""
_MAX_MERGES = 10_000
_MAX_WAITING = 1_000
"""Messages indexed in one step; further ones follow in the next step."""

_q = load(__file__)


class Searchable(HasPlace, Protocol):
    """A message that can be indexed."""

    @property
    def search_text(self) -> str:
        """Its folded text."""
        ...


class _Message(msgspec.Struct, frozen=True):
    bot_id: str | None
    conversation_id: str | None
    thread_id: str | None
    search_text: str


_columns = itemgetter(*_Message.__struct_fields__)


def add(tx: Tx, ws: str, written: Sequence[tuple[int, Searchable]]) -> None:
    """Index new messages, given with their sequences, now or together with later ones."""
    if tx.dialect == "postgres":  # its index collects new entries by itself
        rows = [
            {"ws": ws, "seq": seq, "tokens": _tokens(tx, ws, item, is_sealed=tx.seals)}
            for seq, item in written
        ]
        tx.run_many(_q.insert, rows)
        return
    first, last = written[0][0], written[-1][0]
    is_full = last // INDEX_EVERY > (first - 1) // INDEX_EVERY
    if is_full or any(len(item.search_text) > LONG_TEXT_CHARS for _, item in written):
        index_waiting(tx, ws, written)


def index_waiting(tx: Tx, ws: str, written: Sequence[tuple[int, Searchable]] = ()) -> None:
    """SQLite: index all messages that are not indexed yet, in order, and finally those just `written`.

    Those are all messages after the last indexed one: there is no separate mark that could be wrong.
    """
    indexed = tx.one(_q.last_indexed, ws=ws)
    after = 0 if indexed is None else int(indexed["seq"])
    before = written[0][0] if written else NEWEST
    last = tx.one(_q.last_doc)
    next_doc = 1 if last is None else int(last["doc"]) + 1
    while after + 1 < before:
        rows = tx.all(_q.waiting, ws=ws, after=after, before=before, limit=_MAX_WAITING)
        if not rows:
            break
        _insert(tx, ws, [(row["seq"], _Message(*_columns(row)), is_sealed(row)) for row in rows], next_doc)
        next_doc += len(rows)
        after = rows[-1]["seq"]
    _insert(tx, ws, [(seq, item, tx.seals) for seq, item in written], next_doc)


def remove(tx: Tx, ws: str, row: Row) -> None:
    """Remove a message, given as its row, from the index."""
    if tx.dialect == "sqlite":  # an index without content needs the tokens again to delete them
        tokens = _tokens(tx, ws, _Message(*_columns(row)), is_sealed=is_sealed(row))
        tx.run(_q.delete, ws=ws, seq=row["seq"], tokens=tokens)
        tx.run(_q.delete_doc, ws=ws, seq=row["seq"])
    else:
        tx.run(_q.delete, ws=ws, seq=row["seq"])


def seal(tx: Tx, ws: str, row: Row) -> None:
    """Index a message, given as its row, as one whose text is sealed; it was indexed as a plain one."""
    message = _Message(*_columns(row))
    plain, blinded = (_tokens(tx, ws, message, is_sealed=sealed) for sealed in (False, True))
    tx.run(_q.delete, ws=ws, seq=row["seq"], **({"tokens": plain} if tx.dialect == "sqlite" else {}))
    tx.run(_q.insert_again if tx.dialect == "sqlite" else _q.insert, ws=ws, seq=row["seq"], tokens=blinded)


def merge(tx: Tx, pages: int, *, begin: bool) -> bool:
    """SQLite: rewrite part of the index, so that deleted texts leave the file.

    The first step begins a merge of everything, the others continue it; each writes about `pages` pages.
    Return whether more is left to do.
    """
    before = tx.one(_q.changes)
    tx.run(_q.merge, pages=-pages if begin else pages)
    after = tx.one(_q.changes)
    return before is not None and after is not None and after["changes"] - before["changes"] > 1


async def purge(database: Database) -> None:
    """SQLite: rewrite the whole index, in bounded steps."""
    for number in range(_MAX_MERGES):
        begin = number == 0
        if not await database.write(lambda tx, begin=begin: merge(tx, _MERGE_PAGES, begin=begin)):  # type: ignore[misc]
            return


def is_sealed(row: Row) -> bool:
    """Whether the text of a message is stored sealed, given its first character as `head`."""
    return bool(row["head"] == MARK)


def _insert(tx: Tx, ws: str, items: Sequence[tuple[int, Searchable, bool]], first_doc: int) -> None:
    tx.run_rows(_q.insert_doc, [(doc, ws, seq) for doc, (seq, _, _) in enumerate(items, start=first_doc)])
    entries = [
        (doc, _tokens(tx, ws, item, is_sealed=is_sealed))
        for doc, (_, item, is_sealed) in enumerate(items, start=first_doc)
    ]
    tx.run_rows(_q.insert, entries)


def _tokens(tx: Tx, ws: str, item: Searchable, *, is_sealed: bool) -> str:
    place, words = Place.of(item), tokens_of(item.search_text)
    if not is_sealed:
        return " ".join(indexed_tokens(tx.dialect, ws, place, words))
    # what is in no conversation is in no history, and found by a scan of the newest messages
    blinded = None if place.conversation_id is None else tx.blinded(ws, place.conversation_id, words)
    return " ".join(blinded_tokens(ws, place, blinded or ()))
