"""A sealed database in a folder, with its keys in files, that a test opens, copies and opens again."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hostler.secrets.key_ring import KeyRing, new_key
from hostler.storage.port import Dialect, Late, Tx
from hostler.storage.sealing.blob_keys import SealedBlobKeys
from hostler.storage.sealing.erasing import ERASURE_KEY, Eraser
from hostler.storage.sealing.erasure_key import ErasureKey
from hostler.storage.sealing.keyring import Sealer
from hostler.storage.sealing.tx import sealing
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import installation
from hostler.storage.stores.blobs import BlobFolder
from support.databases import prepare_sqlite
from support.old_facts import World

T = TypeVar("T")


class CrashError(Exception):
    """The process died."""


@dataclass
class Crashing:
    """A database whose process dies at its write number `at`, before or after the commit."""

    database: SqlDatabase
    at: int | None = None
    after: bool = False
    writes: int = 0

    @property
    def dialect(self) -> Dialect:
        return self.database.dialect

    @property
    def shared(self) -> bool:
        return self.database.shared

    async def write(self, work: Callable[[Tx], T], *, synced: bool = True, late: Late[T] | None = None) -> T:
        number, self.writes = self.writes, self.writes + 1
        if number == self.at and not self.after:
            raise CrashError
        done = await self.database.write(work, synced=synced, late=late)
        if number == self.at:
            raise CrashError
        return done

    async def read(self, work: Callable[[Tx], T], *, brief: bool = False) -> T:
        return await self.database.read(work, brief=brief)

    async def close(self) -> None:
        await self.database.close()


@dataclass
class Sealed:
    """An opened folder."""

    database: SqlDatabase
    blobs: BlobFolder
    sealer: Sealer
    erasure_key: ErasureKey
    world: World = field(init=False)

    def __post_init__(self) -> None:
        self.world = World(self.database, self.blobs)

    def eraser(self, database: Any = None) -> Eraser:
        """What erases."""
        return Eraser(database or self.database, self.sealer)


@dataclass(frozen=True)
class SealedFolder:
    """A folder with a database, blobs and an erasure key; the master keys are outside."""

    path: Path
    master: KeyRing = field(default_factory=lambda: KeyRing([new_key()]))

    @property
    def database(self) -> Path:
        return self.path / "facts.db"

    @contextlib.asynccontextmanager
    async def open(self, *, seals: bool = True) -> AsyncIterator[Sealed]:
        """Open it, as a process of its own would."""
        self.path.mkdir(exist_ok=True)
        opened = open_database(prepare_sqlite(self.database))
        blobs = BlobFolder(self.path / "blobs")
        key = ErasureKey([self.path / "erasure.key"])
        sealer = Sealer(lambda: self.master, key, shared=False)
        try:
            if seals:
                key.create()
                opened.transact_by(sealing(sealer))
                blobs.keys = SealedBlobKeys(opened, sealer)
                current = key.ring().current_id.encode()
                await opened.write(lambda tx: installation.add(tx, ERASURE_KEY, current))
            yield Sealed(opened, blobs, sealer, key)
        finally:
            blobs.close()
            await opened.close()

    def copy(self, path: Path) -> SealedFolder:
        """Copy it while nobody has it open."""
        shutil.copytree(self.path, path)
        return SealedFolder(path, self.master)
