"""The database as the host sees it: protocols of a database, a transaction and a statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Listener: TypeAlias = Callable[[frozenset[str]], None]
"""Called after each commit with the topics that its work announced (`Tx.announce`), on the writing thread and
before the callers go on: it is quick and does not raise."""
Listen: TypeAlias = Callable[[Listener | None], None]
"""Sets the listener of a database; None: nobody listens any more."""
Late: TypeAlias = Callable[[T | None, BaseException | None], None]
Dialect = Literal["sqlite", "postgres"]
Row = Mapping[str, Any]


def _none(_: Mapping[str, Any]) -> Sequence[Any]:
    return ()


@dataclass(frozen=True, slots=True)
class Query:
    """One statement in the dialect of each driver; `name` is `<file>.<statement>`."""

    name: str
    sqlite: str
    postgres: str
    names: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of the parameters of the SQLite version, in the order of its `?`."""
    values: Callable[[Mapping[str, Any]], Sequence[Any]] = field(default=_none, compare=False, kw_only=True)
    """Orders named parameters by `names`: SQLite binds positional ones faster."""


@dataclass(slots=True, eq=False)
class Look(Generic[T]):
    """A value that is read at the end of a transaction; only valid after its commit."""

    read: Callable[[Tx], T]
    value: T | None = None
    """None: it was not read, or that raised an error that is not the database's. Read it after the commit."""


class Tx(Protocol):
    """One transaction, on a database thread; work passed to `Database` is synchronous.

    Work must have no side effects outside the transaction: a group that fails is rolled back and its work
    runs again in smaller groups.
    """

    @property
    def dialect(self) -> Dialect:
        """The kind of database."""

    @property
    def now(self) -> int:
        """The transaction's time in UTC epoch milliseconds, the same for the whole group."""

    def run(self, query: Query, *row: Any, **params: Any) -> int:
        """Execute and return the number of changed rows.

        Parameters are passed by name, or all by position in the order of `query.names`.
        """

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute once per row of parameters."""

    def run_rows(self, query: Query, rows: Iterable[Sequence[Any]]) -> None:
        """Execute once per row; a row holds its parameters in the order of `query.names`."""

    def one(self, query: Query, **params: Any) -> Row | None:
        """Return the first row, or None."""

    def all(self, query: Query, **params: Any) -> list[Row]:
        """Return all rows. Queries bound their number with LIMIT."""

    def once(self, key: tuple[Any, ...], look: Callable[[], T]) -> T:
        """Return the result of `look`, which is called once per key and transaction."""

    @property
    def seals(self) -> bool:
        """Whether content is sealed."""

    def blinded(self, workspace_id: str, conversation_id: str, tokens: Iterable[str]) -> list[str] | None:
        """Return tokens for the text index that only a key of the conversation can make; None without it."""

    def adopt(self, name: str, key: object) -> None:
        """Store the key of a blob whose bytes are sealed."""

    def destroy(self, workspace_id: str, name: str) -> bool:
        """Destroy the data key of this name; return whether there was one."""

    def keyed(self, workspace_id: str, name: str, digest: str, conversation_id: str | None = None) -> str:
        """Return a digest of content as it may be stored: where content is sealed, only the data key `name`
        (`storage.sealing.columns`) can make it, so that nobody can try texts out against it.
        """

    def at_end(self, key: tuple[str, ...], work: Callable[[Tx, list[T]], None], item: T) -> None:
        """Run `work` at the end of the transaction, ordered by `key`: for rows that groups contend for.

        All items of one key go into one call, in the order in which they were added; the first `work` of the
        key is the one that runs.
        """

    def announce(self, topic: str) -> None:
        """Have the listener of the database, if there is one, called with `topic` after the commit."""

    def look(self, read: Callable[[Tx], T]) -> Look[T]:
        """Have `read` called once all of the transaction is written, before the commit.

        It sees what a read after the commit would see, without another hop to a thread. It may be left out:
        on PostgreSQL, where others wait for rows until the commit, and where many ask.
        """


class Database(Protocol):
    """The stored facts. One writer commits in groups; readers run concurrently."""

    @property
    def dialect(self) -> Dialect:
        """The kind of database."""

    @property
    def shared(self) -> bool:
        """Whether other hosts work on it too."""

    async def write(self, work: Callable[[Tx], T], *, synced: bool = True, late: Late[T] | None = None) -> T:
        """Run `work` in the next group commit and return its result once the commit is durable.

        `synced=False`: a group of only such work may commit without a disk sync. An exception of `work` is
        raised here; its writes are undone, those of others are not. Wait while the queue is full.

        If the caller is cancelled, `late` is called, once, on the loop, with (result, None) or (None, error):
        queued work is done nevertheless. It is called in no other case.
        """

    async def read(self, work: Callable[[Tx], T], *, brief: bool = False) -> T:
        """Run `work` on a reader. It sees every write that was acknowledged before.

        `brief`: it reads a few rows by their keys, and waits only for other such reads.
        """

    async def close(self) -> None:
        """Finish the queued work, then close."""
