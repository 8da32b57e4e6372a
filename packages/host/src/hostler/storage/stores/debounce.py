"""Gathered messages: several of one person that one run takes as one turn.

The first of them opens the run, which is not due yet; each further one prolongs that a little and becomes
the run's event. Once the run is due it can be claimed, and the row takes no more.
"""

from __future__ import annotations

from dataclasses import dataclass

from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import events
from hostler.storage.stores.events import StoredEvent
from hostler_protocol.limits import MIB

_q = load(__file__)

MAX_GATHERED = 100
"""Messages of one turn; with the last of them it begins."""
MAX_GATHERED_BYTES = 2 * MIB
"""Input of one turn, far below what a message to a plugin may have."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A message is one more of a turn that has not begun; it will at `not_before` (epoch milliseconds)."""

    run_id: str
    count: int
    not_before: int


def begin(tx: Tx, workspace_id: str, run_id: str, event_id: str) -> None:
    """The first message of a turn."""
    tx.run(_q.insert, workspace_id=workspace_id, run_id=run_id, position=1, event_id=event_id)


def join(
    tx: Tx,
    workspace_id: str,
    lane: str,
    gathering: str,
    *,
    event_id: str,
    size: int,
    not_before: int,
) -> Joined | None:
    """Add a message to the turn that this person has begun in a lane; `size` in bytes of its input.

    None: there is none, or it has begun, or this would be too much for it, and then it waits no longer.
    """
    key = {"workspace_id": workspace_id, "lane": lane, "gathering": gathering, "now": tx.now}
    row = tx.one(
        _q.join,
        **key,
        event_id=event_id,
        size=size,
        not_before=not_before,
        most=MAX_GATHERED,
        most_bytes=MAX_GATHERED_BYTES,
    )
    if row is None:
        tx.run(_q.release, **key)
        return None
    tx.run(
        _q.insert,
        workspace_id=workspace_id,
        run_id=row["run_id"],
        position=row["gathered"],
        event_id=event_id,
    )
    return Joined(row["run_id"], row["gathered"], row["not_before"])


def of_run(tx: Tx, workspace_id: str, run_id: str) -> list[StoredEvent]:
    """The events of a turn, in order."""
    rows = tx.all(_q.of_run, workspace_id=workspace_id, run_id=run_id)
    return [events.stored(row) for row in rows]
