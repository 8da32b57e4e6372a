"""The outbox: messages to be sent through channels, one row each, in order per chat.

A row is written in the transaction of what is said. Whoever sends it claims it first, durably, under a lease
that is longer than a try: a lease that has ended without an outcome means that nobody knows whether the
platform has got the message. Such a row is in doubt, and settled as the channel allows.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores.erasure import STEP_ROWS
from hostler.storage.stores.filters import NEWEST
from hostler.storage.stores.outbox_rows import (
    Claimed,
    Delivery,
    DeliveryStatus,
    Head,
    NewDelivery,
    Step,
    delivery_of,
)
from hostler_protocol.errors import ConflictError, NotFoundError
from hostler_protocol.ids import new_id
from hostler_protocol.limits import MAX_PAGE_ITEMS

MAX_WAITING_PER_CHAT = 1_000
"""Messages of one chat that wait to be sent; further ones are dead letters at once."""
MAX_ERROR_CHARS = 500
ROWS_KEPT_MS = 30 * 86_400_000
"""How long messages are kept that are settled."""
_TOO_MANY = f"{MAX_WAITING_PER_CHAT:,} messages of this chat wait to be sent: this one was not added to them"
_q = load(__file__)


def add(tx: Tx, workspace_id: str, new: NewDelivery) -> bool:
    """Add a message behind the others of its chat; return False if it was added before.

    If too many of its chat wait, it is stored as failed.
    """
    where = {"workspace_id": workspace_id, "channel": new.channel, "chat": new.chat}
    row = tx.one(_q.last_position, **where)
    last = 0 if row is None or row["position"] is None else int(row["position"])
    counted = tx.one(_q.count_waiting, **where, limit=MAX_WAITING_PER_CHAT)
    full = counted is not None and int(counted["number"]) >= MAX_WAITING_PER_CHAT
    return (
        tx.run(
            _q.insert,
            **where,
            delivery_id=new.delivery_id,
            # by the clock, so that messages of several hosts are about in order, and rising within a run
            position=max(tx.now, last + 1),
            kind="message" if new.outbound.action is None else "action",
            body=msgspec.json.encode(new.outbound).decode(),
            send_key=new.delivery_id,
            status="failed" if full else "pending",
            due_at=None if full else tx.now,
            error=_TOO_MANY if full else None,
            settled_at=tx.now if full else None,
            conversation_id=new.conversation_id,
            event_id=new.event_id,
            run_id=new.run_id,
            result_sequence=new.result_sequence,
            growing=new.growing,
            now=tx.now,
        )
        == 1
    )


def heads(tx: Tx, workspace_id: str, channel: str, *, limit: int) -> list[Head]:
    """Return the first message of each chat of a channel that is due."""
    rows = tx.all(_q.heads, workspace_id=workspace_id, channel=channel, now=tx.now, limit=limit)
    return [Head(row["delivery_id"], row["chat"]) for row in rows]


def claim(
    tx: Tx,
    workspace_id: str,
    head: Head,
    *,
    host_id: str,
    lease_ms: int,
    repeats: bool,
    send_again: bool,
    looks_up: bool = False,
) -> Claimed | None:
    """Claim a message for one step; None if another host has it, or it is not due any more.

    `repeats`: the platform accepts the key of a message once, so that one in doubt is simply sent again.
    `send_again`: the operator has one sent again that may have been sent, and nobody can know; it is marked.
    `looks_up`: the plugin can look whether it was sent.
    """
    row = tx.one(_q.find, workspace_id=workspace_id, delivery_id=head.delivery_id)
    if row is None:
        return None
    before, token = delivery_of(row), new_id()
    if (action := before.outbound.action) is not None and before.outbound.is_act:
        repeats, send_again = action.repeatable, False
    doubted, growing = before.status in {"sending", "in_doubt"}, before.growing
    perhaps = doubted or before.perhaps_sent  # by an earlier try, the last of which surely sent nothing
    if before.outbound.edit is not None or before.edits_itself:  # the same edit once more changes nothing
        repeats, send_again = True, False
    elif growing == 2 and not looks_up and not (repeats and perhaps):
        # the platform has nothing of it, or perhaps a part of it: it gets the whole. One that may have taken
        # a part under the key takes nothing else under that: the part is edited then
        send_again, growing = True, 0
    step: Step = "settle" if doubted and not (repeats or send_again) else "send"
    twice = before.maybe_twice or (doubted and step == "send" and not repeats)
    taken = tx.run(
        _q.claim,
        workspace_id=workspace_id,
        delivery_id=before.delivery_id,
        status="sending" if step == "send" else "in_doubt",
        more=int(step == "send"),
        host_id=host_id,
        token=token,
        lease_until=tx.now + lease_ms,
        sent_at=tx.now,
        maybe_twice=int(twice),
        perhaps_sent=int(perhaps),
        growing=growing,
        now=tx.now,
    )
    if not taken:
        return None
    row = tx.one(_q.find, workspace_id=workspace_id, delivery_id=before.delivery_id)
    return None if row is None else Claimed(delivery_of(row), step, token)


def mark_sent(tx: Tx, claimed: Claimed, message_id: str | None, result: Any = None) -> bool:
    """Record that the platform has the message, or has done the action. False if another host has claimed it
    since."""
    return _settle(tx, claimed, "sent", message_id=message_id, result=result)


def mark_failed(tx: Tx, claimed: Claimed, error: str) -> bool:
    """Record that the message is given up: a dead letter."""
    return _settle(tx, claimed, "failed", error=error)


def mark_pending(
    tx: Tx,
    claimed: Claimed,
    error: str,
    again_in: float,
    *,
    counts: bool = True,
    twice: bool = False,
    doubt: bool = False,
) -> bool:
    """Record that it is sent in `again_in` seconds: the platform has not got it, or perhaps it has (`doubt`).

    `twice`: if it has, it gets it once more. `counts`: this was a try.
    """
    return _settle(
        tx,
        claimed,
        "pending",
        error=error,
        again_in=again_in,
        uncounted=int(not counts and claimed.step == "send"),
        twice=twice,
        doubt=doubt or twice,
    )


def mark_in_doubt(tx: Tx, claimed: Claimed, error: str, again_in: float | None) -> bool:
    """Record that nobody knows whether the platform has it.

    The host tries to find out in `again_in` seconds; None: it is left to the operator.
    """
    return _settle(tx, claimed, "in_doubt", error=error, again_in=again_in, doubt=True)


def release(tx: Tx, workspace_id: str, channel: str, host_id: str) -> int:
    """End the leases that a host had before it was started; return their number."""
    return tx.run(_q.release, workspace_id=workspace_id, channel=channel, host_id=host_id)


def get(tx: Tx, workspace_id: str, delivery_id: str) -> Delivery:
    """Return a message. NotFoundError."""
    row = tx.one(_q.find, workspace_id=workspace_id, delivery_id=delivery_id)
    if row is None:
        raise NotFoundError(f"the outbox has no message {delivery_id!r:.100}")
    return delivery_of(row)


def page(
    tx: Tx,
    workspace_id: str,
    *,
    status: DeliveryStatus | None = None,
    channel: str | None = None,
    run_id: str | None = None,
    before: tuple[int, str] | None = None,
    limit: int = MAX_PAGE_ITEMS,
) -> list[Delivery]:
    """Return messages before (created_at, delivery id), newest first."""
    at, delivery_id = before or (NEWEST, "")
    rows = tx.all(
        _q.page,
        workspace_id=workspace_id,
        status=status,
        channel=channel,
        run_id=run_id,
        before_at=at,
        before_id=delivery_id,
        limit=limit,
    )
    return [delivery_of(row) for row in rows]


def resend(tx: Tx, workspace_id: str, delivery_id: str) -> Delivery:
    """Have a settled message sent again, with all its tries; one that waits stays as it is. NotFoundError."""
    tx.run(_q.resend, workspace_id=workspace_id, delivery_id=delivery_id, now=tx.now)
    return get(tx, workspace_id, delivery_id)


def drop(tx: Tx, workspace_id: str, delivery_id: str) -> Delivery:
    """Delete a message, which is not sent then. NotFoundError; ConflictError while it is being sent."""
    found = get(tx, workspace_id, delivery_id)
    if not tx.run(_q.drop, workspace_id=workspace_id, delivery_id=delivery_id, now=tx.now):
        raise ConflictError(f"message {delivery_id} is being sent right now: ask again")
    return found


def find(tx: Tx, workspace_id: str, delivery_id: str) -> Delivery | None:
    """Return a message, or None."""
    row = tx.one(_q.find, workspace_id=workspace_id, delivery_id=delivery_id)
    return None if row is None else delivery_of(row)


def withdraw(tx: Tx, workspace_id: str, delivery_id: str) -> bool:
    """Delete what waits to be sent or carried out; False if it may have been, or is under way."""
    return tx.run(_q.withdraw, workspace_id=workspace_id, delivery_id=delivery_id, now=tx.now) == 1


def drop_of_run(tx: Tx, workspace_id: str, run_id: str) -> int:
    """Delete the messages of a run on request; return their number."""
    return tx.run(_q.drop_of_run, workspace_id=workspace_id, run_id=run_id)


def drop_of_conversation(tx: Tx, workspace_id: str, conversation_id: str, until: int) -> int:
    """Delete the messages of a conversation on request; return their number."""
    return tx.run(
        _q.drop_of_conversation, workspace_id=workspace_id, conversation_id=conversation_id, until=until
    )


def drop_own_words(tx: Tx, workspace_id: str, conversation_id: str) -> int:
    """Delete on request what the host itself said in a conversation; return the number."""
    return tx.run(_q.drop_own_words, workspace_id=workspace_id, conversation_id=conversation_id)


def drop_old(tx: Tx, workspace_id: str, kept_ms: int = ROWS_KEPT_MS) -> int:
    """Delete the next settled messages older than `kept_ms`, at most a month; return their number."""
    before = tx.now - min(kept_ms, ROWS_KEPT_MS)
    rows = tx.all(_q.old, workspace_id=workspace_id, before=before, limit=STEP_ROWS)
    return sum(
        tx.run(_q.drop, workspace_id=workspace_id, delivery_id=row["delivery_id"], now=tx.now) for row in rows
    )


def _settle(
    tx: Tx,
    claimed: Claimed,
    status: DeliveryStatus,
    *,
    error: str | None = None,
    message_id: str | None = None,
    again_in: float | None = None,
    uncounted: int = 0,
    twice: bool = False,
    doubt: bool = False,
    result: Any = None,
) -> bool:
    before = claimed.delivery
    # of a text that grew and was sent in doubt nobody knows which version the platform has
    surely = before.edits_itself or not before.perhaps_sent
    settled = tx.run(
        _q.settle,
        shown=before.version if surely else -1,
        claimed=before.version,
        now=tx.now,
        workspace_id=claimed.delivery.workspace_id,
        delivery_id=claimed.delivery.delivery_id,
        token=claimed.token,
        status=status,
        due_at=None if again_in is None else tx.now + int(again_in * 1000),
        uncounted=uncounted,
        twice=int(twice),
        doubt=int(doubt),
        error=None if error is None else error[:MAX_ERROR_CHARS],
        message_id=message_id,
        result=None if result is None else msgspec.json.encode(result).decode(),
        settled_at=tx.now if again_in is None else None,
    )
    return settled == 1
