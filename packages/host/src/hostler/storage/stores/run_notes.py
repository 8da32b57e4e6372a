"""Notes in a run's journal by somebody who does not own its attempt: a person who decides, the clock.

`hold` is also the one lock of everything about a run's pauses: people, sweeper, attempts and recovery take
the run's row first, so that they go one after the other and never wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Sequence

from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import journal
from hostler.storage.stores.journal import Entry
from hostler.storage.stores.run_rows import Run, run_of

_q = load(__file__)


def hold(tx: Tx, run_id: str) -> Run | None:
    """The run as it stands, which nobody else changes before this transaction ends."""
    row = tx.one(_q.hold, run_id=run_id)
    return None if row is None else run_of(row)


def note(tx: Tx, run_id: str, entries: Sequence[Entry]) -> bool:
    """Journal entries that are no results, whatever the run's attempt and status. False: it has ended."""
    if any(entry.kind == "result" for entry in entries):
        raise ValueError("results are numbered by the attempt that owns the run")
    row = tx.one(_q.advance, run_id=run_id, entries=len(entries))
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
    )
    return True
