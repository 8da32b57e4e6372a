"""Notices of pauses and of ends of runs: the inbox, and deliveries to webhooks.

The inbox has those of pauses alone: the end of a run is noted where a webhook wants it, and for webhooks.
"""

from __future__ import annotations

import contextlib
from typing import Any, Literal

import msgspec

from hostler.domain.epoch import seconds
from hostler.domain.pause_values import Pause, nobody_was_asked
from hostler.domain.pauses import MAX_CALLS, ROWS_KEPT_SECONDS, PauseStatus
from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.domain.webhooks import (
    MAX_WEBHOOKS,
    NoticeEvent,
    PauseEvent,
    RunEvent,
    Webhook,
    event_of,
    event_of_end,
)
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import pause_calls, settings
from hostler.storage.stores.erasure import STEP_ROWS
from hostler.storage.stores.filters import NEWEST
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.ids import new_id
from hostler_protocol.limits import MAX_PAGE_ITEMS

DeliveryStatus = Literal["pending", "delivered", "dead"]
WEBHOOK = "webhook"
"""The kind of setting under which a webhook is stored."""
MAX_ERROR_CHARS = 500
MAX_DUE = 100
OVERDUE_DAYS = 3
"""How long a delivery waits for its turn: a receiver may be told of more than it takes, for ever."""

_DAY_MS = 86_400_000
_q = load(__file__)
_objects = msgspec.json.Decoder(dict[str, Any])


class Notice(Record, kw_only=True):
    """An entry of the inbox. Times are UTC epoch milliseconds."""

    workspace_id: str
    notice_id: str
    event: PauseEvent
    pause_id: str
    run_id: str
    conversation_id: str | None
    body: dict[str, Any]
    created_at: int


class WebhookDelivery(Record, kw_only=True):
    """A notice for one webhook: pending, delivered, or given up (`dead`)."""

    workspace_id: str
    delivery_id: str
    notice_id: str
    webhook: str
    event: NoticeEvent
    status: DeliveryStatus
    attempts: int
    next_at: int
    http_status: int | None
    error: str | None
    created_at: int
    settled_at: int | None


class ClaimedDelivery(Record):
    """A delivery that one host tries under `token`, and the body to send."""

    delivery: WebhookDelivery
    token: str
    body: dict[str, Any]


class DueWebhook(Record):
    """A webhook with a due delivery."""

    workspace_id: str
    webhook: str


def of_pause(
    tx: Tx, pause: Pause, *, before: PauseStatus | None, extended: bool = False
) -> PauseEvent | None:
    """Record a change of a pause: an entry of the inbox, and a delivery for each webhook that wants it.

    `extended`: calls were added and the status did not change. Return None if the change makes no notice, or
    if no person was asked.
    """
    event: PauseEvent | None = "pause.extended" if extended else event_of(before, pause.status)
    if event is None or nobody_was_asked(pause_calls.of_pause(tx, pause)):
        return None
    receivers = _receivers(tx, pause.workspace_id, event)
    _insert(tx, pause, event, {"pause": _of_pause(tx, pause)}, receivers, pause_id=pause.pause_id)
    return event


def of_ended_run(tx: Tx, run: Run) -> RunEvent | None:
    """Record the end of a run: a delivery for each webhook that wants it. Return None if none does."""
    event = event_of_end(run.status)
    if not (receivers := _receivers(tx, run.workspace_id, event)):
        return None
    _insert(tx, run, event, {"run": _of_run(run)}, receivers)
    return event


def _receivers(tx: Tx, workspace_id: str, event: NoticeEvent) -> list[Webhook]:
    return [hook for hook in webhooks(tx, workspace_id) if hook.wants(event)]


def _insert(
    tx: Tx,
    of: Pause | Run,
    event: NoticeEvent,
    facts: dict[str, Any],
    receivers: list[Webhook],
    *,
    pause_id: str | None = None,
) -> None:
    """Store a notice, whose body has `facts`, with a delivery for each receiver."""
    notice_id, ws = new_id(), of.workspace_id
    body = {"event": event, "id": notice_id, "at": tx.now / 1000, "workspace_id": ws, **facts}
    tx.run(
        _q.insert,
        workspace_id=ws,
        notice_id=notice_id,
        event=event,
        pause_id=pause_id,
        run_id=of.run_id,
        conversation_id=of.conversation_id,
        body=msgspec.json.encode(body).decode(),
        now=tx.now,
    )
    tx.run_many(
        _q.insert_delivery,
        [
            {
                "workspace_id": ws,
                "delivery_id": new_id(),
                "notice_id": notice_id,
                "webhook": hook.name,
                "event": event,
                "now": tx.now,
            }
            for hook in receivers
        ],
    )


