"""Hash chains: the digest of each row covers all rows before it, so that every change is detected.

A row's `body_digest` is the digest of its unchanging columns, its `digest` that of (digest before, sequence,
body digest), all as canonical JSON. Deleting the content of an event empties the columns and keeps both
digests: the chain still verifies, and an account in the audit chain (`stores.redactions`) says who deleted
it. Rewriting the whole chain with its head is not detected by the chain itself, but by a head noted elsewhere
(`stores.verification`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from typing import Any, Literal

from hostler.domain.record import Record
from hostler.storage.port import Query, Row, Tx
from hostler.storage.sealing.envelope import SealedError
from hostler.storage.sql.statements import load
from hostler_protocol.ids import digest

Chain = Literal["events", "audit"]
_q = load(__file__)

EVENT_FIELDS = (
    "event_id",
    "request_digest",
    "event_type",
    "source",
    "bot_id",
    "conversation_id",
    "thread_id",
    "actor_type",
    "actor_id",
    "actor_name",
    "subject_type",
    "subject_id",
    "input_summary",
    "body",
    "content_redacted",
    "requester",
    "event_time",
    "created_at",
)
AUDIT_FIELDS = ("audit_id", "actor", "action", "target", "body", "created_at")
MAX_STEP_ROWS = 500
KEYED = "keyed:"
"""How a digest begins that only the key of its event can make (`Tx.keyed`)."""


class _Kind(Record):
    content: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    """Takes the columns that never change."""
    link: Query
    rows: Query
    outside: Query
    digest_at: Query


_KINDS: dict[Chain, _Kind] = {
    "events": _Kind(
        itemgetter(*EVENT_FIELDS), _q.link_events, _q.events_after, _q.events_outside, _q.event_digest
    ),
    "audit": _Kind(
        itemgetter(*AUDIT_FIELDS), _q.link_audit, _q.audit_after, _q.audit_outside, _q.audit_digest
    ),
}


class ChainPoint(Record):
    """A point of a chain: a sequence and its digest."""

    seq: int = 0
    digest: str = ""


class Head(Record):
    """The end of a chain of a workspace."""

    workspace_id: str
    chain: Chain
    link: ChainPoint


class Break(Record):
    """A broken chain: where and why. `seq` is None for a row that is not part of the chain."""

    seq: int | None
    reason: str


class Verified(Record):
    """The result of one step of `verify`; the next one begins at `link`, unless `done`."""

    link: ChainPoint
    checked: int
    deleted: int
    """Rows whose content was deleted; only their position in the chain was checked."""
    done: bool
    broken: Break | None = None


def body_digest(chain: Chain, row: Mapping[str, Any]) -> str:
    """Return the digest of the columns of `row` that never change."""
    return digest(_KINDS[chain].content(row))


def is_digest_of(tx: Tx, workspace_id: str, chain: Chain, row: Mapping[str, Any]) -> bool:
    """Whether the stored digest of a row is that of its content. Where content is sealed, it is keyed."""
    stored, found = str(row["body_digest"]), body_digest(chain, row)
    if stored.startswith(KEYED):
        try:
            name = f"event:{row['event_id']}" if chain == "events" else f"audit:{workspace_id}"
            found = tx.keyed(workspace_id, name, found)
        except SealedError:  # it has no key: it is not the event that it was
            return False
    return stored == found


def append(tx: Tx, workspace_id: str, chain: Chain, row_id: str, row_digest: str) -> None:
    """Add a row to the chain: set its sequence and digest.

    This happens at the end of the transaction, for all new rows of the chain at once, since several hosts
    contend for the head.
    """
    tx.at_end(("heads", workspace_id, chain), partial(_link, workspace_id, chain), (row_id, row_digest))


def _link(workspace_id: str, chain: Chain, tx: Tx, rows: list[tuple[str, str]]) -> None:
    head = tx.one(_q.advance, workspace_id=workspace_id, chain=chain, rows=len(rows))
    if head is None:
        raise RuntimeError("an upsert with RETURNING gave no row")
    linked = str(head["digest"])
    links = []
    for seq, (row_id, row_digest) in enumerate(rows, start=int(head["seq"]) - len(rows) + 1):
        linked = _linked(linked, seq, row_digest)
        links.append((seq, linked, workspace_id, row_id))
    tx.run(_q.set_digest, workspace_id=workspace_id, chain=chain, digest=linked)
    tx.run_rows(_KINDS[chain].link, links)


def head(tx: Tx, workspace_id: str, chain: Chain) -> ChainPoint:
    """Return the end of the chain."""
    row = tx.one(_q.head, workspace_id=workspace_id, chain=chain)
    return ChainPoint() if row is None else ChainPoint(int(row["seq"]), str(row["digest"]))


def heads(tx: Tx, *, after: tuple[str, str] = ("", ""), limit: int = 1000) -> list[Head]:
    """Return the ends of all chains by (workspace, name), after the pair `after`."""
    rows = tx.all(_q.heads, after_workspace=after[0], after_chain=after[1], limit=limit)
    return [
        Head(row["workspace_id"], row["chain"], ChainPoint(int(row["seq"]), row["digest"])) for row in rows
    ]


def digest_at(tx: Tx, workspace_id: str, chain: Chain, seq: int) -> str | None:
    """Return the digest of a row, or None if the chain has no such sequence."""
    row = tx.one(_KINDS[chain].digest_at, workspace_id=workspace_id, seq=seq)
    return None if row is None else row["digest"]


def next_workspace(tx: Tx, after: str) -> str | None:
    """Return the next workspace by id that has heads, events, audit facts, runs or messages, or None."""
    row = tx.one(_q.next_workspace, after=after)
    return None if row is None else row["workspace_id"]


def verify(
    tx: Tx,
    workspace_id: str,
    chain: Chain,
    *,
    after: ChainPoint | None = None,
    limit: int = MAX_STEP_ROWS,
    seen: Callable[[Row], None] | None = None,
) -> Verified:
    """Check up to `limit` rows after `after` (None: from the start), and at the end the head too.

    `seen` is called with each correct row.
    """
    kind = _KINDS[chain]
    link = after or ChainPoint()
    limit = max(1, min(limit, MAX_STEP_ROWS))
    rows, unreadable = _readable(tx, kind, workspace_id, link.seq, limit)
    checked = deleted = 0
    broken: Break | None = None
    for row in rows:
        reason = _wrong(tx, workspace_id, chain, row, link)
        if reason is not None:
            broken = Break(link.seq + 1, reason)
            break
        checked += 1
        deleted += row["body"] is None
        if seen is not None:
            seen(row)
        link = ChainPoint(int(row["seq"]), str(row["digest"]))
    if broken is None and unreadable is not None:
        broken = Break(link.seq + 1, unreadable)
    done = broken is not None or len(rows) < limit
    if done and broken is None:
        broken = _wrong_end(tx, workspace_id, chain, link)
    return Verified(link, checked, deleted, done, broken)


def _readable(tx: Tx, kind: _Kind, workspace_id: str, after: int, limit: int) -> tuple[list[Row], str | None]:
    """Return the next rows; where one is sealed and does not open, those before it and why."""
    try:
        return tx.all(kind.rows, workspace_id=workspace_id, after=after, limit=limit), None
    except SealedError as error:
        if limit == 1:
            return [], f"its content does not open: {error.message}"
    rows, why = _readable(tx, kind, workspace_id, after, limit // 2)
    if why is None and len(rows) == limit // 2:
        rest, why = _readable(tx, kind, workspace_id, int(rows[-1]["seq"]), limit - limit // 2)
        rows += rest
    return rows, why


def _wrong(tx: Tx, workspace_id: str, chain: Chain, row: Row, before: ChainPoint) -> str | None:
    """Return what is wrong with `row` as the successor of `before`, or None."""
    expected = before.seq + 1
    if row["seq"] != expected:
        return f"sequence {expected} is missing; {row['seq']} follows"
    if row["body"] is None and chain == "audit":
        return "its content is missing, although audit facts are never deleted"
    if row["body"] is not None and not is_digest_of(tx, workspace_id, chain, row):
        return "the content does not match its digest"
    if _linked(before.digest, expected, str(row["body_digest"])) != row["digest"]:
        return "the digest does not follow from the one before"
    return None


def _wrong_end(tx: Tx, workspace_id: str, chain: Chain, last: ChainPoint) -> Break | None:
    row = tx.one(_q.head, workspace_id=workspace_id, chain=chain)
    if row is None and last.seq:
        return Break(last.seq, "the chain's head is missing")
    end = head(tx, workspace_id, chain)
    if end.seq > last.seq:
        return Break(last.seq + 1, f"sequence {last.seq + 1} is missing; the chain's head is at {end.seq}")
    if end != last:
        return Break(last.seq, "the chain's head does not match its last row")
    outside = tx.one(_KINDS[chain].outside, workspace_id=workspace_id)
    return None if outside is None else Break(None, f"row {outside['id']} is not part of the chain")


def _linked(before: str, seq: int, row_digest: str) -> str:
    return digest([before, seq, row_digest])
