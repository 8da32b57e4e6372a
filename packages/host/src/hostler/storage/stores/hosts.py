"""The hosts that work on this database, and their leases by the database's clock.

A host joins for one epoch. It claims runs and writes their results only while its lease of that epoch holds.
"""

from __future__ import annotations

from typing import NamedTuple

from hostler.domain.record import Record
from hostler.storage.port import Row, Tx
from hostler.storage.sql.session import APPLICATION
from hostler.storage.sql.statements import load
from hostler_protocol.limits import MAX_PAGE_ITEMS

ALONE = 0
"""The epoch of a host that is alone on its database: the lock on the data directory is its lease."""
STALLED_SECONDS = 3
"""How long a transaction may be idle while it holds locks, since other hosts wait for them, also when they
renew their leases."""
_q = load(__file__)


class Membership(NamedTuple):
    """A host in one epoch: the owner of the runs that it claims in it."""

    host_id: str
    epoch: int = ALONE


class LeasedHost(Record):
    """A host and its lease. Times are UTC epoch milliseconds."""

    member: Membership
    address: str
    started_at: int
    lease_until: int


def join(tx: Tx, host_id: str, address: str, lease_ms: int) -> Membership:
    """Add a host in a new epoch.

    Runs that it claimed in an earlier one are lost; any host may settle them.
    """
    row = tx.one(_q.join, host_id=host_id, address=address, now=tx.now, lease_until=tx.now + lease_ms)
    if row is None:
        raise RuntimeError("a host that joined has no row")
    return Membership(host_id, row["epoch"])


def renew(tx: Tx, member: Membership, lease_ms: int) -> int | None:
    """Prolong the lease and return when it ends. None: it has expired, and the host must stop its runs."""
    until = tx.now + lease_ms
    renewed = tx.run(_q.renew, host_id=member.host_id, epoch=member.epoch, now=tx.now, lease_until=until)
    return until if renewed else None


def holds(tx: Tx, member: Membership) -> bool:
    """Whether the lease holds.

    If so, no host can take over the member's runs before this transaction ends.
    """
    if member.epoch == ALONE:
        return True
    host_id, epoch = member
    return tx.once(
        ("lease", host_id, epoch),
        lambda: tx.one(_q.holds, host_id=host_id, epoch=epoch, now=tx.now) is not None,
    )


def leave(tx: Tx, member: Membership) -> None:
    """Remove a host that shuts down; its runs were settled or given back."""
    tx.run(_q.remove, host_id=member.host_id, epoch=member.epoch)


def take_over(tx: Tx, member: Membership) -> bool:
    """Remove a host whose lease has expired; its runs are lost. True for one caller only."""
    return tx.run(_q.remove_dead, host_id=member.host_id, epoch=member.epoch, now=tx.now) == 1


def end_stalled(tx: Tx) -> int:
    """End transactions whose hosts have stalled, and return their number."""
    if tx.dialect == "sqlite":
        return 0
    return len(tx.all(_q.end_stalled, application=APPLICATION, seconds=STALLED_SECONDS))


def dead(tx: Tx, *, limit: int = MAX_PAGE_ITEMS) -> list[LeasedHost]:
    """Return hosts whose lease has expired."""
    return [_lease(row) for row in tx.all(_q.dead, now=tx.now, limit=limit)]


def alive(tx: Tx, *, limit: int = MAX_PAGE_ITEMS) -> list[LeasedHost]:
    """Return hosts whose lease holds."""
    return [_lease(row) for row in tx.all(_q.alive, now=tx.now, limit=limit)]


def lost(tx: Tx, *, limit: int = MAX_PAGE_ITEMS) -> list[Membership]:
    """Return ended memberships whose runs are not settled yet."""
    return [Membership(row["host_id"], row["epoch"]) for row in tx.all(_q.lost, limit=limit)]


def _lease(row: Row) -> LeasedHost:
    member = Membership(row["host_id"], row["epoch"])
    return LeasedHost(member, row["address"], row["started_at"], row["lease_until"])
