"""Events whose agent is not known yet: their filters could not be evaluated, and are asked again."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.domain.deferral import next_delay
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load

CLAIMED = 20
"""Events that are tried one after the other before others are looked for."""
CLAIM_MS = 60_000
"""For how long whoever claimed an event has it: longer than a few filters that time out take."""
_q = load(__file__)


@dataclass(frozen=True, slots=True)
class Deferred:
    """An event that is due. `not_before`: when its run may begin, in UTC epoch milliseconds."""

    workspace_id: str
    event_id: str
    tries: int
    not_before: int | None


def add(tx: Tx, ws: str, event_id: str, not_before: int | None) -> None:
    """Have an event tried again whose filters were asked once; one that is there already stays as it is."""
    delay = next_delay(1) or 0.0
    next_at = tx.now + int(delay * 1000)
    tx.run(_q.insert, ws=ws, event_id=event_id, next_at=next_at, not_before=not_before)


def claim(tx: Tx) -> list[Deferred]:
    """What is due, which nobody else tries meanwhile."""
    rows = tx.all(_q.claim, now=tx.now, again_at=tx.now + CLAIM_MS, limit=CLAIMED)
    return [Deferred(row["workspace_id"], row["event_id"], row["tries"], row["not_before"]) for row in rows]


def tried(tx: Tx, ws: str, event_id: str, again_in: float) -> None:
    """Its filters were asked once more, in vain; ask them again in so many seconds."""
    tx.run(_q.tried, ws=ws, event_id=event_id, next_at=tx.now + int(again_in * 1000))


def postpone(tx: Tx, ws: str, event_id: str, seconds: float) -> None:
    """Its filters are not what it waits for: look at it again in so many seconds."""
    tx.run(_q.postpone, ws=ws, event_id=event_id, next_at=tx.now + int(seconds * 1000))


def remove(tx: Tx, ws: str, event_id: str) -> None:
    """The event waits no more: it was routed, or has failed."""
    tx.run(_q.remove, ws=ws, event_id=event_id)


def next_due(tx: Tx) -> int | None:
    """When the next one is due, in UTC epoch milliseconds; None: none waits."""
    row = tx.one(_q.next_due)
    return None if row is None or row["due"] is None else int(row["due"])


def count(tx: Tx, limit: int, ws: str | None = None) -> int:
    """Count the events that wait, of one workspace or of all, no further than `limit`."""
    row = tx.one(_q.count_all, limit=limit) if ws is None else tx.one(_q.count, ws=ws, limit=limit)
    return 0 if row is None else int(row["events"])
