"""Keys that seal the secrets written out in entries, each wrapped by a master key.

One is enough. There is another one only if two hosts made the first at once, or if the master key of the
older ones is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler_protocol.errors import InvalidArgumentError

MAX_KEYS = 100
_PREFIX = "key of written secrets "
_BEHIND = "key of written secrets!"
"""The first name behind those with the prefix."""
_q = load(__file__)


def add(tx: Tx, key_id: str, wrapped: bytes) -> None:
    """Store a new key. InvalidArgumentError if there are too many."""
    tx.run(_q.add, name=_PREFIX + key_id, value=wrapped)
    if len(wrapped_keys(tx)) >= MAX_KEYS:
        raise InvalidArgumentError(
            f"there are {MAX_KEYS} keys of written-out secrets, the most that are possible"
        )


def wrapped_keys(tx: Tx) -> Mapping[str, bytes]:
    """Return all keys by id."""
    rows = tx.all(_q.all, first=_PREFIX, behind=_BEHIND, limit=MAX_KEYS)
    return {str(row["name"]).removeprefix(_PREFIX): bytes(row["value"]) for row in rows}


def rewrap(tx: Tx, key_id: str, before: bytes, wrapped: bytes) -> bool:
    """Store a key wrapped anew, unless it has changed since it was read."""
    return tx.run(_q.rewrap, name=_PREFIX + key_id, before=before, value=wrapped) == 1


def key_uses(tx: Tx) -> Mapping[str, int]:
    """Return how many keys are under each master key, by its id in hexadecimal digits."""
    return Counter(wrapped[1:9].hex() for wrapped in wrapped_keys(tx).values())
