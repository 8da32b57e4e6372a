"""Channels: how their connections stand, and the outbox of what is sent through them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from hostler.domain.channels import ChannelEntry
from hostler.domain.epoch import seconds
from hostler.domain.same_fields import with_fields_of
from hostler.http.endpoint import endpoint
from hostler.http.pagination import PageQuery, list_cursors, listing
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Listing
from hostler.storage.port import Tx
from hostler.storage.stores import audit, outbox, outbox_upkeep, settings
from hostler.storage.stores import channel_connections as connections
from hostler.storage.stores.channel_connections import Connection
from hostler.storage.stores.channel_entries import CHANNEL, entry_of
from hostler.storage.stores.outbox_rows import Delivery, DeliveryStatus
from hostler.storage.stores.outbox_upkeep import Waiting
from hostler_protocol._base import Strict
from hostler_protocol.channels import ChannelHealth
from hostler_protocol.errors import NotFoundError
from hostler_protocol.ids import split_runner_id


class ChannelRecord(Strict):
    """A channel. `health`: `connecting`, `connected` or `failed`, or null if it was never connected.

    `webhook`: the address at which its platform can call it; null where its plugin takes no calls, or is not
    known yet. `account`: the bot's own id on the platform. `received`, `ignored`: events that were let in and
    left out. `waiting`, `in_doubt`, `failed`: messages in the outbox. Times in UTC epoch seconds.
    """

    name: str
    channel: str
    agent: str | None
    enabled: bool
    health: ChannelHealth | None
    reason: str
    webhook: str | None
    account: str | None
    account_name: str | None
    host_id: str | None
    opened_at: float | None
    last_event_at: float | None
    received: int
    ignored: int
    waiting: int
    in_doubt: int
    failed: int


class OutboxQuery(PageQuery):
    """Filters of the list. Status `failed`: given up; `in_doubt`: nobody knows whether it was sent."""

    status: DeliveryStatus | None = None
    channel: str | None = None
    run_id: str | None = None


class OutboxRecord(Strict):
    """A message of the outbox. `chat_id`, `thread_id`, `reply_to` and `message_id` are the platform's ids.

    `due_at`: when the host works on it next; null: it does no more. `maybe_twice`: it was sent again although
    the platform may have had it. `error`: why the last try failed. Of a platform action `action` is its name,
    with its target and payload in `arguments`, and what the platform answered in `result`. Times in UTC epoch
    seconds.
    """

    id: str
    channel: str
    status: DeliveryStatus
    attempts: int
    due_at: float | None
    error: str | None
    maybe_twice: bool
    chat_id: str
    thread_id: str | None
    reply_to: str | None
    text: str
    files: list[str]
    action: str | None
    arguments: dict[str, Any] | None
    result: Any
    message_id: str | None
    conversation_id: str | None
    run_id: str | None
    created_at: float
    settled_at: float | None


@endpoint("GET", "/v1/channels", right="plugins:read", tag="channels")
async def list_channels(request: ApiRequest, query: PageQuery) -> Listing[ChannelRecord]:
    """List the configured channels, by name, and how their connections stand."""
    ws = request.workspace_id
    cursors = list_cursors(request.state.host.cursors, "channels", ws, query)
    after = "" if query.cursor is None else cursors.read_text(query.cursor)

    def read(tx: Tx) -> list[ChannelRecord]:
        names = [one.name for one in settings.page(tx, ws, CHANNEL, after=after, limit=query.size + 1)]
        waiting = outbox_upkeep.counts(tx, ws)
        found = (_record(tx, ws, name, waiting) for name in names)
        return [one for one in found if one is not None]

    rows = [_addressed(request, one) for one in await request.state.host.db.read(read)]
    return listing(rows, query.size, lambda row: row, lambda row: row.name, cursors)


@endpoint("GET", "/v1/channels/{channel}", right="plugins:read", tag="channels")
async def get_channel(request: ApiRequest) -> ChannelRecord:
    """Return a channel."""
    return _addressed(request, await request.state.host.db.read(lambda tx: _get(tx, request)))


@endpoint("POST", "/v1/channels/{channel}/restart", right="installation", tag="channels")
async def restart_channel(request: ApiRequest) -> ChannelRecord:
    """Close a channel's connection and open it again, on whichever host it is."""

    def restart(tx: Tx) -> ChannelRecord:
        found = _get(tx, request)
        connections.request_restart(tx, request.workspace_id, found.name)
        audit.record(tx, request.workspace_id, request.caller.subject, "channel.restarted", found.name, {})
        return found

    return _addressed(request, await request.state.host.db.write(restart))


@endpoint("GET", "/v1/outbox", right="admin", tag="channels")
async def list_outbox(request: ApiRequest, query: OutboxQuery) -> Listing[OutboxRecord]:
    """List the messages that are sent through channels, newest first."""
    cursors = list_cursors(request.state.host.cursors, "outbox", request.workspace_id, query)
    before = None if query.cursor is None else cursors.read_place(query.cursor)
    rows = await request.state.host.db.read(
        lambda tx: outbox.page(
            tx,
            request.workspace_id,
            status=query.status,
            channel=query.channel,
            run_id=query.run_id,
            before=before,
            limit=query.size + 1,
        )
    )
    return listing(rows, query.size, outbox_record, lambda one: [one.created_at, one.delivery_id], cursors)