def webhooks(tx: Tx, workspace_id: str) -> list[Webhook]:
    """Return the webhooks of a workspace.

    One that cannot be read is left out: the configuration reports it.
    """
    hooks: list[Webhook] = []
    for setting in settings.page(tx, workspace_id, WEBHOOK, limit=MAX_WEBHOOKS):
        with contextlib.suppress(msgspec.ValidationError, InvalidArgumentError):
            hooks.append(msgspec.convert(setting.spec, Webhook))
    return hooks


def page(
    tx: Tx, workspace_id: str, *, before: tuple[int, str] | None = None, limit: int = MAX_PAGE_ITEMS
) -> list[Notice]:
    """Return notices of pauses before (created_at, notice id), newest first."""
    at, notice_id = before or (NEWEST, "")
    rows = tx.all(_q.page, workspace_id=workspace_id, before_at=at, before_id=notice_id, limit=limit)
    return [_notice(row) for row in rows]


def due(tx: Tx) -> list[DueWebhook]:
    """Return webhooks with a due delivery, of all workspaces, at most 100."""
    rows = tx.all(_q.due, now=tx.now, limit=MAX_DUE)
    return [DueWebhook(row["workspace_id"], row["webhook"]) for row in rows]


def seconds_to_next(tx: Tx) -> float | None:
    """Return the seconds until the next delivery becomes due; None if none will."""
    row = tx.one(_q.next_due, now=tx.now)
    return None if row is None or row["at"] is None else max(0.0, (row["at"] - tx.now) / 1000)


def claim(tx: Tx, receiver: DueWebhook, lease_ms: int) -> ClaimedDelivery | None:
    """Claim the next delivery of a webhook for one try; None if none is due or another host has it.

    A try counts from its beginning, so that one that kills its host counts too.
    """
    names = {"workspace_id": receiver.workspace_id}
    row = tx.one(_q.first_due, **names, webhook=receiver.webhook, now=tx.now)
    if row is None:
        return None
    delivery, token = _delivery(row), new_id()
    taken = tx.run(
        _q.claim,
        **names,
        delivery_id=delivery.delivery_id,
        token=token,
        lease_until=tx.now + lease_ms,
        attempts=delivery.attempts,
        now=tx.now,
    )
    if not taken:
        return None
    claimed = _delivery({**row, "attempts": delivery.attempts + 1})
    return ClaimedDelivery(claimed, token, _objects.decode(row["body"]))


def mark_delivered(tx: Tx, claimed: ClaimedDelivery, http_status: int) -> bool:
    """Mark a delivery as delivered; return False if the lease has expired and another host has claimed it."""
    return _settle(tx, claimed, "delivered", http_status=http_status)


def mark_failed(
    tx: Tx, claimed: ClaimedDelivery, *, http_status: int | None, error: str, again_in: float | None
) -> bool:
    """Record a failed try. The next one is in `again_in` seconds; None means the delivery is dead."""
    status: DeliveryStatus = "dead" if again_in is None else "pending"
    next_at = tx.now + int((again_in or 0.0) * 1000)
    return _settle(
        tx, claimed, status, http_status=http_status, error=error[:MAX_ERROR_CHARS], next_at=next_at
    )


def deliveries(
    tx: Tx,
    workspace_id: str,
    *,
    status: DeliveryStatus | None = None,
    webhook: str | None = None,
    before: tuple[int, str] | None = None,
    limit: int = MAX_PAGE_ITEMS,
) -> list[WebhookDelivery]:
    """Return deliveries before (created_at, delivery id), newest first."""
    at, delivery_id = before or (NEWEST, "")
    rows = tx.all(
        _q.deliveries,
        workspace_id=workspace_id,
        status=status,
        webhook=webhook,
        before_at=at,
        before_id=delivery_id,
        limit=limit,
    )
    return [_delivery(row) for row in rows]


