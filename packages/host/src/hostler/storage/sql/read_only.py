"""Opens a SQLite database for reading alone: no writer, no threads, no migration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hostler.storage.port import Dialect, Tx
from hostler.storage.sql.migrate import newest_schema, schema_of
from hostler.storage.sql.session import SessionTx
from hostler.storage.sql.sqlite import SqliteSession

T = TypeVar("T")


class NeedsHostError(Exception):
    """A request needs more than reading: it has to be asked of a whole host."""


class ReadOnlyDatabase:
    """A `ports.Database` for one reader. A read blocks its caller; a write raises NeedsHostError."""

    dialect: Dialect = "sqlite"

    def __init__(self, session: SqliteSession) -> None:
        self._session = session

    async def write(self, work: Callable[[Tx], T], *, synced: bool = True) -> T:
        """Raise NeedsHostError."""
        raise NeedsHostError("a write")

    async def read(self, work: Callable[[Tx], T], *, brief: bool = False) -> T:
        """Run `work` in one snapshot. StorageError."""
        tx = SessionTx(self._session, self._session.begin(synced=False))
        try:
            return work(tx)
        finally:
            self._session.rollback()

    async def close(self) -> None:
        """Close the connection."""
        self._session.close()


def open_for_reading(path: Path) -> ReadOnlyDatabase | None:
    """Open the database at `path`. None if it does not exist or its schema is not this build's.

    A host creates it, migrates it, or refuses it with the reason.
    """
    if not path.is_file():
        return None
    session = SqliteSession(path, checkpointer=None)
    if schema_of(session) == newest_schema("sqlite"):
        return ReadOnlyDatabase(session)
    session.close()
    return None
