"""The SQLite file: full disks, long logs, backups while it is written, files that are none."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hostler.storage.port import Query, Tx
from hostler.storage.sql import checkpoints, sqlite
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import query_of
from hostler_protocol.errors import InvalidArgumentError, StorageError

CREATE = Query("t.create", "CREATE TABLE t (id bigint PRIMARY KEY, note text)", "")
INSERT = query_of("t.insert", *["INSERT INTO t VALUES (:id, :note)"] * 2)
IDS = Query("t.ids", "SELECT id FROM t ORDER BY id", "")
PAGES = Query("t.pages", "PRAGMA page_count", "")


def limit_pages(tx: Tx, extra: int) -> None:
    """Stands for the end of the disk: the file may grow by so many pages."""
    pages = tx.one(PAGES)
    assert pages is not None
    tx.one(Query("t.limit", f"PRAGMA max_page_count={pages['page_count'] + extra}", ""))


def insert(number: int, size: int = 1000) -> Callable[[Tx], int]:
    return lambda tx: tx.run(INSERT, id=number, note="x" * size)


async def ids(database: SqlDatabase) -> list[int]:
    return [row["id"] for row in await database.read(lambda tx: tx.all(IDS))]


async def test_a_full_disk_refuses_loses_nothing_and_recovers(tmp_path: Path) -> None:
    database = open_database(tmp_path / "facts.db")
    await database.write(lambda tx: tx.run(CREATE))
    await database.write(lambda tx: limit_pages(tx, 20))
    works = [database.write(insert(number)) for number in range(200)]
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    refused = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, StorageError)]
    stored = [number for number, outcome in enumerate(outcomes) if outcome == 1]
    assert refused
    assert stored
    assert len(refused) + len(stored) == 200
    assert all("no space left" in str(outcomes[number]) for number in refused)
    assert await ids(database) == stored, "what was acknowledged, and nothing else"

    await database.write(lambda tx: limit_pages(tx, 100_000))
    for number in refused:
        await database.write(insert(number))
    assert await ids(database) == list(range(200))
    await database.close()


FILLING_CHILD = """
import asyncio, resource, signal, sys
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.statements import Query, query_of
from hostler_protocol.errors import StorageError

CREATE = Query("t.create", "CREATE TABLE t (id bigint PRIMARY KEY, note text)", "")
INSERT = query_of("t.insert", *["INSERT INTO t VALUES (:id, :note)"] * 2)

async def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    database = open_database(sys.argv[1])
    await database.write(lambda tx: tx.run(CREATE))
    refused = stored = 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    for number in range(600):
        if number == 400:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        try:
            await database.write(lambda tx: tx.run(INSERT, id=number, note="x" * 4000))
            print(number, flush=True)
        except StorageError:
            refused += 1
    assert refused and number == 599
    await database.close()

