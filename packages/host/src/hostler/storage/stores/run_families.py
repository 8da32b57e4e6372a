"""Runs that runs have created: children, and theirs."""

from __future__ import annotations

from typing import NamedTuple

from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores.run_rows import Run, run_of
from hostler_protocol.limits import MAX_PAGE_ITEMS

_q = load(__file__)


def children(
    tx: Tx, workspace_id: str, parent_run_id: str, *, after: str = "", limit: int = MAX_PAGE_ITEMS
) -> list[Run]:
    """Return unfinished child runs, by id."""
    rows = tx.all(
        _q.children, workspace_id=workspace_id, parent_run_id=parent_run_id, after=after, limit=limit
    )
    return [run_of(row) for row in rows]


class Family(NamedTuple):
    """The number of runs below a run: its children, theirs and so on."""

    size: int
    unfinished: int


def family(tx: Tx, workspace_id: str, run_id: str, limit: int) -> Family:
    """Count the runs below a run, up to `limit`."""
    (row,) = tx.all(_q.family, workspace_id=workspace_id, run_id=run_id, limit=limit)
    return Family(int(row["size"]), int(row["unfinished"]))
