"""Metadata of conversations, which clients give them: a value of the conversation's state, of no agent.

So it is sealed, counted, removed and deleted as the rest of that state, and no run sees it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec

from hostler.domain.keys import state_value_of
from hostler.domain.quotas import QuotaExceeded, Quotas
from hostler.domain.scopes import StateArea, storage_key
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import state_values

OWNER = "conversations"
"""In place of an agent's id, which is a UUID."""
KEY = "metadata"
TITLE = "title"
FORKED_FROM = "forked_from"
"""Metadata key of a fork: the other conversation."""
MAX_TITLE_CHARS = 200
_q = load(__file__)


class Described(NamedTuple):
    """The metadata of a conversation, and when they were written last, in UTC epoch milliseconds."""

    conversation_id: str
    metadata: dict[str, Any]
    updated_at: int


def get(tx: Tx, ws: str, conversation_id: str) -> dict[str, Any]:
    """Return the metadata of a conversation; {} if it has none."""
    found = find(tx, ws, conversation_id)
    return {} if found is None else found.metadata


def find(tx: Tx, ws: str, conversation_id: str) -> Described | None:
    """Return the metadata of a conversation, and when they were written; None if it has none."""
    row = tx.one(_q.find, ws=ws, scope_key=_area(ws, conversation_id).scope_key)
    return None if row is None else _described(row)


def latest(tx: Tx, ws: str, *, limit: int) -> list[Described]:
    """Return conversations that have metadata, the latest written first."""
    return [_described(row) for row in tx.all(_q.latest, ws=ws, limit=limit)]


def put(tx: Tx, ws: str, conversation_id: str, metadata: dict[str, Any], bounds: Quotas) -> None:
    """Replace the metadata of a conversation; with {} one that had none is not named by that.

    InvalidArgumentError if it is no JSON; PayloadTooLargeError beyond 256 KiB, or if the workspace's quota of
    state has no room for it.
    """
    if metadata or find(tx, ws, conversation_id) is not None:  # what is named stays so, also without metadata
        describe(tx, ws, conversation_id, metadata, bounds)


def describe(tx: Tx, ws: str, conversation_id: str, metadata: dict[str, Any], bounds: Quotas) -> None:
    """Replace the metadata of a conversation; with {} it is known, and has none. Errors as `put`."""
    area = _area(ws, conversation_id)
    written = state_values.set(tx, ws, area, KEY, state_value_of(metadata), bounds=bounds)
    if isinstance(written, QuotaExceeded):
        raise written.error


def title(tx: Tx, ws: str, conversation_id: str) -> str | None:
    """Return the title of a conversation; None if it has none."""
    return _title_in(get(tx, ws, conversation_id))


def titles(tx: Tx, ws: str, conversation_ids: Collection[str]) -> dict[str, str]:
    """Return the titles of those conversations that have one, by conversation: one query for all."""
    if not conversation_ids:
        return {}
    keys = [_area(ws, one).scope_key for one in conversation_ids]
    found = map(_described, tx.all(_q.of_page, ws=ws, scope_keys=msgspec.json.encode(keys).decode()))
    named = {one.conversation_id: _title_in(one.metadata) for one in found}
    return {name: title for name, title in named.items() if title is not None}


def put_title(tx: Tx, ws: str, conversation_id: str, title: str, bounds: Quotas) -> str | None:
    """Give a conversation a title, with "" take it away; return it. Its other metadata stays.

    Errors as `put`.
    """
    kept = {key: value for key, value in get(tx, ws, conversation_id).items() if key != TITLE}
    put(tx, ws, conversation_id, {TITLE: title, **kept} if title else kept, bounds)
    return title or None


def _described(row: Row) -> Described:
    metadata = msgspec.json.decode(row["value"])
    return Described(
        row["conversation_id"], metadata if isinstance(metadata, dict) else {}, row["updated_at"]
    )


def _title_in(metadata: dict[str, Any]) -> str | None:
    found = metadata.get(TITLE)
    return found[:MAX_TITLE_CHARS] if isinstance(found, str) and found else None


def _area(ws: str, conversation_id: str) -> StateArea:
    key = storage_key(
        "conversation",
        workspace_id=ws,
        bot_id=None,
        runner_id=OWNER,
        agent_id=OWNER,
        identity={"conversation": conversation_id},
    )
    return StateArea("conversation", key, OWNER, conversation_id=conversation_id)
