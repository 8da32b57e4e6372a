"""Full-text search over the transcript, newest first, at a cost that does not grow with the conversation.

The index proposes candidates of the scope that contain all tokens of the query, newest first; those that pass
the filters and contain every term literally are hits. The number of candidates is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count
from typing import Any

from hostler.domain.record import Record
from hostler.storage.port import Query as Statement
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import transcripts
from hostler.storage.stores.filters import ANY, NEWEST, AnyOr
from hostler.storage.stores.key_ranges import page_limit
from hostler.storage.stores.search_tokens import (
    ParsedQuery,
    parse_query,
    thread_token,
    tokens_of,
    wanted_tokens,
)
from hostler.storage.stores.transcripts import Span, StoredItem

_q = load(__file__)

MAX_CANDIDATES = 2_000
"""Candidates that a search reads; reached if the tokens are common and the literal text is not."""
MAX_COUNTED = 100
"""Hits that are counted: an exact larger total is not worth its cost."""
_FIRST_BATCH = 11
"""Candidates read first: enough for ten hits if each candidate is one."""
_BATCH = 50
_BATCHES_OF_ANY_THREAD = 3
"""Batches after which the thread's token joins the match. Before that, candidates of other threads are
skipped one by one: there are hardly ever any, and combining the thread's list with those of the words costs
more."""
_WINDOW = 1_000
"""PostgreSQL: the newest items, whose text is compared before the index is used, since the index returns all
matches at once. A word of one item in a hundred is found among them."""
_CLOCK_SLACK_MS = 300_000
"""How far the times of neighbouring sequences may be out of order, due to the clocks of several hosts."""


class Hits(Record):
    """Search results, newest first.

    `complete`: all candidates were read, and `total_count` is exact. Otherwise it is an estimate, up to 100:
    the number of candidates before filters and literal comparison.
    """

    items: list[StoredItem]
    total_count: int
    complete: bool


class _Filter(Record):
    conversation_id: AnyOr
    thread_id: AnyOr
    bot_id: AnyOr
    role: str | None
    after: int | None
    before: int | None

    @property
    def has_thread(self) -> bool:
        """Whether the search is limited to one thread of one conversation."""
        return isinstance(self.conversation_id, str) and self.thread_id is not ANY

    def passes(self, row: Row) -> bool:
        return (
            (self.conversation_id is ANY or row["conversation_id"] == self.conversation_id)
            and (self.thread_id is ANY or row["thread_id"] == self.thread_id)
            and (self.bot_id is ANY or row["bot_id"] == self.bot_id)
            and (self.role is None or row["role"] == self.role)
            and (self.after is None or row["created_at"] > self.after)
            and (self.before is None or row["created_at"] < self.before)
        )


def search(
    tx: Tx,
    ws: str,
    query: str,
    *,
    conversation_id: AnyOr = ANY,
    thread_id: AnyOr = ANY,
    bot_id: AnyOr = ANY,
    role: str | None = None,
    after: int | None = None,
    before: int | None = None,
    before_seq: int | None = None,
    after_seq: int = 0,
    limit: int = 10,
) -> Hits:
    """Return items that contain every term of `query` (`search_tokens.parse_query`), at most 100.

    `after`, `before`: UTC epoch milliseconds, exclusive. InvalidArgumentError for a query without terms.
    """
    limit = page_limit(limit)
    asked = parse_query(query)
    if conversation_id is None:  # items without a conversation are in no history
        return Hits([], 0, True)
    fits = _Filter(conversation_id, thread_id, bot_id, role, after, before)
    low, high = after_seq, NEWEST if before_seq is None else before_seq
    if after is not None:
        low = max(low, _first_seq_at(tx, ws, after - _CLOCK_SLACK_MS) - 1)
    if before is not None:
        high = min(high, _first_seq_at(tx, ws, before + _CLOCK_SLACK_MS))
    between = (low, high)
    if tx.seals and not isinstance(conversation_id, str):
        found, complete = _verified(iter((_newest(tx, ws, between),)), fits, asked, limit, MAX_COUNTED)
        return Hits(transcripts.items(tx, ws, found[:limit]), len(found), complete)
    if tx.dialect == "postgres":
        phases = _phases_postgres(tx, ws, fits, asked, between)
        found, complete = _verified(phases, fits, asked, limit, MAX_COUNTED)
        return Hits(transcripts.items(tx, ws, found[:limit]), len(found), complete)
    waiting = _waiting_sqlite(tx, ws, fits, asked, between)
    proposals = _Proposals(tx, ws, fits, asked, between)
    phases = iter((iter(waiting), proposals.rows()))
    found, complete = _verified(phases, fits, asked, limit, limit + 1)
    total = len(found)
    if total > limit:
        total = max(total, min(len(waiting) + len(proposals.newest), MAX_COUNTED))
    return Hits(transcripts.items(tx, ws, found[:limit]), total, complete)


def search_across(
    tx: Tx, ws: str, query: str, spans: Sequence[Span], *, limit: int = 10, **filters: Any
) -> Hits:
    """Return the newest hits of several spans, as `search` does: one search for each."""
    found = [
        search(
            tx,
            ws,
            query,
            conversation_id=span.conversation_id,
            thread_id=span.thread_id,
            bot_id=span.bot_id,
            after_seq=span.after_seq,
            limit=limit,
            **filters,
        )
        for span in spans
    ]
    items = sorted((item for hits in found for item in hits.items), key=lambda item: item.seq, reverse=True)
    total, shown = sum(hits.total_count for hits in found), items[: page_limit(limit)]
    return Hits(shown, max(len(shown), min(total, MAX_COUNTED)), all(hits.complete for hits in found))


def _verified(
    phases: Iterator[Iterator[Row]], fits: _Filter, asked: ParsedQuery, limit: int, enough: int
) -> tuple[list[int], bool]:
    """Return the sequences of hits among the candidates, and whether all candidates were read."""
    found: list[int] = []
    looked_at = 0
    for phase in phases:
        for row in phase:
            looked_at += 1
            if fits.passes(row) and asked.matches(row["search_text"]):
                found.append(row["seq"])
            if len(found) >= enough or looked_at >= MAX_CANDIDATES:
                return found, False
        if len(found) > limit:  # the next phase costs more
            return found, False
    return found, True


def _newest(tx: Tx, ws: str, between: tuple[int, int]) -> Iterator[Row]:
    """Yield the newest items of a workspace: where texts are sealed, each conversation has tokens of its own,
    so that none finds an item of all.
    """
    return _batches(tx, _q.newest, between, ws=ws, conversation_id=None)


def _waiting_sqlite(
    tx: Tx, ws: str, fits: _Filter, asked: ParsedQuery, between: tuple[int, int]
) -> list[Row]:
    """Return items that are not indexed yet and that the index would propose, newest first."""
    low, high = between
    conversation = fits.conversation_id if isinstance(fits.conversation_id, str) else None
    rows = tx.all(_q.waiting, ws=ws, after_seq=low, before_seq=high, conversation_id=conversation)
    words = set(asked.tokens)
    return [
        row
        for row in rows
        if asked.matches(row["search_text"]) and words.issubset(tokens_of(row["search_text"]))
    ]


class _Proposals:
    """SQLite: candidates of the index between two sequences (exclusive), newest first."""

    def __init__(self, tx: Tx, ws: str, fits: _Filter, asked: ParsedQuery, between: tuple[int, int]) -> None:
        self._tx, self._ws, self._fits = tx, ws, fits
        self._between = between
        self._match = _match_sqlite(tx, ws, fits, asked)

    @cached_property
    def newest(self) -> list[int]:
        """Document numbers of the newest candidates, at most MAX_COUNTED, for the hits and their count."""
        return self._numbers(self._match, NEWEST, MAX_COUNTED)

    def rows(self) -> Iterator[Row]:
        """Yield candidates, reading one batch at a time."""
        match, numbers, more = self._match, self.newest, MAX_COUNTED
        yield from self._items(numbers[:_FIRST_BATCH])
        yield from self._items(numbers[_FIRST_BATCH:])
        for batch in count():
            if len(numbers) < more:
                return
            if self._fits.has_thread and batch == _BATCHES_OF_ANY_THREAD:
                match += f' AND "{_thread_of(self._ws, self._fits)}"'
            numbers, more = self._numbers(match, numbers[-1], _BATCH), _BATCH
            yield from self._items(numbers)

    def _numbers(self, match: str, before: int, limit: int) -> list[int]:
        low, high = self._between
        bounds = {"after_seq": low, "before_seq": high, "before_doc": before}
        rows = self._tx.all(_q.matching, ws=self._ws, match=match, **bounds, limit=limit)
        return [row["doc"] for row in rows]

    def _items(self, numbers: list[int]) -> list[Row]:
        return self._tx.all(_q.proposed, ws=self._ws, docs=json.dumps(numbers)) if numbers else []


def _match_sqlite(tx: Tx, ws: str, fits: _Filter, asked: ParsedQuery) -> str:
    tokens = wanted_tokens("sqlite", ws, fits.conversation_id, fits.bot_id, asked.tokens)
    match = _all_of(tokens)
    blinded = _blinded(tx, ws, fits, asked)
    return match if blinded is None else f"(({match}) OR ({_all_of(blinded)}))"


def _all_of(tokens: list[str]) -> str:
    return " AND ".join(f'"{token}"' for token in tokens)


def _blinded(tx: Tx, ws: str, fits: _Filter, asked: ParsedQuery) -> list[str] | None:
    """Return the tokens under which items are indexed whose texts are sealed; None if there are none."""
    is_one = tx.seals and isinstance(fits.conversation_id, str)
    return tx.blinded(ws, str(fits.conversation_id), asked.tokens) if is_one else None


def _thread_of(ws: str, fits: _Filter) -> str:
    if not isinstance(fits.conversation_id, str) or fits.thread_id is ANY:
        raise RuntimeError("a search of all threads has no thread token")
    return thread_token(ws, fits.conversation_id, fits.thread_id)


def _phases_postgres(
    tx: Tx, ws: str, fits: _Filter, asked: ParsedQuery, between: tuple[int, int]
) -> Iterator[Iterator[Row]]:
    """Yield candidates in two phases: the newest items by their text, then all older ones by the index."""
    low, high = between
    scope: dict[str, Any] = {"ws": ws}
    floor_of, recent = _q.floor_anywhere, _q.recent_anywhere
    if isinstance(fits.conversation_id, str):
        floor_of, recent = _q.floor, _q.recent
        scope["conversation_id"] = fits.conversation_id
    tx.run(_q.by_index)
    row = tx.one(floor_of, **scope, after_seq=low, before_seq=high, window=_WINDOW)
    if row is None or row["seq"] is None:
        return
    floor = int(row["seq"])
    words = set(asked.tokens)
    if tx.seals:  # the database cannot compare the texts
        rows = _batches(tx, _q.newest, (floor - 1, high), ws=ws, conversation_id=scope.get("conversation_id"))
        rows = (row for row in rows if asked.matches(row["search_text"]))
    else:
        rows = _batches(tx, recent, (floor - 1, high), **scope, term=max(asked.terms, key=len))
    yield (row for row in rows if words.issubset(tokens_of(row["search_text"])))
    tokens = wanted_tokens("postgres", ws, fits.conversation_id, fits.bot_id, asked.tokens)
    match = " & ".join(f"'{token}'" for token in tokens)
    blinded = _blinded(tx, ws, fits, asked)
    if blinded is not None:
        either = " & ".join(f"'{token}'" for token in blinded)
        match = f"(({match}) | ({either}))"
    if fits.has_thread:
        match += f" & '{_thread_of(ws, fits)}'"
    yield _batches(tx, _q.proposed, (low, floor), ws=ws, match=match)


def _batches(tx: Tx, query: Statement, between: tuple[int, int], **params: Any) -> Iterator[Row]:
    low, high = between
    limit = _FIRST_BATCH
    while True:
        rows = tx.all(query, after_seq=low, before_seq=high, limit=limit, **params)
        yield from rows
        if len(rows) < limit:
            return
        high, limit = rows[-1]["seq"], _BATCH


def _first_seq_at(tx: Tx, ws: str, when: int) -> int:
    """Return the first sequence whose item is not older than `when`, by bisection; NEWEST if there is none.

    Times rise with sequences except for clock skew, which callers allow for.
    """
    low, high = 1, transcripts.latest_seq(tx, ws) + 1
    while low < high:
        middle = (low + high) // 2
        row = tx.one(_q.time_from, ws=ws, seq=middle)
        if row is not None and row["created_at"] < when:
            low = int(row["seq"]) + 1
        else:
            high = middle
    return low if tx.one(_q.time_from, ws=ws, seq=low) is not None else NEWEST
