"""What the core needs from outside, as protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

T = TypeVar("T")
Dialect = Literal["sqlite", "postgres"]
Row = Mapping[str, Any]


def _none(_: Mapping[str, Any]) -> Sequence[Any]:
    return ()


@dataclass(frozen=True, slots=True)
class Query:
    """One statement in the words of each driver; `name` is `<file>.<statement>`."""

    name: str
    sqlite: str
    postgres: str
    names: tuple[str, ...] = field(default=(), kw_only=True)
    """The parameters of the SQLite version in the order of its `?`."""
    values: Callable[[Mapping[str, Any]], Sequence[Any]] = field(default=_none, compare=False, kw_only=True)
    """Takes them out of named ones: SQLite binds them faster than by name."""


class Tx(Protocol):
    """One transaction. Lives on a database thread; work given to `Database` is synchronous.

    Work must be free of side effects outside the transaction: a group that fails is rolled back and its
    work is run again, one by one.
    """

    @property
    def dialect(self) -> Dialect:
        """Which database this is."""

    @property
    def now(self) -> int:
        """UTC epoch milliseconds, the same for the whole group."""

    def run(self, query: Query, *row: Any, **params: Any) -> int:
        """Execute; the number of rows touched. Parameters by name, or all in the order of `query.names`."""

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute once per row of parameters."""

    def run_rows(self, query: Query, rows: Iterable[Sequence[Any]]) -> None:
        """The same; a row holds its parameters in the order of `query.names`."""

    def one(self, query: Query, **params: Any) -> Row | None:
        """The first row, or None."""

    def all(self, query: Query, **params: Any) -> list[Row]:
        """All rows. Queries bound them with LIMIT."""

    def once(self, key: tuple[Any, ...], look: Callable[[], T]) -> T:
        """What `look` gave when this key was first asked for in this transaction."""

    def at_end(self, key: tuple[str, ...], work: Callable[[Tx, list[T]], None], item: T) -> None:
        """Run `work` last in the transaction, ordered by `key`: for head rows that groups contend for.

        All items of one key, in the order they were given, go into one call: the key's first `work`.
        """


class Database(Protocol):
    """The facts. One writer that commits in groups; readers beside it."""

    @property
    def dialect(self) -> Dialect:
        """Which database this is."""

    async def write(self, work: Callable[[Tx], T], *, synced: bool = True) -> T:
        """Run `work` in the next group commit and return its result once that is durable.

        `synced=False`: a group of nothing but such work may commit without a disk sync.
        What `work` raises is raised here; its writes are undone, those of others are not.
        Bounded: waits while too much work is queued.
        """

    async def read(self, work: Callable[[Tx], T], *, brief: bool = False) -> T:
        """Run `work` on a reader. It sees everything that was acknowledged before.

        `brief`: it looks up a few rows by their keys, and waits for nothing but other such reads.
        """

    async def close(self) -> None:
        """Finish what is queued, then close."""
