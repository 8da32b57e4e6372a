"""State: JSON values by storage key (`domain.scopes`) and key, each with a version.

Versions of a key only rise, even across deletion, so a compare-and-set from before a deletion never succeeds
after it. A missing value has version 0, and `if_version=0` means "only if absent".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from hostler.domain.keys import state_key_of
from hostler.domain.quotas import UNBOUNDED, Amounts, Holder, QuotaExceeded, Quotas, added, state_size
from hostler.domain.record import Record
from hostler.domain.scopes import StateArea
from hostler.storage.port import Query, Tx
from hostler.storage.sql.session import ContentionError
from hostler.storage.sql.statements import load
from hostler.storage.stores import quotas
from hostler.storage.stores.key_ranges import MAX_KEYS, Full, Keys, key_range, page_limit
from hostler_protocol.calls import STATE_KEY_ALIASES, state_keys_with
from hostler_protocol.limits import MIB

_q = load(__file__)

EXTERNAL_CONVERSATION = STATE_KEY_ALIASES["conversation_id"]
MAX_SNAPSHOT_BYTES = 2 * MIB
"""JSON of all scopes of one context: with the rest of the context it fits into one message."""
_SNAPSHOT_ROWS = 32
"""Rows fetched at once: 8 MiB if every value has the greatest size."""


class StateValue(Record):
    """A value and its version; (None, 0): absent. A stored `null` has a version."""

    value: Any
    version: int


class VersionConflict(Record):
    """The value has this version (0: absent), not the expected one. Nothing was written."""

    version: int


class Snapshot(Record):
    """Values by scope and key; `omitted` are the scopes of which some values did not fit."""

    values: dict[str, dict[str, Any]]
    omitted: frozenset[str]


def get(tx: Tx, ws: str, scope_key: str, key: str) -> StateValue:
    """Return the value of `key`, or (None, 0)."""
    row = tx.one(_q.get, ws=ws, scope_key=scope_key, key=state_key_of(key))
    return StateValue(None, 0) if row is None else StateValue(_decoded(row["value"]), row["version"])


def set(  # noqa: A001  the Host API's word
    tx: Tx,
    ws: str,
    area: StateArea,
    key: str,
    value: str,
    *,
    if_version: int | None = None,
    bounds: Quotas = UNBOUNDED,
) -> int | VersionConflict | Full | QuotaExceeded:
    """Write `value` (JSON text of `state_value_of`) and return its new version, or why it was not written.

    Without `if_version` the last write wins.
    """
    key, size = state_key_of(key), state_size(key, value)
    where: dict[str, Any] = {"ws": ws, "scope_key": area.scope_key, "key": key}
    held = tx.one(_q.held, **where)
    version = 0 if held is None or held["is_deleted"] else held["version"]
    if if_version is not None and if_version != version:
        return VersionConflict(version)
    if held is None:
        counted = tx.one(_q.count, ws=ws, scope_key=area.scope_key, limit=MAX_KEYS)
        if counted is not None and counted["rows"] >= MAX_KEYS:
            return Full()
    # a scope belongs to one agent
    holder = Holder(area.agent_id if held is None else held["agent_id"])
    change = Amounts(state_bytes=size - (0 if held is None else held["size_bytes"]))
    exceeded = quotas.take(tx, ws, added(holder, change), bounds)
    if exceeded is not None:
        return exceeded
    values = {"value": value, "size_bytes": size, "now": tx.now}
    if held is None:
        row = tx.one(
            _q.insert,
            **where,
            **values,
            scope=area.scope,
            agent_id=area.agent_id,
            conversation_id=area.conversation_id,
            actor_type=area.actor_type,
            actor_id=area.actor_id,
        )
    else:
        row = tx.one(_q.update, **where, **values)
    if row is None:
        raise ContentionError(f"another host has written state key {key!r:.80} meanwhile")
    written: int = row["version"]
    return written


def delete(tx: Tx, ws: str, scope_key: str, key: str) -> bool:
    """Remove the value of `key`; return whether there was one."""
    key, where = state_key_of(key), {"ws": ws, "scope_key": scope_key}
    held = tx.one(_q.held, **where, key=key)
    if held is None or held["is_deleted"]:
        return False
    size = state_size(key, "")
    tx.run(_q.delete, **where, key=key, size_bytes=size, now=tx.now)
    quotas.give_back(tx, ws, Holder(held["agent_id"]), Amounts(state_bytes=held["size_bytes"] - size))
    return True


def drop(tx: Tx, ws: str, query: Query, **which: Any) -> int:
    """Delete rows by a statement that returns `agent_id` and `size_bytes` of each; return their number."""
    rows = tx.all(query, ws=ws, **which)
    freed = Counter[str]()
    for row in rows:
        freed[row["agent_id"]] += row["size_bytes"]
    for agent_id, size in freed.items():
        quotas.give_back(tx, ws, Holder(agent_id), Amounts(state_bytes=size))
    return len(rows)


def list(  # noqa: A001  the Host API's word
    tx: Tx, ws: str, scope_key: str, *, prefix: str = "", after: str = "", limit: int = 100
) -> Keys:
    """Return keys that, or whose aliases, begin with the literal `prefix` and follow `after`; at most 100."""
    limit = page_limit(limit)
    low, high = key_range(prefix, after)
    rows = tx.all(_q.keys, ws=ws, scope_key=scope_key, low=low, high=high, limit=limit + 1)
    found = [row["key"] for row in rows]
    for key in state_keys_with(prefix):
        if key > after and get(tx, ws, scope_key, key).version > 0:
            found = sorted([*found, key])
    return Keys(found[:limit], len(found) > limit)


def snapshot(
    tx: Tx,
    ws: str,
    scope_keys: Mapping[str, str],
    *,
    conversation_id: str | None = None,
    max_bytes: int = MAX_SNAPSHOT_BYTES,
) -> Snapshot:
    """Return the values of some scopes (scope -> storage key) for a run's context.

    `conversation_id` of the event becomes `external.conversation_id` of the conversation scope, unless the
    runner has set that key. Beyond `max_bytes` of JSON the remaining values of a scope are omitted; runners
    read them with `state.get`.
    """
    values: dict[str, dict[str, Any]] = {}
    omitted: frozenset[str] = frozenset()
    room = max_bytes
    for scope, scope_key in scope_keys.items():
        of_scope: dict[str, Any] = {}
        if scope == "conversation" and conversation_id is not None:
            of_scope[EXTERNAL_CONVERSATION] = conversation_id
        after = ""
        while scope not in omitted:
            rows = tx.all(_q.values, ws=ws, scope_key=scope_key, after=after, limit=_SNAPSHOT_ROWS)
            for row in rows:
                room -= len(row["key"]) + len(row["value"])
                if room < 0:
                    omitted |= {scope}
                    break
                of_scope[row["key"]] = _decoded(row["value"])
            if len(rows) < _SNAPSHOT_ROWS:
                break
            after = rows[-1]["key"]
        values[scope] = of_scope
    return Snapshot(values, omitted)


def _decoded(text: str) -> Any:
    return msgspec.json.decode(text)
