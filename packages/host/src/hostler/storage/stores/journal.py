"""The journal: everything a run did, in order.

Each entry has a position (1..n per run), each result also a sequence (1..n). Consecutive deltas share a row,
one JSON text per line. Retention may delete rows of deltas: positions and sequences then have gaps, and a
cursor that points into one is expired.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import msgspec

from hostler.domain.record import Record
from hostler.domain.retention import CursorLostError
from hostler.storage.port import Query, Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import run_tools, timeline
from hostler.storage.stores.timeline import RunPlace
from hostler_protocol.limits import KIB, MAX_PAGE_BYTES, MAX_PAGE_ITEMS

Kind = Literal[
    "lifecycle",
    "context",
    "attempt",
    "result",
    "intent",
    "call",
    "warning",
    "refusal",
    "steering",
    "decision",
    "cancellation",
]

IN_TIMELINE: frozenset[Kind] = frozenset({"result", "lifecycle", "steering", "decision"})
"""Kinds that the timeline shows (`timeline.sql`)."""
DELTA = "message.delta"
MAX_BATCH_ENTRIES = 256
"""Deltas in one row, which are always read together."""
MAX_BATCH_BYTES = 64 * KIB
MAX_INLINE_BYTES = 64 * KIB
"""Longer data is stored in the blob folder; `blob` refers to it."""
MAX_RESULTS = 1_000
"""Results returned at once."""
_ROWS_PER_QUERY = 32
"""Rows read before their sizes are checked, in pages. Most are small; a result may have 1 MiB."""
_FIRST_ROWS = 4
"""The same in the first look-up of what follows; each further one takes twice as many."""

_q = load(__file__)


class _Lifecycle(msgspec.Struct):
    cause: str


_causes = msgspec.json.Decoder(_Lifecycle)


class NewEntry(msgspec.Struct, frozen=True):
    """An entry to journal.

    `data` is one JSON text; a result's is `{"data": ..., "usage"?: ..., "timestamp"?: ...}`. With `blob`
    (SHA-256 of the data, which is in the blob folder already) `data` is a short description. `at` in UTC
    epoch milliseconds; None: the time of the transaction.
    """

    kind: Kind
    type: str
    data: bytes | str
    blob: str | None = None
    at: int | None = None


class Deltas(msgspec.Struct, frozen=True):
    """Consecutive deltas to journal, by their data; each becomes an entry."""

    data: list[bytes]


Entries = Sequence[NewEntry | Deltas]


class StoredEntry(Record):
    """A stored entry; only results have a `sequence`."""

    position: int
    sequence: int | None
    attempt: int
    kind: Kind
    type: str
    data: str
    blob: str | None
    at: int


class EntryPage(Record):
    """Entries in the requested order; `more`: others follow."""

    items: list[StoredEntry]
    more: bool


def append(
    tx: Tx,
    workspace_id: str,
    run_id: str,
    attempt: int,
    entries: Entries,
    *,
    position: int,
    sequence: int,
    place: RunPlace,
) -> None:
    """Write `entries` after the last `position` and `sequence`, and add them to the timeline.

    For stores only, which reserve positions and sequences on the run's row.
    """
    now = tx.now
    rows: list[tuple[Any, ...]] = []
    first, shown = position, False
    for entry, text, count in _rows_of(entries):
        position += count
        last: int | None = None
        if entry.kind == "result":
            last = sequence = sequence + count
        at = now if entry.at is None else entry.at
        kind, type_, blob = entry.kind, entry.type, entry.blob
        shown = shown or kind in IN_TIMELINE
        if (tool := run_tools.tool_of(kind, type_, entry.data)) is not None:
            run_tools.add(tx, workspace_id, run_id, tool)
        rows.append((run_id, position, count, last, attempt, kind, type_, text, blob, at, workspace_id))
    tx.run_rows(_q.insert, rows)
    if shown:
        timeline.add_journal(tx, workspace_id, run_id, place, position, position - first)


def page(tx: Tx, run_id: str, after_position: int = 0, limit: int = MAX_PAGE_ITEMS) -> EntryPage:
    """Return entries after `after_position`, oldest first, at most `limit` and about 4 MiB.

    CursorLostError if retention deleted the entry at `after_position`.
    """
    entries = _following(tx, _q.page, run_id, after_position, by_sequence=False)
    return _bounded(entries, limit, MAX_PAGE_BYTES)


def page_backward(tx: Tx, run_id: str, before_position: int, limit: int = MAX_PAGE_ITEMS) -> EntryPage:
    """Return entries before `before_position`, newest first, at most `limit` and about 4 MiB."""

    def entries() -> Iterator[StoredEntry]:
        before = before_position
        while rows := tx.all(
            _q.page_backward,
            run_id=run_id,
            before=before,
            bound=before + MAX_BATCH_ENTRIES,
            limit=_ROWS_PER_QUERY,
        ):
            for row in rows:
                yield from (e for e in reversed(_entries_of(row)) if e.position < before_position)
            before = rows[-1]["last_position"] - rows[-1]["count"] + 1

    return _bounded(entries(), limit, MAX_PAGE_BYTES)


def results(
    tx: Tx,
    run_id: str,
    after_sequence: int = 0,
    *,
    max_items: int = MAX_RESULTS,
    max_bytes: int = MAX_PAGE_BYTES,
) -> EntryPage:
    """Return results after `after_sequence`, at most `max_items` and about `max_bytes`.

    CursorLostError if retention deleted the result at `after_sequence`.
    """
    entries = _following(tx, _q.results, run_id, after_sequence, by_sequence=True)
    return _bounded(entries, max_items, max_bytes)


def of_type(
    tx: Tx, run_id: str, result_type: str, *, after_position: int = 0, limit: int = MAX_PAGE_ITEMS
) -> EntryPage:
    """Return results of one type, oldest first."""

    def entries() -> Iterator[StoredEntry]:
        after = after_position
        while rows := tx.all(_q.of_type, run_id=run_id, type=result_type, after=after, limit=_ROWS_PER_QUERY):
            for row in rows:
                yield from (e for e in _entries_of(row) if e.position > after_position)
            after = rows[-1]["last_position"]

    return _bounded(entries(), limit, MAX_PAGE_BYTES)


class Made(NamedTuple):
    """A call, an intent or a result of an attempt; only a call has `data`."""

    kind: Kind
    type: str
    data: str


def calls_and_results(tx: Tx, run_id: str, since_attempt: int) -> Iterator[Made]:
    """Yield calls, intents and results of attempts from `since_attempt` on, oldest first, without deltas."""
    after, limit = 0, _ROWS_PER_QUERY
    while rows := tx.all(
        _q.calls_and_results, run_id=run_id, attempt=since_attempt, after=after, limit=limit
    ):
        yield from (Made(row["kind"], row["type"], row["data"]) for row in rows)
        after = rows[-1]["last_position"]


def calls_and_decisions(tx: Tx, run_id: str, after_position: int, limit: int) -> list[StoredEntry]:
    """Return calls, refusals, intents and decisions of people after a position, oldest first."""
    rows = tx.all(_q.calls_and_decisions, run_id=run_id, after=after_position, limit=limit)
    return [entry for row in rows for entry in _entries_of(row)]


def queued_because(tx: Tx, run_id: str) -> str | None:
    """Return the cause of the run's last change to `queued`; None if there was none."""
    row = tx.one(_q.last_lifecycle, run_id=run_id, type="queued")
    return None if row is None else _causes.decode(row["data"]).cause


