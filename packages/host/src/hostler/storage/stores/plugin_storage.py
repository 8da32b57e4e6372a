"""Plugin storage: bytes by key, of one plugin or of all runners of a workspace.

`owner` is the plugin's `author/name` (from its connection), or WORKSPACE, which no plugin can have as its
name.
"""

from __future__ import annotations

from hostler.domain.keys import check_key
from hostler.domain.quotas import NOTHING, UNBOUNDED, Allotment, Amounts, Holder, QuotaExceeded, moved
from hostler.storage.port import Row, Tx
from hostler.storage.sql.session import ContentionError
from hostler.storage.sql.statements import load
from hostler.storage.stores import quotas
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


def set(  # noqa: A001  the API's word
    tx: Tx,
    ws: str,
    owner: str,
    key: str,
    value: bytes,
    *,
    allotment: Allotment = Allotment(),  # noqa: B008  immutable
) -> Full | QuotaExceeded | None:
    """Write `value`, which counts for the holder of `allotment` from now on.

    Return why it was not written: the owner has no room for another key, or a quota none for the value.
    """
    check_key("key", key)
    check_value(value)
    where = {"ws": ws, "owner": owner, "key": key}
    known = tx.one(_q.held, **where)
    if known is None:
        counted = tx.one(_q.count, ws=ws, owner=owner, limit=MAX_KEYS)
        if counted is not None and counted["rows"] >= MAX_KEYS:
            return Full()
    before = (Holder(), NOTHING) if known is None else _of_row(known, -1)
    after = (allotment.holder, Amounts(storage_values=1, storage_bytes=len(value)))
    exceeded = quotas.take(tx, ws, moved(before, after), allotment.bounds)
    if exceeded is not None:
        return exceeded
    values = {"value": value, "size_bytes": len(value), "now": tx.now, **allotment.holder._asdict()}
    if not tx.run(_q.insert if known is None else _q.update, **where, **values):
        raise ContentionError(f"another host has written storage key {key!r:.80} meanwhile")
    return None


def delete(tx: Tx, ws: str, owner: str, key: str) -> bool:
    """Remove `key`; return whether it existed."""
    check_key("key", key)
    row = tx.one(_q.delete, ws=ws, owner=owner, key=key)
    if row is not None:
        quotas.take(tx, ws, moved(_of_row(row, -1)), UNBOUNDED)
    return row is not None


def keys(tx: Tx, ws: str, owner: str, *, prefix: str = "", after: str = "", limit: int = 100) -> Keys:
    """Return keys that begin with the literal `prefix` and follow `after`; at most 100."""
    limit = page_limit(limit)
    low, high = key_range(prefix, after)
    rows = tx.all(_q.keys, ws=ws, owner=owner, low=low, high=high, limit=limit + 1)
    return Keys([row["key"] for row in rows[:limit]], len(rows) > limit)


def _of_row(row: Row, times: int) -> tuple[Holder, Amounts]:
    """Return for whom a stored value counts, and what, `times` that."""
    amounts = Amounts(storage_values=times, storage_bytes=times * row["size_bytes"])
    return Holder(row["agent_id"], row["run_id"]), amounts
