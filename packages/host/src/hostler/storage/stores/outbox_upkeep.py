"""What waits in the outbox: how much, and what becomes of it when nobody can send it any more."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from hostler.storage.port import Query, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import outbox
from hostler.storage.stores.erasure import STEP_ROWS
from hostler.storage.stores.outbox_rows import Delivery, DeliveryStatus, delivery_of

MAX_COUNTED = 10_000
MAX_CHANNELS = 1_000
"""Channels whose messages are counted."""
OVERDUE_MS = 86_400_000
"""A message that could not be sent for a day is of no use in its chat any more."""
_UNSENT: tuple[DeliveryStatus, ...] = ("failed", "in_doubt", "pending", "sending")
_q = load(__file__)


class Waiting(NamedTuple):
    """How many messages of a channel have a status, at most MAX_COUNTED, and when the oldest was made.

    `oldest`: UTC epoch milliseconds.
    """

    channel: str
    status: DeliveryStatus
    number: int
    oldest: int


def give_up_waiting(tx: Tx, workspace_id: str, channel: str, why: str) -> list[Delivery]:
    """Give up the next messages that wait in a channel, at most STEP_ROWS, and return them as they are then.

    One that may have been sent is in doubt, and left to the operator; any other has failed.
    """
    rows = tx.all(_q.waiting, workspace_id=workspace_id, channel=channel, now=tx.now, limit=STEP_ROWS)
    return [_given_up(tx, delivery_of(row), why) for row in rows]


def give_up_overdue(tx: Tx, workspace_id: str, channel: str) -> list[Delivery]:
    """Give up the next messages of a channel that could not be sent for a day, as `give_up_waiting` does."""
    before = tx.now - OVERDUE_MS
    rows = tx.all(
        _q.overdue, workspace_id=workspace_id, channel=channel, before=before, now=tx.now, limit=STEP_ROWS
    )
    return [_given_up(tx, delivery_of(row), "it could not be sent for a day") for row in rows]


def channels_waiting(tx: Tx, workspace_id: str) -> list[str]:
    """Return the channels in which messages wait, in whatever status, at most MAX_CHANNELS."""
    return list(islice(_channels(tx, _q.next_waiting_channel, workspace_id), MAX_CHANNELS))


def not_begun_of_run(tx: Tx, run_id: str) -> list[Delivery]:
    """Return the actions that a run waits for and that are surely not carried out, at most STEP_ROWS."""
    rows = tx.all(_q.not_begun_of_run, run_id=run_id, now=tx.now, limit=STEP_ROWS)
    return [delivery_of(row) for row in rows]


def counts(tx: Tx, workspace_id: str) -> list[Waiting]:
    """Return the numbers of messages that are not sent, by channel and status."""
    found = []
    for channel in islice(_channels(tx, _q.next_unsent_channel, workspace_id), MAX_CHANNELS):
        for status in _UNSENT:
            named = {"workspace_id": workspace_id, "channel": channel, "status": status}
            row = tx.one(_q.count_unsent, **named, limit=MAX_COUNTED)
            if row is not None and row["oldest"] is not None:
                found.append(Waiting(channel, status, int(row["number"]), int(row["oldest"])))
    return found


def _channels(tx: Tx, query: Query, workspace_id: str) -> Iterator[str]:
    """Yield channels in order, one look-up in an index for each."""
    row = tx.one(query, workspace_id=workspace_id, after="")
    while row is not None and row["channel"] is not None:
        yield row["channel"]
        row = tx.one(query, workspace_id=workspace_id, after=row["channel"])


def _given_up(tx: Tx, delivery: Delivery, why: str) -> Delivery:
    is_sure = delivery.status == "pending" and not delivery.perhaps_sent
    error = why if is_sure else f"{why}, and nobody knows whether the platform has it"
    tx.run(
        _q.give_up,
        workspace_id=delivery.workspace_id,
        delivery_id=delivery.delivery_id,
        status="failed" if is_sure else "in_doubt",
        error=error,
        now=tx.now,
    )
    return outbox.get(tx, delivery.workspace_id, delivery.delivery_id)