def send_again(tx: Tx, workspace_id: str, delivery_id: str) -> WebhookDelivery:
    """Make a finished delivery pending again, with all its tries; a pending one stays. NotFoundError."""
    names = {"workspace_id": workspace_id, "delivery_id": delivery_id}
    tx.run(_q.send_again, **names, now=tx.now)
    row = tx.one(_q.find_delivery, **names)
    if row is None:
        raise NotFoundError(f"there is no delivery {delivery_id!r}")
    return _delivery(row)


def drop_of_run(tx: Tx, workspace_id: str, run_id: str) -> int:
    """Delete the notices of a run and its pauses on request, with their deliveries; return their number."""
    tx.run(_q.drop_deliveries_of_run, workspace_id=workspace_id, run_id=run_id)
    return tx.run(_q.drop_notices_of_run, workspace_id=workspace_id, run_id=run_id)


def give_up_overdue(tx: Tx) -> int:
    """Give up the next deliveries whose turn did not come for OVERDUE_DAYS, of all workspaces.

    Return their number.
    """
    times = {"before": tx.now - OVERDUE_DAYS * _DAY_MS, "now": tx.now}
    rows = tx.all(_q.overdue, **times, limit=STEP_ROWS)
    error = f"its turn did not come for {OVERDUE_DAYS} days: the receiver is too slow, or no host ran"
    for row in rows:
        tx.run(_q.give_up, **row, **times, error=error)
    return len(rows)


def drop_old(tx: Tx, workspace_id: str) -> int:
    """Delete the next notices older than pauses are kept, and deliveries that are over.

    Return the number of rows, of which a step has a bound.
    """
    names, before = {"workspace_id": workspace_id}, tx.now - ROWS_KEPT_SECONDS * 1000
    over = tx.all(_q.old_deliveries, **names, before=before, limit=STEP_ROWS)
    for row in over:
        tx.run(_q.drop_delivery, **names, delivery_id=row["delivery_id"])
    told = tx.all(_q.old_notices, **names, before=before, limit=STEP_ROWS)
    for row in told:
        tx.run(_q.drop_notice, **names, notice_id=row["notice_id"])
    return len(over) + len(told)


def _settle(
    tx: Tx,
    claimed: ClaimedDelivery,
    status: DeliveryStatus,
    *,
    http_status: int | None,
    error: str | None = None,
    next_at: int = 0,
) -> bool:
    settled = tx.run(
        _q.settle,
        workspace_id=claimed.delivery.workspace_id,
        delivery_id=claimed.delivery.delivery_id,
        token=claimed.token,
        status=status,
        http_status=http_status,
        error=error,
        next_at=next_at,
        settled_at=None if status == "pending" else tx.now,
    )
    return settled == 1


def _of_pause(tx: Tx, pause: Pause) -> dict[str, Any]:
    """Build the body: ids and states only, since its readers may not be allowed to see the questions."""
    names = {"workspace_id": pause.workspace_id, "pause_id": pause.pause_id}
    calls = tx.all(_q.calls, **names, limit=MAX_CALLS)
    return {
        "id": pause.pause_id,
        "run_id": pause.run_id,
        "conversation_id": pause.conversation_id,
        "segment": pause.segment,
        "revision": pause.revision,
        "status": pause.status,
        "expires_at": seconds(pause.expires_at),
        "url": f"/v1/pauses/{pause.pause_id}",
        "calls": [dict(call) for call in calls],
    }


def _of_run(run: Run) -> dict[str, Any]:
    """Build the body as `/v1/runs` names its fields, without what was said, and without the error's text."""
    return {
        "id": run.run_id,
        "agent": run.agent_name,
        "agent_version": run.agent_version,
        "event_id": run.event_id,
        "conversation_id": run.conversation_id,
        "parent_run_id": run.parent_run_id,
        "status": run.status,
        "status_code": run.status_code,
        "attempt": run.attempt,
        "created_at": seconds(run.created_at),
        "started_at": seconds(run.started_at),
        "finished_at": seconds(run.finished_at),
        "usage": run.usage,
        "cost": None if run.cost is None else float(run.cost),
        "url": f"/v1/runs/{run.run_id}",
    }


def _notice(row: Row) -> Notice:
    return from_row(row, Notice, body=_objects.decode(row["body"]))


def _delivery(row: Row) -> WebhookDelivery:
    return from_row(row, WebhookDelivery)
