"""Deferred events: their filters could not be evaluated, so their agent is not known; they are retried."""

from __future__ import annotations

from hostler.domain.deferral import next_delay
from hostler.domain.record import Record
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load

CLAIMED = 20
"""Events claimed at once, which are tried one after the other."""
CLAIM_MS = 60_000
"""How long a host has a claimed event to itself: longer than a few filters that time out."""
_q = load(__file__)


class Deferred(Record):
    """An event to retry. `not_before`: when its run may begin, in UTC epoch milliseconds."""

    workspace_id: str
    event_id: str
    tries: int
    not_before: int | None


def add(tx: Tx, ws: str, event_id: str, not_before: int | None) -> None:
    """Schedule a retry of an event whose filters failed once; change nothing if it is scheduled already."""
    delay = next_delay(1) or 0.0
    next_at = tx.now + int(delay * 1000)
    tx.run(_q.insert, ws=ws, event_id=event_id, next_at=next_at, not_before=not_before)


def claim(tx: Tx) -> list[Deferred]:
    """Claim due events, so that no other host tries them meanwhile."""
    rows = tx.all(_q.claim, now=tx.now, again_at=tx.now + CLAIM_MS, limit=CLAIMED)
    return [Deferred(row["workspace_id"], row["event_id"], row["tries"], row["not_before"]) for row in rows]


def retry(tx: Tx, ws: str, event_id: str, seconds: float) -> None:
    """Count a failed try and schedule the next one in `seconds`."""
    tx.run(_q.retry, ws=ws, event_id=event_id, next_at=tx.now + int(seconds * 1000))


def postpone(tx: Tx, ws: str, event_id: str, seconds: float) -> None:
    """Schedule the next look at an event in `seconds`, without counting a try."""
    tx.run(_q.postpone, ws=ws, event_id=event_id, next_at=tx.now + int(seconds * 1000))


def remove(tx: Tx, ws: str, event_id: str) -> None:
    """Remove an event that was routed or has failed."""
    tx.run(_q.remove, ws=ws, event_id=event_id)


def next_due(tx: Tx) -> int | None:
    """Return when the next event is due, in UTC epoch milliseconds; None if there is none."""
    row = tx.one(_q.next_due)
    return None if row is None or row["due"] is None else int(row["due"])


def count(tx: Tx, limit: int, ws: str | None = None) -> int:
    """Count deferred events of one workspace or of all, up to `limit`."""
    row = tx.one(_q.count_all, limit=limit) if ws is None else tx.one(_q.count, ws=ws, limit=limit)
    return 0 if row is None else int(row["events"])
