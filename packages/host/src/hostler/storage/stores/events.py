"""The event log: append-only, one row per (workspace, event id), hash-chained."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from hostler.domain.events import Event
from hostler.domain.record import Record
from hostler.domain.same_fields import from_row, with_fields_of
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import hash_chain, timeline
from hostler.storage.stores.filters import ANY, NEWEST, AnyOr
from hostler_protocol.content import text_of
from hostler_protocol.events import EventEnvelope
from hostler_protocol.ids import digest
from hostler_protocol.limits import MAX_INPUT_SUMMARY_CHARS, MAX_PAGE_ITEMS

Outcome = Literal["started", "steered", "queued", "rejected", "unrouted", "conflict", "deferred", "failed"]
"""`deferred`: filters could not be evaluated and are retried; `failed`: the retries failed too."""
UNSETTLED: frozenset[Outcome] = frozenset({"deferred", "failed"})
"""Outcomes of events that were neither routed nor found to have no agent."""

_q = load(__file__)
_envelopes = msgspec.json.Decoder(EventEnvelope)
_objects = msgspec.json.Decoder(dict[str, Any])
_names = msgspec.json.Decoder(tuple[str, ...])


class StoredEvent(msgspec.Struct, frozen=True):
    """A row of the log. Times are UTC epoch milliseconds.

    `seq` is 0 only inside the transaction that stored the event. `envelope` is None if the content was
    deleted.
    """

    workspace_id: str
    event_id: str
    seq: int
    envelope: EventEnvelope | None
    request_digest: str
    event_type: str
    source: str
    bot_id: str | None
    conversation_id: str | None
    thread_id: str | None
    actor_type: str | None
    actor_id: str | None
    actor_name: str | None
    subject_type: str | None
    subject_id: str | None
    input_summary: str
    content_redacted: bool
    requester: str | None
    requester_roles: tuple[str, ...]
    outcome: Outcome
    run_id: str | None
    routing: dict[str, Any]
    steering: dict[str, Any] | None
    event_time: int | None
    created_at: int

    def event(self) -> Event | None:
        """Return the event as it was accepted; None if its content was deleted."""
        if self.envelope is None:
            return None
        return with_fields_of(self, Event)


class Inserted(msgspec.Struct, frozen=True):
    """The event is new; it gets its sequence at the end of the transaction."""


class Duplicate(Record):
    """The id is known. `same_body` is False if the stored event is another one, which is a conflict."""

    record: StoredEvent
    same_body: bool


def insert(
    tx: Tx,
    event: Event,
    outcome: Outcome,
    run_id: str | None,
    routing: dict[str, Any],
    *,
    agent_name: str | None = None,
) -> Inserted | Duplicate:
    """Store `event` unless its workspace has an event with this id. `agent_name`: who receives it."""
    content = _content_of(event)
    row_digest = tx.keyed(
        event.workspace_id, f"event:{event.event_id}", digest(content), event.envelope.conversation_id
    )
    event_id, *columns, event_time, created_at = content
    roles = _json(event.requester_roles) if event.requester_roles else None
    result = (roles, outcome, run_id, _json(routing))
    row = (event.workspace_id, event_id, row_digest, *columns, *result, event_time, created_at)
    if not tx.run(_q.insert, *row):
        known = find(tx, event.workspace_id, event.event_id)
        if known is None:
            raise RuntimeError(f"event {event.event_id} is neither new nor known")
        # where content is sealed, the digest of an event goes with its content
        is_gone = known.envelope is None and not known.request_digest
        return Duplicate(known, is_gone or known.request_digest == event.request_digest)
    hash_chain.append(tx, event.workspace_id, "events", event.event_id, row_digest)
    place = event.envelope.conversation_id, event.envelope.bot_id
    timeline.add_event(tx, event.workspace_id, event.event_id, *place, agent_name)
    return Inserted()


def set_outcome(  # noqa: PLR0917  one row's columns, in their order
    tx: Tx, workspace_id: str, event_id: str, outcome: Outcome, run_id: str | None, routing: dict[str, Any]
) -> None:
    """Change the outcome of an event; it is not part of the hash chain."""
    tx.run(
        _q.set_outcome,
        workspace_id=workspace_id,
        event_id=event_id,
        outcome=outcome,
        run_id=run_id,
        routing=_json(routing),
    )


def take_unsettled(tx: Tx, workspace_id: str, event_id: str) -> bool:
    """Lock a `deferred` or `failed` event, to route it in this transaction; return False if it is neither."""
    return tx.run(_q.take_unsettled, workspace_id=workspace_id, event_id=event_id) == 1


def set_steering(tx: Tx, workspace_id: str, event_id: str, steering: dict[str, Any] | None) -> None:
    """Change the steering status of an event; it is not part of the hash chain."""
    tx.run(
        _q.set_steering,
        workspace_id=workspace_id,
        event_id=event_id,
        steering=None if steering is None else _json(steering),
    )


def find(tx: Tx, workspace_id: str, event_id: str) -> StoredEvent | None:
    """Return the event with this id, or None."""
    row = tx.one(_q.find, workspace_id=workspace_id, event_id=event_id)
    return None if row is None else stored(row)


def latest_beginning(tx: Tx, workspace_id: str, beginning: str, *, since: int) -> StoredEvent | None:
    """Return the event with the greatest id that begins with a text of ASCII, not older than `since`.

    `since` in UTC epoch milliseconds. Ids that end with one of `new_id` are in the order of their time.
    """
    beyond = f"{beginning}\x7f"
    row = tx.one(
        _q.latest_beginning, workspace_id=workspace_id, beginning=beginning, beyond=beyond, since=since
    )
    return None if row is None else stored(row)


def latest_seq(tx: Tx, workspace_id: str) -> int:
    """Return the last sequence of the workspace; 0 if it has no events."""
    row = tx.one(_q.latest_seq, workspace_id=workspace_id)
    return 0 if row is None else int(row["seq"])


def page(
    tx: Tx,
    workspace_id: str,
    *,
    conversation_id: AnyOr = ANY,
    thread_id: AnyOr = ANY,
    event_types: Iterable[str] | None = None,
    outcome: str | None = None,
    requester: str | None = None,
    before_seq: int | None = None,
    limit: int = MAX_PAGE_ITEMS,
) -> list[StoredEvent]:
    """Return events before `before_seq` (None: from the newest), newest first, at most `limit`."""
    query = _q.page
    params: dict[str, Any] = {
        "workspace_id": workspace_id,
        "before_seq": NEWEST if before_seq is None else before_seq,
        "any_thread": int(thread_id is ANY),
        "thread_id": None if thread_id is ANY else thread_id,
        "event_types": None if event_types is None else _json(list(event_types)),
        "outcome": outcome,
        "limit": limit,
    }
    if conversation_id is not ANY:
        query = _q.page_conversation
        params |= {"conversation_id": conversation_id, "requester": requester}
    elif requester is not None:
        query = _q.page_requester
        params["requester"] = requester
    return [stored(row) for row in tx.all(query, **params)]


def _content_of(event: Event) -> tuple[Any, ...]:
    """Return the columns that never change, in the order of `hash_chain.EVENT_FIELDS` and of `insert`."""
    envelope, actor, subject = event.envelope, event.envelope.actor, event.envelope.subject
    return (
        event.event_id,
        event.request_digest,
        envelope.event_type,
        envelope.source,
        envelope.bot_id,
        envelope.conversation_id,
        envelope.thread_id,
        actor and actor.actor_type,
        actor and actor.actor_id,
        actor and actor.actor_name and actor.actor_name.replace("\x00", ""),
        subject and subject.subject_type,
        subject and subject.subject_id,
        _summary(envelope),
        _json(envelope),
        int(event.content_redacted),
        event.requester,
        None if envelope.event_time is None else round(envelope.event_time * 1000),
        event.created_at,
    )


def _summary(envelope: EventEnvelope) -> str:
    """Return the first characters of the input, without NUL, which PostgreSQL cannot store."""
    text = envelope.input.text
    if text is None:
        text = text_of(envelope.input.contents)
    return text[: MAX_INPUT_SUMMARY_CHARS * 2].replace("\x00", "")[:MAX_INPUT_SUMMARY_CHARS]


def stored(row: Row) -> StoredEvent:
    """Convert a row of the log."""
    body, steering, roles = row["body"], row["steering"], row["requester_roles"]
    return from_row(
        row,
        StoredEvent,
        seq=row["seq"] or 0,
        envelope=None if body is None else _envelopes.decode(body),
        content_redacted=bool(row["content_redacted"]),
        requester_roles=() if roles is None else _names.decode(roles),
        routing=_objects.decode(row["routing"]),
        steering=None if steering is None else _objects.decode(steering),
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