def first_context(tx: Tx, run_id: str) -> str | None:
    """Return the context of the run's first attempt as JSON; None if the journal has none."""
    row = tx.one(_q.first_context, run_id=run_id)
    return None if row is None else str(row["data"])


def model_calls(tx: Tx, run_id: str, attempt: int) -> Iterator[str]:
    """Yield the data of an attempt's model calls, oldest first."""
    after = 0
    while rows := tx.all(_q.model_calls, run_id=run_id, attempt=attempt, after=after, limit=_ROWS_PER_QUERY):
        yield from (row["data"] for row in rows)
        after = rows[-1]["last_position"]


def _following(tx: Tx, query: Query, run_id: str, after: int, *, by_sequence: bool) -> Iterator[StoredEntry]:
    """Yield entries after `after`. CursorLostError if the entry at `after` was deleted."""
    key = "last_sequence" if by_sequence else "last_position"
    after = max(after, 0)
    start = after
    limit = _FIRST_ROWS
    while True:
        rows = tx.all(query, run_id=run_id, after=start, limit=limit)
        if start == after > 0 and _is_dropped(tx, run_id, rows, key, after):
            raise CursorLostError(run_id, "sequence" if by_sequence else "position", after)
        if not rows:
            return
        for row in rows:
            first = row[key] - row["count"] + 1
            yield from _entries_of(row)[max(0, after + 1 - first) :]
        start, limit = rows[-1][key] + 1, min(limit * 2, _ROWS_PER_QUERY)


