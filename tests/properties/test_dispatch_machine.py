"""Runs in any order, wake-ups lost at random: whatever may start starts, and each run ends once."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.domain.agents import Agent, AgentSpec
from hostler.domain.slots import Slots
from hostler.host.workers import Workers
from hostler.runs.dispatch import Dispatcher
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import run_claims as claims
from hostler.storage.stores import runs
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_rows import NewRun, Run, RunAttempt
from hostler_protocol.runs import TERMINAL_STATUSES, RunStatus
from support.databases import run

WS = "w1"
HOST = Membership("h1")
AGENT = Agent(WS, "id of a", 1, AgentSpec(name="a", runner="plugin:acme/echo/default"))
SLOTS = 3
LANES = 3
LOOK_SECONDS = 0.02
NEVER = 3600.0
"""No look within the test but those that the dispatcher was told to make."""
EXAMPLES = 25 if not os.environ.get("HOSTLER_SOAK") else 300
How = Literal["completed", "paused", "queued"]
_names = itertools.count()


@dataclass(frozen=True)
class Step:
    """One thing that happens. `told`: whether the dispatcher hears of it; `which` one it happens to."""

    what: Literal["open", "end", "decide", "cancel", "lose", "wait"]
    told: bool
    which: int
    how: How = "completed"
    parallel: bool = False
    delay_ms: int | None = None
    follows: bool = False
    """The run that ends leaves another one in its lane, as messages that it had not pulled do."""


steps = st.builds(
    Step,
    what=st.sampled_from(["open", "open", "open", "end", "end", "decide", "cancel", "lose", "wait"]),
    told=st.booleans(),
    which=st.integers(0, 7),
    how=st.sampled_from(["completed", "paused", "queued"]),
    parallel=st.booleans(),
    delay_ms=st.sampled_from([None, None, 5, 40]),
    follows=st.booleans(),
)


@dataclass(eq=False)
class Turn:
    """An attempt under way, until the story lets it go."""

    story: Story
    run: Run
    queued_again: bool = False
    let: asyncio.Event = field(default_factory=asyncio.Event)
    ends: Step | None = None
    fenced: bool = False

    async def execute(self) -> None:
        self.story.begun(self)
        await self.let.wait()
        if not self.fenced:
            if self.ends is not None and self.ends.follows and self.ends.told:
                self.story.dispatcher.steered(self.run.run_id)
            await self.story.database.write(self.move)

    def move(self, tx: Tx) -> None:
        """How the attempt ends."""
        how: RunStatus = "completed" if self.ends is None else self.ends.how
        run_ = self.run
        runs.transition(tx, run_.run_id, run_.attempt, "running", cause="t", actor="t")
        if how == "queued":
            later = tx.now + 10
            runs.transition(tx, run_.run_id, run_.attempt, how, cause="t", actor="t", not_before=later)
        else:
            runs.transition(tx, run_.run_id, run_.attempt, how, cause="t", actor="t")
        if self.ends is not None and self.ends.follows:
            runs.open(tx, self.story.new(run_.lane, parallel=False), None)
        self.queued_again = how == "queued" and self.ends is not None and self.ends.told

    def cancel(self, reason: str, grace: float | None = None) -> None:
        """The story cancels only what waits."""

    def people_changed(self) -> None:
        """Nothing is held."""

    def hand_over(self, why: str) -> None:
        self.let.set()

    def fence(self, why: str) -> None:
        self.fenced = True
        self.let.set()


async def _fail(run_: Run) -> None:
    raise AssertionError(f"the attempt of {run_.run_id} raised")


class Story:
    """A dispatcher over a real database, and all that happens to its runs."""

    def __init__(self, database: SqlDatabase, look_seconds: float) -> None:
        self.database = database
        self.turns: list[Turn] = []
        self.attempts: Counter[tuple[str, int]] = Counter()
        self.example = next(_names)
        self.made = itertools.count()
        self.over = False
        self.dispatcher = Dispatcher(
            database,
            lambda: HOST,
            lambda run_, _: Turn(self, run_),
            _fail,
            self.settle,
            max_active=SLOTS,
            max_queued=1_000,
            look_seconds=look_seconds,
            lost_seconds=LOOK_SECONDS,
        )

    def begun(self, turn: Turn) -> None:
        self.attempts[turn.run.run_id, turn.run.attempt] += 1
        assert self.dispatcher.active <= SLOTS
        self.turns.append(turn)
        if self.over:
            turn.let.set()

    def new(self, lane: str, *, parallel: bool, not_before: int | None = None) -> NewRun:
        return NewRun(
            workspace_id=WS,
            run_id=f"r{self.example}-{next(self.made)}",
            agent_id=AGENT.agent_id,
            agent_name=AGENT.name,
            agent_version=1,
            runner_id=AGENT.spec.runner,
            lane=lane,
            parallel=parallel,
            not_before=not_before,
        )

    async def settle(self, lost: list[RunAttempt]) -> None:
        def again(tx: Tx) -> None:
            for run_id, attempt in lost:
                runs.transition(tx, run_id, attempt, "queued", cause="lost", actor="t")

        await self.database.write(again)

    async def of_status(self, *statuses: RunStatus) -> list[Run]:
        return await self.database.read(lambda tx: runs.page(tx, WS, statuses=statuses))

    async def take(self, step: Step) -> None:
        match step.what:
            case "open":
                await self.open(step)
            case "end":
                under_way = [turn for turn in self.turns if not turn.let.is_set()]
                if under_way:
                    turn = under_way[step.which % len(under_way)]
                    turn.ends = step
                    turn.let.set()
            case "decide":
                await self.move(step, "paused", "queued")
            case "cancel":
                await self.move(step, "queued", "cancelled")
            case "lose":  # claimed here, and the process forgets it
                slots = Slots(1)
                await self.database.write(lambda tx: claims.claim(tx, HOST, slots, []))
            case "wait":
                await asyncio.sleep(0.005)

    async def open(self, step: Step) -> None:
        lane = f"lane {self.example}-{step.which % LANES}"

        def work(tx: Tx, claim: Membership | None) -> Run:
            due = None if step.delay_ms is None else tx.now + step.delay_ms
            return runs.open(tx, self.new(lane, parallel=step.parallel, not_before=due), claim)

        if not step.told:
            await self.database.write(lambda tx: work(tx, None))
            return
        reserved = self.dispatcher.reserve(AGENT)
        opened = await self.database.write(lambda tx: work(tx, reserved.claim))
        self.dispatcher.opened(reserved, opened)

    async def move(self, step: Step, before: RunStatus, after: RunStatus) -> None:
        found = await self.of_status(before)
        if not found:
            return
        run_ = found[step.which % len(found)]
        await self.database.write(
            lambda tx: runs.transition(tx, run_.run_id, run_.attempt, after, cause="t", actor="t")
        )
        if step.told:
            self.dispatcher.look()

    async def to_the_end(self, *, told: bool) -> None:
        """Let everything end. `told`: whether the dispatcher hears of decisions."""
        self.over = True
        for turn in self.turns:
            turn.let.set()
        while await self.of_status("queued", "claimed", "running", "paused"):
            for _ in await self.of_status("paused"):
                await self.move(Step("decide", told=told, which=0), "paused", "queued")
            await asyncio.sleep(0.005)


def _holds(database: SqlDatabase, happens: st.SearchStrategy[list[Step]], look_seconds: float) -> None:
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(happens)
    def examples(listed: list[Step]) -> None:
        run(_whole(database, listed, look_seconds), seconds=60)

    examples()


@pytest.mark.timeout(300)
def test_whatever_may_start_starts_although_nobody_was_told(database: SqlDatabase) -> None:
    _holds(database, st.lists(steps, max_size=25), LOOK_SECONDS)


@pytest.mark.timeout(300)
def test_what_the_dispatcher_was_told_needs_no_look(database: SqlDatabase) -> None:
    told = steps.filter(lambda step: step.what != "lose").map(lambda step: replace(step, told=True))
    _holds(database, st.lists(told, max_size=25), NEVER)


async def _whole(database: SqlDatabase, happens: list[Step], look_seconds: float) -> None:
    story = Story(database, look_seconds)
    workers = Workers()
    workers.start("dispatcher", story.dispatcher.work)
    for step in happens:
        await story.take(step)
    await story.to_the_end(told=look_seconds == NEVER)
    while story.dispatcher.active:
        await asyncio.sleep(0.005)
    assert story.dispatcher._slots.taken == 0
    assert set(story.attempts.values()) <= {1}, "no attempt is executed twice"
    for run_ in await database.read(lambda tx: runs.page(tx, WS, limit=200)):
        assert run_.status in TERMINAL_STATUSES
    await story.dispatcher.stop(5)