@endpoint("GET", "/v1/outbox/{delivery_id}", right="admin", tag="channels")
async def get_message(request: ApiRequest) -> OutboxRecord:
    """Return a message of the outbox."""
    delivery_id = request.parameters["delivery_id"]
    return outbox_record(
        await request.state.host.db.read(lambda tx: outbox.get(tx, request.workspace_id, delivery_id))
    )


@endpoint("POST", "/v1/outbox/{delivery_id}/resend", right="admin", tag="channels")
async def resend_message(request: ApiRequest) -> OutboxRecord:
    """Send a message again that was given up, is in doubt or was sent; one that waits stays as it is."""
    delivery_id = request.parameters["delivery_id"]

    def resend(tx: Tx) -> Delivery:
        found = outbox.resend(tx, request.workspace_id, delivery_id)
        audit.record(tx, request.workspace_id, request.caller.subject, "outbox.resent", delivery_id, {})
        return found

    found = await request.state.host.db.write(resend)
    request.state.host.channels.wake_outbox()
    return outbox_record(found)


@endpoint("DELETE", "/v1/outbox/{delivery_id}", right="admin", tag="channels")
async def drop_message(request: ApiRequest) -> Empty:
    """Remove a message from the outbox: it is sent no more. 409 while it is being sent."""
    delivery_id = request.parameters["delivery_id"]

    def drop(tx: Tx) -> None:
        found = outbox.drop(tx, request.workspace_id, delivery_id)
        body = {"status": found.status, "run_id": found.run_id}
        audit.record(tx, request.workspace_id, request.caller.subject, "outbox.dropped", delivery_id, body)

    await request.state.host.db.write(drop)
    return Empty()


def outbox_record(delivery: Delivery) -> OutboxRecord:
    """Return a message as the API shows it."""
    target, message = delivery.outbound.target, delivery.outbound.message
    return with_fields_of(
        delivery,
        OutboxRecord,
        id=delivery.delivery_id,
        due_at=seconds(delivery.due_at),
        chat_id=target.chat_id,
        thread_id=target.thread_id,
        reply_to=target.reply_to,
        text=message.text,
        action=None if (action := delivery.outbound.action) is None else action.name,
        arguments=None if action is None else action.arguments,
        result=delivery.result,
        files=[ref.artifact_id for ref in message.attachments],
        created_at=delivery.created_at / 1000,
        settled_at=seconds(delivery.settled_at),
    )


def _get(tx: Tx, request: ApiRequest) -> ChannelRecord:
    name = request.parameters["channel"]
    found = _record(tx, request.workspace_id, name, outbox_upkeep.counts(tx, request.workspace_id))
    if found is None:
        raise NotFoundError(f"there is no channel {name!r:.100}")
    return found


def _addressed(request: ApiRequest, record: ChannelRecord) -> ChannelRecord:
    """Add the address at which the platform can call the channel, if its plugin takes calls."""
    plugin_key, name = split_runner_id(record.channel)
    manifest = request.state.host.supervisor.catalog.channels_of(plugin_key).get(name)
    if manifest is None or not manifest.abilities.webhook:
        return record
    address = f"{request.base}/v1/channels/{quote(record.name)}/webhook"
    return msgspec.structs.replace(record, webhook=address)


def _record(tx: Tx, ws: str, name: str, waiting: list[Waiting]) -> ChannelRecord | None:
    """Return a channel; None if there is none, or its entry cannot be read, which the configuration says."""
    entry = entry_of(tx, ws, name)
    return None if entry is None else _shown(entry, connections.find(tx, ws, name), waiting)


def _shown(entry: ChannelEntry, found: Connection | None, waiting: list[Waiting]) -> ChannelRecord:
    def count(*statuses: DeliveryStatus) -> int:
        return sum(one.number for one in waiting if one.channel == entry.name and one.status in statuses)

    record = ChannelRecord(
        name=entry.name,
        channel=entry.channel,
        agent=entry.agent,
        enabled=entry.enabled,
        health=None,
        reason="",
        webhook=None,
        account=None,
        account_name=None,
        host_id=None,
        opened_at=None,
        last_event_at=None,
        received=0,
        ignored=0,
        waiting=count("pending", "sending"),
        in_doubt=count("in_doubt"),
        failed=count("failed"),
    )
    if found is None:
        return record
    return msgspec.structs.replace(
        record,
        health=found.health if entry.enabled else None,
        reason=found.reason,
        account=None if found.account is None else found.account.person_id,
        account_name=None if found.account is None else found.account.name,
        host_id=found.host_id if found.lease_until else None,
        opened_at=seconds(found.opened_at),
        last_event_at=seconds(found.last_event_at),
        received=found.received,
        ignored=found.ignored,
    )
