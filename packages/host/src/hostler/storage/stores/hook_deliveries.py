"""Requests that hooks took: digests by message and by what was signed, for 90 days."""

from __future__ import annotations

from typing import Literal, NamedTuple

from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores.erasure import STEP_ROWS

KEPT_DAYS = 90
"""Longer than any sender tries again by itself: Stripe does so for three days."""
_DAY_MS = 86_400_000
_q = load(__file__)

Outcome = Literal["new", "repeated", "conflicting", "replayed"]
"""`repeated`: the same message again; `conflicting`: its id with another body; `replayed`: what was signed
for another message."""


class HookDelivery(Record):
    """A message. Times are UTC epoch milliseconds."""

    workspace_id: str
    event_id: str
    hook: str
    body_digest: str
    deliveries: int
    conflicts: int
    created_at: int
    last_at: int


class Noted(NamedTuple):
    """What a request is, and the message that it belongs to."""

    outcome: Outcome
    event_id: str


class Message(NamedTuple):
    """What is noted of a request. `signed_digest`: of all that was signed; None if nothing was.

    `named`: the id is that of the sender or of the body, and not one that was made for this request.
    """

    hook: str
    event_id: str
    body_digest: str
    signed_digest: str | None
    named: bool = True


def note(tx: Tx, workspace_id: str, given: Message) -> Noted:
    """Note a request that is right, before its event is stored.

    What was signed for another message is a replay or, if this one has no id of its own, that message.
    """
    hook, event_id, body_digest, signed_digest, named = given
    body_digest = _keyed(tx, workspace_id, body_digest)
    if signed_digest is not None:
        signed_digest = _keyed(tx, workspace_id, signed_digest)
    key = {"workspace_id": workspace_id, "hook": hook}
    if signed_digest is not None:
        row = tx.one(_q.signed, **key, signed_digest=signed_digest)
        if row is None and not tx.run(
            _q.insert_signed, **key, signed_digest=signed_digest, event_id=event_id, now=tx.now
        ):  # another host has taken it since
            row = tx.one(_q.signed, **key, signed_digest=signed_digest)
        if row is not None and row["event_id"] != event_id:
            if named:
                return Noted("replayed", row["event_id"])
            event_id = row["event_id"]
    if tx.run(_q.insert, **key, event_id=event_id, body_digest=body_digest, now=tx.now):
        return Noted("new", event_id)
    message = {"workspace_id": workspace_id, "event_id": event_id}
    known = tx.one(_q.find, **message)
    if known is not None and known["body_digest"] != body_digest:
        if tx.one(_q.event, **message) is None:  # the first body became no event: this one may
            tx.run(_q.replace_body, **message, body_digest=body_digest, now=tx.now)
            return Noted("new", event_id)
        tx.run(_q.conflicting, **message, now=tx.now)
        return Noted("conflicting", event_id)
    tx.run(_q.repeated, **message, now=tx.now)
    return Noted("repeated", event_id)


def _keyed(tx: Tx, workspace_id: str, content_digest: str) -> str:
    """Return a digest as it is stored. It outlives its event, and so does the key of the audit log."""
    return tx.keyed(workspace_id, f"audit:{workspace_id}", content_digest)


def find(tx: Tx, workspace_id: str, event_id: str) -> HookDelivery | None:
    """Return a message, or None."""
    row = tx.one(_q.find, workspace_id=workspace_id, event_id=event_id)
    return None if row is None else from_row(row, HookDelivery)


def drop_old(tx: Tx, workspace_id: str) -> int:
    """Delete what is older than KEPT_DAYS; return the number of rows, of which a step has a bound."""
    before = tx.now - KEPT_DAYS * _DAY_MS
    messages = tx.all(_q.old, workspace_id=workspace_id, before=before, limit=STEP_ROWS)
    for row in messages:
        tx.run(_q.delete, workspace_id=workspace_id, event_id=row["event_id"])
    signed = tx.all(_q.old_signed, workspace_id=workspace_id, before=before, limit=STEP_ROWS)
    for row in signed:
        tx.run(
            _q.delete_signed,
            workspace_id=workspace_id,
            hook=row["hook"],
            signed_digest=row["signed_digest"],
        )
    return len(messages) + len(signed)
