"""Journal entries that others than the run's attempt write: people who decide, the clock, steered messages.

`hold` is also the one lock for a run's pauses: decisions, sweeper, attempts and recovery lock the run's row
first, so that they run one after the other and cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence

from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import journal
from hostler.storage.stores.journal import NewEntry
from hostler.storage.stores.run_rows import Run, run_of
from hostler.storage.stores.timeline import place_of

_q = load(__file__)


def hold(tx: Tx, run_id: str) -> Run | None:
    """Return the run, locked until the transaction ends; None if there is none."""
    row = tx.one(_q.hold, run_id=run_id)
    return None if row is None else run_of(row)


def note(tx: Tx, run_id: str, entries: Sequence[NewEntry], *, even_ended: bool = False) -> bool:
    """Journal entries other than results, for any attempt.

    Return False, with nothing written, if the run has ended; `even_ended` writes nevertheless.
    """
    if any(entry.kind == "result" for entry in entries):
        raise ValueError("only the attempt that owns the run writes results")
    row = tx.one(_q.advance, run_id=run_id, entries=len(entries), ended=int(even_ended))
    if row is None:
        return False
    position = row["position"] - len(entries)
    journal.append(
        tx,
        row["workspace_id"],
        run_id,
        row["attempt"],
        entries,
        position=position,
        sequence=row["sequence"],
        place=place_of(row),
    )
    return True
