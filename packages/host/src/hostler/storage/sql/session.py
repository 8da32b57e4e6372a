"""Connections and transactions: the protocols that a driver implements, and its errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

from hostler.storage.port import Dialect, Look, Query, Row, T, Tx
from hostler_protocol.errors import HostlerError, StorageError

MAX_LOOK_SECONDS = 0.005
"""After this a transaction runs no more of what only looks: the callers of its group wait for the commit."""
APPLICATION = "hostler"
"""The `application_name` of a host's sessions on a PostgreSQL server."""


class ConstraintError(StorageError):
    """A row violates a unique key or NOT NULL: a caller broke a store's rules."""

    retryable = False


class ContentionError(StorageError):
    """The transaction lost to another host's (deadlock, serialization failure) and should be retried."""


class ConnectionLostError(StorageError):
    """The database cannot be reached, or is locked: retrying parts of the group would not help.

    The message says whether anything was committed.
    """


class CommitUnknownError(ConnectionLostError):
    """The connection broke during a commit, and nobody can be asked now whether that happened.

    Only what may be written twice may be tried again.
    """


class Session(Protocol):
    """One connection, used by one thread. Errors of the disk or server are raised as StorageError."""

    @property
    def dialect(self) -> Dialect:
        """The kind of database."""

    def begin(self, *, synced: bool) -> int:
        """Begin a transaction and return the database's time in UTC epoch milliseconds."""

    def commit(self) -> None:
        """Commit. On return the work is durable or, if unsynced, handed to the operating system."""

    def rollback(self) -> None:
        """Roll back; do nothing outside a transaction or on a closed connection."""

    def idle(self) -> None:
        """Do maintenance between two transactions."""

    def close(self) -> None:
        """Close the connection."""

    def run(self, query: Query, params: Mapping[str, Any] | tuple[Any, ...]) -> int:
        """Execute with named or ordered (`query.names`) parameters; return the number of changed rows."""

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute once per row of parameters."""

    def run_rows(self, query: Query, rows: Iterable[Sequence[Any]]) -> None:
        """Execute once per row, its parameters in the order of `query.names`."""

    def one(self, query: Query, params: Mapping[str, Any]) -> Row | None:
        """Return the first row, or None."""

    def all(self, query: Query, params: Mapping[str, Any]) -> list[Row]:
        """Return all rows."""


class Driver(Protocol):
    """A kind of database: opens sessions and keeps the state that they share."""

    @property
    def dialect(self) -> Dialect:
        """The kind of database."""

    @property
    def shared(self) -> bool:
        """Whether other hosts work on the database too."""

    def open_writer(self) -> Session:
        """Open the one session that writes, on the thread that will use it."""

    def open_reader(self) -> Session:
        """Open a session that only reads."""

    def backup(self, target: Path) -> None:
        """Copy the database to a new file while it is in use. InvalidArgumentError if this kind cannot."""

    def truncate_log(self) -> bool:
        """Copy the write-ahead log into the database and empty it; return False if others use it now."""

    def close(self) -> None:
        """Close the driver. Called last, after all its sessions were closed."""


OpenTx = Callable[[Session, int, bool], "SessionTx"]
"""Makes the transaction of a session that has begun: its time, and whether it may write."""


class SessionTx:
    """The `Tx` that work gets: a session inside one transaction."""

    __slots__ = ("_at_end", "_ending", "_looks", "_once", "_session", "announced", "dialect", "now")
    seals = False

    def __init__(self, session: Session, now: int) -> None:
        self._session = session
        self._at_end: dict[tuple[str, ...], tuple[Callable[[Tx, list[Any]], None], list[Any]]] = {}
        self._once: dict[tuple[Any, ...], Any] = {}
        self._looks: list[Look[Any]] = []
        self._ending = False
        self.announced: set[str] = set()
        self.dialect: Dialect = session.dialect
        self.now = now

    def run(self, query: Query, *row: Any, **params: Any) -> int:
        """Execute and return the number of changed rows."""
        return self._session.run(query, row or params)

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute once per row of parameters."""
        self._session.run_many(query, rows)

    def run_rows(self, query: Query, rows: Iterable[Sequence[Any]]) -> None:
        """Execute once per row, its parameters in the order of `query.names`."""
        self._session.run_rows(query, rows)

    def one(self, query: Query, **params: Any) -> Row | None:
        """Return the first row, or None."""
        return self._session.one(query, params)

    def all(self, query: Query, **params: Any) -> list[Row]:
        """Return all rows."""
        return self._session.all(query, params)

    def once(self, key: tuple[Any, ...], look: Callable[[], T]) -> T:
        """Return the result of `look`, which is called once per key and transaction."""
        if key not in self._once:
            self._once[key] = look()
        found: T = self._once[key]
        return found

    def at_end(self, key: tuple[str, ...], work: Callable[[Tx, list[T]], None], item: T) -> None:
        """Run `work` at the end of the transaction, ordered by `key`, with all items of that key."""
        if self._ending:
            raise RuntimeError("at_end called by work of at_end: the order of keys is already fixed")
        known = self._at_end.get(key)
        if known is None:
            self._at_end[key] = (work, [item])
        else:
            known[1].append(item)

    def announce(self, topic: str) -> None:
        """Have the listener of the database called with `topic` after the commit."""
        self.announced.add(topic)

    def look(self, read: Callable[[Tx], T]) -> Look[T]:
        """Have `read` called once all of the transaction is written, on SQLite, and if there is time."""
        look = Look(read)
        if self.dialect == "sqlite":
            self._looks.append(look)
        return look

    def blinded(self, workspace_id: str, conversation_id: str, tokens: Iterable[str]) -> list[str] | None:
        """Return None: nothing is sealed."""
        return None

    def keyed(self, workspace_id: str, name: str, digest: str, conversation_id: str | None = None) -> str:
        """Return the digest as it may be stored."""
        return digest

    def adopt(self, name: str, key: object) -> None:
        """Do nothing: the bytes of a blob are not sealed."""

    def destroy(self, workspace_id: str, name: str) -> bool:
        """Do nothing: there are no keys."""
        return False

    def committed(self) -> None:
        """Take note of the commit."""

    def end(self) -> None:
        """Run the work that `at_end` and `look` collected. Called once, before the commit."""
        self._ending = True
        for _, (work, items) in sorted(self._at_end.items(), key=itemgetter(0)):
            work(self, items)
        if self._looks:
            self._look_around()

    def _look_around(self) -> None:
        until = time.monotonic() + MAX_LOOK_SECONDS
        for look in self._looks:
            try:
                look.value = look.read(self)
            except StorageError:
                raise
            except HostlerError:  # the reader after the commit gets it
                look.value = None
            if time.monotonic() > until:
                break
