"""The transcript: all completed messages, paged by sequence.

A message gets its sequence at the end of its transaction; after the commit, pages and `stores.search` find
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Literal

import msgspec

from hostler.domain.place import NOWHERE, Place
from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import copies, search_index
from hostler.storage.stores.filters import ANY, NEWEST, AnyOr
from hostler.storage.stores.key_ranges import page_limit
from hostler.storage.stores.nul import without_nul
from hostler.storage.stores.search_tokens import fold
from hostler_protocol.content import ArtifactRef, Message, text_of
from hostler_protocol.ids import new_id
from hostler_protocol.limits import (
    DEFAULT_PAGE_ITEMS,
    MAX_PAGE_BYTES,
    MAX_PAGE_ITEMS,
    MAX_TRANSCRIPT_CONTENT_CHARS,
)

_q = load(__file__)

ITEM_OVERHEAD_BYTES = 1024
"""Bytes of an item in a page besides its content: ids, cursor, field names. A protocol message has room for
two pages, so even ids of the greatest length fit."""
MAX_ROWS_BYTES = MAX_PAGE_BYTES - 64 * 1024

_refs = msgspec.json.Decoder(list[ArtifactRef])
_objects = msgspec.json.Decoder(dict[str, Any])
_messages = msgspec.json.Decoder(Message)
Direction = Literal["backward", "forward"]


class NewTranscriptItem(msgspec.Struct, frozen=True):
    """A message to append to the transcript; made by `item_of`."""

    transcript_id: str
    role: str
    content: str
    content_json: str
    search_text: str
    artifact_refs: str
    metadata: str
    event_id: str | None
    run_id: str | None
    bot_id: str | None
    conversation_id: str | None
    thread_id: str | None
    message_id: str | None
    created_at: int | None

    @property
    def size_bytes(self) -> int:
        """Bytes of the item in a page, with its texts in UTF-8."""
        texts = (self.content, self.content_json, self.artifact_refs, self.metadata)
        return ITEM_OVERHEAD_BYTES + sum(map(_utf8_bytes, texts))


class StoredItem(Record):
    """A transcript item. `created_at` in UTC epoch milliseconds."""

    seq: int
    transcript_id: str
    event_id: str | None
    run_id: str | None
    bot_id: str | None
    conversation_id: str | None
    thread_id: str | None
    role: str
    item_type: str
    message_id: str | None
    content: str
    content_json: dict[str, Any]
    artifact_refs: list[ArtifactRef]
    metadata: dict[str, Any]
    created_at: int


class Span(Record):
    """A part of the transcript: the items of a conversation, of one bot or any, after a sequence."""

    conversation_id: str
    thread_id: AnyOr = ANY
    bot_id: AnyOr = ANY
    after_seq: int = 0


class TranscriptPage(Record):
    """Items in the direction of the page; `has_more`: more follow in that direction."""

    items: list[StoredItem]
    has_more: bool


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def item_of(
    message: Message,
    place: Place = NOWHERE,
    *,
    event_id: str | None = None,
    run_id: str | None = None,
    metadata: dict[str, Any] | None = None,
    transcript_id: str | None = None,
    created_at: int | None = None,
) -> NewTranscriptItem:
    """Prepare a message: its text, its searchable text and its JSON. Pure; called before the transaction.

    NUL characters are removed. `created_at` None: the time of the transaction.
    """
    encoded = msgspec.json.encode(message).decode()
    if "\\u0000" in encoded:
        message = msgspec.convert(without_nul(msgspec.to_builtins(message)), type(message))
        encoded = msgspec.json.encode(message).decode()
    text = text_of(message.content)
    folded = fold(text)
    return NewTranscriptItem(
        transcript_id=transcript_id or new_id(),
        role=message.role,
        content=text[:MAX_TRANSCRIPT_CONTENT_CHARS],
        content_json=encoded,
        search_text=folded,
        artifact_refs=msgspec.json.encode(message.artifact_refs).decode(),
        metadata=msgspec.json.encode(without_nul(metadata or {})).decode(),
        event_id=event_id,
        run_id=run_id,
        bot_id=place.bot_id,
        conversation_id=place.conversation_id,
        thread_id=place.thread_id,
        message_id=message.message_id,
        created_at=created_at,
    )


def append(tx: Tx, ws: str, item: NewTranscriptItem, then: Callable[[int], None] | None = None) -> None:
    """Append a message; `then` is called with its sequence at the end of the transaction."""
    tx.at_end(("heads", ws, "transcript"), partial(_store, ws), (item, then))


def _store(ws: str, tx: Tx, added: list[tuple[NewTranscriptItem, Callable[[int], None] | None]]) -> None:
    """Assign sequences to all new messages of a workspace and write them."""
    head = tx.one(_q.advance, ws=ws, items=len(added))
    if head is None:
        raise RuntimeError("an upsert with RETURNING gave no row")
    last = int(head["seq"])
    first = last - len(added) + 1
    written = [(seq, item) for seq, (item, _) in enumerate(added, start=first)]
    tx.run_rows(_q.insert, [_row(tx, ws, seq, item) for seq, item in written])
    search_index.add(tx, ws, written)
    for seq, (_, then) in enumerate(added, start=first):
        if then is not None:
            then(seq)


def _row(tx: Tx, ws: str, seq: int, item: NewTranscriptItem) -> tuple[Any, ...]:
    """Return the parameters of `insert`, in their order."""
    return (
        ws,
        seq,
        item.transcript_id,
        item.event_id,
        item.run_id,
        item.bot_id,
        item.conversation_id,
        item.thread_id,
        item.role,
        "message",
        item.message_id,
        item.content,
        item.content_json,
        item.search_text,
        item.artifact_refs,
        item.metadata,
        item.size_bytes,
        tx.now if item.created_at is None else item.created_at,
    )


def page(
    tx: Tx,
    ws: str,
    *,
    conversation_id: AnyOr,
    thread_id: AnyOr = ANY,
    bot_id: AnyOr = ANY,
    before_seq: int | None = None,
    after_seq: int | None = None,
    limit: int = DEFAULT_PAGE_ITEMS,
    direction: Direction = "backward",
) -> TranscriptPage:
    """Return items strictly between `after_seq` and `before_seq`, backward newest or forward oldest first.

    At most 100 items and 4 MiB, but at least one if there is one. `conversation_id` None gives an empty page:
    items without a conversation are in no history.
    """
    if conversation_id is None:
        return TranscriptPage([], False)
    limit = page_limit(limit)
    rows = _keys(
        tx,
        ws,
        conversation_id=conversation_id,
        thread_id=thread_id,
        bot_id=bot_id,
        before_seq=NEWEST if before_seq is None else before_seq,
        after_seq=0 if after_seq is None else after_seq,
        limit=limit + 1,
        direction=direction,
    )
    return _page_of(tx, ws, rows, limit)


def page_across(
    tx: Tx,
    ws: str,
    spans: Sequence[Span],
    *,
    before_seq: int | None = None,
    after_seq: int | None = None,
    limit: int = DEFAULT_PAGE_ITEMS,
    direction: Direction = "backward",
) -> TranscriptPage:
    """Return the items of several spans as one history, as `page` does: one query for each."""
    limit = page_limit(limit)
    rows: list[Row] = []
    for span in spans:
        rows += _keys(
            tx,
            ws,
            conversation_id=span.conversation_id,
            thread_id=span.thread_id,
            bot_id=span.bot_id,
            before_seq=NEWEST if before_seq is None else before_seq,
            after_seq=max(span.after_seq, after_seq or 0),
            limit=limit + 1,
            direction=direction,
        )
    rows.sort(key=itemgetter("seq"), reverse=direction == "backward")
    return _page_of(tx, ws, rows, limit)


def latest_across(tx: Tx, ws: str, spans: Sequence[Span], *, before_seq: int | None = None) -> int:
    """Return the sequence of the newest item of several spans (before `before_seq`); 0 if there is none."""
    found = 0
    for span in spans:
        latest = latest_seq(
            tx,
            ws,
            conversation_id=span.conversation_id,
            thread_id=span.thread_id,
            bot_id=span.bot_id,
            before_seq=before_seq,
        )
        found = max(found, latest if latest > span.after_seq else 0)
    return found


def _page_of(tx: Tx, ws: str, rows: Sequence[Row], limit: int) -> TranscriptPage:
    """Return the page of the first rows that fit into it. `rows`: in its direction, one more than it has."""
    taken, room = 0, MAX_ROWS_BYTES
    for row in rows[:limit]:
        room -= row["size_bytes"]
        if room < 0 and taken:
            break
        taken += 1
    return TranscriptPage(items(tx, ws, [row["seq"] for row in rows[:taken]]), len(rows) > taken)


def items(tx: Tx, ws: str, seqs: Sequence[int]) -> list[StoredItem]:
    """Return the items with these sequences, in the given order, without deleted ones."""
    if not seqs:
        return []
    found = {
        row["seq"]: _stored(row) for row in tx.all(_q.items, ws=ws, seqs=msgspec.json.encode(seqs).decode())
    }
    return [found[seq] for seq in seqs if seq in found]


def latest_seq(
    tx: Tx,
    ws: str,
    *,
    conversation_id: AnyOr = ANY,
    thread_id: AnyOr = ANY,
    bot_id: AnyOr = ANY,
    before_seq: int | None = None,
) -> int:
    """Return the sequence of the newest item in a scope (before `before_seq`); 0 if there is none."""
    if conversation_id is ANY and thread_id is ANY and bot_id is ANY and before_seq is None:
        head = tx.one(_q.last_seq, ws=ws)
        return 0 if head is None else int(head["seq"])
    if conversation_id is None:
        return 0
    rows = _keys(
        tx,
        ws,
        conversation_id=conversation_id,
        thread_id=thread_id,
        bot_id=bot_id,
        before_seq=NEWEST if before_seq is None else before_seq,
        after_seq=0,
        limit=1,
        direction="backward",
    )
    return int(rows[0]["seq"]) if rows else 0


def of_event(tx: Tx, ws: str, event_id: str) -> int | None:
    """Return the sequence of the message of an event, or None; its history stands before it."""
    row = tx.one(_q.of_event, ws=ws, event_id=event_id)
    return None if row is None else int(row["seq"])


def of_run(tx: Tx, ws: str, run_id: str, limit: int = MAX_PAGE_ITEMS) -> list[Message]:
    """Return the first messages of a run, in order, up to `limit`."""
    rows = tx.all(_q.of_run, ws=ws, run_id=run_id, limit=limit)
    return [_messages.decode(row["content_json"]) for row in rows]


def said_before(tx: Tx, ws: str, run_id: str, seq: int) -> int:
    """Return how many messages of the assistant a run has before one of its own."""
    row = tx.one(_q.said_before, ws=ws, run_id=run_id, seq=seq)
    return 0 if row is None else int(row["messages"])


def remove(tx: Tx, ws: str, seqs: Sequence[int]) -> int:
    """Delete items and their index entries; return their number. For retention and deletion."""
    removed = 0
    for seq in seqs:
        row = tx.one(_q.search_columns, ws=ws, seq=seq)
        if row is None:
            continue
        search_index.remove(tx, ws, row)
        copies.forget_item(tx, ws, seq)
        removed += tx.run(_q.delete, ws=ws, seq=seq)
    return removed


def withdraw(tx: Tx, ws: str, event_id: str) -> NewTranscriptItem | None:
    """Delete the message of an event, not its history. Return it as it was passed to `append`, with its time.

    None if there is none. An item of the same transaction is not found: it is written at the end.
    """
    row = tx.one(_q.whole_of_event, ws=ws, event_id=event_id)
    if row is None:
        return None
    remove(tx, ws, [int(row["seq"])])
    return NewTranscriptItem(*(row[name] for name in NewTranscriptItem.__struct_fields__))


def _keys(tx: Tx, ws: str, *, direction: Direction, **scope: Any) -> list[Row]:
    """Return sequences and sizes of a scope, by the query whose index fits it."""
    backward = direction == "backward"
    thread_id, bot_id = scope.pop("thread_id"), scope.pop("bot_id")
    filters = {
        "thread_id": None if thread_id is ANY else thread_id,
        "bot_id": None if bot_id is ANY else bot_id,
    }
    if scope["conversation_id"] is not ANY and thread_id is not ANY and bot_id is not ANY:
        query = _q.keys_thread_backward if backward else _q.keys_thread_forward
        return tx.all(query, ws=ws, **scope, **filters)
    filters |= {"any_thread": int(thread_id is ANY), "any_bot": int(bot_id is ANY)}
    if scope["conversation_id"] is not ANY:
        query = _q.keys_conversation_backward if backward else _q.keys_conversation_forward
        return tx.all(query, ws=ws, **scope, **filters)
    del scope["conversation_id"]
    query = _q.keys_workspace_backward if backward else _q.keys_workspace_forward
    return tx.all(query, ws=ws, **scope, **filters)


def _stored(row: Row) -> StoredItem:
    return from_row(
        row,
        StoredItem,
        content_json=_objects.decode(row["content_json"]),
        artifact_refs=_refs.decode(row["artifact_refs"]),
        metadata=_objects.decode(row["metadata"]),
    )
