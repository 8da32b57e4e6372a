"""Retention of settled pauses: a runner's state is deleted after a day, the rows after a month.

The decisions stay in the audit chain and in the run's journal while those are kept.
"""

from __future__ import annotations

from hostler.domain.pauses import ROWS_KEPT_SECONDS, STATE_KEPT_SECONDS
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import blobs, notices
from hostler.storage.stores.erasure import STEP_ROWS

_q = load(__file__)
_OF_PAUSE = (
    _q.drop_calls,
    _q.drop_votes,
    _q.drop_requests,
    _q.drop_rules,
    _q.drop_chat_answers,
    _q.drop_chat_questions,
    _q.drop_pause,
)


def drop_states(tx: Tx, ws: str) -> int:
    """Delete the next states of pauses settled a day ago, with their encryption keys; return their number."""
    rows = tx.all(_q.old_states, ws=ws, before=tx.now - STATE_KEPT_SECONDS * 1000, limit=STEP_ROWS)
    for row in rows:
        _release(tx, row)
        tx.run(_q.drop_state, ws=ws, pause_id=row["pause_id"])
    return len(rows)


def drop_old(tx: Tx, ws: str) -> int:
    """Delete the next pauses that were settled a month ago; return their number."""
    rows = tx.all(_q.old_pauses, ws=ws, before=tx.now - ROWS_KEPT_SECONDS * 1000, limit=STEP_ROWS)
    return _drop(tx, ws, rows)


def drop_of_run(tx: Tx, ws: str, run_id: str) -> int:
    """Delete the next pauses of a run on request, and all notices of the run; return their number."""
    notices.drop_of_run(tx, ws, run_id)
    return _drop(tx, ws, tx.all(_q.of_run, ws=ws, run_id=run_id, limit=STEP_ROWS))


def _drop(tx: Tx, ws: str, rows: list[Row]) -> int:
    for row in rows:
        _release(tx, row)
        for query in _OF_PAUSE:
            tx.run(query, ws=ws, pause_id=row["pause_id"])
    return len(rows)


def _release(tx: Tx, row: Row) -> None:
    if row["state_blob"] is not None:
        blobs.release(tx, row["state_blob"])
