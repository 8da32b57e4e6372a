"""Active runs of hosts: for recovery, for cancellations, and for attempts that were lost."""

from __future__ import annotations

from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_rows import Run, RunAttempt, run_of
from hostler_protocol.limits import MAX_PAGE_ITEMS

_q = load(__file__)
_MAX_ATTEMPTS = 10_000
"""Active attempts of one host that are read; far more than it executes at once."""


def active_of(tx: Tx, member: Membership, *, after: str = "", limit: int = MAX_PAGE_ITEMS) -> list[Run]:
    """Return active runs of a host in one epoch, by id after `after`."""
    host_id, epoch = member
    rows = tx.all(_q.active_of, host_id=host_id, host_epoch=epoch, after=after, limit=limit)
    return [run_of(row) for row in rows]


def attempts_of(tx: Tx, member: Membership) -> set[RunAttempt]:
    """Return the active attempts that a host claimed in one epoch, at most 10,000."""
    rows = tx.all(_q.attempts_of, host_id=member.host_id, host_epoch=member.epoch, limit=_MAX_ATTEMPTS)
    return {RunAttempt(row["run_id"], row["attempt"]) for row in rows}


def cancelled_of(tx: Tx, member: Membership, limit: int = MAX_PAGE_ITEMS) -> list[Run]:
    """Return active runs of a host in one epoch that were cancelled."""
    rows = tx.all(_q.cancelled_of, host_id=member.host_id, host_epoch=member.epoch, limit=limit)
    return [run_of(row) for row in rows]


def active(tx: Tx, *, after: str = "", limit: int = MAX_PAGE_ITEMS) -> list[Run]:
    """Return active runs of all hosts, by id after `after`."""
    return [run_of(row) for row in tx.all(_q.active, after=after, limit=limit)]
