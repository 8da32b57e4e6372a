"""The `database` fixture: a fresh, migrated database of each kind; stores are tested on all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hostler.ports import Tx
from hostler.sql.database import SqlDatabase
from hostler.sql.opening import open_database

T = TypeVar("T")
TEST_SECONDS = 60
"""Bound of everything a test awaits; generous, since it only has to end what hangs."""


@pytest.fixture(params=["sqlite"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database."""
    yield str(tmp_path / "facts.db")


@pytest.fixture
def database(database_url: str) -> Iterator[SqlDatabase]:
    """A migrated database, closed at the end."""
    opened = open_database(database_url)
    yield opened
    asyncio.run(opened.close())


def run(coroutine: Coroutine[Any, Any, T], seconds: float = TEST_SECONDS) -> T:
    """Run a test's coroutine, for at most `seconds`."""

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await coroutine

    return asyncio.run(bounded())


def write(database: SqlDatabase, work: Callable[[Tx], T]) -> T:
    """One write, from a test that is not a coroutine."""
    return run(database.write(work))


def read(database: SqlDatabase, work: Callable[[Tx], T]) -> T:
    """One read, from a test that is not a coroutine."""
    return run(database.read(work))
