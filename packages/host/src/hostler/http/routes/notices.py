"""Notices: the inbox of pauses, and deliveries to webhooks."""

from __future__ import annotations

from hostler.domain.epoch import seconds
from hostler.domain.same_fields import with_fields_of
from hostler.http.endpoint import endpoint
from hostler.http.pagination import PageQuery, list_cursors, listing
from hostler.http.request import ApiRequest
from hostler.http.responses import Listing
from hostler.storage.port import Tx
from hostler.storage.stores import audit, notices
from hostler.storage.stores.notices import DeliveryStatus, Notice, WebhookDelivery
from hostler_protocol._base import Strict
from hostler_protocol.errors import NotFoundError

MAX_PAGES_READ = 5
"""Pages of notices read to fill one page of the inbox with those that the caller may see."""


class InboxEntry(Strict):
    """One notice. `waiting`: the caller may decide a call of the pause now. `at`: UTC epoch seconds."""

    id: str
    event: str
    at: float
    pause_id: str
    run_id: str
    conversation_id: str | None
    title: str
    status: str
    waiting: bool


class DeliveriesQuery(PageQuery):
    """Filters of the list. Status `dead`: given up after the last try."""

    status: DeliveryStatus | None = None
    webhook: str | None = None


class DeliveryRecord(Strict):
    """The delivery of a notice to a webhook. `http_status` and `error` are of the last try.

    Where its turn did not come for three days, `error` says that.
    """

    id: str
    notice_id: str
    webhook: str
    event: str
    status: DeliveryStatus
    attempts: int
    next_at: float | None
    http_status: int | None
    error: str | None
    created_at: float
    settled_at: float | None


@endpoint("GET", "/v1/inbox", right="pauses:read", tag="pauses")
async def list_inbox(request: ApiRequest, query: PageQuery) -> Listing[InboxEntry]:
    """List the notices of pauses that the caller may see, newest first.

    Notices of pauses that retention has removed are left out. A page may be short although more follow.
    """
    host = request.state.host
    cursors = list_cursors(host.cursors, "inbox", request.workspace_id, query)
    before = None if query.cursor is None else cursors.read_place(query.cursor)
    more = True
    entries: list[InboxEntry] = []
    by_pause: dict[str, InboxEntry | None] = {}
    for _ in range(MAX_PAGES_READ):
        rows = await _page(request, before, query.size - len(entries) + 1)
        more = len(rows) > query.size - len(entries)
        rows = rows[: query.size - len(entries)]
        for row in rows:
            entry = await _entry(request, row, by_pause)
            if entry is not None:
                entries.append(entry)
        before = (rows[-1].created_at, rows[-1].notice_id) if rows else before
        if not more or len(entries) >= query.size:
            break
    cursor = cursors.issue(list(before)) if more and before is not None else None
    return Listing(items=entries, next_cursor=cursor, has_more=cursor is not None)


@endpoint("GET", "/v1/webhooks/deliveries", right="admin", tag="webhooks")
async def list_deliveries(request: ApiRequest, query: DeliveriesQuery) -> Listing[DeliveryRecord]:
    """List the deliveries to webhooks, newest first; `status=dead` lists those given up."""
    cursors = list_cursors(request.state.host.cursors, "deliveries", request.workspace_id, query)
    before = None if query.cursor is None else cursors.read_place(query.cursor)
    rows = await request.state.host.db.read(
        lambda tx: notices.deliveries(
            tx,
            request.workspace_id,
            status=query.status,
            webhook=query.webhook,
            before=before,
            limit=query.size + 1,
        )
    )
    return listing(rows, query.size, delivery_record, lambda d: [d.created_at, d.delivery_id], cursors)


@endpoint("POST", "/v1/webhooks/deliveries/{delivery_id}/resend", right="admin", tag="webhooks")
async def resend_delivery(request: ApiRequest) -> DeliveryRecord:
    """Send a delivery again that succeeded or was given up, with as many tries as at first."""
    delivery_id = request.parameters["delivery_id"]

    def resend(tx: Tx) -> WebhookDelivery:
        delivery = notices.send_again(tx, request.workspace_id, delivery_id)
        audit.record(tx, request.workspace_id, request.caller.subject, "webhook.resent", delivery_id, {})
        return delivery

    delivery = await request.state.host.db.write(resend)
    request.state.host.webhook_sender.wake()
    return delivery_record(delivery)


def delivery_record(delivery: WebhookDelivery) -> DeliveryRecord:
    """Return a delivery as the API shows it."""
    return with_fields_of(
        delivery,
        DeliveryRecord,
        id=delivery.delivery_id,
        next_at=delivery.next_at / 1000 if delivery.status == "pending" else None,
        created_at=delivery.created_at / 1000,
        settled_at=seconds(delivery.settled_at),
    )


async def _page(request: ApiRequest, before: tuple[int, str] | None, limit: int) -> list[Notice]:
    return await request.state.host.db.read(
        lambda tx: notices.page(tx, request.workspace_id, before=before, limit=limit)
    )


async def _entry(
    request: ApiRequest, row: Notice, by_pause: dict[str, InboxEntry | None]
) -> InboxEntry | None:
    """Return the notice as the caller sees it; None if the caller may not see its pause."""
    if row.pause_id not in by_pause:
        by_pause[row.pause_id] = await _of_pause(request, row)
    entry = by_pause[row.pause_id]
    if entry is None:
        return None
    return InboxEntry(
        id=row.notice_id,
        event=row.event,
        at=row.created_at / 1000,
        pause_id=row.pause_id,
        run_id=row.run_id,
        conversation_id=row.conversation_id,
        title=entry.title,
        status=entry.status,
        waiting=entry.waiting,
    )


async def _of_pause(request: ApiRequest, row: Notice) -> InboxEntry | None:
    try:
        pause = await request.state.host.pauses.get(request.caller, row.pause_id)
    except NotFoundError:
        return None
    titles = [call.title or call.tool or call.kind for call in pause.calls]
    more = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
    return InboxEntry(
        id="",
        event="",
        at=0.0,
        pause_id=pause.id,
        run_id=pause.run_id,
        conversation_id=pause.conversation_id,
        title=f"{titles[0]}{more}" if titles else "",
        status=pause.status,
        waiting=any(call.may_decide for call in pause.calls),
    )
