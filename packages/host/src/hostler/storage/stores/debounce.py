"""Debounced messages: several messages of one person that become one turn of one run.

The first message opens the run, which is not due yet. Each further one delays it a little and becomes the
run's event. Once the run is due it can be claimed and accepts no more messages.
"""

from __future__ import annotations

from hostler.domain.record import Record
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import events
from hostler.storage.stores.events import StoredEvent
from hostler_protocol.limits import MIB

_q = load(__file__)

MAX_GATHERED = 100
"""Messages of one turn; the last of them makes the run due."""
MAX_GATHERED_BYTES = 2 * MIB
"""Input of one turn, far below the limit of a message to a plugin."""

_LAST = 2**63 - 1
"""Beyond all ordinals of runs."""


class Joined(Record):
    """A message joined a turn that begins at `not_before` (UTC epoch milliseconds) at the latest."""

    run_id: str
    count: int
    not_before: int


def begin(tx: Tx, workspace_id: str, run_id: str, event_id: str) -> None:
    """Store the first message of a turn."""
    tx.run(_q.insert, workspace_id=workspace_id, run_id=run_id, position=1, event_id=event_id)


def join(
    tx: Tx, workspace_id: str, lane: str, gathering: str, *, event_id: str, size: int, not_before: int
) -> Joined | None:
    """Add a message to the turn that this person has open in a lane; `size` is that of its input in bytes.

    Return None if there is no open turn, or if the message does not fit; in that case the run becomes due.
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
    # earlier turns wait for no more; after the clock was set back they would wait again, and be overtaken
    tx.run(_q.release, **key, ordinal=_LAST if row is None else row["ordinal"])
    if row is None:
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
    """Return the events of a turn, in order."""
    rows = tx.all(_q.of_run, workspace_id=workspace_id, run_id=run_id)
    return [events.stored(row) for row in rows]
