"""The past of a thread: its state before each message of the user, as far back as the transcript goes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec

from hostler.http.langgraph.messages import wrong
from hostler.http.langgraph.thread_state import (
    MAX_MESSAGES,
    ThreadState,
    past_record,
    placed,
    state_record,
)
from hostler.http.request import ApiRequest
from hostler.storage.port import Tx
from hostler.storage.stores import transcripts
from hostler.storage.stores.transcripts import StoredItem
from hostler_protocol.errors import NotFoundError
from hostler_protocol.limits import MAX_INTEGER, MIB

MAX_READ = 2_000
"""Messages that are read for one page of a history."""
MAX_BYTES = 8 * MIB
"""Of one page: each state has up to a hundred messages, most of them also in the state before it."""


def named(given: Any, field: str) -> str | None:
    """Return the id of the checkpoint that a request names: by itself, in its checkpoint, or a configuration.

    None for the newest. InvalidArgumentError for anything else.
    """
    match given:
        case None | {"checkpoint_id": None | ""}:
            return None
        case str(name) | {"checkpoint_id": str(name)} | {"configurable": {"checkpoint_id": str(name)}}:
            return name
        case dict() if not {"checkpoint_id", "configurable"} & given.keys():
            return None
        case _:
            raise wrong(field, "the id of a checkpoint, or an object with checkpoint_id")


def place_of(name: str) -> int | None:
    """Return the place of the last message before a checkpoint; None for one that is named by a run."""
    if len(name) <= 16 and name.isascii() and name.isdecimal() and int(name) <= MAX_INTEGER:
        return int(name)
    return None


async def history(
    request: ApiRequest, state: ThreadState, *, before: str | None, limit: int, wanted: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the states of a thread before a checkpoint, newest first; all that follow the newest without.

    `wanted`: metadata that they have. A page may be short: the next one begins before its last.
    """
    found = []
    newest = before is None
    if newest and (state.run is not None or state.last):
        found.append(state_record(state))
    place = None if before is None or before == state.checkpoint_id else place_of(before)
    if before is not None and place is None and before != state.checkpoint_id:
        return []
    more = limit + 1 - len(found)
    found += await request.state.host.db.read(lambda tx: _past(tx, request.workspace_id, state, place, more))
    for one, parent in pairwise(found):
        one["parent_checkpoint"] = parent["checkpoint"]
        one["parent_checkpoint_id"] = parent["checkpoint_id"]
    return [
        one
        for one in found[:limit]
        if all(one["metadata"].get(name) == value for name, value in wanted.items())
    ]


async def state_at(request: ApiRequest, state: ThreadState, name: str) -> dict[str, Any]:
    """Return the state of a thread at a checkpoint. NotFoundError."""
    if name == state.checkpoint_id:
        return state_record(state)
    place = place_of(name)
    found = None
    if place is not None:
        found = await request.state.host.db.read(
            lambda tx: _at(tx, request.workspace_id, state.thread_id, place)
        )
    if found is None:
        raise NotFoundError(f"this thread has no checkpoint {name[:100]!r}: its history has those there are")
    return found


def _at(tx: Tx, ws: str, thread_id: str, place: int) -> dict[str, Any] | None:
    page = transcripts.page(tx, ws, conversation_id=thread_id, before_seq=place + 1, limit=MAX_MESSAGES)
    if not page.items or page.items[0].seq != place:
        return None
    messages = [message for _, message in placed(tx, ws, page.items[::-1])]
    at = page.items[0].created_at
    return past_record(thread_id, str(place), {"messages": messages}, at, len(messages))


def _past(tx: Tx, ws: str, state: ThreadState, before: int | None, limit: int) -> list[dict[str, Any]]:
    """Return states before messages of the user, newest first; with `before` those that end before it."""
    thread_id, run = state.thread_id, state.run
    items = _read(tx, ws, thread_id, before, limit)
    encoded = {seq: msgspec.Raw(msgspec.json.encode(one)) for seq, one in placed(tx, ws, items[::-1])}
    ends = [place + 1 for place, item in enumerate(items[:-1]) if item.role == "user"]
    if before is None and items and run is not None and not state.is_over:
        event_id = run.event_id or ""
        if transcripts.of_event(tx, ws, event_id) is None:  # its message waits with it for its turn
            ends.insert(0, 0)
    found: list[dict[str, Any]] = []
    room = MAX_BYTES
    for end in ends[:limit]:
        window = items[end : end + MAX_MESSAGES]
        messages = [encoded[item.seq] for item in reversed(window) if item.seq in encoded]
        room -= sum(len(bytes(one)) for one in messages)
        if room < 0 and found:
            break
        last = items[end]
        values = {"messages": messages}
        found.append(past_record(thread_id, str(last.seq), values, last.created_at, len(messages)))
    return found


def _read(tx: Tx, ws: str, thread_id: str, before: int | None, limit: int) -> list[StoredItem]:
    """Return messages, newest first: enough for so many states, and for all messages of the last one."""
    items: list[StoredItem] = []
    before_seq, more = None if before is None else before + 1, True
    while more and len(items) < MAX_READ:
        page = transcripts.page(tx, ws, conversation_id=thread_id, before_seq=before_seq)
        items += page.items
        more, before_seq = page.has_more, items[-1].seq if items else None
        asked = [place for place, item in enumerate(items) if item.role == "user"]
        if len(asked) >= limit and len(items) - asked[limit - 1] > MAX_MESSAGES:
            break
    return items
