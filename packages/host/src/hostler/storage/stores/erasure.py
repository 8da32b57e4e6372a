"""Steps that delete or empty rows, shared by retention and deletion on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hostler.storage.port import Database, Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import artifacts, blobs, run_tools, uploads

_q = load(__file__)

STEP_ROWS = 200
"""Rows of one transaction: with 64 KiB each it stays below 13 MB, and delays others by a few milliseconds."""


async def until_nothing(database: Database, step: Callable[[Tx], int]) -> int:
    """Run `step`, each time in its own transaction, until it returns 0; return the sum."""
    total = 0
    while done := await database.write(step):
        total += done
    return total


def empty_events(tx: Tx, ws: str, seqs: Iterable[int]) -> int:
    """Remove content and people from events; return how many had content.

    The caller accounts for them (`redactions.account`), in this transaction or before it.
    """
    return sum(tx.run(_q.empty_event, ws=ws, seq=seq) for seq in seqs)


def drop_journal(tx: Tx, run_id: str) -> int:
    """Delete the next rows of a run's journal; return the number of their entries, 0 at the end."""
    return _drop(tx, run_id, tx.all(_q.journal_rows, run_id=run_id, limit=STEP_ROWS), deltas=False)


def drop_deltas(tx: Tx, run_id: str) -> int:
    """Delete the next rows of a run's deltas; return the number of their entries, 0 at the end."""
    return _drop(tx, run_id, tx.all(_q.delta_rows, run_id=run_id, limit=STEP_ROWS), deltas=True)


def _drop(tx: Tx, run_id: str, rows: list[Row], *, deltas: bool) -> int:
    if not rows:
        return 0
    if not deltas:
        run_tools.drop(tx, run_id)
    for row in rows:
        if row["blob"] is not None:
            blobs.release(tx, row["blob"])
    query = _q.delete_deltas if deltas else _q.delete_journal
    tx.run(query, run_id=run_id, last=rows[-1]["last_position"])
    return sum(int(row["count"]) for row in rows)


def drop_files_of_run(tx: Tx, ws: str, run_id: str) -> int:
    """Delete the next artifacts and unfinished uploads of a run; return their number, 0 at the end."""
    rows = tx.all(_q.artifacts_of_run, ws=ws, run_id=run_id, limit=STEP_ROWS)
    for row in rows:
        artifacts.remove(tx, ws, row["artifact_id"])
    unfinished = tx.all(_q.uploads_of_run, ws=ws, run_id=run_id)
    for row in unfinished:
        uploads.abandon(tx, ws, row["upload_id"])
    return len(rows) + len(unfinished)


def empty_run(tx: Tx, ws: str, run_id: str) -> bool:
    """Remove conversation, people and content from an ended run; return False while it is active."""
    emptied = tx.run(_q.empty_run, ws=ws, run_id=run_id) > 0
    if emptied:
        tx.run(_q.answers_naming, ws=ws, run_id=run_id)
        tx.run(_q.empty_source, ws=ws, run_id=run_id)
    return emptied
