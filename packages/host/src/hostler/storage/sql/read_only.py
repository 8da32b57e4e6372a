"""A SQLite database opened for reading only: no writer, no threads, no migration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hostler.storage.port import Dialect, Late, Tx
from hostler.storage.sql.migrate import newest_schema, schema_of
from hostler.storage.sql.session import SessionTx
from hostler.storage.sql.sqlite import SqliteSession

T = TypeVar("T")


class NeedsHostError(Exception):
    """A request needs a running host: it does more than read."""


class ReadOnlyDatabase:
    """A `Database` for one reader. A read blocks its caller; a write raises NeedsHostError."""

    dialect: Dialect = "sqlite"
    shared = False

    def __init__(self, session: SqliteSession) -> None:
        self._session = session

    async def write(self, work: Callable[[Tx], T], *, synced: bool = True, late: Late[T] | None = None) -> T:
        """Raise NeedsHostError."""
        raise NeedsHostError("a write")

    async def read(self, work: Callable[[Tx], T], *, brief: bool = False) -> T:
        """Run `work` in one snapshot. StorageError if the database cannot be read."""
        tx = SessionTx(self._session, self._session.begin(synced=False))
        try:
            return work(tx)
        finally:
            self._session.rollback()

    async def close(self) -> None:
        """Close the connection."""
        self._session.close()


def open_for_reading(path: Path) -> ReadOnlyDatabase | None:
    """Open the database at `path`; None if it does not exist or has not this build's schema.

    In both cases a host is needed: it creates the database, migrates it, or refuses it with a reason.
    """
    if not path.is_file():
        return None
    session = SqliteSession(path, checkpointer=None)
    if schema_of(session) == newest_schema("sqlite"):
        return ReadOnlyDatabase(session)
    session.close()
    return None
