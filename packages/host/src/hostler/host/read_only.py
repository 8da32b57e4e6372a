"""The part of a host that read-only routes need.

Opening a whole host imports all of it, takes the lock of the data directory and starts threads. A list of
runs needs none of that.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hostler.calls.cursors import Cursors
from hostler.host.data_directory import check_address, own_database
from hostler.host.run_reader import RunReader
from hostler.storage.sealing.tx import has_sealed
from hostler.storage.sql.read_only import NeedsHostError, ReadOnlyDatabase, open_for_reading
from hostler.storage.stores import installation

if TYPE_CHECKING:
    from hostler.pauses.service import PauseService


class ReadOnlyHost:
    """The part of `host.Host` that reads the database. Any other attribute raises NeedsHostError."""

    def __init__(self, db: ReadOnlyDatabase, cursors: Cursors) -> None:
        self.db = db
        self.cursors = cursors

    @classmethod
    async def open(cls, data_dir: Path) -> ReadOnlyHost | None:
        """Open the SQLite database of a data directory. None if a host has to create, migrate or unseal it.

        InvalidArgumentError if the directory belongs to another database; StorageError.
        """
        check_address(data_dir, None)
        db = open_for_reading(own_database(data_dir))
        if db is None:
            return None
        key = await db.read(lambda tx: None if has_sealed(tx) else installation.find(tx, "cursors"))
        if key is None:
            await db.close()
            return None
        return cls(db, Cursors(key))

    async def close(self) -> None:
        """Close the database."""
        await self.db.close()

    @cached_property
    def runs(self) -> RunReader:
        """Runs, without live results."""
        return RunReader(self.db)

    @cached_property
    def pauses(self) -> PauseService:
        """The service of pauses, for reading; decisions need a database that can be written."""
        from hostler.pauses.service import PauseService  # noqa: PLC0415  for this alone

        return PauseService(self.db)

    def __getattr__(self, name: str) -> Any:
        raise NeedsHostError(name)
