"""Lanes and the queue: the run that holds a lane, and the runs that wait."""

from __future__ import annotations

from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores.run_rows import Run, run_of

_q = load(__file__)


def lane_is_free(tx: Tx, lane: str) -> bool:
    """Whether no run holds a lane and none in its queue could start."""
    return tx.one(_q.lane_is_free, lane=lane, now=tx.now) is not None


def count_waiting(tx: Tx, lane: str, limit: int) -> int:
    """Count the runs queued in a lane that could start in it, up to `limit`."""
    row = tx.one(_q.count_waiting, lane=lane, now=tx.now, limit=limit)
    return 0 if row is None else int(row["waiting"])


def active_in_lane(tx: Tx, workspace_id: str, lane: str) -> Run | None:
    """Return the run that holds a lane, or None."""
    row = tx.one(_q.lane_holder, workspace_id=workspace_id, lane=lane)
    return None if row is None else run_of(row)


def first_waiting(tx: Tx, workspace_id: str, lane: str) -> Run | None:
    """Return the queued run of a lane that starts next, or None."""
    row = tx.one(_q.first_waiting, workspace_id=workspace_id, lane=lane, now=tx.now)
    return None if row is None else run_of(row)


def count_queued(tx: Tx, limit: int) -> int:
    """Count all queued runs, up to `limit`."""
    row = tx.one(_q.count_queued, limit=limit)
    return 0 if row is None else int(row["waiting"])