asyncio.run(main())
"""


def test_a_file_that_the_system_does_not_let_grow(tmp_path: Path) -> None:
    """A real limit of the operating system instead of SQLite's own: writes fail in the middle of a page."""
    path = tmp_path / "facts.db"
    child = subprocess.run(
        [sys.executable, "-c", FILLING_CHILD, str(path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    stored = [int(line) for line in child.stdout.split()]
    assert set(range(400, 600)) <= set(stored), "space is back: it goes on by itself"
    assert len(stored) < 600
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = {row[0] for row in connection.execute("SELECT id FROM t")}
    assert set(stored) <= found


async def test_the_log_stays_bounded_while_writing_never_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "CHECKPOINT_BYTES", 512 * 1024)
    monkeypatch.setattr(sqlite, "KEPT_LOG_BYTES", 1024 * 1024)
    path = tmp_path / "facts.db"
    database = open_database(path)
    await database.write(lambda tx: tx.run(CREATE))
    longest = 0
    for number in range(3000):
        await database.write(insert(number, 4000))
        longest = max(longest, os.stat(f"{path}-wal").st_size)
    assert longest < 8 * 1024 * 1024, "36 MB of pages went through it"
    assert await ids(database) == list(range(3000))
    await database.close()


async def test_a_backup_is_whole_while_writing_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BACKUP_PAGES_PER_STEP", 5)
    path, copy = tmp_path / "facts.db", tmp_path / "copy.db"
    database = open_database(path)
    await database.write(lambda tx: tx.run(CREATE))
    pairs = 300

    def pair(number: int) -> Callable[[Tx], int]:
        return lambda tx: insert(2 * number)(tx) + insert(2 * number + 1)(tx)

    for number in range(pairs):
        await database.write(pair(number))
    backup = asyncio.create_task(database.backup(copy))
    number = pairs
    while not backup.done():
        await database.write(pair(number))
        number += 1
    await backup
    await database.close()
    restored = open_database(copy)
    found = await ids(restored)
    assert len(found) >= 2 * pairs
    assert found == list(range(len(found)))
    assert len(found) % 2 == 0, "one moment between two transactions"
    with pytest.raises(InvalidArgumentError, match="exists already"):
        await restored.backup(copy)
    await restored.close()
    assert [file.name for file in tmp_path.glob("copy*")] == ["copy.db"], "one file, nothing beside it"


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    path.write_bytes(b"these are my holiday notes, not a database\n" * 100)
    with pytest.raises(StorageError, match="no database"):
        open_database(path)
    assert path.read_bytes().startswith(b"these are my holiday notes")


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot make the folder"):
        open_database(tmp_path / "file" / "facts.db")


@pytest.mark.parametrize("address", ["mysql://host/db", "sqlite://relative/path"])
def test_an_address_of_another_kind_says_which_there_are(address: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"sqlite:///"):
        open_database(address)


async def test_an_sqlite_address_names_a_file(tmp_path: Path) -> None:
    await open_database(f"sqlite://{tmp_path}/facts.db").close()
    assert (tmp_path / "facts.db").exists()


async def test_a_lock_that_another_process_keeps_fails_the_waiting_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.1)
    path = tmp_path / "facts.db"
    database = open_database(path)
    await database.write(lambda tx: tx.run(CREATE))
    stranger = sqlite3.connect(path, isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    works = [database.write(insert(number)) for number in range(300)]
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    assert all(isinstance(outcome, StorageError) and outcome.retryable for outcome in outcomes)
    assert "nothing was written" in str(outcomes[0])
    stranger.execute("ROLLBACK")
    stranger.close()
    await database.write(insert(1))
    assert await ids(database) == [1]
    await database.close()


TRY_TO_WRITE = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0).execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
"""


def test_opening_a_file_again_leaves_the_locks_of_its_first_connection(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    first = sqlite.connect(path)
    first.execute("CREATE TABLE t (id)")
    first.execute("BEGIN IMMEDIATE")
    sqlite.connect(path).close()
    other = subprocess.run(
        [sys.executable, "-c", TRY_TO_WRITE, path], stdout=subprocess.PIPE, text=True, check=True
    )
    first.close()
    assert other.stdout == "database is locked\n"


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        connection = sqlite.connect(tmp_path / "facts.db")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (id)")
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        connection.close()
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("facts.db", "facts.db-wal", "facts.db-shm"), 0o600)


async def test_the_log_is_gone_once_it_is_closed_also_if_readers_are_slow_to_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two connections that close at once neither is the last: the log stayed, and old text in the file."""
    closed: list[str] = []
    close = sqlite.SqliteSession.close

    def slow(session: sqlite.SqliteSession) -> None:
        name = threading.current_thread().name
        if "reader" in name:
            time.sleep(0.05)
        close(session)
        closed.append(name)

    monkeypatch.setattr(sqlite.SqliteSession, "close", slow)
    database = open_database(tmp_path / "facts.db")
    await database.write(lambda tx: tx.run(CREATE))
    await database.write(insert(1))
    await asyncio.gather(*(database.read(lambda tx: tx.all(IDS)) for _ in range(20)))
    await database.read(lambda tx: tx.all(IDS), brief=True)
    late = database.write(insert(2))
    await asyncio.gather(late, database.close())
    assert closed[-1] == "hostler-writer", closed
    assert len(closed) > 1, "readers were there, too"
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".lock") == ["facts.db"]
    with contextlib.closing(sqlite3.connect(tmp_path / "facts.db")) as file:
        assert file.execute("SELECT count(*) FROM t").fetchone() == (2,)
