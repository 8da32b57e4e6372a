"""SQLite: sessions on one file in WAL mode, checkpoints off the commit path, online backup."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hostler.storage.port import Dialect, Query, Row
from hostler.storage.sql.checkpoints import KEPT_LOG_BYTES, Checkpointer, Checkpoints, MakeCheckpointer
from hostler.storage.sql.migrate import Migrator, split_statements
from hostler.storage.sql.session import ConnectionLostError, ConstraintError
from hostler_protocol.errors import HostlerError, InvalidArgumentError, StorageError

BUSY_SECONDS = 10
"""Longest wait for a lock that another process (a backup, a shell) holds."""
CACHE_KIB = 16 * 1024
CACHED_STATEMENTS = 512
TRUNCATION_WAIT_MS = 50
"""How long emptying the log waits for readers: the writer waits with it."""
BACKUP_PAGES_PER_STEP = 1_000
"""4 MiB: an online backup copies this much before it lets writers in."""

# Python looks for an adapter of every None that is bound; without one it creates and drops two exceptions.
sqlite3.register_adapter(type(None), {None: None}.get)


class SqliteDriver:
    """One database file. The constructor checks it, switches it to WAL and migrates it."""

    dialect: Dialect = "sqlite"
    shared = False

    def __init__(self, path: Path, checkpointer: MakeCheckpointer = Checkpointer) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot make the folder of the database {path}: {error}") from error
        with _errors(path), contextlib.closing(connect(path)) as connection:
            mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            if mode != "wal":
                raise StorageError(
                    f"{path} cannot use a write-ahead log (mode {mode!r}): put the data on a local disk"
                )
            # Not synced one by one: the log keeps their order, so a power failure loses only the last ones,
            # each as a whole. They are synced as the log is emptied, or by the writer's first commit.
            connection.execute("PRAGMA synchronous=NORMAL")
            Migrator(_Migrations(connection)).migrate()
        self._checkpointer = checkpointer(path, connect)

    def open_writer(self) -> SqliteSession:
        """Open the writing session."""
        return SqliteSession(self.path, checkpointer=self._checkpointer)

    def open_reader(self) -> SqliteSession:
        """Open a reading session; the database refuses its writes."""
        return SqliteSession(self.path, checkpointer=None)

    def close(self) -> None:
        """Stop the checkpointer."""
        self._checkpointer.close()

    def backup(self, target: Path) -> None:
        """Copy the database to the new file `target` while it is being written.

        The copy is one consistent state, durable on return. The blobs that it refers to are in the blob
        folder already (they are written before the rows that refer to them) and only gc removes them: copy
        the folder after the database, and run no gc in between.
        """
        if target.exists():
            raise InvalidArgumentError(f"{target} exists already: name a new file for the backup")
        unfinished = target.with_name(target.name + ".partial")
        try:
            with (
                contextlib.closing(connect(self.path)) as source,
                contextlib.closing(sqlite3.connect(unfinished)) as copy,
            ):
                source.execute("BEGIN")  # one snapshot: writers neither wait nor restart the copy
                source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
                source.backup(copy, pages=BACKUP_PAGES_PER_STEP)
            _sync(unfinished)
            unfinished.rename(target)
            _sync(target.parent)
        except (OSError, sqlite3.Error) as error:
            unfinished.unlink(missing_ok=True)
            raise StorageError(f"the backup to {target} failed: {error}") from error

    def truncate_log(self) -> bool:
        """Copy the log into the database file and empty it; return False if a reader or a writer uses it."""
        with _errors(self.path), contextlib.closing(connect(self.path)) as connection:
            connection.execute(f"PRAGMA busy_timeout={TRUNCATION_WAIT_MS}")
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy


class SqliteSession:
    """One connection. It is the writer if it has a checkpointer, otherwise read-only."""

    dialect: Dialect = "sqlite"

    def __init__(self, path: Path, checkpointer: Checkpoints | None) -> None:
        self._path = path
        self._checkpointer = checkpointer
        self._full_sync = True
        self._step_due = False
        with _errors(path):
            self._connection = connect(path)
            if checkpointer is None:
                self._connection.execute("PRAGMA query_only=ON")
            else:
                self._connection.execute("PRAGMA wal_autocheckpoint=0")
                self._connection.execute(f"PRAGMA journal_size_limit={KEPT_LOG_BYTES}")
        self._execute = self._connection.execute
        self._columns: dict[str, tuple[str, ...]] = {}
        self._begin = "BEGIN" if checkpointer is None else "BEGIN IMMEDIATE"

    def begin(self, *, synced: bool) -> int:
        """Begin; switch `synchronous` first where needed, since it cannot change inside a transaction."""
        try:
            if self._checkpointer is not None and synced is not self._full_sync:
                self._execute(f"PRAGMA synchronous={'FULL' if synced else 'NORMAL'}")
                self._full_sync = synced
            self._execute(self._begin)
        except sqlite3.Error as error:
            raise ConnectionLostError(f"{translated(error, self._path)}; nothing was written") from error
        return time.time_ns() // 1_000_000

    def commit(self) -> None:
        """Commit."""
        try:
            self._execute("COMMIT")
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        if self._checkpointer is not None:  # not in `idle`: callers are awake by then and compete for the CPU
            self._step_due = self._checkpointer.after_commit()

    def rollback(self) -> None:
        """Roll back; some failures have rolled the transaction back already."""
        if self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # the only possible error: no transaction is active
                self._execute("ROLLBACK")

    def idle(self) -> None:
        """Do the last step of a checkpoint if it is due."""
        if self._step_due and self._checkpointer is not None:
            self._step_due = False
            self._checkpointer.finish(self._connection)

    def close(self) -> None:
        """Close; the last connection copies the log into the file."""
        self.rollback()
        self._connection.close()

    def run(self, query: Query, params: Mapping[str, Any] | tuple[Any, ...]) -> int:
        """Execute and return the number of changed rows."""
        try:
            row = params if isinstance(params, tuple) else query.values(params)
            return self._execute(query.sqlite, row).rowcount
        except sqlite3.Error as error:
            raise translated(error, self._path) from error

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute once per row of parameters."""
        self.run_rows(query, map(query.values, rows))

    def run_rows(self, query: Query, rows: Iterable[Sequence[Any]]) -> None:
        """Execute once per row, its parameters in the order of `query.names`."""
        try:
            self._connection.executemany(query.sqlite, rows)
        except sqlite3.Error as error:
            raise translated(error, self._path) from error

    def one(self, query: Query, params: Mapping[str, Any]) -> Row | None:
        """Return the first row, or None."""
        try:
            cursor = self._execute(query.sqlite, query.values(params))
            row = cursor.fetchone()
            if row is None:
                return None
            names = self._columns.get(query.sqlite) or self._named(query, cursor)
            cursor.close()
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        return dict(zip(names, row, strict=True))

    def all(self, query: Query, params: Mapping[str, Any]) -> list[Row]:
        """Return all rows."""
        try:
            cursor = self._execute(query.sqlite, query.values(params))
            rows = cursor.fetchall()
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        if not rows:
            return []
        names = self._columns.get(query.sqlite) or self._named(query, cursor)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _named(self, query: Query, cursor: sqlite3.Cursor) -> tuple[str, ...]:
        """Return the column names of a query, cached: the schema does not change after the migrations."""
        names = self._columns[query.sqlite] = tuple(column[0] for column in cursor.description)
        return names


