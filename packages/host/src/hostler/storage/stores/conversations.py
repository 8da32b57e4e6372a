"""Conversations, as the transcript shows them: the latest first, and the state that belongs to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler_protocol.limits import MAX_PAGE_BYTES

SCAN_ROWS = 2_000
"""Messages looked at for one step of the list."""
MAX_STEPS = 10
"""Steps of one page: a page may be short, or empty with more to come, but never takes long."""
_NEWEST = 2**62
_q = load(__file__)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation by its latest message. `created_at`: UTC epoch milliseconds of that message."""

    conversation_id: str
    seq: int
    thread_id: str | None
    bot_id: str | None
    role: str
    content: str
    created_at: int


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """`before`: from where the next page goes on; None: there is nothing more."""

    items: list[Conversation]
    before: int | None


@dataclass(frozen=True, slots=True)
class StateEntry:
    """One value of a conversation's state."""

    scope_key: str
    scope: str
    key: str
    value: msgspec.Raw
    version: int
    agent_id: str
    updated_at: int


def page(tx: Tx, workspace_id: str, *, before: int | None, limit: int) -> ConversationPage:
    """Conversations whose latest message lies before the sequence `before`, the latest first."""
    place = _NEWEST if before is None else before
    items: list[Conversation] = []
    for _ in range(MAX_STEPS):
        step: dict[str, Any] = {"workspace_id": workspace_id, "before": place, "scan": SCAN_ROWS}
        for row in tx.all(_q.latest, **step):
            if len(items) == limit:
                return ConversationPage(items, items[-1].seq)
            items.append(Conversation(**{name: row[name] for name in Conversation.__dataclass_fields__}))
        scanned = tx.one(_q.scanned, **step)
        if scanned is None or scanned["rows"] < SCAN_ROWS:
            return ConversationPage(items, None)
        place = scanned["oldest"]
    return ConversationPage(items, place)


def known(tx: Tx, workspace_id: str, conversation_id: str) -> bool:
    """Whether the workspace keeps anything of this conversation."""
    row = tx.one(_q.known, workspace_id=workspace_id, conversation_id=conversation_id)
    return row is not None


def states(
    tx: Tx, workspace_id: str, conversation_id: str, *, after: tuple[str, str], limit: int
) -> tuple[list[StateEntry], bool]:
    """State in the scope `conversation` following (scope key, key), at most 4 MiB; whether more follows."""
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
        found.append(
            StateEntry(
                scope_key=row["scope_key"],
                scope=row["scope"],
                key=row["key"],
                value=msgspec.Raw(row["value"].encode()),
                version=row["version"],
                agent_id=row["agent_id"],
                updated_at=row["updated_at"],
            )
        )
    return found, len(rows) > limit
