"""Items of clients: JSON objects by namespace and key, which no run sees. Values of storage, like a plugin's.

So they are sealed, counted, bounded and backed up as those are; each namespace is an owner, with a data key
of its own. A namespace is a list of labels, from the widest to the narrowest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hostler.domain.keys import check_key, state_value_of
from hostler.domain.quotas import Allotment, QuotaExceeded, Quotas
from hostler.domain.record import Record
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import plugin_storage
from hostler.storage.stores.key_ranges import MAX_KEYS, Full, key_range
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError

OWNER = "store:"
"""Before the labels of a namespace: no plugin's key has a colon."""
MAX_NAMESPACES = 10_000
"""Namespaces that one list looks at."""
_q = load(__file__)


class _Stored(msgspec.Struct):
    """What is stored. `created_at`: UTC epoch milliseconds."""

    value: dict[str, Any]
    created_at: int


_stored = msgspec.json.Decoder(_Stored)


class Item(Record):
    """An item. Times are UTC epoch milliseconds."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created_at: int
    updated_at: int


def check_namespace(labels: Sequence[str]) -> None:
    """Raise InvalidArgumentError unless each label has a character and none a period or NUL, 255 in all."""
    for label in labels:
        if not label or "." in label:
            raise InvalidArgumentError(
                f"namespace: {label[:60]!r} is no label: one character or more, none of them a period"
            )
    if labels:
        check_key("namespace", ".".join(labels))


def put(
    tx: Tx, ws: str, namespace: Sequence[str], key: str, value: dict[str, Any], *, bounds: Quotas
) -> None:
    """Write an item.

    InvalidArgumentError for a bad namespace or key; PayloadTooLargeError beyond 256 KiB, if the namespace has
    10,000 items, or if the workspace's quota of storage has no room for it.
    """
    state_value_of(value)
    owner, before = _owner(namespace), get(tx, ws, namespace, key)
    created_at = tx.now if before is None else before.created_at
    encoded = msgspec.json.encode(_Stored(value, created_at))
    written = plugin_storage.set(tx, ws, owner, key, encoded, allotment=Allotment(bounds=bounds))
    if isinstance(written, Full):
        raise PayloadTooLargeError(
            f"the namespace {'.'.join(namespace)!r} has {MAX_KEYS:,} items: delete some, or use another one"
        )
    if isinstance(written, QuotaExceeded):
        raise written.error


def get(tx: Tx, ws: str, namespace: Sequence[str], key: str) -> Item | None:
    """Return an item, or None."""
    check_key("key", key)
    row = tx.one(_q.get, ws=ws, owner=_owner(namespace), key=key)
    return None if row is None else _item(row)


def delete(tx: Tx, ws: str, namespace: Sequence[str], key: str) -> bool:
    """Remove an item; return whether there was one."""
    return plugin_storage.delete(tx, ws, _owner(namespace), key)


def page(tx: Tx, ws: str, prefix: Sequence[str], *, offset: int, limit: int) -> list[Item]:
    """Return items of the namespaces that begin with these labels, latest change first."""
    rows = tx.all(_q.page, ws=ws, **_range(prefix), offset=offset, limit=limit)
    return [_item(row) for row in rows]


def namespaces(tx: Tx, ws: str, prefix: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the namespaces that have items and begin with these labels, in order; 10,000 at most."""
    return [
        _labels(row["owner"]) for row in tx.all(_q.namespaces, ws=ws, **_range(prefix), limit=MAX_NAMESPACES)
    ]


def drop_named(tx: Tx, ws: str, name: str, limit: int) -> int:
    """Delete the next items that have a name as their key or as a label; return their number."""
    rows = tx.all(_q.named, ws=ws, **_range(()), name=name, label=f".{name}.", limit=limit)
    return sum(plugin_storage.delete(tx, ws, row["owner"], row["key"]) for row in rows)


def _owner(namespace: Sequence[str]) -> str:
    check_namespace(namespace)
    if not namespace:
        raise InvalidArgumentError("namespace: an item has a namespace of one label or more")
    return _prefix(namespace)


def _prefix(labels: Sequence[str]) -> str:
    return f"{OWNER}." + "".join(f"{label}." for label in labels)


def _range(prefix: Sequence[str]) -> dict[str, str]:
    check_namespace(prefix)
    return key_range(_prefix(prefix), "")._asdict()


def _labels(owner: str) -> tuple[str, ...]:
    return tuple(owner.removeprefix(f"{OWNER}.").removesuffix(".").split("."))


def _item(row: Row) -> Item:
    stored = _stored.decode(row["value"])
    return Item(_labels(row["owner"]), row["key"], stored.value, stored.created_at, row["updated_at"])
