"""PostgreSQL: sessions that survive a lost connection and know whether an interrupted commit happened.

Each group updates the writer's row in `writers` inside its transaction. When the connection breaks during
COMMIT, a new connection locks that row, which waits until the old backend is gone, and reads the number of
the last group: if it is this group's, the commit happened, otherwise the group runs again.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row, tuple_row

from hostler.domain.back_off import back_off
from hostler.storage.port import Dialect, Query, Row
from hostler.storage.sql.migrate import Migrator
from hostler.storage.sql.session import (
    APPLICATION,
    CommitUnknownError,
    ConnectionLostError,
    ConstraintError,
    ContentionError,
)
from hostler.storage.sql.statements import load
from hostler_protocol.errors import InvalidArgumentError, StorageError
from hostler_protocol.ids import new_id

OLDEST_SERVER = 140000
CONNECT_SECONDS = 5
RECONNECT_SECONDS = 10.0
"""How long a group waits for a server that went away; after that, groups fail at once until it is back."""
FIRST_BACK_OFF_SECONDS = 0.05
LAST_BACK_OFF_SECONDS = 1.0
_MIGRATION_LOCK = 0x686F73746C6572
"""Advisory lock that keeps two hosts from migrating at once: "hostler" in ASCII."""
_SETTINGS = (
    "-c timezone=UTC -c lock_timeout=10s -c idle_in_transaction_session_timeout=3s"
    " -c default_transaction_isolation=read\\ committed"
)
"""A host that was stopped inside a transaction must not hold its locks for long: other hosts' writes wait for
them, lease renewals included. The host retries a transaction that the timeout ended. Other hosts end those
that the timeout misses (`hosts.end_stalled`)."""
_COMMIT = "UPDATE writers SET last_group = {group} WHERE writer_id = '{writer_id}'; COMMIT"
"""One round trip, which allows no parameters: both values, a number and a UUID, are made by this module."""
_NO_ADDRESS = (
    "the address of PostgreSQL cannot be read: write postgresql://user:password@host/name, with special "
    "characters of the password written as %2F and the like"
)
_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now"

_q = load(__file__)

Connection = psycopg.Connection[DictRow]


class PostgresDriver:
    """One database on a server. The constructor connects and migrates."""

    dialect: Dialect = "postgres"
    shared = True

    def __init__(self, url: str) -> None:
        self._url = url
        connection = connect(url)
        with contextlib.closing(connection):
            if connection.info.server_version < OLDEST_SERVER:
                raise StorageError(
                    f"the server is PostgreSQL {connection.info.server_version // 10000};"
                    f" {OLDEST_SERVER // 10000} or newer is needed"
                )
            with _errors(connection):
                Migrator(_Migrations(connection)).migrate()

    def open_writer(self) -> PostgresWriter:
        """Open the writing session."""
        return PostgresWriter(self._url)

    def open_reader(self) -> PostgresReader:
        """Open a reading session; the database refuses its writes."""
        return PostgresReader(self._url)

    def backup(self, target: Path) -> None:
        """Raise InvalidArgumentError: PostgreSQL has its own backup tools."""
        raise InvalidArgumentError(f"{target} was not written: back up PostgreSQL with pg_dump")

    def truncate_log(self) -> bool:
        """Do nothing: the server keeps its log."""
        return True

    def close(self) -> None:
        """Do nothing: sessions share nothing."""


class _Session:
    """Execution of statements, for reading and writing sessions."""

    dialect: Dialect = "postgres"
    _connection: Connection

    def run(self, query: Query, params: Mapping[str, Any] | tuple[Any, ...]) -> int:
        """Execute and return the number of changed rows."""
        with _errors(self._connection):
            named = dict(zip(query.names, params, strict=True)) if isinstance(params, tuple) else params
            return self._connection.execute(query.postgres, named).rowcount

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute once per row of parameters, without waiting for each result."""
        with _errors(self._connection), self._connection.cursor() as cursor:
            cursor.executemany(query.postgres, rows)

    def run_rows(self, query: Query, rows: Iterable[Sequence[Any]]) -> None:
        """Execute once per row, its parameters in the order of `query.names`."""
        self.run_many(query, (dict(zip(query.names, row, strict=True)) for row in rows))

    def one(self, query: Query, params: Mapping[str, Any]) -> Row | None:
        """Return the first row, or None."""
        with _errors(self._connection):
            return self._connection.execute(query.postgres, params).fetchone()

    def all(self, query: Query, params: Mapping[str, Any]) -> list[Row]:
        """Return all rows."""
        with _errors(self._connection):
            return list(self._connection.execute(query.postgres, params).fetchall())

    def rollback(self) -> None:
        """Roll back; a broken connection has rolled back already."""
        if not self._connection.closed:
            with contextlib.suppress(psycopg.Error):  # the connection broke, which rolls back as well
                self._connection.execute("ROLLBACK")

    def idle(self) -> None:
        """Do nothing: PostgreSQL needs no maintenance here."""

    def _begin(self, statement: str) -> int:
        """Begin with `statement` and read the clock, in one round trip."""
        with _errors(self._connection):
            cursor = self._connection.execute(f"{statement}; {_NOW}", prepare=False)
            while cursor.nextset():
                pass
            row = cursor.fetchone()
        if row is None:
            raise RuntimeError("the clock gave no row")
        return int(row["now"])


