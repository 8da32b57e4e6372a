"""Steers: which run absorbed which message, in which order, and with which outcome.

The run's row counts the messages that it has not pulled. Both the end of a run and a claim write that row, so
on either database one of them comes first and the other sees its result.
"""

from __future__ import annotations

from collections.abc import Sequence

from hostler.domain.record import Record
from hostler.domain.steering import MAX_STEERS_PER_RUN, SteerStatus
from hostler.storage.port import Query, Row, Tx
from hostler.storage.sql.statements import load
from hostler_protocol.limits import MAX_PAGE_ITEMS

_q = load(__file__)
MAX_LEFT = 10_000
"""Steers of one run that are read when it ends: it absorbed or inherited at most a hundred."""


class Steer(Record):
    """A message that a run absorbed. Times are UTC epoch milliseconds."""

    workspace_id: str
    run_id: str
    position: int
    event_id: str
    status: SteerStatus
    claimed_at: int
    settled_at: int | None
    attempt: int | None
    step: int | None
    sequence: int | None
    next_run_id: str | None


class ClaimedSteer(Record):
    """A run absorbed a message: its position among them, and the run's runner."""

    position: int
    runner_id: str


def claim(tx: Tx, workspace_id: str, run_id: str, event_id: str) -> ClaimedSteer | None:
    """Let a run absorb a message; None if it has ended, was cancelled, or has too many unread messages."""
    row = tx.one(_q.absorb, workspace_id=workspace_id, run_id=run_id, most=MAX_STEERS_PER_RUN)
    if row is None:
        return None
    tx.run(
        _q.insert,
        workspace_id=workspace_id,
        run_id=run_id,
        position=row["steered"],
        event_id=event_id,
        claimed_at=tx.now,
    )
    return ClaimedSteer(row["steered"], row["runner_id"])


def inherit(tx: Tx, workspace_id: str, run_id: str, event_ids: Sequence[str]) -> None:
    """Give messages to a newly opened run, in this order."""
    if not event_ids:
        return
    tx.run(_q.inherit, workspace_id=workspace_id, run_id=run_id, count=len(event_ids))
    place = {"workspace_id": workspace_id, "run_id": run_id, "claimed_at": tx.now}
    tx.run_many(
        _q.insert,
        [{**place, "position": number, "event_id": one} for number, one in enumerate(event_ids, start=1)],
    )


def queued(tx: Tx, workspace_id: str, run_id: str, limit: int = MAX_LEFT) -> list[Steer]:
    """Return the messages that a run absorbed and has not pulled, in order."""
    return [_steer(row) for row in tx.all(_q.queued, workspace_id=workspace_id, run_id=run_id, limit=limit)]


def page(
    tx: Tx, workspace_id: str, run_id: str, *, after: int = 0, limit: int = MAX_PAGE_ITEMS
) -> list[Steer]:
    """Return all messages that a run absorbed, in order, after the position `after`."""
    rows = tx.all(_q.page, workspace_id=workspace_id, run_id=run_id, after=after, limit=limit)
    return [_steer(row) for row in rows]


def mark_injected(tx: Tx, steers: Sequence[Steer], *, attempt: int, step: int, sequence: int) -> None:
    """Mark steers as pulled by the runner.

    `step` is the journal position of the first one, the others follow it; `sequence` is that of the last
    result before them.
    """
    rows = [
        {**_place(tx, one), "attempt": attempt, "step": step + number, "sequence": sequence}
        for number, one in enumerate(steers)
    ]
    _settle(tx, _q.injected, steers, rows)


def mark_requeued(tx: Tx, steers: Sequence[Steer], next_run_id: str) -> None:
    """Mark steers as moved to the next run of the lane."""
    _settle(tx, _q.requeued, steers, [{**_place(tx, one), "next_run_id": next_run_id} for one in steers])


def mark_dropped(tx: Tx, steers: Sequence[Steer]) -> None:
    """Mark steers as dropped."""
    _settle(tx, _q.dropped, steers, [_place(tx, one) for one in steers])


def give_back(tx: Tx, workspace_id: str, run_id: str) -> list[Steer]:
    """Queue the pulled messages of a run again, since it starts anew; return them."""
    pulled = [_steer(row) for row in tx.all(_q.pulled, workspace_id=workspace_id, run_id=run_id)]
    if pulled:
        tx.run(_q.given_back, workspace_id=workspace_id, run_id=run_id)
        tx.run(_q.count, workspace_id=workspace_id, run_id=run_id, change=len(pulled))
    return pulled


def _settle(tx: Tx, query: Query, steers: Sequence[Steer], rows: list[dict[str, object]]) -> None:
    if steers:
        first = steers[0]
        tx.run_many(query, rows)
        tx.run(_q.count, workspace_id=first.workspace_id, run_id=first.run_id, change=-len(steers))


def _place(tx: Tx, steer: Steer) -> dict[str, object]:
    return {
        "workspace_id": steer.workspace_id,
        "run_id": steer.run_id,
        "position": steer.position,
        "now": tx.now,
    }


def _steer(row: Row) -> Steer:
    return Steer(**{name: row[name] for name in Steer.__struct_fields__})
