"""Receivers of notifications of one run: told when it waits for people, and when it ends.

A receiver is due while the state of its run is another one than it was told last, so that no change can be
missed: there is no list of changes, and whoever was down for long is told the latest only.
"""

from __future__ import annotations

import msgspec

from hostler.domain.pauses import ROWS_KEPT_SECONDS
from hostler.domain.record import Record
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores.erasure import STEP_ROWS
from hostler_protocol._base import Lenient
from hostler_protocol.errors import ConflictError, NotFoundError
from hostler_protocol.ids import new_id
from hostler_protocol.limits import MAX_PAGE_ITEMS
from hostler_protocol.runs import TERMINAL_STATUSES

MAX_RECEIVERS_OF_RUN = 20
MAX_ERROR_CHARS = 500
_q = load(__file__)


class Receiver(Lenient):
    """Where a run's notifications go. `token` and `credentials` are sent with each."""

    url: str
    token: str | None = None
    scheme: str | None = None
    credentials: str | None = None


_receivers = msgspec.json.Decoder(Receiver)


class StoredReceiver(Record):
    """A receiver of a run. `error`: of the last try, if it failed."""

    run_id: str
    receiver_id: str
    receiver: Receiver
    error: str | None


class ClaimedPush(Record):
    """A notification that one host sends under `token`. `state`: that of the run, of which it tells.

    `finished_at`: UTC epoch milliseconds; None while the run waits.
    """

    workspace_id: str
    run_id: str
    receiver_id: str
    receiver: Receiver
    state: str
    status: str
    conversation_id: str | None
    finished_at: int | None
    attempts: int
    token: str


def put(tx: Tx, workspace_id: str, run_id: str, receiver_id: str, receiver: Receiver) -> None:
    """Store a receiver of a run, or change it. ConflictError if the run has too many."""
    names = {"workspace_id": workspace_id, "run_id": run_id}
    counted = tx.one(_q.count, **names)
    is_new = tx.one(_q.find, **names, receiver_id=receiver_id) is None
    if is_new and counted is not None and counted["number"] >= MAX_RECEIVERS_OF_RUN:
        raise ConflictError(f"a run has at most {MAX_RECEIVERS_OF_RUN} receivers: remove one first")
    encoded = msgspec.json.encode(receiver).decode()
    tx.run(_q.put, **names, receiver_id=receiver_id, receiver=encoded, now=tx.now)


def get(tx: Tx, workspace_id: str, run_id: str, receiver_id: str) -> StoredReceiver:
    """Return a receiver. NotFoundError."""
    row = tx.one(_q.find, workspace_id=workspace_id, run_id=run_id, receiver_id=receiver_id)
    if row is None:
        raise NotFoundError(f"the run has no receiver {receiver_id!r}")
    return _stored(row)


def page(
    tx: Tx, workspace_id: str, run_id: str, *, after: str = "", limit: int = MAX_PAGE_ITEMS
) -> list[StoredReceiver]:
    """Return receivers of a run by id, after `after`."""
    rows = tx.all(_q.of_run, workspace_id=workspace_id, run_id=run_id, after=after, limit=limit)
    return [_stored(row) for row in rows]


def remove(tx: Tx, workspace_id: str, run_id: str, receiver_id: str) -> bool:
    """Remove a receiver; return whether there was one."""
    return tx.run(_q.remove, workspace_id=workspace_id, run_id=run_id, receiver_id=receiver_id) == 1


def is_due(tx: Tx) -> bool:
    """Whether a notification is due, of whatever workspace."""
    return bool(tx.all(_q.due, now=tx.now, limit=1))


def claim(tx: Tx, lease_ms: int, limit: int) -> list[ClaimedPush]:
    """Claim notifications that are due, for one try each, which counts from its beginning."""
    found = []
    for row in tx.all(_q.due, now=tx.now, limit=limit):
        names = {name: row[name] for name in ("workspace_id", "run_id", "receiver_id")}
        token = new_id()
        taken = tx.run(
            _q.claim,
            **names,
            token=token,
            lease_until=tx.now + lease_ms,
            attempts=row["attempts"],
            now=tx.now,
        )
        if not taken:
            continue
        ended = row["status"] in TERMINAL_STATUSES
        found.append(
            ClaimedPush(
                **names,
                receiver=get(tx, **names).receiver,
                state=row["status"] if ended else f"paused {row['pause_id']} {row['revision']}",
                status=row["status"] if ended else "paused",
                conversation_id=row["conversation_id"],
                finished_at=row["finished_at"],
                attempts=row["attempts"] + 1,
                token=token,
            )
        )
    return found


def mark_told(tx: Tx, push: ClaimedPush, *, error: str | None = None) -> bool:
    """Record that a receiver was told a state or, with an `error`, that this was given up."""
    return (
        tx.run(
            _q.settle,
            **_names(push),
            shown=push.state,
            attempts=0,
            next_at=tx.now,
            error=None if error is None else error[:MAX_ERROR_CHARS],
            settled_at=tx.now if push.status in TERMINAL_STATUSES else None,
        )
        == 1
    )


def mark_failed(tx: Tx, push: ClaimedPush, *, error: str, again_in: float) -> bool:
    """Record a failed try; the next one is in `again_in` seconds."""
    next_at = tx.now + int(again_in * 1000)
    return tx.run(_q.retry, **_names(push), next_at=next_at, error=error[:MAX_ERROR_CHARS]) == 1


def drop_of_run(tx: Tx, workspace_id: str, run_id: str) -> int:
    """Delete the receivers of a run on request; return their number."""
    found = page(tx, workspace_id, run_id)
    for one in found:
        remove(tx, workspace_id, run_id, one.receiver_id)
    return len(found)


def drop_old(tx: Tx, workspace_id: str) -> int:
    """Delete receivers of runs that ended a month ago; return their number."""
    before = tx.now - ROWS_KEPT_SECONDS * 1000
    rows = tx.all(_q.old, workspace_id=workspace_id, before=before, limit=STEP_ROWS)
    for row in rows:
        remove(tx, workspace_id, row["run_id"], row["receiver_id"])
    return len(rows)


def _names(push: ClaimedPush) -> dict[str, str]:
    return {
        "workspace_id": push.workspace_id,
        "run_id": push.run_id,
        "receiver_id": push.receiver_id,
        "token": push.token,
    }


def _stored(row: Row) -> StoredReceiver:
    return StoredReceiver(row["run_id"], row["receiver_id"], _receivers.decode(row["receiver"]), row["error"])
