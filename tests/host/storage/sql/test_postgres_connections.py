"""Lost connections to PostgreSQL: each write happens once, or its caller is told that it did not."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hostler.storage.port import Query, Tx
from hostler.storage.sql import postgres
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.session import CommitUnknownError, ConnectionLostError
from hostler.storage.stores import hosts
from hostler_protocol.errors import StorageError
from support.postgres import PostgresServer
from support.severing import Moment, SeveringProxy

pytestmark = pytest.mark.postgres
CREATE = Query("t.create", "", "CREATE TABLE t (id bigint)")  # no key: a write done twice would show
INSERT = Query("t.insert", "", "INSERT INTO t VALUES (%(id)s)")
IDS = Query("t.ids", "", "SELECT id FROM t ORDER BY id")
TOUCH = Query("t.touch", "", "UPDATE t SET id = id WHERE id = %(id)s")


@pytest.fixture
def url(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    created = postgres_server.create(postgres_template)
    yield created
    postgres_server.drop(created)


def insert(number: int) -> Callable[[Tx], int]:
    return lambda tx: tx.run(INSERT, id=number)


@pytest.mark.parametrize("moment", ["before commit", "after commit"])
async def test_a_connection_that_breaks_in_a_commit_writes_once(
    postgres_server: PostgresServer, url: str, moment: Moment
) -> None:
    proxy = SeveringProxy(postgres_server.folder)
    database = open_database(proxy.url(url))
    await database.write(lambda tx: tx.run(CREATE))
    for number in range(5):
        proxy.arm(moment)
        assert await database.write(insert(number)) == 1
    assert proxy.severed == 5
    assert [row["id"] for row in await database.read(lambda tx: tx.all(IDS))] == list(range(5))
    await database.close()
    proxy.close()


@pytest.mark.parametrize(("moment", "there"), [("before commit", [2]), ("after commit", [1, 2])])
async def test_a_commit_of_which_nobody_can_be_asked_is_not_known(
    postgres_server: PostgresServer,
    url: str,
    moment: Moment,
    there: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres, "RECONNECT_SECONDS", 0.2)
    proxy = SeveringProxy(postgres_server.folder)
    database = open_database(proxy.url(url))
    await database.write(lambda tx: tx.run(CREATE))
    proxy.arm(moment, leaves=True)
    with pytest.raises(CommitUnknownError, match="whether the last writes were committed is not known"):
        await database.write(insert(1))
    with pytest.raises(ConnectionLostError, match="nothing was written") as caught:
        await database.write(insert(3))
    assert not isinstance(caught.value, CommitUnknownError)
    proxy.away = False
    await database.write(insert(2))
    assert [row["id"] for row in await database.read(lambda tx: tx.all(IDS))] == there
    await database.close()
    proxy.close()


async def test_connections_cut_under_load_lose_and_double_nothing(
    postgres_server: PostgresServer, url: str
) -> None:
    database = open_database(url)
    await database.write(lambda tx: tx.run(CREATE))

    async def worker(first: int) -> None:
        for number in range(first, first + 50):
            await database.write(insert(number))
            await database.read(lambda tx: tx.all(IDS))

    workers = asyncio.gather(*(worker(n * 50) for n in range(8)))
    for _ in range(10):
        await asyncio.to_thread(postgres_server.terminate_connections, url)
        await database.write(lambda _tx: None)
    await workers
    assert [row["id"] for row in await database.read(lambda tx: tx.all(IDS))] == list(range(400))
    await database.close()


async def test_a_server_that_stays_away_is_an_error_and_one_that_returns_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres, "RECONNECT_SECONDS", 0.2)
    server = PostgresServer()
    try:
        database = open_database(server.create())
        await database.write(lambda tx: tx.run(CREATE))
        server.crash()
        for _ in range(2):
            with pytest.raises(StorageError, match="nothing was written") as caught:
                await database.write(insert(1))
            assert caught.value.retryable
        with pytest.raises(StorageError, match="cannot be reached"):
            await database.read(lambda tx: tx.all(IDS))
        server.start()
        await database.write(insert(2))
        assert [row["id"] for row in await database.read(lambda tx: tx.all(IDS))] == [2]
        await database.close()
    finally:
        server.stop()


async def test_two_hosts_that_take_rows_in_opposite_order_both_finish(url: str) -> None:
    """The database ends one of them as deadlocked; it is run again and nobody notices."""
    first, second = open_database(url), open_database(url)
    await first.write(lambda tx: tx.run(CREATE))
    await first.write(lambda tx: [tx.run(INSERT, id=n) for n in (1, 2)])
    both_hold_one = threading.Barrier(2, timeout=60)
    attempts: list[str] = []

    def work(name: str, order: tuple[int, int]) -> Callable[[Tx], str]:
        def do(tx: Tx) -> str:
            attempts.append(name)
            tx.run(TOUCH, id=order[0])
            if attempts.count(name) == 1:
                both_hold_one.wait()
            tx.run(TOUCH, id=order[1])
            return name

        return do

    async def both() -> tuple[str, str]:
        return await asyncio.gather(first.write(work("first", (1, 2))), second.write(work("second", (2, 1))))

    assert tuple(await both()) == ("first", "second")
    assert len(attempts) >= 3
    await first.close()
    await second.close()


def test_an_address_where_nothing_listens_says_what_to_check(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="check the address, the server and the password"):
        open_database(f"postgresql:///x?host={tmp_path}&user=postgres")


@pytest.mark.parametrize("moment", ["after a flush", "while it is sent rows"])
async def test_a_transaction_that_its_process_does_not_go_on_with_is_ended(url: str, moment: str) -> None:
    """Also where the server's own timer does not run. A pipeline of psycopg ends with a Flush."""
    database = open_database(url)
    await database.write(lambda tx: tx.run(CREATE))
    await database.write(insert(1))
    with contextlib.closing(postgres.connect(url)) as stopped:
        stopped.execute("BEGIN")
        stopped.execute("UPDATE t SET id = id WHERE id = 1")
        if moment == "after a flush":
            stopped.pgconn.enter_pipeline_mode()
            stopped.pgconn.send_flush_request()
        else:
            stopped.pgconn.send_query(b"SELECT repeat('x', 1000000) FROM generate_series(1, 100)")
        stopped.pgconn.flush()
        until = time.monotonic() + 60
        while not (ended := await database.read(hosts.end_stalled)):
            assert time.monotonic() < until
            time.sleep(0.1)
        assert ended == 1
        assert await database.write(lambda tx: tx.run(TOUCH, id=1)) == 1
    await database.close()


async def test_a_host_that_stops_within_a_transaction_holds_up_the_others_for_seconds_only(url: str) -> None:
    """They must get to renew their leases."""
    database = open_database(url)
    await database.write(lambda tx: tx.run(CREATE))
    await database.write(insert(1))
    with contextlib.closing(postgres.connect(url)) as stopped:
        stopped.execute("BEGIN")
        stopped.execute("UPDATE t SET id = id WHERE id = 1")
        began = time.monotonic()
        assert await database.write(lambda tx: tx.run(TOUCH, id=1)) == 1
        assert time.monotonic() - began < 9, "before the wait for a lock is given up"
    await database.close()
