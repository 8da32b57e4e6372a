"""Open a database by its address."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.session import Driver
from hostler.storage.sql.sqlite import SqliteDriver
from hostler_protocol.errors import InvalidArgumentError

DEFAULT_READERS = 3
"""Reading threads: queries are short and rarely hold a lock, but the interpreter runs one thread at a
time."""


_CONNECTION_WORDS = re.compile(r"(?:^|\s)(?:host|hostaddr|port|dbname|user|password|service|sslmode)\s*=")
"""How libpq writes an address; as a file name it would be made, with the password in it."""


def open_database(where: str | os.PathLike[str], *, readers: int = DEFAULT_READERS) -> SqlDatabase:
    """Open the database at `where`; create it if it is missing, migrate it if it is older.

    `where` is a file path or `sqlite:///path` for SQLite, `postgresql://...` for PostgreSQL. Blocks while it
    migrates. Raises InvalidArgumentError for another kind of address, StorageError if the database cannot be
    used or was migrated by a newer build.
    """
    return SqlDatabase(_driver(os.fspath(where)), readers=readers)


def _driver(where: str) -> Driver:
    scheme, separator, rest = where.partition("://")
    if not separator:
        if _CONNECTION_WORDS.search(where):  # not repeated: it may have a password
            raise InvalidArgumentError(
                "the database is no file path but words of a connection (host=, dbname= ...): write a URL, "
                "postgresql://user@host/name"
            )
        return SqliteDriver(Path(where))
    if scheme == "sqlite":
        if not rest.startswith("/"):
            raise InvalidArgumentError("the address of SQLite is sqlite:///path/to/file (three slashes)")
        return SqliteDriver(Path(rest.removeprefix("/")) if rest.startswith("//") else Path(rest))
    if scheme in ("postgresql", "postgres"):
        # imported here: psycopg is an optional extra, and costs start-up time
        try:
            from hostler.storage.sql.postgres import PostgresDriver  # noqa: PLC0415
        except ImportError as error:
            raise InvalidArgumentError("PostgreSQL needs the extra: install hostler[postgres]") from error
        return PostgresDriver(where)
    raise InvalidArgumentError(
        f"{scheme}:// is no database we know; use a file path, sqlite:/// or postgresql://"
    )
