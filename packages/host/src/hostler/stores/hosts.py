"""Which hosts work on this database, and until when each is certainly alive, by the database's clock."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.ports import Row, Tx
from hostler.sql.statements import load
from hostler_protocol.limits import MAX_PAGE_ITEMS

_q = load(__file__)


@dataclass(frozen=True, slots=True)
class HostLease:
    """A host and its lease. Times are UTC epoch milliseconds."""

    host_id: str
    address: str
    started_at: int
    lease_until: int


def join(tx: Tx, host_id: str, address: str, lease_ms: int) -> int:
    """Enter a host; when its lease ends."""
    until = tx.now + lease_ms
    tx.run(_q.join, host_id=host_id, address=address, now=tx.now, lease_until=until)
    return until


def renew(tx: Tx, host_id: str, lease_ms: int) -> int | None:
    """Prolong the lease; when it ends. None: it was over, and the host must stop working on its runs."""
    until = tx.now + lease_ms
    return until if tx.run(_q.renew, host_id=host_id, now=tx.now, lease_until=until) else None


def leave(tx: Tx, host_id: str) -> None:
    """Remove a host that stops in order; its runs were settled or handed back."""
    tx.run(_q.remove, host_id=host_id)


def take_over(tx: Tx, host_id: str) -> bool:
    """Remove a host whose lease is over. True for one caller only, who then settles its runs."""
    return tx.run(_q.remove_dead, host_id=host_id, now=tx.now) == 1


def dead(tx: Tx, *, limit: int = MAX_PAGE_ITEMS) -> list[HostLease]:
    """Hosts whose lease is over."""
    return [_lease(row) for row in tx.all(_q.dead, now=tx.now, limit=limit)]


def alive(tx: Tx, *, limit: int = MAX_PAGE_ITEMS) -> list[HostLease]:
    """Hosts whose lease holds."""
    return [_lease(row) for row in tx.all(_q.alive, now=tx.now, limit=limit)]


def lost(tx: Tx, *, limit: int = MAX_PAGE_ITEMS) -> list[str]:
    """Hosts that hold runs but were removed: whoever took them over was killed before it was done."""
    return [str(row["host_id"]) for row in tx.all(_q.lost, limit=limit)]


def _lease(row: Row) -> HostLease:
    return HostLease(row["host_id"], row["address"], row["started_at"], row["lease_until"])
