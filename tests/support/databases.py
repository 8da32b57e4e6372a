"""The `database` fixture: a fresh, migrated database of each kind; stores are tested on both."""

from __future__ import annotations

import asyncio
import functools
import os
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hostler.secrets.key_ring import KeyRing, new_key
from hostler.storage.port import Tx
from hostler.storage.sealing.erasing import ERASURE_KEY
from hostler.storage.sealing.keyring import Sealer
from hostler.storage.sealing.tx import sealing
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.sqlite import SqliteDriver
from hostler.storage.stores import installation
from simulation.folders import MEMORY
from support.postgres import PostgresServer, PostgresUnavailableError

T = TypeVar("T")
TEST_SECONDS = 110
"""Bound of everything a test awaits; generous, since it only has to end what hangs."""
KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
SEALED = "sealed"
"""SQLite that seals its content: for tests that get an opened database."""


@pytest.fixture(scope="session")
def postgres_server(memory: Path) -> Iterator[PostgresServer]:
    """The server of this test process. Where none can run, tests are skipped, but not in CI."""
    try:
        server = PostgresServer(memory) if memory.parent == MEMORY else PostgresServer()
    except PostgresUnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no PostgreSQL: {error}")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """The name of a migrated database to copy."""
    url = postgres_server.create()
    asyncio.run(open_database(url, readers=0).close())
    return url.removeprefix("postgresql:///").partition("?")[0]


@functools.cache
def _sqlite_template() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "template.db"
        SqliteDriver(path).close()
        return path.read_bytes()


def prepare_sqlite(path: Path) -> Path:
    """Put a migrated database at `path` if nothing is there: copying takes a fifth of migrating."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_sqlite_template())
    return path


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that asks for a database on every kind, unless it chooses some."""
    asked = metafunc.fixturenames
    chosen = any("database_url" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "database_url" in asked and not chosen:
        kinds = [*KINDS, SEALED] if "database" in asked else KINDS
        metafunc.parametrize("database_url", kinds, indirect=True)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database for one test alone: migrated and empty."""
    if request.param != "postgres":
        yield str(prepare_sqlite(tmp_path / "facts.db"))
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.create(request.getfixturevalue("postgres_template"))
    yield url
    server.drop(url)


@pytest.fixture
def database(database_url: str, request: pytest.FixtureRequest) -> Iterator[SqlDatabase]:
    """A migrated database, closed at the end."""
    opened = open_database(database_url)
    if request.node.callspec.params["database_url"] == SEALED:
        seal(opened)
    yield opened
    asyncio.run(opened.close())


def seal(opened: SqlDatabase) -> Sealer:
    """Seal the content of a database from now on, with keys of its own."""
    master, erasure = KeyRing([new_key()]), KeptErasureKey()
    sealer = Sealer(lambda: master, erasure, shared=opened.shared)
    opened.transact_by(sealing(sealer))
    current = erasure.ring().current_id.encode()
    run(opened.write(lambda tx: installation.put(tx, ERASURE_KEY, current)))
    return sealer


class KeptErasureKey:
    """An erasure key in memory."""

    def __init__(self) -> None:
        self.keys = [new_key()]

    def ring(self) -> KeyRing:
        """The keys, the current one first."""
        return KeyRing(self.keys)

    reread = ring

    def begin(self) -> str:
        """Put a new key before the present one."""
        self.keys = [new_key(), self.keys[0]]
        return self.ring().current_id

    def finish(self, current: str) -> None:
        """Destroy the old one."""
        del self.keys[self.ring().ids.index(current) + 1 :]


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
