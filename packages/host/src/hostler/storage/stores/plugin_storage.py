"""Plugin storage: bytes by key, of one plugin or of all runners of a workspace.

`owner` is the plugin's `author/name` (from its connection), or WORKSPACE, which no plugin can have as its
name.
"""

from __future__ import annotations

from hostler.domain.keys import check_key
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores.key_ranges import MAX_KEYS, Full, Keys, key_range, page_limit
from hostler_protocol.errors import PayloadTooLargeError
from hostler_protocol.limits import MAX_STORAGE_VALUE_BYTES

_q = load(__file__)

WORKSPACE = ""
"""The owner of the storage that all runners of a workspace share."""


def check_value(value: bytes) -> None:
    """Raise PayloadTooLargeError above 4 MiB. Call it before the transaction."""
    if len(value) > MAX_STORAGE_VALUE_BYTES:
        raise PayloadTooLargeError(
            f"the value has {len(value):,} bytes; a storage value has at most {MAX_STORAGE_VALUE_BYTES:,}: "
            "upload an artifact and keep its id"
        )


def get(tx: Tx, ws: str, owner: str, key: str) -> bytes | None:
    """Return the value of `key`, or None."""
    check_key("key", key)
    row = tx.one(_q.get, ws=ws, owner=owner, key=key)
    return None if row is None else bytes(row["value"])


def set(tx: Tx, ws: str, owner: str, key: str, value: bytes) -> Full | None:  # noqa: A001  the API's word
    """Write `value`; return Full if the owner has no room for another key."""
    check_key("key", key)
    check_value(value)
    if tx.one(_q.has, ws=ws, owner=owner, key=key) is None:
        counted = tx.one(_q.count, ws=ws, owner=owner, limit=MAX_KEYS)
        if counted is not None and counted["rows"] >= MAX_KEYS:
            return Full()
    tx.run(_q.put, ws=ws, owner=owner, key=key, value=value, now=tx.now)
    return None


def delete(tx: Tx, ws: str, owner: str, key: str) -> bool:
    """Remove `key`; return whether it existed."""
    check_key("key", key)
    return tx.run(_q.delete, ws=ws, owner=owner, key=key) > 0


def keys(tx: Tx, ws: str, owner: str, *, prefix: str = "", after: str = "", limit: int = 100) -> Keys:
    """Return keys that begin with the literal `prefix` and follow `after`; at most 100."""
    limit = page_limit(limit)
    low, high = key_range(prefix, after)
    rows = tx.all(_q.keys, ws=ws, owner=owner, low=low, high=high, limit=limit + 1)
    return Keys([row["key"] for row in rows[:limit]], len(rows) > limit)
