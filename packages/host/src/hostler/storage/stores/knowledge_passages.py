"""Passages of knowledge bases: the text index, and searches that rank what it proposes.

The index only knows tokens (stores/search_tokens.py), each with its base in front, so that a search reads
nothing of other bases. It proposes passages with the rarest words of the query, a bounded number; these are
read and ranked (domain/ranking.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from hostler.domain.knowledge import Filters, Value
from hostler.domain.passages import Passage
from hostler.domain.ranking import Corpus, score
from hostler.domain.record import Record
from hostler.storage.port import Database, Row, Tx
from hostler.storage.sealing.envelope import MARK
from hostler.storage.sql.statements import load
from hostler.storage.stores.knowledge_bases import StoredBase, words_of
from hostler.storage.stores.search_tokens import fold, occurrences, ranked_words, tokens_of
from hostler_protocol.ids import canonical_json, digest

MAX_CANDIDATES = 600
"""Passages that a search reads: 40 to 80 ms of one core."""
MAX_COMMON = 10_000
"""So far passages with a word are counted: a word of so many tells little."""
MAX_COMBINATIONS = 8
"""Combinations of common words that are tried, each without the most common one of the last."""
_LOOKED_AT = 4 * MAX_CANDIDATES
"""Combinations of common words that are tried, each without the most common one of the last."""
STEP_PASSAGES = 64
"""Passages that one transaction adds or removes: some 10 ms, for which others wait."""
_MERGE_PAGES = 500
_MAX_MERGES = 10_000
_q = load(__file__)
_metadata = msgspec.json.Decoder(dict[str, Any])


class IndexedPassage(Record, kw_only=True):
    """A passage to be stored. `words`: its tokens, without those of its document."""

    number: int
    passage: Passage
    words: Sequence[str]


class FoundPassage(Record, kw_only=True):
    """A passage that a search found. `number` counts from 1; `passages`: of its document."""

    content: str
    score: float
    heading: str
    number: int
    passages: int
    document: str
    version_id: str
    mime_type: str
    metadata: Mapping[str, Value]


def indexed(number: int, passage: Passage) -> IndexedPassage:
    """Cut a passage into words; it may run on any thread."""
    return IndexedPassage(number=number, passage=passage, words=tokens_of(_folded(passage)))


class Place(Record):
    """Where passages belong. `tokens`: those that all passages of the document have."""

    workspace_id: str
    base_id: str
    version_id: str
    tokens: Sequence[str]


def add(tx: Tx, place: Place, passages: Sequence[IndexedPassage]) -> None:
    """Store passages and index them."""
    ws, base_id, version_id, of_document = place.workspace_id, place.base_id, place.version_id, place.tokens
    where = {"ws": ws, "version_id": version_id}
    tx.run_many(
        _q.insert,
        [
            {
                **where,
                "base_id": base_id,
                "number": one.number,
                "heading": one.passage.heading,
                "passage": one.passage.content,
                "chars": len(one.passage.content),
            }
            for one in passages
        ],
    )
    rows = [
        {
            **where,
            "number": one.number,
            "tokens": _tokens(tx, ws, base_id, [*one.words, *of_document], is_sealed=tx.seals),
        }
        for one in passages
    ]
    tx.run_many(_q.index, rows)


def remove_next(tx: Tx, ws: str, version_id: str, of_document: Sequence[str]) -> int:
    """Remove the next passages of a version from the table and the index; return their number."""
    rows = tx.all(_q.of_version, ws=ws, version_id=version_id, limit=STEP_PASSAGES)
    for row in rows:
        _unindex(tx, ws, version_id, row, of_document, is_sealed=tx.seals and row["head"] == MARK)
        tx.run(_q.delete, ws=ws, version_id=version_id, number=row["number"])
    return len(rows)


def seal(tx: Tx, ws: str, row: Row, of_document: Sequence[str]) -> None:
    """Index a passage, given as its row, as one whose text is sealed; it was indexed as a plain one."""
    version_id = row["version_id"]
    _unindex(tx, ws, version_id, row, of_document, is_sealed=False)
    words = [*tokens_of(_folded(Passage(row["passage"], row["heading"]))), *of_document]
    tokens = _tokens(tx, ws, row["base_id"], words, is_sealed=True)
    tx.run(_q.index, ws=ws, version_id=version_id, number=row["number"], tokens=tokens)


async def purge(database: Database) -> None:
    """SQLite: rewrite the index in bounded steps, so that words of deleted passages leave the file."""

    def merge(tx: Tx, pages: int) -> bool:
        before = tx.one(_q.changes)
        tx.run(_q.merge, pages=pages)
        after = tx.one(_q.changes)
        return before is not None and after is not None and after["changes"] - before["changes"] > 1

    if database.dialect != "sqlite":
        return
    for number in range(_MAX_MERGES):
        pages = _MERGE_PAGES if number else -_MERGE_PAGES
        if not await database.write(lambda tx, pages=pages: merge(tx, pages)):  # type: ignore[misc]
            return


# -- search ---------------------------------------------------------------------------------------------


def search(tx: Tx, base: StoredBase, query: str, filters: Filters, limit: int) -> list[FoundPassage]:
    """Return the passages of a base that fit a query best."""
    words = ranked_words(query)
    if not words or not base.passages:
        return []
    scope = _Scope(tx, base)
    if tx.dialect == "postgres":
        tx.run(_q.by_index)
    corpus = Corpus(base.passages, base.chars / base.passages, scope.having(words))
    weights = {word: corpus.weight(word) for word in words}
    found: list[tuple[float, Row]] = []
    for row in _candidates(scope, words, corpus.with_word, filters):
        counts = occurrences(_folded(Passage(row["passage"], row["heading"])), words)
        fits = score(corpus, weights, counts, row["chars"])
        if fits > 0:
            found.append((fits, row))
    found.sort(key=lambda one: (-one[0], one[1]["name"], one[1]["number"]))
    return [_found(row, fits) for fits, row in found[:limit]]


class _Scope:
    """The tokens of one base as they are in the index: plain, and where content is sealed, blinded."""

    def __init__(self, tx: Tx, base: StoredBase) -> None:
        self._tx, self._base = tx, base

    def having(self, words: Sequence[str]) -> dict[str, int]:
        """Count the passages that have each word, up to MAX_COMMON."""
        counts = dict.fromkeys(words, 0)
        for forms in self._forms(words):
            rows = self._tx.all(
                _q.having,
                ws=self._base.workspace_id,
                tokens=canonical_json(forms).decode(),
                most=MAX_COMMON,
            )
            by_token = {row["token"]: row["passages"] for row in rows}
            for word, token in zip(words, forms, strict=True):
                counts[word] = min(MAX_COMMON, counts[word] + by_token[token])
        return counts

    def matching(self, words: Sequence[str], filters: Filters, *, every: bool, limit: int) -> list[Row]:
        """Return passages with one of these words, or every one, that fulfil the filters; newest first."""
        return self._tx.all(
            _q.matching,
            ws=self._base.workspace_id,
            base_id=self._base.base_id,
            match=self._match(words, filters, every=every),
            looked_at=max(_LOOKED_AT, limit),
            limit=limit,
        )

    def _match(self, words: Sequence[str], filters: Filters, *, every: bool) -> str:
        sqlite = self._tx.dialect == "sqlite"
        quote, both, either = ('"', " AND ", " OR ") if sqlite else ("'", " & ", " | ")
        groups = [[word] for word in words] if every else [list(words)]
        groups += [list(tokens) for tokens in filters.tokens]
        ways: list[str] = []
        for form in self._forms_of():
            parts = [either.join(f"{quote}{token}{quote}" for token in form(group)) for group in groups]
            ways.append(both.join(f"({part})" for part in parts))
        return either.join(f"({way})" for way in ways)

    def _forms(self, words: Sequence[str]) -> Iterator[list[str]]:
        for form in self._forms_of():
            yield form(words)

    def _forms_of(self) -> list[Callable[[Sequence[str]], list[str]]]:
        """Return how words are written in the index. Both ways, while old passages are being sealed."""
        ws, base_id = self._base.workspace_id, self._base.base_id
        forms: list[Callable[[Sequence[str]], list[str]]] = [lambda words: _plain(base_id, words)]
        if self._tx.seals and self._tx.blinded(ws, words_of(base_id), []) is not None:
            forms.append(lambda words: self._tx.blinded(ws, words_of(base_id), words) or [])
        return forms


def _candidates(
    scope: _Scope, words: Sequence[str], with_word: Mapping[str, int], filters: Filters
) -> list[Row]:
    """Return the passages to rank: all with a rare word, then those with as many common ones as possible."""
    known = sorted((word for word in words if with_word[word]), key=lambda word: (with_word[word], word))
    rare: list[str] = []
    total = 0
    for word in known:
        if total + with_word[word] > MAX_CANDIDATES:
            break
        total += with_word[word]
        rare.append(word)
    found: dict[int, Row] = {}
    if rare:
        found = {
            row["passage_id"]: row for row in scope.matching(rare, filters, every=False, limit=MAX_CANDIDATES)
        }
    common = known[len(rare) :]
    for last in range(len(common), max(0, len(common) - MAX_COMBINATIONS), -1):
        room = MAX_CANDIDATES - len(found)
        if room <= 0:
            break
        for row in scope.matching(common[:last], filters, every=True, limit=room):
            found.setdefault(row["passage_id"], row)
    if common and len(common) > MAX_COMBINATIONS and len(found) < MAX_CANDIDATES:
        for row in scope.matching(common[:1], filters, every=True, limit=MAX_CANDIDATES - len(found)):
            found.setdefault(row["passage_id"], row)
    return list(found.values())


def _found(row: Row, fits: float) -> FoundPassage:
    return FoundPassage(
        content=row["passage"],
        score=round(fits, 6),
        heading=row["heading"],
        number=row["number"] + 1,
        passages=row["passages_total"] or 0,
        document=row["name"],
        version_id=row["version_id"],
        mime_type=row["mime_type"],
        metadata=_metadata.decode(row["metadata"]),
    )


# -- tokens ---------------------------------------------------------------------------------------------


def _folded(passage: Passage) -> str:
    return fold(f"{passage.heading}\n{passage.content}")


def _unindex(
    tx: Tx, ws: str, version_id: str, row: Row, of_document: Sequence[str], *, is_sealed: bool
) -> None:
    where = {"ws": ws, "version_id": version_id, "number": row["number"]}
    if tx.dialect == "postgres":
        tx.run(_q.unindex, **where)
        return
    # an index without content needs the tokens again to delete them
    words = [*tokens_of(_folded(Passage(row["passage"], row["heading"]))), *of_document]
    tx.run(_q.unindex, **where, tokens=_tokens(tx, ws, row["base_id"], words, is_sealed=is_sealed))


def _tokens(tx: Tx, ws: str, base_id: str, words: Sequence[str], *, is_sealed: bool) -> str:
    tokens = tx.blinded(ws, words_of(base_id), words) if is_sealed else _plain(base_id, words)
    if tokens is None:
        raise RuntimeError("a transaction that writes makes the keys that it needs")
    return " ".join(tokens)


def _plain(base_id: str, words: Sequence[str]) -> list[str]:
    prefix = _prefix(base_id)
    return [prefix + word for word in words]


@lru_cache(maxsize=1024)
def _prefix(base_id: str) -> str:
    """Return what begins the tokens of a base: 40 bits of its random id, then what no word has in it."""
    return f"{digest([base_id])[:10]}\ue000"