class _Migrations:
    """Schema changes on SQLite: DDL is transactional, and `BEGIN IMMEDIATE` takes the lock."""

    dialect: Dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def script(self, sql: str) -> None:
        for statement in split_statements(sql):
            self._connection.execute(statement)

    def rows(self, query: Query, **params: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(query.sqlite, query.values(params)).fetchall()

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection with the host's settings; it may be passed to another thread.

    A new file, and what SQLite puts beside it, is its owner's alone.
    """
    with contextlib.suppress(OSError):  # it exists, or SQLite says what is wrong
        # never open one that exists: closing it again would end the locks that SQLite has on it (fcntl(2))
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(
        path,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=CACHED_STATEMENTS,
    )
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
    connection.execute("PRAGMA temp_store=MEMORY")
    # what is deleted or replaced is overwritten in the file: some builds do so by default. It costs 1 %.
    connection.execute("PRAGMA secure_delete=ON")
    return connection


_SENTENCES = {
    sqlite3.SQLITE_FULL: "no space left for {path}: nothing was written; free space and try again",
    sqlite3.SQLITE_IOERR: "reading or writing {path} failed ({error}): check the disk and its free space",
    sqlite3.SQLITE_BUSY: "{path} stayed locked by another process ({error}): try again",
    sqlite3.SQLITE_LOCKED: "{path} stayed locked by another process ({error}): try again",
    sqlite3.SQLITE_CORRUPT: "{path} is damaged ({error}): restore a backup",
    sqlite3.SQLITE_NOTADB: "{path} is no database ({error}): name another file or restore a backup",
    sqlite3.SQLITE_READONLY: "{path} cannot be written ({error}): check its permissions",
    sqlite3.SQLITE_CANTOPEN: "{path} cannot be opened ({error}): check its folder and permissions",
    sqlite3.SQLITE_PERM: "{path} may not be opened ({error}): check its permissions",
}


def translated(error: sqlite3.Error, path: Path) -> Exception:
    """Return the StorageError for `error`, or `error` itself if the statement is wrong."""
    if isinstance(error, sqlite3.IntegrityError):
        return ConstraintError(f"the database refused a row: {error}")
    sentence = _SENTENCES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
    return error if sentence is None else StorageError(sentence.format(path=path, error=error))


@contextlib.contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except HostlerError:
        raise
    except sqlite3.Error as error:
        raise translated(error, path) from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
