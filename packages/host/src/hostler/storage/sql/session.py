"""One connection and one transaction: what the database needs of a driver, and the errors they speak of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

from hostler.storage.port import Dialect, Query, Row, T, Tx
from hostler_protocol.errors import StorageError

APPLICATION = "hostler"
"""The name of a host's sessions at a PostgreSQL server (`application_name`)."""


class ConstraintError(StorageError):
    """A row contradicts a unique key or a NOT NULL: a caller broke a store's rules."""

    retryable = False


class ContentionError(StorageError):
    """The transaction lost against another host's (deadlock, serialization); running it again is right."""


class ConnectionLostError(StorageError):
    """The database cannot be reached, or is locked: no part of a group would fare better.

    The message says whether anything was committed.
    """


class Session(Protocol):
    """One connection, used by one thread. A driver's errors come out as StorageError where they are one."""

    @property
    def dialect(self) -> Dialect:
        """Which database this is."""

    def begin(self, *, synced: bool) -> int:
        """Begin a transaction; UTC epoch milliseconds by the database's clock."""

    def commit(self) -> None:
        """Commit. On return the work is durable (or, unsynced, in the hands of the operating system)."""

    def rollback(self) -> None:
        """Undo; harmless where nothing is begun or the connection is gone."""

    def idle(self) -> None:
        """Chance for upkeep between transactions."""

    def close(self) -> None:
        """Close the connection."""

    def run(self, query: Query, params: Mapping[str, Any] | tuple[Any, ...]) -> int:
        """Execute, with parameters by name or in the order of `query.names`; rows touched."""

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute once per row of parameters."""

    def run_rows(self, query: Query, rows: Iterable[Sequence[Any]]) -> None:
        """Execute once per row, its parameters in the order of `query.names`."""

    def one(self, query: Query, params: Mapping[str, Any]) -> Row | None:
        """The first row."""

    def all(self, query: Query, params: Mapping[str, Any]) -> list[Row]:
        """All rows."""


class Driver(Protocol):
    """A kind of database: makes sessions and keeps what they share."""

    @property
    def dialect(self) -> Dialect:
        """Which database this is."""

    def open_writer(self) -> Session:
        """The one session that writes. Called on the thread that will use it."""

    def open_reader(self) -> Session:
        """A session that only reads."""

    def backup(self, target: Path) -> None:
        """Copy the database, while it is written, to a new file. InvalidArgumentError where it cannot."""

    def close(self) -> None:
        """Called last, when all sessions are closed."""


class SessionTx:
    """The `Tx` given to work: a session inside one transaction."""

    __slots__ = ("_at_end", "_ending", "_once", "_session", "dialect", "now")

    def __init__(self, session: Session, now: int) -> None:
        self._session = session
        self._at_end: dict[tuple[str, ...], tuple[Callable[[Tx, list[Any]], None], list[Any]]] = {}
        self._once: dict[tuple[Any, ...], Any] = {}
        self._ending = False
        self.dialect: Dialect = session.dialect
        self.now = now

    def run(self, query: Query, *row: Any, **params: Any) -> int:
        """Execute; the number of rows touched."""
        return self._session.run(query, row or params)

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute once per row of parameters."""
        self._session.run_many(query, rows)

    def run_rows(self, query: Query, rows: Iterable[Sequence[Any]]) -> None:
        """Execute once per row, its parameters in the order of `query.names`."""
        self._session.run_rows(query, rows)

    def one(self, query: Query, **params: Any) -> Row | None:
        """The first row, or None."""
        return self._session.one(query, params)

    def all(self, query: Query, **params: Any) -> list[Row]:
        """All rows."""
        return self._session.all(query, params)

    def once(self, key: tuple[Any, ...], look: Callable[[], T]) -> T:
        """What `look` gave when this key was first asked for in this transaction."""
        if key not in self._once:
            self._once[key] = look()
        found: T = self._once[key]
        return found

    def at_end(self, key: tuple[str, ...], work: Callable[[Tx, list[T]], None], item: T) -> None:
        """Run `work` last in the transaction, ordered by `key`, with all items of that key."""
        if self._ending:
            raise RuntimeError("at_end inside work of at_end: its place in the order of keys is over")
        known = self._at_end.get(key)
        if known is None:
            self._at_end[key] = (work, [item])
        else:
            known[1].append(item)

    def end(self) -> None:
        """Run what `at_end` was given. Called once, before the commit."""
        self._ending = True
        for _, (work, items) in sorted(self._at_end.items(), key=itemgetter(0)):
            work(self, items)
