"""Attempts under way: cancelled, fenced, handed over, one at a time for each run."""

from __future__ import annotations

import asyncio

import pytest

from hostler.storage.sealing.envelope import KeyMissingError
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.session import CommitUnknownError
from hostler.storage.stores import hosts, run_hosts, runs
from support.dispatching import HOST, NEVER, SOON, Stage, agent, dispatching, move, silently


async def test_a_mistake_of_the_host_ends_that_run_and_frees_its_slot(database: SqlDatabase) -> None:
    async with dispatching(database, slots=1) as stage:
        await stage.open("r0", agent(limit=1))
        await stage.open("r1", agent(limit=1))
        stage.turns["r0"].broken = RuntimeError("a mistake of the host")
        stage.turns["r0"].let.set()
        await stage.until("r0", "r1")
        assert await stage.statuses("r0") == ["failed"]


@pytest.mark.parametrize(
    "error", [CommitUnknownError("the connection broke"), KeyMissingError("none of the keys opens it")]
)
async def test_what_is_no_mistake_of_the_run_is_left_to_the_search_for_lost_runs(
    database: SqlDatabase, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Its policy then says how it goes on: on a host that has the database and the keys."""
    async with dispatching(database, slots=1, look_seconds=SOON) as stage:
        await stage.open("r0", agent())
        stage.turns["r0"].broken = error
        stage.turns["r0"].let.set()
        while stage.begun != ["r0", "r0"]:
            stage.changed.clear()
            await stage.changed.wait()
        assert stage.settled == ["r0"]
    assert str(error) in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_wish_to_cancel_reaches_the_run_that_is_under_way(database: SqlDatabase) -> None:
    async with dispatching(database, slots=1) as stage:
        await stage.open("r0", agent())
        stage.dispatcher.cancel("r0", "enough")
        stage.dispatcher.cancel("no such run", "enough")
        assert stage.turns["r0"].cancelled == ["enough"]


async def test_a_run_that_was_cancelled_before_its_claim_hears_of_it(database: SqlDatabase) -> None:
    before = Stage(database, slots=0)
    await before.open("r0", agent())
    await database.write(lambda tx: runs.request_cancel(tx, "w1", "r0", "early", by="ada"))
    async with dispatching(database, slots=1) as stage:
        await stage.until("r0")
        assert stage.turns["r0"].cancelled == ["early"]


async def test_a_host_that_stops_lets_runs_finish_and_hands_the_others_over(database: SqlDatabase) -> None:
    stage = Stage(database, slots=2)
    stage.begin()
    for number in range(3):
        await stage.open(f"r{number}", agent())
    stage.turns["r0"].let.set()
    await stage.dispatcher.stop(1)
    assert stage.turns["r1"].handed_over
    assert not stage.turns["r0"].handed_over
    assert (await stage.statuses("r0", "r1"))[0] == "completed"
    assert (await stage.statuses("r1"))[0] == "queued"
    assert stage.dispatcher.reserve(agent()).claim is None
    assert stage.dispatcher.active == 0


async def test_an_attempt_waits_until_the_one_before_it_has_left(database: SqlDatabase) -> None:
    async with dispatching(database, slots=2, look_seconds=SOON) as stage:
        await stage.open("r0", agent())
        await stage.until("r0")
        first = stage.turns["r0"]
        first.stays = asyncio.Event()
        await database.write(lambda tx: move(tx, first.run, "running"))
        await database.write(lambda tx: move(tx, first.run, "queued"))  # as another host settles it
        while not first.fenced:
            await asyncio.sleep(0.005)
        second = stage.turns["r0"]
        assert second is not first
        assert stage.begun == ["r0"], "two attempts of one run never work at once"
        first.stays.set()
        while stage.begun != ["r0", "r0"]:
            stage.changed.clear()
            await stage.changed.wait()
        stage.dispatcher.cancel("r0", "enough")
        assert (first.cancelled, second.cancelled) == ([], ["enough"])


async def test_a_host_that_stops_while_it_claims_loses_nothing(database: SqlDatabase) -> None:
    for number in range(20):
        stage = Stage(database, slots=4)
        stage.begin()
        for place in range(4):
            new = silently(f"r{number}-{place}")
            await database.write(lambda tx, new=new: runs.open(tx, new, None))  # type: ignore[misc]
        stage.dispatcher.look()
        for _ in range(number):
            await asyncio.sleep(0)
        await stage.dispatcher.stop(0)
        assert await database.read(lambda tx: run_hosts.attempts_of(tx, HOST)) == set()


async def test_a_host_without_its_lease_ends_everything_and_claims_nothing(database: SqlDatabase) -> None:
    stage = Stage(database, slots=4, look_seconds=SOON)
    stage.begin()
    for number in range(3):
        await stage.open(f"r{number}", agent())
    await stage.until("r0", "r1", "r2")
    stage.member = None
    assert sorted(await stage.dispatcher.end_all("the lease is lost")) == ["r0", "r1", "r2"]
    assert stage.dispatcher.active == 0
    assert stage.dispatcher._slots.taken == 0
    assert [turn.fenced for turn in stage.turns.values()] == [["the lease is lost"]] * 3
    assert await stage.statuses("r0", "r1", "r2") == ["claimed"] * 3, "nothing was written"
    assert await stage.open("r3", agent()) == "queued"
    await database.write(lambda tx: hosts.join(tx, HOST.host_id, "here", 60_000))
    (joined,) = await database.read(hosts.alive)
    stage.member = joined.member
    stage.dispatcher.look()
    while "r3" not in stage.begun:
        stage.changed.clear()
        await stage.changed.wait()
    stage.turns["r3"].let.set()
    await stage.dispatcher.stop(5)


async def test_a_run_that_was_claimed_as_the_lease_was_lost_is_not_executed(database: SqlDatabase) -> None:
    async with dispatching(database, slots=1, look_seconds=NEVER) as stage:
        reserved = stage.dispatcher.reserve(agent())
        assert reserved.claim is not None
        opened = await database.write(lambda tx: runs.open(tx, silently("r0"), reserved.claim))
        stage.member = None
        stage.dispatcher.opened(reserved, opened)
        assert (stage.dispatcher.active, stage.dispatcher._slots.taken) == (0, 0)
        assert stage.begun == []
