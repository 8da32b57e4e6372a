"""The writer commits in groups: durable for each, harmless to the others, in order, bounded."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.storage.port import Query, Tx
from hostler.storage.sql import database as database_module
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler_protocol.errors import StorageError, UnavailableError
from support.databases import write
from support.group_commits import CREATE, IDS, INSERT, Gate, Guilty, ids, insert, queued_behind

SYNCHRONOUS = Query("t.synchronous", "PRAGMA synchronous", "SHOW synchronous_commit")


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups end when nothing is queued, not when time is over: tests do not depend on speed."""
    monkeypatch.setattr(database_module, "MAX_GROUP_SECONDS", 60.0)


@pytest.mark.usefixtures("unhurried")
async def test_a_thousand_writers_share_a_handful_of_commits(database: SqlDatabase) -> None:
    await database.write(lambda tx: tx.run(CREATE))
    before = database.groups_committed

    async def one(number: int) -> None:
        await database.write(insert(number))
        found = await database.read(lambda tx: tx.all(IDS))
        assert number in {row["id"] for row in found}, "acknowledged, so every reader sees it"

    gate = Gate()
    holding = asyncio.create_task(database.write(gate.hold))
    await gate.entered()
    writers = [asyncio.create_task(one(number)) for number in range(1000)]
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(holding, *writers)
    assert await ids(database) == list(range(1000))
    assert database.groups_committed - before <= 20


@pytest.mark.usefixtures("unhurried")
async def test_works_of_one_group_run_in_the_order_they_were_given(database: SqlDatabase) -> None:
    seen: list[int] = []

    def note(number: int) -> Callable[[Tx], None]:
        return lambda _tx: seen.append(number)

    before = database.groups_committed
    await queued_behind(database, [note(n) for n in range(500)])
    assert seen == list(range(500))
    assert database.groups_committed - before == 1


class Pinned:
    """What a work has with it, for example bytes that nobody may remove."""


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("unhurried", "uncollected")
async def test_what_works_have_with_them_is_let_go_at_once_if_one_of_their_group_fails(
    database: SqlDatabase,
) -> None:
    """Without the garbage collector: errors hold frames, and those would hold the whole group."""
    held: list[weakref.ref[Pinned]] = []

    def work(*, fails: bool) -> Callable[[Tx], object]:
        pinned = Pinned()
        held.append(weakref.ref(pinned))

        def do(_tx: Tx) -> Pinned:
            if fails:
                raise Guilty
            return pinned

        return do

    done = await queued_behind(database, [work(fails=number % 4 == 1) for number in range(9)])
    assert [type(answer) for answer in done] == [Guilty if n % 4 == 1 else Pinned for n in range(9)]
    with pytest.raises(Guilty):
        await database.read(work(fails=True))
    del done
    await asyncio.sleep(0)  # the call that resumed this test has the last answer
    assert [ref() for ref in held] == [None] * 10


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(guilty=st.lists(st.sampled_from(["", "at once", "at end", "twice"]), min_size=1, max_size=40))
async def test_only_the_guilty_fail(database: SqlDatabase, guilty: list[str]) -> None:
    """Whatever fails, by raising, at the end or by a doubled key: the others are stored."""

    def create(tx: Tx) -> None:
        tx.run(Query("t.drop", *["DROP TABLE IF EXISTS t"] * 2))
        tx.run(CREATE)
        tx.run(INSERT, id=-1, note="taken")

    def work(number: int, how: str) -> Callable[[Tx], object]:
        def do(tx: Tx) -> int:
            tx.run(INSERT, id=number, note=how)
            if how == "twice":
                tx.run(INSERT, id=-1, note=how)
            if how == "at once":
                raise Guilty
            if how == "at end":
                tx.at_end(("k",), fail, None)
            return number

        def fail(_tx: Tx, _items: list[None]) -> None:
            raise Guilty

        return do

    await database.write(create)
    outcomes = await queued_behind(database, [work(n, how) for n, how in enumerate(guilty)])
    for number, (how, outcome) in enumerate(zip(guilty, outcomes, strict=True)):
        if how == "":
            assert outcome == number
        else:
            assert isinstance(outcome, StorageError if how == "twice" else Guilty)
    assert await ids(database) == [-1, *(n for n, how in enumerate(guilty) if how == "")]


