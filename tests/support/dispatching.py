"""A dispatcher over a real database, with attempts that last until a test ends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from hostler.domain.agents import Agent, AgentSpec, Concurrency
from hostler.host.workers import Workers
from hostler.runs.dispatch import Dispatcher
from hostler.runs.snapshot import FactsAhead
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import run_lanes, runs
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_rows import NewRun, Run, RunAttempt
from support.run_rows import new

HOST = Membership("h1")


NEVER = 3600.0
"""No look by itself within the test: what starts was told."""


SOON = 0.02


def move(tx: Tx, run_: Run, to: Any) -> None:
    if to in {"completed", "paused"}:
        runs.transition(tx, run_.run_id, run_.attempt, "running", cause="test", actor="t")
    runs.transition(tx, run_.run_id, run_.attempt, to, cause="test", actor="t")


def _fail(tx: Tx, run_: Run) -> None:
    runs.transition(
        tx, run_.run_id, run_.attempt, "failed", cause="test", actor="t", status_code="host.error"
    )


@dataclass(eq=False)
class Turn:
    """An attempt that goes on until a test lets it."""

    stage: Stage
    run: Run
    queued_again: bool = False
    cancelled: list[str] = field(default_factory=list)
    handed_over: list[str] = field(default_factory=list)
    fenced: list[str] = field(default_factory=list)
    let: asyncio.Event = field(default_factory=asyncio.Event)
    broken: Exception | None = None
    """What it raises instead of coming to its end."""
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
        if self.broken is not None:
            raise self.broken
        to: Any = "queued" if self.handed_over else self.ends_as
        database, run_ = self.stage.database, self.run
        await database.write(lambda tx: move(tx, run_, to))
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
            lambda run: database.write(lambda tx: _fail(tx, run)),
            self._settle,
            max_active=slots,
            max_queued=queue,
            **limits,
        )

    def _make(self, run_: Run, ahead: FactsAhead | None) -> Turn:
        turn = self.turns[run_.run_id] = Turn(self, run_)
        return turn

    async def _settle(self, lost: list[RunAttempt]) -> None:
        """Put runs that nothing executes back into the queue, as their agents' policies may say."""
        self.settled += [one.run_id for one in lost]
        for run_id, _ in lost:
            found = await self.database.read(lambda tx, r=run_id: runs.get(tx, "w1", r))  # type: ignore[misc]
            await self.database.write(lambda tx, r=found: move(tx, r, "queued"))  # type: ignore[misc]

    async def open(self, run_id: str, agent: Agent, *, lane: str | None = None, **fields: Any) -> str:
        """Open a run as the orchestrator does; its status."""
        workspace = fields.pop("workspace_id", "w1")
        whose = {"agent_id": agent.agent_id, "agent_name": agent.name, "runner_id": agent.spec.runner}
        opens = new(run_id, lane=lane, workspace=workspace, **whose, **fields)
        reserved = self.dispatcher.reserve(agent)
        opened = await self.database.write(lambda tx: runs.open(tx, opens, reserved.claim))
        self.dispatcher.opened(reserved, opened)
        return opened.status

    async def waiting(self) -> int:
        """How many runs wait, by the database."""
        return await self.database.read(lambda tx: run_lanes.count_queued(tx, 1_000))

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


def silently(run_id: str, **fields: Any) -> NewRun:
    """A run that is opened without a word to the dispatcher."""
    return new(run_id, agent_id="id of a", agent_name="a", **fields)
