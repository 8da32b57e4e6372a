"""The timeline of a workspace: what its journals got and which events arrived, in one order for ever.

A row stands for a piece of one journal, an event, or the deletion of a conversation; content stays where it
is. Sequences are assigned at the end of the transaction under the lock of the workspace's head row, which is
held until the commit. So they are committed in their order, on however many hosts: a reader that has seen
one has seen all before it (docs/decisions/one-timeline-per-workspace.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import islice, takewhile
from operator import attrgetter
from typing import Literal, NamedTuple

import msgspec

from hostler.domain.record import Record
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler_protocol.limits import KIB

_q = load(__file__)

Kind = Literal["journal", "event", "deletion"]
CHAIN = "timeline"
STEP_ROWS = 500
"""Rows looked at in one step: they are narrow, some 150 bytes each."""
JOURNAL_ROWS = 64
"""Rows of journals in one page."""
PAGE_BYTES = 256 * KIB
"""About the most content in one page, of journals and of events each: a reader that is slow holds a page."""
FIRST_ROWS = 8
"""Rows with content in the first look-up of a page, twice as many in each further one: most rows are small,
some have a megabyte.
"""
SKIPPED = 10_000_000
"""Far more entries than can be lost at once; a host may start 900 million times before numbers end."""
SKEW_MS = 60_000
"""Rows are removed this much later than what they stand for: times of transactions are not in their order."""


class RunPlace(NamedTuple):
    """What a row says of its run, so that a reader finds it by conversation, agent or bot."""

    agent_name: str
    conversation_id: str | None
    bot_id: str | None


class _Part(msgspec.Struct, frozen=True):
    """What one change adds."""

    kind: Kind
    count: int = 1
    run_id: str | None = None
    last_position: int = 0
    event_id: str | None = None
    conversation_id: str | None = None
    agent_name: str | None = None
    bot_id: str | None = None


class TimelineRow(msgspec.Struct, frozen=True):
    """One row: it has the sequences from `last_seq - count + 1` to `last_seq`."""

    last_seq: int
    count: int
    kind: Kind
    run_id: str | None
    last_position: int
    event_id: str | None
    conversation_id: str | None
    agent_name: str | None
    bot_id: str | None
    created_at: int


class JournalPiece(msgspec.Struct, frozen=True):
    """A row of a journal. `seq`: the sequence of its last entry in the timeline."""

    seq: int
    count: int
    last_sequence: int | None
    attempt: int
    kind: str
    type: str
    data: str
    at: int
    last_seq: int
    """Of the row of the timeline that it belongs to."""
    event_id: str | None
    thread_id: str | None
    parent_run_id: str | None


class ArrivedEvent(msgspec.Struct, frozen=True):
    """An event as it arrived. `body` is None once its content was deleted."""

    event_id: str
    event_type: str
    source: str
    bot_id: str | None
    conversation_id: str | None
    thread_id: str | None
    requester: str | None
    content_redacted: bool
    body: str | None
    created_at: int


class TimelineStep(Record):
    """Rows that a reader wants; `until`: all rows up to this sequence were looked at; `more` follow."""

    rows: list[TimelineRow]
    until: int
    more: bool


def place_of(row: Row) -> RunPlace:
    """Return what a row of `runs` says of its run."""
    return RunPlace(row["agent_name"], row["conversation_id"], row["bot_id"])


def add_journal(  # noqa: PLR0917  one row's columns, in their order
    tx: Tx, ws: str, run_id: str, place: RunPlace, last_position: int, count: int
) -> None:
    """Add a piece of a run's journal: the `count` entries up to `last_position`."""
    agent_name, conversation_id, bot_id = place
    _add(tx, ws, _Part("journal", count, run_id, last_position, None, conversation_id, agent_name, bot_id))


def add_event(  # noqa: PLR0917
    tx: Tx, ws: str, event_id: str, conversation_id: str | None, bot_id: str | None, agent_name: str | None
) -> None:
    """Add an event that was stored. `agent_name`: the agent that receives it, if it is known."""
    event = _Part("event", 1, None, 0, event_id, conversation_id, agent_name, bot_id)
    _add(tx, ws, event)


def add_deletion(tx: Tx, ws: str, conversation_id: str) -> None:
    """Add that a conversation was deleted. Its id is not stored, only a digest of it."""
    _add(tx, ws, _Part("deletion", conversation_id=digest_of(conversation_id)))


def digest_of(conversation_id: str) -> str:
    """Return what stands for a conversation after its deletion; its receipt has the same."""
    return f"conversation:{hashlib.sha256(conversation_id.encode()).hexdigest()}"


def _add(tx: Tx, ws: str, part: _Part) -> None:
    tx.at_end(("heads", ws, CHAIN), partial(_number, ws), part)


def _number(ws: str, tx: Tx, parts: list[_Part]) -> None:
    """Assign sequences to all that a transaction adds to a workspace, and write it."""
    head = tx.one(_q.advance, ws=ws, items=sum(part.count for part in parts))
    if head is None:
        raise RuntimeError("an upsert with RETURNING gave no row")
    seq = int(head["seq"]) - sum(part.count for part in parts)
    rows = []
    for part in _joined(parts):
        seq += part.count
        rows.append((ws, seq, *_columns(part), tx.now))
    tx.run_rows(_q.insert, rows)
    tx.announce(ws)


def _columns(part: _Part) -> tuple[object, ...]:
    """Return the columns of a part in the order of `insert`."""
    return (
        part.count,
        part.kind,
        part.run_id,
        part.last_position,
        part.event_id,
        part.conversation_id,
        part.agent_name,
        part.bot_id,
    )


