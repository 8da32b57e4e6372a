"""`event.*`: the events of the run's conversation and thread, up to its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from hostler.calls.cursors import Cursors, ScopedCursors
from hostler.calls.pages import MAX_SCANNED, PAGE_ROOM_BYTES, capped, scan
from hostler.calls.scope import CallScope
from hostler.domain.epoch import seconds
from hostler.domain.grants import Grant
from hostler.domain.place import Place
from hostler.domain.same_fields import with_fields_of
from hostler.storage.port import Tx
from hostler.storage.stores import events
from hostler.storage.stores.events import StoredEvent
from hostler_protocol.calls import EventGetParams, EventPageParams
from hostler_protocol.errors import NotFoundError
from hostler_protocol.runs import AgentEventRecord, Page


async def get(scope: CallScope, params: EventGetParams) -> AgentEventRecord:
    """`event.get`: the run's own event, or an earlier one of its conversation and thread."""
    stored = await scope.services.db.read(lambda tx: events.find(tx, scope.workspace_id, params.event_id))
    if stored is None or not _in_reach(scope, stored):
        raise NotFoundError(f"event_id {params.event_id[:100]!r} is no event that this run may see")
    return event_record(stored, event_cursors(scope.services.cursors, scope.grant))


async def page(scope: CallScope, params: EventPageParams) -> Page[AgentEventRecord]:
    """`event.page`: events before the run's own, newest first."""
    grant = scope.grant
    cursors = event_cursors(scope.services.cursors, grant)
    before = scope.event_seq
    if params.before_cursor is not None:
        before = min(before, cursors.read_sequence(params.before_cursor, "before_cursor"))
    if grant.conversation_id is None:
        return Page(items=[])

    def work(tx: Tx) -> Page[AgentEventRecord]:
        def read(start: int, limit: int) -> list[StoredEvent]:
            return events.page(
                tx,
                scope.workspace_id,
                conversation_id=grant.conversation_id,
                thread_id=grant.thread_id,
                event_types=params.event_types,
                before_seq=start,
                limit=limit,
            )

        rows = scan(read, before, lambda stored: stored.seq)
        items, resume, more = _fill(rows, grant.bot_id, cursors, capped(params.limit))
        return Page(items=items, next_cursor=cursors.issue(resume) if more else None, has_more=more)

    return await scope.services.db.read(work)


def _fill(
    rows: Iterator[StoredEvent], bot_id: str | None, cursors: ScopedCursors, limit: int
) -> tuple[list[AgentEventRecord], int, bool]:
    """Records of the rows of the bot, where the next page begins, and whether there may be more."""
    items: list[AgentEventRecord] = []
    room, seen, last = PAGE_ROOM_BYTES, 0, 0
    for stored in rows:
        seen += 1
        if stored.bot_id == bot_id:
            one = event_record(stored, cursors)
            room -= len(msgspec.json.encode(one))
            if items and (len(items) >= limit or room < 0):
                return items, last, True
            items.append(one)
        last = stored.seq
    return items, last, seen >= MAX_SCANNED


def event_cursors(cursors: Cursors, grant: Grant) -> ScopedCursors:
    """The cursors of `event.page` of a run's conversation and thread."""
    return cursors.scoped("event.page", [grant.workspace_id, *Place.of(grant)])


def event_record(stored: StoredEvent, cursors: ScopedCursors) -> AgentEventRecord:
    """An event of the log without its payload."""
    envelope = stored.envelope
    metadata: dict[str, Any] = {} if envelope is None else dict(envelope.metadata)
    if stored.steering is not None:
        metadata["steering"] = stored.steering
    if stored.content_redacted:
        metadata["content_redacted"] = True
    return with_fields_of(
        stored,
        AgentEventRecord,
        event_time=seconds(stored.event_time),
        input_ref=None,
        raw_ref=None if envelope is None else envelope.raw_ref,
        cursor=cursors.issue(stored.seq),
        created_at=stored.created_at / 1000,
        metadata=metadata,
    )


def _in_reach(scope: CallScope, stored: StoredEvent) -> bool:
    """The run's own event, one it absorbed, or an earlier one of its conversation and thread."""
    grant = scope.grant
    if stored.event_id == scope.event.event_id:
        return True
    absorbed_by = (stored.steering or {}).get("claimed_by_run_id")
    if absorbed_by == scope.run_id:
        return True
    same_place = Place.of(stored) == Place.of(grant)
    return grant.conversation_id is not None and same_place and stored.seq < scope.event_seq
