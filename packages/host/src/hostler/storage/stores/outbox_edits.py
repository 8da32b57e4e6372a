"""Edits of messages that were sent: what they edit, and what is sent where that cannot be edited."""

from __future__ import annotations

import msgspec

from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import outbox
from hostler.storage.stores.outbox_rows import Claimed, Delivery, Outbound
from hostler_protocol.ids import digest

_q = load(__file__)


def edited(tx: Tx, claimed: Claimed) -> Delivery | None:
    """Return the message that a claimed delivery edits; None if it is not there any more."""
    edit = claimed.delivery.outbound.edit
    return None if edit is None else outbox.find(tx, claimed.delivery.workspace_id, edit.of)


def send_instead(tx: Tx, claimed: Claimed) -> bool:
    """Make a claimed edit a message of its own, to be sent at once. False if another host has claimed it."""
    delivery = claimed.delivery
    edit = delivery.outbound.edit
    outbound = Outbound(delivery.outbound.target, delivery.outbound.message if edit is None else edit.instead)
    return (
        tx.run(
            _q.send_instead,
            workspace_id=delivery.workspace_id,
            delivery_id=delivery.delivery_id,
            token=claimed.token,
            body=msgspec.json.encode(outbound).decode(),
            send_key=digest([delivery.send_key, "instead"])[:32],
            now=tx.now,
        )
        == 1
    )


def drop_claimed(tx: Tx, claimed: Claimed) -> bool:
    """Delete a claimed edit of which the platform has nothing. False if another host has claimed it."""
    delivery = claimed.delivery
    where = {"workspace_id": delivery.workspace_id, "delivery_id": delivery.delivery_id}
    return tx.run(_q.drop_claimed, **where, token=claimed.token) == 1