def _joined(parts: list[_Part]) -> Iterator[_Part]:
    """Join pieces that follow each other in one journal."""
    last: _Part | None = None
    for part in parts:
        if last is None:
            last = part
        elif (
            part.kind == last.kind == "journal"
            and part.run_id == last.run_id
            and part.last_position - part.count == last.last_position
        ):
            last = msgspec.structs.replace(
                last, count=last.count + part.count, last_position=part.last_position
            )
        else:
            yield last
            last = part
    if last is not None:
        yield last


def head(tx: Tx, ws: str) -> int:
    """Return the last sequence of a workspace; 0 if it has none."""
    row = tx.one(_q.head, ws=ws)
    return 0 if row is None else int(row["seq"])


def skip(tx: Tx) -> None:
    """Leave out sequences in all workspaces when a host starts: a power cut may have taken some that clients
    saw, since deltas alone do not wait for the disk. So none is given to something else.
    """
    tx.run(_q.skip, items=SKIPPED)


def floor(tx: Tx, ws: str) -> int:
    """Return the last sequence that retention removed; 0 if it has removed none."""
    row = tx.one(_q.floor, ws=ws)
    return 0 if row is None else int(row["swept_until"])


def step(
    tx: Tx, ws: str, after: int, conversation_id: str | None, wants: Callable[[TimelineRow], bool]
) -> TimelineStep:
    """Look at the next STEP_ROWS rows after a sequence, of one conversation or of all, for those wanted.

    The first one may begin before `after`: its entries up to it have been read.
    """
    newest = head(tx, ws)
    if newest <= after:
        return TimelineStep([], after, more=False)
    page = {"ws": ws, "after": after, "limit": STEP_ROWS}
    if conversation_id is None:
        rows = [_row(row) for row in tx.all(_q.after, **page)]
    else:
        found = (
            [_row(row) for row in tx.all(_q.after_in_conversation, conversation_id=name, **page)]
            for name in (conversation_id, digest_of(conversation_id))
        )
        rows = list(islice(merge(*found, key=attrgetter("last_seq")), STEP_ROWS))
    more = len(rows) == STEP_ROWS
    until = rows[-1].last_seq if more else newest
    return TimelineStep([row for row in rows if wants(row)], until, more)


def _row(row: Row) -> TimelineRow:
    return TimelineRow(**row)


def pieces(
    tx: Tx, ws: str, rows: Sequence[TimelineRow], after: int, *, deltas: bool
) -> tuple[list[JournalPiece], bool]:
    """Return what journals hold of some rows after a sequence, in order, and whether that is all.

    At most JOURNAL_ROWS and about PAGE_BYTES. Of a journal only results, changes of status, steering and
    decisions; without `deltas` not these either.
    """
    seqs = [row.last_seq for row in rows if row.kind == "journal"]
    found: list[JournalPiece] = []
    size, limit = 0, FIRST_ROWS
    while seqs and len(found) < JOURNAL_ROWS:
        some = tx.all(
            _q.journal_rows,
            ws=ws,
            seqs=msgspec.json.encode(seqs).decode(),
            after=after,
            deltas=int(deltas),
            limit=limit,
        )
        for row in some:
            size += len(row["data"])
            if found and size > PAGE_BYTES:
                return found, False
            found.append(JournalPiece(**row))
        if len(some) < limit:
            return found, True
        after, limit = found[-1].seq, limit * 2
    return found, not seqs


def events(
    tx: Tx, ws: str, rows: Sequence[TimelineRow]
) -> tuple[dict[str, ArrivedEvent], TimelineRow | None]:
    """Return the events that some rows stand for, by id, about PAGE_BYTES of them; the first row left out."""
    named = [row for row in rows if row.event_id is not None]
    found: dict[str, ArrivedEvent] = {}
    size, start, limit = 0, 0, FIRST_ROWS
    while start < len(named):
        part = named[start : start + limit]
        ids = msgspec.json.encode([row.event_id for row in part]).decode()
        stored = {row["event_id"]: row for row in tx.all(_q.events, ws=ws, event_ids=ids)}
        for row in part:
            event_id = row.event_id or ""
            if (one := stored.get(event_id)) is None:
                continue
            size += len(one["body"])
            if found and size > PAGE_BYTES:
                return found, row
            found[event_id] = ArrivedEvent(**{**one, "content_redacted": bool(one["content_redacted"])})
        start, limit = start + limit, limit * 2
    return found, None


def sweep(tx: Tx, ws: str, before: int) -> int:
    """Remove the next rows from before a time (UTC epoch milliseconds); return their number, 0 at the end.

    A cursor into what was removed is lost from then on.
    """
    rows = tx.all(_q.oldest, ws=ws, limit=STEP_ROWS)
    old = list(takewhile(lambda row: row["created_at"] < before - SKEW_MS, rows))
    if old:
        until = int(old[-1]["last_seq"])
        tx.run(_q.set_floor, ws=ws, until=until)
        tx.run(_q.remove_until, ws=ws, until=until)
    return len(old)


class Forgotten(NamedTuple):
    """One step of `forget`: the next one begins after the sequence `until`, if `more` rows follow."""

    removed: int
    until: int
    more: bool


def forget(tx: Tx, ws: str, conversation_id: str, after: int) -> Forgotten:
    """Remove the next rows of a conversation whose run or event was emptied, after a sequence."""
    rows = tx.all(_q.forgotten, ws=ws, conversation_id=conversation_id, after=after, limit=STEP_ROWS)
    gone = [row["last_seq"] for row in rows if row["is_gone"]]
    tx.run_rows(_q.remove, [(ws, seq) for seq in gone])
    return Forgotten(len(gone), rows[-1]["last_seq"] if rows else after, len(rows) == STEP_ROWS)
