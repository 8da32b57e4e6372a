"""Waiting messages: messages that no run has taken up and that are not in the transcript yet.

A message is placed in the transcript when a run begins with it (`take_up`) or pulls it as a steer (`place`),
and at the latest when its run ends. Only a row of this table says that a message is not placed yet, so none
is placed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hostler.domain.record import Record
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import debounce, transcripts
from hostler.storage.stores.filters import ANY, AnyOr
from hostler.storage.stores.run_rows import Run
from hostler.storage.stores.transcripts import NewTranscriptItem
from hostler_protocol.content import ArtifactRef
from hostler_protocol.limits import MIB

_q = load(__file__)
_items = msgspec.json.Decoder(NewTranscriptItem)
_refs = msgspec.json.Decoder(list[ArtifactRef])
_objects = msgspec.json.Decoder(dict[str, Any])

MAX_SHOWN = 100
"""Messages of one page. A lane's queue has room for more, which are shown after these were taken up."""
MAX_SHOWN_BYTES = MIB
RECEIVED_AT = "received_at"
"""Metadata key of an item that waited: when it was received, in UTC epoch seconds."""


class WaitingMessage(Record):
    """A waiting message. `run_id`: the run that will take it up. `created_at`: UTC epoch milliseconds."""

    event_id: str
    run_id: str | None
    is_steer: bool
    conversation_id: str | None
    thread_id: str | None
    role: str
    content: str
    content_json: dict[str, Any]
    artifact_refs: list[ArtifactRef]
    created_at: int


class WaitingPage(Record):
    """Messages in the order in which they were received. `has_more`: there are later ones."""

    items: list[WaitingMessage]
    has_more: bool


class UnstartedConversation(Record):
    """A conversation without transcript items, by its latest waiting message."""

    conversation_id: str
    thread_id: str | None
    bot_id: str | None
    role: str
    content: str
    created_at: int


class _WithHistory(NewTranscriptItem, frozen=True):
    """A message with the history that its event brought, which is placed before it."""

    history: list[NewTranscriptItem] = []


_with_history = msgspec.json.Decoder(_WithHistory)


def put(tx: Tx, ws: str, item: NewTranscriptItem, history: Sequence[NewTranscriptItem] = ()) -> None:
    """Store the message of an event as waiting, with the history that goes before it."""
    received_at = (tx.now if item.created_at is None else item.created_at) / 1000
    metadata = {RECEIVED_AT: received_at, **_objects.decode(item.metadata)}
    waiting = msgspec.structs.replace(item, metadata=msgspec.json.encode(metadata).decode(), created_at=None)
    if history:
        waiting = _WithHistory(**msgspec.structs.asdict(waiting), history=list(history))
    tx.run(
        _q.insert,
        ws=ws,
        event_id=item.event_id,
        bot_id=item.bot_id,
        conversation_id=item.conversation_id,
        thread_id=item.thread_id,
        item=msgspec.json.encode(waiting).decode(),
        size_bytes=item.size_bytes,
        created_at=round(metadata[RECEIVED_AT] * 1000),
    )


def place(tx: Tx, ws: str, event_ids: Sequence[str]) -> None:
    """Append the messages of these events to the transcript, in this order, unless they are in it already."""
    taken = {row["event_id"]: row["item"] for row in _take(tx, ws, event_ids)}
    for event_id in event_ids:
        if event_id not in taken:
            continue
        message = _with_history.decode(taken[event_id])
        for item in (*message.history, message):
            transcripts.append(tx, ws, item)


def take_up(tx: Tx, run: Run) -> None:
    """Place the messages that a run begins, or would have begun, with: all of its turn, in order."""
    if run.event_id is None:
        return
    place(tx, run.workspace_id, _turn(tx, run) if run.gathered > 1 else [run.event_id])


def _turn(tx: Tx, run: Run) -> list[str]:
    return [event.event_id for event in debounce.of_run(tx, run.workspace_id, run.run_id)]


def take_back(tx: Tx, ws: str, event_ids: Sequence[str]) -> None:
    """Move messages that a run had pulled from the transcript back to waiting."""
    for event_id in event_ids:
        item = transcripts.withdraw(tx, ws, event_id)
        if item is not None:
            put(tx, ws, item)


def discard(tx: Tx, ws: str, event_ids: Sequence[str]) -> None:
    """Delete waiting messages whose content was deleted."""
    _take(tx, ws, event_ids)


def drop_conversation(tx: Tx, ws: str, conversation_id: str, until: int) -> int:
    """Delete a conversation's messages up to a time (UTC epoch milliseconds); return their number."""
    return tx.run(_q.drop_conversation, ws=ws, conversation_id=conversation_id, until=until)


def page(
    tx: Tx, ws: str, conversation_id: str, *, thread_id: AnyOr = ANY, bot_id: AnyOr = ANY
) -> WaitingPage:
    """Return a conversation's waiting messages, at most 100 and 1 MiB, but at least one if there is one."""
    rows = tx.all(
        _q.page,
        ws=ws,
        conversation_id=conversation_id,
        any_thread=int(thread_id is ANY),
        thread_id=None if thread_id is ANY else thread_id,
        any_bot=int(bot_id is ANY),
        bot_id=None if bot_id is ANY else bot_id,
        limit=MAX_SHOWN + 1,
    )
    found: list[WaitingMessage] = []
    room = MAX_SHOWN_BYTES
    for row in rows[:MAX_SHOWN]:
        room -= row["size_bytes"]
        if room < 0 and found:
            break
        item = _items.decode(row["item"])
        found.append(
            WaitingMessage(
                event_id=row["event_id"],
                run_id=row["run_id"],
                is_steer=row["outcome"] == "steered",
                conversation_id=item.conversation_id,
                thread_id=item.thread_id,
                role=item.role,
                content=item.content,
                content_json=_objects.decode(item.content_json),
                artifact_refs=_refs.decode(item.artifact_refs),
                created_at=row["created_at"],
            )
        )
    return WaitingPage(found, len(rows) > len(found))


def unstarted(tx: Tx, ws: str, limit: int) -> list[UnstartedConversation]:
    """Return conversations with waiting messages but no transcript items, latest first."""
    return [_unstarted(row["item"], row["created_at"]) for row in tx.all(_q.unstarted, ws=ws, limit=limit)]


def _unstarted(encoded: str, created_at: int) -> UnstartedConversation:
    item = _items.decode(encoded)
    return UnstartedConversation(
        conversation_id=item.conversation_id or "",
        thread_id=item.thread_id,
        bot_id=item.bot_id,
        role=item.role,
        content=item.content,
        created_at=created_at,
    )


def _take(tx: Tx, ws: str, event_ids: Sequence[str]) -> list[Any]:
    if not event_ids:
        return []
    return tx.all(_q.take, ws=ws, event_ids=msgspec.json.encode(event_ids).decode())
