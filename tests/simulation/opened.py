"""The facts of a life whose content is sealed, opened for its judges by views of the same names."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from pathlib import Path
from typing import Any

from hostler.secrets.key_ring import KeyRing
from hostler.storage.sealing.columns import LABELS, TABLES
from hostler.storage.sealing.envelope import DataKey, SealedError, key_id_in
from hostler.storage.sealing.erasure_key import ErasureKey
from hostler.storage.sealing.keyring import Sealer

NAMES = ("HOSTLER_SIMULATED_MASTER_KEY", "HOSTLER_SIMULATED_LATER_MASTER_KEY")
"""Variables with the master keys of a life: the one of its beginning, and perhaps a later one."""
MASTER_KEYS = [hashlib.sha256(name.encode()).digest() for name in NAMES]
for name, key in zip(NAMES, MASTER_KEYS, strict=True):
    os.environ[name] = key.hex()


class Opener:
    """Opens what stands in one database, with every master key of a life."""

    def __init__(self, path: Path, erasure_key: Path) -> None:
        ring = KeyRing(MASTER_KEYS)
        self._sealer = Sealer(lambda: ring, ErasureKey([erasure_key]), shared=True)
        self._rows = sqlite3.connect(path)
        self._rows.row_factory = sqlite3.Row
        self._known: dict[str, DataKey] = {}
        self._opened: dict[tuple[str, Any], Any] = {}
        """Values that were opened, sealed as they are: each judge reads much of what others have read."""

    def key(self, key_id: str) -> DataKey | None:
        """Return a key, or None if there is none."""
        if key_id not in self._known:
            row = self._rows.execute("SELECT * FROM sealing_keys WHERE key_id = ?", (key_id,)).fetchone()
            if row is None:
                return None
            parent = None if row["parent_id"] is None else self.key(row["parent_id"])
            self._known[key_id] = self._sealer.unwrap(dict(row), parent)
        return self._known[key_id]

    def opened(self, column: str, value: Any) -> Any:
        """Return a value opened, or as it is."""
        key_id = key_id_in(value)
        if key_id is None:
            return value
        key = self.key(key_id)
        if key is None:
            raise SealedError(f"a {column} is sealed with key {key_id}, which is not there")
        found = self._opened.get((column, value))
        if found is None:
            found = self._opened[column, value] = key.open(LABELS[column], value)
        return found

    def keyed(self, workspace: str, name: str, digest: str) -> str:
        """Return the digest as the key of this name makes it."""
        query = "SELECT key_id FROM sealing_keys WHERE workspace_id = ? AND name = ? AND retired = 0"
        row = self._rows.execute(query, (workspace, name)).fetchone()
        key = None if row is None else self.key(row["key_id"])
        return digest if key is None else f"keyed:{key.digest(digest.encode()).hex()}"

    def shadow(self, connection: sqlite3.Connection) -> None:
        """Let a connection see every table with content opened."""
        connection.create_function("opened", 2, self.opened)
        for table in TABLES.values():
            names = [row[1] for row in connection.execute(f"PRAGMA main.table_info({table.name})")]
            shown = ", ".join(f"opened('{n}', {n}) AS {n}" if n in table.columns else n for n in names)
            connection.execute(f"CREATE TEMP VIEW {table.name} AS SELECT {shown} FROM main.{table.name}")