class PostgresReader(_Session):
    """A reading session."""

    def __init__(self, url: str) -> None:
        self._connection = connect(url)

    def begin(self, *, synced: bool) -> int:
        """Begin a read-only transaction on one snapshot."""
        return self._begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def commit(self) -> None:
        """End the transaction."""
        with _errors(self._connection):
            self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class PostgresWriter(_Session):
    """The writing session."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._writer_id = new_id()
        self._group = 0
        self._away = False
        self._connection = connect(url)
        with _errors(self._connection):
            self._connection.execute(_q.forget_writers.postgres)
            self._connection.execute(_q.add_writer.postgres, {"writer_id": self._writer_id})

    def begin(self, *, synced: bool) -> int:
        """Begin, on a new connection if the old one broke."""
        if self._connection.closed:
            self._reconnect("nothing was written")
        return self._begin("BEGIN" if synced else "BEGIN; SET LOCAL synchronous_commit = off")

    def commit(self) -> None:
        """Commit. If the connection breaks meanwhile, find out whether the commit happened.

        CommitUnknownError if the server cannot be asked.
        """
        self._group += 1
        statement = _COMMIT.format(group=self._group, writer_id=self._writer_id)
        try:
            with _errors(self._connection):
                self._connection.execute(statement, prepare=False)
        except ContentionError:
            if not self._connection.closed or not self._committed():
                raise

    def close(self) -> None:
        """Close the connection and remove the writer's row."""
        if not self._connection.closed:
            with contextlib.suppress(psycopg.Error):  # a row that stays is removed when it is a year old
                self._connection.execute(_q.remove_writer.postgres, {"writer_id": self._writer_id})
        self._connection.close()

    def _committed(self) -> bool:
        """Whether the group whose COMMIT broke is in the database."""
        unknown = "whether the last writes were committed is not known"
        try:
            self._reconnect(unknown)
            row = self._connection.execute(_q.last_group.postgres, {"writer_id": self._writer_id}).fetchone()
        except ConnectionLostError as error:
            raise CommitUnknownError(str(error)) from error
        except psycopg.Error as error:
            self._connection.close()
            raise CommitUnknownError(f"{error}; {unknown}") from error
        if row is None:
            raise CommitUnknownError(f"this writer's row is gone; {unknown}")
        return bool(row["last_group"] == self._group)

    def _reconnect(self, consequence: str) -> None:
        """Reconnect, waiting for a server that restarts.

        `consequence` ends the text of ConnectionLostError.
        """
        until = time.monotonic() + (0.0 if self._away else RECONNECT_SECONDS)
        for failures in count(1):
            try:
                self._connection = connect(self._url)
            except StorageError as error:
                pause = back_off(failures, FIRST_BACK_OFF_SECONDS, LAST_BACK_OFF_SECONDS)
                if time.monotonic() + pause > until:
                    self._away = True
                    raise ConnectionLostError(f"{error}; {consequence}") from error
                time.sleep(pause)
            else:
                self._away = False
                return


class _Migrations:
    """Schema changes on PostgreSQL: DDL is transactional, an advisory lock keeps other hosts out."""

    dialect: Dialect = "postgres"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def begin(self) -> None:
        self._connection.execute("BEGIN")
        self._connection.execute("SELECT pg_advisory_xact_lock(%s)", [_MIGRATION_LOCK])

    def script(self, sql: str) -> None:
        self._connection.execute(sql, prepare=False)

    def rows(self, query: Query, **params: Any) -> list[tuple[Any, ...]]:
        cursor = self._connection.cursor(row_factory=tuple_row)
        cursor.execute(query.postgres, params)
        return cursor.fetchall() if cursor.description else []

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        if not self._connection.closed:
            self._connection.execute("ROLLBACK")


def connect(url: str) -> Connection:
    """Open a connection. StorageError, which says what to check; InvalidArgumentError for no address."""
    try:
        _check(url)
        return psycopg.connect(
            url,
            autocommit=True,  # transactions begin and end with explicit statements
            row_factory=dict_row,
            connect_timeout=CONNECT_SECONDS,
            options=_SETTINGS,
            application_name=APPLICATION,
            client_encoding="utf8",
        )
    except psycopg.ProgrammingError:  # libpq repeats what it cannot read, a password too
        raise InvalidArgumentError(_NO_ADDRESS) from None
    except psycopg.Error as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise StorageError(
            f"PostgreSQL cannot be reached ({reason}): check the address, the server and the password"
        ) from error


def _check(url: str) -> None:
    """Check an address where libpq would repeat parts of it: a slash makes the password a port."""
    if not re.fullmatch(r"[0-9,]*", str(conninfo_to_dict(url).get("port", ""))):
        raise InvalidArgumentError(_NO_ADDRESS)


def translated(error: psycopg.Error, connection: Connection) -> Exception:
    """Return the StorageError for `error`, or `error` itself if the statement is wrong."""
    if connection.closed:
        return ContentionError(f"the connection to PostgreSQL broke: {error}")
    match error:
        case errors.DeadlockDetected() | errors.SerializationFailure() | errors.LockNotAvailable():
            return ContentionError(f"another host holds a lock that this one needs: {error}")
        case psycopg.IntegrityError() | psycopg.DataError():
            return ConstraintError(f"the database refused a row: {error}")
        case errors.DiskFull():
            return StorageError(f"no space left on the PostgreSQL server: {error}; free space and try again")
        case psycopg.OperationalError():
            return StorageError(f"PostgreSQL failed: {error}")
    return error


@contextlib.contextmanager
def _errors(connection: Connection) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise translated(error, connection) from error