def _is_dropped(tx: Tx, run_id: str, rows: Sequence[Row], key: str, after: int) -> bool:
    """Whether the entry at `after` and later ones were deleted; `rows` are the kept ones from there on."""
    if rows:
        return int(rows[0][key] - rows[0]["count"]) >= after
    last = tx.one(_q.last_of_run, run_id=run_id)
    return last is not None and int(last[key]) > after


def _bounded(entries: Iterator[StoredEntry], limit: int, max_bytes: int) -> EntryPage:
    """Return as many entries as fit, and at least one, so that a reader makes progress."""
    items: list[StoredEntry] = []
    size = 0
    for entry in entries:
        size += len(entry.data)
        if items and (len(items) >= limit or size > max_bytes):
            return EntryPage(items, more=True)
        items.append(entry)
    return EntryPage(items, more=False)


def _entries_of(row: Row) -> list[StoredEntry]:
    """Return the entries of one row, oldest first."""
    count, last_sequence = row["count"], row["last_sequence"]
    lines = [row["data"]] if count == 1 else row["data"].split("\n")
    first = row["last_position"] - count + 1
    return [
        StoredEntry(
            position=first + index,
            sequence=None if last_sequence is None else last_sequence - count + 1 + index,
            attempt=row["attempt"],
            kind=row["kind"],
            type=row["type"],
            data=line,
            blob=row["blob"],
            at=row["at"],
        )
        for index, line in enumerate(lines)
    ]


def _rows_of(entries: Entries) -> Iterator[tuple[NewEntry, str, int]]:
    """Yield entry, text and number of entries of each row; consecutive deltas share a row."""
    deltas: list[bytes | str] = []
    at: int | None = None
    for entry in entries:
        more: Sequence[bytes | str]
        if isinstance(entry, Deltas):
            more, more_at = entry.data, None
        elif entry.type == DELTA and entry.kind == "result" and entry.blob is None:
            more, more_at = (entry.data,), entry.at
        else:
            if deltas:
                yield from _rows_of_deltas(deltas, at)
                deltas = []
            yield entry, _line(entry.data), 1
            continue
        if deltas and more_at != at:
            yield from _rows_of_deltas(deltas, at)
            deltas = []
        deltas += more
        at = more_at
    if deltas:
        yield from _rows_of_deltas(deltas, at)


def _rows_of_deltas(deltas: Sequence[bytes | str], at: int | None) -> Iterator[tuple[NewEntry, str, int]]:
    start = 0
    while start < len(deltas):
        row = deltas[start : start + MAX_BATCH_ENTRIES]
        ends = list(accumulate(map(len, row)))
        row = row[: max(1, bisect_right(ends, MAX_BATCH_BYTES))]
        yield NewEntry("result", DELTA, "", at=at), _lines(row), len(row)
        start += len(row)


def _lines(texts: Sequence[bytes | str]) -> str:
    """Join JSON texts, one per line; line ends inside a text are only white space and become blanks."""
    joined = b"\n".join([text if isinstance(text, bytes) else text.encode() for text in texts])
    if joined.count(b"\n") == len(texts) - 1:  # the usual case, decoded in one step
        return joined.decode()
    return "\n".join(map(_line, texts))


def _line(text: bytes | str) -> str:
    line = text.decode() if isinstance(text, bytes) else text
    return line.replace("\n", " ")
