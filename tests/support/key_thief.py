"""What can be read with the master key, the erasure key of today, and copies of the data from any time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostler.secrets.key_ring import KeyRing
from hostler.storage.port import Query, Tx
from hostler.storage.sealing.columns import LABELS, TABLES
from hostler.storage.sealing.envelope import DataKey, SealedError, key_id_in
from hostler.storage.sealing.erasure_key import ErasureKey
from hostler.storage.sealing.files import key_id_of, plain_size, read_sealed
from hostler.storage.sealing.keyring import Sealer
from hostler.storage.sql.connect import open_database
from support.canaries import Canaries


@dataclass
class Copy:
    """All rows of the tables with content and of the key tree, and the files of blobs, at one time."""

    keys: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    files: dict[str, bytes] = field(default_factory=dict)


async def copy_of(database: str | Path, blobs: Path | None = None) -> Copy:
    """Copy a database as it is stored, and a folder of blobs."""
    opened = await asyncio.to_thread(open_database, str(database), readers=1)
    try:
        return await opened.read(lambda tx: Copy(_all(tx, "sealing_keys"), _content(tx), _files(blobs)))
    finally:
        await opened.close()


def _all(tx: Tx, table: str) -> list[dict[str, Any]]:
    return [dict(row) for row in tx.all(Query(f"thief.{table}", *[f"SELECT * FROM {table}"] * 2))]


def _content(tx: Tx) -> list[dict[str, Any]]:
    return [row for table in TABLES for row in _all(tx, table)]


def _files(root: Path | None) -> dict[str, bytes]:
    found = () if root is None else root.glob("??/??/*")
    return {path.name: path.read_bytes() for path in found}


class Thief:
    """Opens all keys that can be opened from any of the copies, and with them all values."""

    def __init__(self, master: KeyRing, erasure_key: Path, copies: list[Copy]) -> None:
        self._sealer = Sealer(lambda: master, ErasureKey([erasure_key]), shared=True)
        self._copies = copies
        self.keys: dict[str, list[DataKey]] = {}
        """By id: a key that was moved is wrapped by different ones in different copies."""
        self._open_keys([row for copy in copies for row in copy.keys])

    def _open_keys(self, rows: list[dict[str, Any]]) -> None:
        left = rows
        while True:
            again = [row for row in left if not self._opened(row)]
            if len(again) == len(left):
                return
            left = again

    def _opened(self, row: dict[str, Any]) -> bool:
        above: list[DataKey | None] = [None]
        if row["parent_id"] is not None:
            above = [*self.keys.get(row["parent_id"], [])]
        for parent in above:
            try:
                key = self._sealer.unwrap(row, parent)
            except SealedError:
                continue
            known = self.keys.setdefault(key.key_id, [])
            if key.secret not in {one.secret for one in known}:
                known.append(key)
            return True
        return False

    def read(self, tmp: Path) -> bytes:
        """Everything that opens, and everything that is not sealed."""
        found: list[bytes] = []
        for copy in self._copies:
            for row in copy.rows:
                # a grant is configuration; made-up ones have texts in them
                found += [self._value(name, value) for name, value in row.items() if name != "grant_json"]
            found += [self._file(tmp, data) for data in copy.files.values()]
        return b"\n".join(found)

    def _value(self, column: str, value: Any) -> bytes:
        key_id = key_id_in(value)
        if key_id is None:
            return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
        for key in self.keys.get(key_id, []):
            plain = key.open(LABELS[column], value)
            return plain if isinstance(plain, bytes) else plain.encode("utf-8", "replace")
        return b""

    def _file(self, tmp: Path, data: bytes) -> bytes:
        path = tmp / "stolen"
        path.write_bytes(data)
        key_id = key_id_of(path)
        if key_id is None:
            return data
        for key in self.keys.get(key_id, []):
            return read_sealed(path, key, 0, plain_size(len(data)))
        return b""

    def places(self, tmp: Path, canaries: Canaries) -> set[str]:
        """The places whose canary can be read."""
        return canaries.found_in(self.read(tmp))
