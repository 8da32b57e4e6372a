"""Which runs start: slots, limits of agents, workspaces and plugins, lanes, and delays."""

from __future__ import annotations

from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import agents, runs
from support.dispatching import Stage, agent, dispatching, silently


async def test_as_many_at_once_as_there_are_slots_and_the_next_when_one_is_free(
    database: SqlDatabase,
) -> None:
    async with dispatching(database, slots=2) as stage:
        one = agent()
        opened = [await stage.open(f"r{n}", one) for n in range(5)]
        assert opened == ["claimed", "claimed", "queued", "queued", "queued"]
        assert (stage.dispatcher.active, await stage.waiting()) == (2, 3)
        await stage.until("r0", "r1")
        stage.turns["r1"].let.set()
        await stage.until("r0", "r1", "r2")
        stage.turns["r0"].let.set()
        await stage.until("r0", "r1", "r2", "r3")
        assert stage.dispatcher.active == 2
        stage.turns["r2"].let.set()
        await stage.until("r0", "r1", "r2", "r3", "r4")
        assert await stage.waiting() == 0


async def test_an_agent_with_a_limit_holds_back_no_other(database: SqlDatabase) -> None:
    async with dispatching(database, slots=10) as stage:
        few, many = agent("few", limit=1), agent("many")
        assert await stage.open("f0", few) == "claimed"
        assert await stage.open("f1", few) == "queued"
        assert await stage.open("f2", few) == "queued"
        assert await stage.open("m0", many) == "claimed"
        await stage.until("f0", "m0")
        stage.turns["m0"].let.set()
        stage.turns["f0"].let.set()
        await stage.until("f0", "m0", "f1")
        assert await stage.statuses("f1", "f2") == ["claimed", "queued"]
        stage.turns["f1"].let.set()
        await stage.until("f0", "m0", "f1", "f2")


async def test_the_limit_of_an_agent_holds_for_runs_that_waited_before_the_host_came(
    database: SqlDatabase,
) -> None:
    stored = await database.write(lambda tx: agents.apply(tx, "w1", agent("few", limit=1).spec))
    before = Stage(database, slots=0)
    for number in range(3):
        await before.open(f"r{number}", stored)
    async with dispatching(database, slots=10) as stage:
        await stage.until("r0")
        await stage.open("other", agent("other"))
        await stage.until("r0", "other")
        stage.turns["r0"].let.set()
        await stage.until("r0", "other", "r1")


async def test_a_lane_is_left_to_the_next_one_that_waits(database: SqlDatabase) -> None:
    async with dispatching(database, slots=10) as stage:
        one = agent()
        assert await stage.open("r0", one, lane="l") == "claimed"
        assert await stage.open("r1", one, lane="l") == "queued"
        assert await stage.open("r2", one, lane="l") == "queued"
        await stage.until("r0")
        for number in range(2):
            stage.turns[f"r{number}"].let.set()
            await stage.until(*(f"r{n}" for n in range(number + 2)))
        assert stage.begun == ["r0", "r1", "r2"]


async def test_runs_that_waited_when_the_host_came_are_claimed(database: SqlDatabase) -> None:
    before = Stage(database, slots=0)
    for number in range(4):
        assert await before.open(f"r{number}", agent()) == "queued"
    async with dispatching(database, slots=3) as stage:
        await stage.until("r0", "r1", "r2")
        stage.turns["r0"].let.set()
        await stage.until("r0", "r1", "r2", "r3")


async def test_a_run_that_is_not_due_waits_for_its_time(database: SqlDatabase) -> None:
    async with dispatching(database, slots=3) as stage:
        now = await database.read(lambda tx: tx.now)
        opened = await stage.open("later", agent(), not_before=now + 150)
        in_time = await database.read(lambda tx: tx.now) < now + 150
        assert opened == "queued" or not in_time
        await stage.until("later")
        assert await database.read(lambda tx: tx.now) >= now + 150


async def test_no_workspace_and_no_plugin_has_more_at_once_than_it_may(database: SqlDatabase) -> None:
    before = Stage(database, slots=0)
    one, two = agent("one"), agent("two", runner="plugin:acme/other/default")
    for number in range(3):
        await before.open(f"o{number}", one)
    await before.open("t0", two)
    await before.open("x0", agent("x", runner="plugin:acme/other/default"), workspace_id="w2")
    async with dispatching(database, slots=10, max_per_plugin=2) as stage:
        await stage.until("o0", "o1", "t0", "x0")
        assert await stage.open("o3", one) == "queued"
        assert await stage.open("t1", two) == "queued"
        stage.turns["o0"].let.set()
        await stage.until("o0", "o1", "t0", "x0", "o2")


async def test_a_flood_of_one_workspace_lets_the_others_have_their_turns(database: SqlDatabase) -> None:
    flood, other = agent("flood"), agent("other")
    before = Stage(database, slots=0)
    for number in range(20):
        await before.open(f"f{number}", flood)
    for number in range(3):
        await before.open(f"o{number}", other, workspace_id="w2")
    async with dispatching(database, slots=2) as stage:
        await stage.until("f0", "o0")
        for number in range(4):
            assert await stage.open(f"late {number}", flood) == "queued", "nobody passes the queue"
        for number in range(2):
            stage.turns[f"f{number}"].let.set()
            stage.turns[f"o{number}"].let.set()
            while not {f"f{number + 1}", f"o{number + 1}"} <= set(stage.begun):
                stage.changed.clear()
                await stage.changed.wait()
        assert set(stage.begun) == {"f0", "f1", "f2", "o0", "o1", "o2"}
        for turn in stage.turns.values():
            turn.let.set()


async def test_a_run_that_absorbed_something_wakes_the_dispatcher_when_it_ends(database: SqlDatabase) -> None:
    async with dispatching(database, slots=2) as stage:
        await stage.open("r0", agent())
        stage.dispatcher.steered("r0")
        queued = silently("next", lane="the same")  # as its end does it
        await database.write(lambda tx: runs.open(tx, queued, None))
        stage.turns["r0"].let.set()
        await stage.until("r0", "next")
