"""Claims: of runs that no wake-up announced, and in the transaction that queued them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import runs
from hostler_protocol.errors import StorageError
from support.dispatching import HOST, NEVER, SOON, Stage, agent, dispatching, move, silently


def _queue(tx: Tx) -> str:
    return runs.open(tx, silently("r0"), None).run_id


async def _end(stage: Stage) -> None:
    for turn in stage.turns.values():
        turn.let.set()
    await stage.dispatcher.stop(30)
    assert (stage.dispatcher.active, stage.dispatcher._slots.taken) == (0, 0)


async def test_a_run_that_nobody_told_of_starts_at_the_next_look(database: SqlDatabase) -> None:
    async with dispatching(database, slots=2, look_seconds=SOON) as stage:
        await stage.open("r0", agent())
        await stage.until("r0")
        await database.write(lambda tx: runs.open(tx, silently("r1"), None))
        await stage.until("r0", "r1")


async def test_the_only_run_that_waits_starts_when_the_decided_one_before_it_is_over(
    database: SqlDatabase,
) -> None:
    """One waits behind a pause, one is put back into the queue: claiming this one must not hide the other."""
    async with dispatching(database, slots=4, look_seconds=NEVER) as stage:
        await stage.open("r0", agent(), lane="l")
        await stage.until("r0")
        stage.turns["r0"].ends_as = "paused"
        stage.turns["r0"].let.set()
        while stage.dispatcher.active:
            await asyncio.sleep(0.005)
        assert await stage.open("r1", agent(), lane="l") == "queued"
        paused = await database.read(lambda tx: runs.get(tx, "w1", "r0"))
        await database.write(lambda tx: move(tx, paused, "queued"))
        stage.dispatcher.pause_changed("r0")
        while stage.begun != ["r0", "r0"]:
            stage.changed.clear()
            await stage.changed.wait()
        stage.turns["r0"].let.set()
        while stage.begun != ["r0", "r0", "r1"]:
            stage.changed.clear()
            await stage.changed.wait()


async def test_a_wish_to_cancel_that_nobody_passed_on_is_heard_at_the_next_look(
    database: SqlDatabase,
) -> None:
    async with dispatching(database, slots=1, look_seconds=SOON) as stage:
        await stage.open("r0", agent())
        await stage.until("r0")
        await database.write(lambda tx: runs.request_cancel(tx, "w1", "r0", "enough", by="ada"))
        while not stage.turns["r0"].cancelled:
            await asyncio.sleep(0.005)
        assert stage.turns["r0"].cancelled[0] == "enough"


async def test_a_run_that_was_claimed_and_is_not_executed_is_settled(database: SqlDatabase) -> None:
    limits: dict[str, Any] = {"look_seconds": SOON, "lost_seconds": SOON}
    async with dispatching(database, slots=2, **limits) as stage:
        await stage.open("r0", agent())
        await database.write(lambda tx: runs.open(tx, silently("lost"), HOST))
        await stage.until("r0", "lost")
        assert stage.settled == ["lost"], "and not the one that is executed"
        (found,) = [one for one in stage.turns.values() if one.run.run_id == "lost"]
        assert found.run.attempt == 2


async def test_a_database_that_does_not_answer_for_a_while_stops_nothing_for_good(
    database: SqlDatabase,
) -> None:
    async with dispatching(database, slots=2, look_seconds=SOON) as stage:
        refused = 0

        async def refuse(_work: Any) -> Any:
            nonlocal refused
            refused += 1
            raise StorageError("the disk is full")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(database, "read", refuse)
            stage.dispatcher.look()
            while refused < 2:
                await asyncio.sleep(0.005)
        await database.write(lambda tx: runs.open(tx, silently("r1"), None))
        await stage.until("r1")


async def test_what_a_transaction_queues_it_claims_unless_other_hosts_may(database: SqlDatabase) -> None:
    stage = Stage(database, slots=2)
    before = database.groups_committed
    run_id, claimed = await stage.dispatcher.write_and_claim(_queue, lambda _: True)
    assert database.groups_committed == before + 1
    assert (run_id, claimed) == ("r0", database.dialect == "sqlite")
    assert await stage.statuses("r0") == ["claimed" if claimed else "queued"]
    if claimed:
        await stage.until("r0")
    await _end(stage)


async def test_nothing_is_claimed_where_nothing_was_queued_or_no_slot_is_free(database: SqlDatabase) -> None:
    full, stage = Stage(database, slots=0), Stage(database, slots=2)
    assert await full.dispatcher.write_and_claim(_queue, lambda _: True) == ("r0", False)
    assert await stage.dispatcher.write_and_claim(lambda _: None, lambda _: False) == (None, False)
    assert await stage.statuses("r0") == ["queued"]
    stage.member = None  # its lease is lost
    assert await stage.dispatcher.write_and_claim(lambda _: None, lambda _: True) == (None, False)
    assert await stage.statuses("r0") == ["queued"]
    await _end(stage)


async def test_a_transaction_that_fails_keeps_no_slot(database: SqlDatabase) -> None:
    stage = Stage(database, slots=2)

    def fails(tx: Tx) -> None:
        _queue(tx)
        raise StorageError("not now")

    with pytest.raises(StorageError):
        await stage.dispatcher.write_and_claim(fails, lambda _: True)
    assert stage.dispatcher._slots.taken == 0
    await stage.dispatcher.write_and_claim(_queue, lambda _: True)
    await _end(stage)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_claimed_run_is_executed_although_who_queued_it_is_gone(
    database: SqlDatabase,
) -> None:
    stage = Stage(database, slots=2)
    asking = asyncio.create_task(stage.dispatcher.write_and_claim(_queue, lambda _: True))
    while not stage.dispatcher._writing:
        await asyncio.sleep(0)
    asking.cancel()
    await stage.until("r0")
    assert asking.cancelled()
    await _end(stage)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_dispatcher_that_stops_waits_for_a_claim_and_hands_its_run_over(
    database: SqlDatabase,
) -> None:
    stage = Stage(database, slots=2)
    writing = asyncio.create_task(stage.dispatcher.write_and_claim(_queue, lambda _: True))
    while not stage.dispatcher._looking.locked():
        await asyncio.sleep(0)
    await stage.dispatcher.stop(0)
    assert await writing == ("r0", True)
    assert stage.turns["r0"].handed_over
    assert await stage.statuses("r0") == ["queued"]
    assert await stage.dispatcher.write_and_claim(lambda _: None, lambda _: True) == (None, False)
    assert await stage.statuses("r0") == ["queued"]
