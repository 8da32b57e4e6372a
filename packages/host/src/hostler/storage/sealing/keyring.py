"""The key tree in memory: the keys outside of the database, and the data keys that were opened.

Every key below a workspace's is wrapped by its parent and bound to its place, which is its workspace and id.
The workspace's key is wrapped twice: by the erasure key, which an erasure replaces, and by the master key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from hostler.secrets.key_ring import KeyRing, KeyRingError, UnknownKeyError, open_sealed, seal
from hostler.storage.sealing.envelope import DataKey, KeyMissingError, SealedError
from hostler_protocol.ids import canonical_json

MAX_CACHED_KEYS = 20_000
"""Opened keys in memory, about 10 MB; beyond it all are forgotten and read again."""
WORKSPACE = "workspace"
"""The name of a workspace's own key."""
NO_WORKSPACE = ""
"""What the keys of blobs are under: bytes are stored before it is known whose they are."""


class ErasureKeys(Protocol):
    """The erasure key, outside of the database (`sealing.erasure_key`)."""

    def ring(self) -> KeyRing:
        """Return the keys, the current one first. StorageError."""

    def reread(self) -> KeyRing:
        """Return the keys as they are now: another host may have replaced them. StorageError."""

    def begin(self) -> str:
        """Put a new key before the present one, durably, and return its id; both open. StorageError."""

    def finish(self, current: str) -> None:
        """Destroy all keys that are older than the one of this id. StorageError."""


class Sealer:
    """What sealing needs, shared by the writer and the readers of a database.

    `master` returns the ring of master keys as it is now.
    """

    def __init__(self, master: Callable[[], KeyRing], erasure: ErasureKeys, *, shared: bool) -> None:
        self._master = master
        self.erasure = erasure
        self.shared = shared
        self._keys: dict[str, DataKey] = {}
        self._named: dict[tuple[str, str], DataKey] = {}
        self._version = 0

    # -- keys that were opened ------------------------------------------------------------------------------

    def known(self, key_id: str) -> DataKey | None:
        """Return a key that was opened before."""
        return self._keys.get(key_id)

    def named(self, workspace_id: str, name: str) -> DataKey | None:
        """Return the key that new values are sealed with; None on a shared database, where it may be gone."""
        return None if self.shared else self._named.get((workspace_id, name))

    def look_at(self, version: int) -> None:
        """Forget which keys new values are sealed with if another process wrote to the database since."""
        if version != self._version:
            self._named.clear()
            self._version = version

    def keep(self, change: Change) -> None:
        """Take over what a committed transaction changed."""
        if len(self._keys) + len(change.opened) > MAX_CACHED_KEYS:
            self._keys.clear()
            self._named.clear()
        self._keys.update(change.opened)
        self._named.update(change.named)
        if change.destroyed:
            for key_id in change.destroyed:
                self._keys.pop(key_id, None)
            self._named = {
                place: key for place, key in self._named.items() if key.key_id not in change.destroyed
            }

    def wraps_with(self, erasure_key: str) -> bool:
        """Whether the erasure key of this id is among those that are there: no older one is then current."""
        return erasure_key in self.erasure.ring().ids or erasure_key in self.erasure.reread().ids

    # -- wrapping -------------------------------------------------------------------------------------------

    def wrap(self, key: DataKey, workspace_id: str, parent: DataKey | None) -> bytes:
        """Wrap a key by its parent, or a workspace's key by the keys outside."""
        bound = _bound(workspace_id, key.key_id)
        if parent is not None:
            return seal(parent.secret, bound, key.secret)
        return self._master().wrap(bound, self.erasure.ring().wrap(bound, key.secret))

    def unwrap(self, row: Mapping[str, Any], parent: DataKey | None) -> DataKey:
        """Open a key that is stored. SealedError."""
        key_id, wrapped = str(row["key_id"]), bytes(row["wrapped"])
        bound = _bound(str(row["workspace_id"]), key_id)
        try:
            if parent is not None:
                return DataKey(key_id, open_sealed(parent.secret, bound, wrapped))
            inner = self._master().unwrap(bound, wrapped)
            try:
                return DataKey(key_id, self.erasure.ring().unwrap(bound, inner))
            except UnknownKeyError:
                return DataKey(key_id, self.erasure.reread().unwrap(bound, inner))
        except KeyRingError as error:
            which = "" if parent is not None else f" of workspace {row['workspace_id']!r}"
            kind = KeyMissingError if isinstance(error, UnknownKeyError) else SealedError
            raise kind(f"a key{which} that seals content does not open: {error.message}") from error

    def rewrapped(self, row: Mapping[str, Any]) -> bytes | None:
        """Return a workspace's key under the current master key and erasure key; None if it is."""
        bound, wrapped = _bound(str(row["workspace_id"]), str(row["key_id"])), bytes(row["wrapped"])
        master, erasure = self._master(), self.erasure.ring()
        inner = master.unwrap(bound, wrapped)
        if master.is_current(wrapped) and erasure.is_current(inner):
            return None
        return master.wrap(bound, erasure.rewrap(bound, inner) or inner)


@dataclass(slots=True)
class Change:
    """What one transaction did to the keys: kept in memory only once it is committed."""

    opened: dict[str, DataKey] = field(default_factory=dict)
    named: dict[tuple[str, str], DataKey] = field(default_factory=dict)
    destroyed: set[str] = field(default_factory=set)


def _bound(workspace_id: str, key_id: str) -> bytes:
    return canonical_json(["hostler sealing", workspace_id, key_id])
