"""Conversations, derived from the transcript, latest first; and the state of a conversation."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores.filters import NEWEST
from hostler_protocol.ids import digest
from hostler_protocol.limits import MAX_PAGE_BYTES

SCAN_ROWS = 2_000
"""Messages read for one step of the list."""
MAX_STEPS = 10
"""Steps of one page: a page may be short, or empty with more to follow, but its time is bounded."""
_q = load(__file__)


class ConversationSummary(Record):
    """A conversation by its latest message. `created_at`: UTC epoch milliseconds of that message."""

    conversation_id: str
    seq: int
    thread_id: str | None
    bot_id: str | None
    role: str
    content: str
    created_at: int


class ConversationPage(Record):
    """Conversations, and `before` for the next page; None on the last page."""

    items: list[ConversationSummary]
    before: int | None


class StateEntry(Record):
    """One value of a conversation's state."""

    scope_key: str
    scope: str
    key: str
    value: msgspec.Raw
    version: int
    agent_id: str
    updated_at: int


def page(tx: Tx, workspace_id: str, *, before: int | None, limit: int) -> ConversationPage:
    """Return conversations whose latest message has a sequence below `before`, latest first."""
    position = NEWEST if before is None else before
    items: list[ConversationSummary] = []
    for _ in range(MAX_STEPS):
        step: dict[str, Any] = {"workspace_id": workspace_id, "before": position, "scan": SCAN_ROWS}
        for row in tx.all(_q.latest, **step):
            if len(items) == limit:
                return ConversationPage(items, items[-1].seq)
            items.append(
                ConversationSummary(**{name: row[name] for name in ConversationSummary.__struct_fields__})
            )
        scanned = tx.one(_q.scanned, **step)
        if scanned is None or scanned["rows"] < SCAN_ROWS:
            return ConversationPage(items, None)
        position = scanned["oldest"]
    return ConversationPage(items, position)


def hold(tx: Tx, workspace_id: str, conversation_id: str) -> None:
    """Have other hosts that hold this conversation wait for the end of this transaction.

    What is read of it from here on is all that they have written.
    """
    if tx.dialect == "postgres":
        tx.one(_q.hold, lock=lock_of(workspace_id, conversation_id))


def lock_of(workspace_id: str, conversation_id: str) -> int:
    """Return the number by which a conversation is locked. Those that share one wait for each other."""
    return int(digest([workspace_id, conversation_id])[:15], 16)


def known(tx: Tx, workspace_id: str, conversation_id: str) -> bool:
    """Whether the workspace stores any data of this conversation."""
    row = tx.one(_q.known, workspace_id=workspace_id, conversation_id=conversation_id)
    return row is not None


def begun(tx: Tx, workspace_id: str, conversation_id: str) -> bool:
    """Whether anything was said in this conversation, or happened in it."""
    return tx.one(_q.begun, workspace_id=workspace_id, conversation_id=conversation_id) is not None


def states(
    tx: Tx, workspace_id: str, conversation_id: str, *, after: tuple[str, str], limit: int
) -> tuple[list[StateEntry], bool]:
    """Return state of a conversation after (scope key, key), at most 4 MiB, and whether more follows."""
    rows = tx.all(
        _q.states,
        workspace_id=workspace_id,
        conversation_id=conversation_id,
        after_scope=after[0],
        after_key=after[1],
        limit=limit + 1,
    )
    found: list[StateEntry] = []
    room = MAX_PAGE_BYTES
    for row in rows[:limit]:
        room -= len(row["value"])
        if room < 0 and found:
            return found, True
        found.append(from_row(row, StateEntry, value=msgspec.Raw(row["value"].encode())))
    return found, len(rows) > limit
