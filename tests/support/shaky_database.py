"""A database that refuses writes when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hostler.storage.port import Late, Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.session import CommitUnknownError, ConstraintError
from hostler_protocol.errors import StorageError

T = TypeVar("T")


class Shaky:
    """A database that refuses the first so many writes, with an error of the given kind, or loses the answers
    to so many."""

    def __init__(
        self, inner: SqlDatabase, refusals: int = 0, *, retryable: bool = True, unheard: int = 0
    ) -> None:
        self._inner = inner
        self.refusals = refusals
        self.unheard = unheard
        self.writes: list[bool] = []
        self._retryable = retryable

    @property
    def dialect(self) -> Any:
        return self._inner.dialect

    @property
    def shared(self) -> bool:
        return self._inner.shared

    async def write(self, work: Callable[[Tx], T], *, synced: bool = True, late: Late[T] | None = None) -> T:
        self.writes.append(synced)
        if self.refusals:
            self.refusals -= 1
            raise (StorageError if self._retryable else ConstraintError)("the disk is full")
        if self.unheard:
            await self._inner.write(work, synced=synced, late=late)
            self.unheard -= 1
            raise CommitUnknownError("nobody knows")
        return await self._inner.write(work, synced=synced, late=late)

    async def read(self, work: Callable[[Tx], T], *, brief: bool = False) -> T:
        return await self._inner.read(work)

    async def close(self) -> None:
        await self._inner.close()