@pytest.mark.usefixtures("unhurried")
async def test_heads_are_taken_last_and_in_the_order_of_their_keys(database: SqlDatabase) -> None:
    seen: list[str] = []

    def work(key: str, item: int) -> Callable[[Tx], None]:
        def do(tx: Tx) -> None:
            seen.append(f"body {key}")
            tx.at_end(("heads", key), lambda _tx, items: seen.append(f"head {key} of {items}"), item)

        return do

    await queued_behind(database, [work("b", 1), work("a", 2), work("b", 3)])
    assert seen == ["body b", "body a", "body b", "head a of [2]", "head b of [1, 3]"]


def test_what_is_taken_at_the_end_cannot_ask_for_an_end_again(database: SqlDatabase) -> None:
    def ask(tx: Tx, _items: object = None) -> None:
        tx.at_end(("a",), ask, None)

    with pytest.raises(RuntimeError, match="at_end"):
        write(database, ask)


@pytest.mark.usefixtures("unhurried")
async def test_a_group_is_synced_unless_all_of_it_may_go_without(database: SqlDatabase) -> None:
    def synced(tx: Tx) -> str:
        row = tx.one(SYNCHRONOUS)
        assert row is not None
        return {"2": "yes", "1": "no", "on": "yes", "off": "no"}[str(next(iter(row.values())))]

    async def behind(first: bool, *kinds: bool) -> list[str]:
        gate = Gate()
        holding = asyncio.create_task(database.write(gate.hold, synced=first))
        await gate.entered()
        tasks = [asyncio.create_task(database.write(synced, synced=kind)) for kind in kinds]
        await asyncio.sleep(0)
        gate.open()
        await holding
        return await asyncio.gather(*tasks)

    assert await database.write(synced, synced=False) == "no"
    assert await database.write(synced) == "yes"
    assert await behind(True, False, True) == ["yes", "yes"], "they join a group that is synced"
    assert await behind(False, False, True, False) == ["no", "yes", "yes"], "a synced one begins a group"


async def test_writes_wait_while_too_many_are_outstanding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "MAX_OUTSTANDING_WRITES", 10)
    database = open_database(tmp_path / "facts.db")
    begun: list[int] = []

    def note(number: int) -> Callable[[Tx], None]:
        return lambda _tx: begun.append(number)

    async def flood() -> int:
        gate = Gate()
        holding = asyncio.create_task(database.write(gate.hold))
        await gate.entered()
        tasks = [asyncio.create_task(database.write(note(n))) for n in range(100)]
        for _ in range(300):
            await asyncio.sleep(0)
        for task in tasks[:5]:
            task.cancel()  # gives back no place before its work is done
        for _ in range(300):
            await asyncio.sleep(0)
        queued = database._writer.queue.qsize()
        gate.open()
        await asyncio.gather(holding, *tasks, return_exceptions=True)
        await database.close()
        return queued

    assert await flood() == 9
    assert begun == list(range(100))


async def test_a_caller_that_gives_up_hurts_nobody(database: SqlDatabase) -> None:
    gate = Gate()
    holding = asyncio.create_task(database.write(gate.hold))
    await gate.entered()
    gone = asyncio.create_task(database.write(lambda _tx: "gone"))
    stays = asyncio.create_task(database.write(lambda _tx: "stays"))
    await asyncio.sleep(0)
    gone.cancel()
    gate.open()
    assert await stays == "stays"
    await holding
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_closing_finishes_what_is_queued_and_refuses_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    database = open_database(path)
    await database.write(lambda tx: tx.run(CREATE))
    gate = Gate()
    holding = asyncio.create_task(database.write(gate.hold))
    await gate.entered()
    tasks = [asyncio.create_task(database.write(insert(n))) for n in range(50)]
    await asyncio.sleep(0)
    closing = asyncio.create_task(database.close())
    await asyncio.sleep(0)
    gate.open()
    await closing
    await asyncio.gather(holding, *tasks)
    with pytest.raises(UnavailableError, match="shutting down"):
        await database.write(insert(51))
    with pytest.raises(UnavailableError, match="shutting down"):
        await database.read(lambda tx: tx.all(IDS))
    await database.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (50,)


async def test_readers_cannot_write(database: SqlDatabase) -> None:
    await database.write(lambda tx: tx.run(CREATE))
    with pytest.raises(Exception, match=r"read.?only"):
        await database.read(insert(1))
    assert await ids(database) == []
    await database.write(insert(2))
    assert await ids(database) == [2]


async def test_a_wrong_statement_says_so_and_the_next_one_works(database: SqlDatabase) -> None:
    wrong = Query("t.wrong", *["SELECT * FROM no_such_table"] * 2)
    for ask in (database.read, database.write):
        with pytest.raises(Exception, match="no_such_table"):
            await ask(lambda tx: tx.all(wrong))
    await database.write(lambda tx: tx.run(CREATE))
    assert await ids(database) == []
