"""Which run goes on when: slots, limits of agents, the queue, and the end of a host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from hostler.domain.agents import Agent, AgentSpec, Concurrency
from hostler.host.workers import Workers
from hostler.runs.dispatch import Dispatcher
from hostler.runs.queue_limit import QueueLimit
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import agents, hosts, runs
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_rows import NewRun, Run, RunAttempt
from hostler_protocol.errors import RateLimitedError, StorageError

HOST = Membership("h1")


@dataclass(eq=False)
class Turn:
    """An execution that goes on until a test lets it."""

    stage: Stage
    run: Run
    queued_again: bool = False
    cancelled: list[str] = field(default_factory=list)
    handed_over: list[str] = field(default_factory=list)
    fenced: list[str] = field(default_factory=list)
    let: asyncio.Event = field(default_factory=asyncio.Event)
    broken: bool = False
    ends_as: str = "completed"
    stays: asyncio.Event | None = None
    """What it waits for before it leaves, although it is over."""

    async def execute(self) -> None:
        self.stage.begun.append(self.run.run_id)
        self.stage.changed.set()
        await self.let.wait()
        if self.stays is not None:
            await self.stays.wait()
        if self.fenced:
            return
        if self.broken:
            raise RuntimeError("a mistake of the host")
        to: Any = "queued" if self.handed_over else self.ends_as
        database, run_ = self.stage.database, self.run
        await database.write(lambda tx: _move(tx, run_, to))
        self.queued_again = to == "queued"

    def cancel(self, reason: str, grace: float | None = None) -> None:
        self.cancelled.append(reason)

    def people_changed(self) -> None:
        self.stage.changed.set()

    def hand_over(self, why: str) -> None:
        self.handed_over.append(why)
        self.let.set()

    def fence(self, why: str) -> None:
        self.fenced.append(why)
        self.let.set()


def _move(tx: Tx, run_: Run, to: Any) -> None:
    if to in {"completed", "paused"}:
        runs.transition(tx, run_.run_id, run_.attempt, "running", cause="test", actor="t")
    runs.transition(tx, run_.run_id, run_.attempt, to, cause="test", actor="t")


def _fail(tx: Tx, run_: Run) -> None:
    runs.transition(
        tx, run_.run_id, run_.attempt, "failed", cause="test", actor="t", status_code="host.error"
    )


class Stage:
    """A dispatcher over a real database."""

    def __init__(self, database: SqlDatabase, *, slots: int, queue: int = 100, **limits: Any) -> None:
        self.database = database
        self.turns: dict[str, Turn] = {}
        self.begun: list[str] = []
        self.changed = asyncio.Event()
        self.settled: list[str] = []
        self.member: Membership | None = HOST
        self.workers = Workers()
        self.dispatcher = Dispatcher(
            database,
            lambda: self.member,
            self._make,
            _fail,
            self._settle,
            max_active=slots,
            max_queued=queue,
            **limits,
        )

    def _make(self, run_: Run) -> Turn:
        turn = self.turns[run_.run_id] = Turn(self, run_)
        return turn

    async def _settle(self, lost: list[RunAttempt]) -> None:
        """Put runs that nothing executes back into the queue, as their agents' policies may say."""
        self.settled += [one.run_id for one in lost]
        for run_id, _ in lost:
            found = await self.database.read(lambda tx, r=run_id: runs.get(tx, "w1", r))  # type: ignore[misc]
            await self.database.write(lambda tx, r=found: _move(tx, r, "queued"))  # type: ignore[misc]

    async def open(self, run_id: str, agent: Agent, *, lane: str | None = None, **fields: Any) -> str:
        """Open a run as the orchestrator does; its status."""
        new = NewRun(
            workspace_id=fields.pop("workspace_id", "w1"),
            run_id=run_id,
            agent_id=agent.agent_id,
            agent_name=agent.name,
            agent_version=1,
            runner_id=agent.spec.runner,
            lane=lane or f"lane of {run_id}",
            **fields,
        )
        reserved = self.dispatcher.reserve(agent)
        opened = await self.database.write(lambda tx: runs.open(tx, new, reserved.claim))
        self.dispatcher.opened(reserved, opened)
        return opened.status

    async def waiting(self) -> int:
        """How many runs wait, by the database."""
        return await self.database.read(lambda tx: runs.count_queued(tx, 1_000))

    async def until(self, *run_ids: str) -> None:
        """Wait until these, and no others, have begun."""
        while not set(run_ids) <= set(self.begun):
            self.changed.clear()
            await self.changed.wait()
        assert sorted(self.begun) == sorted(run_ids)

    def begin(self) -> None:
        """Claim in the background until the dispatcher stops."""
        self.workers.start("dispatcher", self.dispatcher.work)

    async def statuses(self, *run_ids: str) -> list[str]:
        return [(await self.database.read(lambda tx, r=r: runs.get(tx, "w1", r))).status for r in run_ids]  # type: ignore[misc]


