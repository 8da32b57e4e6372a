"""The part of a host that read-only routes need.

Opening a whole host imports all of it, takes the lock of the data directory and starts threads. A list of
runs needs none of that.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hostler.calls.cursors import Cursors
from hostler.domain.allowances import Allowances, WorkspaceEntry
from hostler.domain.type_fit import convert
from hostler.host.data_directory import DEFAULT_WORKSPACE, check_address, own_database
from hostler.host.run_reader import RunReader
from hostler.storage.sealing.tx import has_sealed
from hostler.storage.sql.read_only import NeedsHostError, ReadOnlyDatabase, open_for_reading
from hostler.storage.stores import installation, settings
from hostler_protocol.errors import InvalidArgumentError

if TYPE_CHECKING:
    from hostler.pauses.service import PauseService
    from hostler.storage.port import Tx


class ReadOnlyHost:
    """The part of `host.Host` that reads the database. Any other attribute raises NeedsHostError."""

    def __init__(self, db: ReadOnlyDatabase, cursors: Cursors, allowances: Allowances) -> None:
        self.db = db
        self.cursors = cursors
        self.allowances = allowances

    @classmethod
    async def open(cls, data_dir: Path) -> ReadOnlyHost | None:
        """Open the SQLite database of a data directory. None if a host has to create, migrate or unseal it.

        InvalidArgumentError if the directory belongs to another database; StorageError.
        """
        check_address(data_dir, None)
        db = open_for_reading(own_database(data_dir))
        if db is None:
            return None
        host = await db.read(lambda tx: None if has_sealed(tx) else cls._of(db, tx))
        if host is None:
            await db.close()
        return host

    @classmethod
    def _of(cls, db: ReadOnlyDatabase, tx: Tx) -> ReadOnlyHost | None:
        key = installation.find(tx, "cursors")
        try:
            entries = [
                convert(setting.spec, WorkspaceEntry, setting.name)
                for setting in settings.page(tx, DEFAULT_WORKSPACE, "workspace")
            ]
        except InvalidArgumentError:  # stored by another version: a host says so
            return None
        return None if key is None else cls(db, Cursors(key), Allowances(DEFAULT_WORKSPACE, entries))

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