def agent(name: str = "a", limit: int | None = None, runner: str = "plugin:acme/echo/default") -> Agent:
    spec = AgentSpec(name=name, runner=runner, concurrency=Concurrency(max_runs=limit))
    return Agent("w1", f"id of {name}", 1, spec)


@asynccontextmanager
async def dispatching(database: SqlDatabase, **limits: Any) -> AsyncIterator[Stage]:
    stage = Stage(database, **limits)
    stage.begin()
    try:
        yield stage
    finally:
        for turn in stage.turns.values():
            turn.let.set()
        await stage.dispatcher.stop(30)
        assert stage.dispatcher.active == 0


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


async def test_a_full_queue_says_so(database: SqlDatabase) -> None:
    async with dispatching(database, slots=1, queue=2) as stage:
        full = []
        for number in range(3):
            full.append(await stage.dispatcher.queue.is_full())
            await stage.open(f"r{number}", agent())
        assert full == [False, False, False]
        with pytest.raises(RateLimitedError, match="too many runs"):
            await stage.dispatcher.check_room()


async def test_a_mistake_of_the_host_ends_that_run_and_frees_its_slot(database: SqlDatabase) -> None:
    async with dispatching(database, slots=1) as stage:
        await stage.open("r0", agent(limit=1))
        await stage.open("r1", agent(limit=1))
        stage.turns["r0"].broken = True
        stage.turns["r0"].let.set()
        await stage.until("r0", "r1")
        assert await stage.statuses("r0") == ["failed"]


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


# -- limits of workspaces and plugins, and turns ----------------------------------------------------


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
        new = NewRun(
            workspace_id="w1",
            run_id="next",
            agent_id="id of a",
            agent_name="a",
            agent_version=1,
            runner_id="plugin:acme/echo/default",
            lane="the same",
        )
        await database.write(lambda tx: runs.open(tx, new, None))  # as its end does, and tells nobody
        stage.turns["r0"].let.set()
        await stage.until("r0", "next")


# -- what nobody told it of -------------------------------------------------------------------------

NEVER = 3600.0
"""No look by itself within the test: what starts was told."""
SOON = 0.02


def silently(run_id: str, **fields: Any) -> NewRun:
    """A run that is opened without a word to the dispatcher."""
    return NewRun(
        workspace_id="w1",
        run_id=run_id,
        agent_id="id of a",
        agent_name="a",
        agent_version=1,
        runner_id="plugin:acme/echo/default",
        **{"lane": f"lane of {run_id}", **fields},
    )


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
        await database.write(lambda tx: _move(tx, paused, "queued"))
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


async def test_an_attempt_waits_until_the_one_before_it_has_left(database: SqlDatabase) -> None:
    async with dispatching(database, slots=2, look_seconds=SOON) as stage:
        await stage.open("r0", agent())
        await stage.until("r0")
        first = stage.turns["r0"]
        first.stays = asyncio.Event()
        await database.write(lambda tx: _move(tx, first.run, "running"))
        await database.write(lambda tx: _move(tx, first.run, "queued"))  # as another host settles it
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
        assert await database.read(lambda tx: runs.attempts_of(tx, HOST)) == set()


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


# -- a claim in the transaction that queued -----------------------------------------------------------


def _queue(tx: Tx) -> str:
    return runs.open(tx, silently("r0"), None).run_id


async def _end(stage: Stage) -> None:
    for turn in stage.turns.values():
        turn.let.set()
    await stage.dispatcher.stop(30)
    assert (stage.dispatcher.active, stage.dispatcher._slots.taken) == (0, 0)


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


# -- the bound of the queue -------------------------------------------------------------------------


async def test_no_more_wait_than_may_however_many_come_at_once(database: SqlDatabase) -> None:
    async with dispatching(database, slots=1, queue=5, look_seconds=NEVER) as stage:
        await stage.open("r0", agent())
        reserved = [stage.dispatcher.reserve(agent()) for _ in range(20)]
        assert [one.may_wait for one in reserved] == [True] * 5 + [False] * 15
        for one in reserved:
            stage.dispatcher.release(one)
        assert not await stage.dispatcher.queue.is_full()


async def test_the_bound_of_the_queue_goes_by_what_the_database_says(database: SqlDatabase) -> None:
    now = 0.0
    room = QueueLimit(database, 2, clock=lambda: now)
    assert not await room.is_full()
    for number in range(2):
        await database.write(lambda tx, n=number: runs.open(tx, silently(f"r{n}"), None))  # type: ignore[misc]
    now += 6  # another host queued them
    assert await room.is_full()
    await database.write(lambda tx: runs.transition(tx, "r0", 1, "cancelled", cause="t", actor="t"))
    now += 0.2
    assert not await room.is_full(), "it is asked again before anything is refused"
    assert room.enter()
    assert not room.enter()
