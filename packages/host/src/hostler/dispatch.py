"""Which run goes on when: slots of this process, claims of queued runs, and what is under way."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from hostler.domain.agents import Agent
from hostler.ports import Database, Tx
from hostler.stores import agents, runs
from hostler.stores.run_rows import Run
from hostler_protocol.errors import HostlerError, StorageError

log = logging.getLogger(__name__)

SHARED_POLL_SECONDS = 0.5
"""How often a host looks for runs that another one on its database queued, or gave back."""
HAND_OVER_SECONDS = 10.0
"""What a stopping host waits for the last writes of runs that it hands over."""
RETRY_SECONDS = 1.0
"""Back-off after the database did not answer."""


class Execution(Protocol):
    """A run under way."""

    run: Run
    queued_again: bool
    """Whether the run waits for another attempt, once `execute` has returned."""

    async def execute(self) -> None:
        """Carry it through to its end."""

    def cancel(self, reason: str) -> None:
        """Ask it to stop."""

    def hand_over(self, why: str) -> None:
        """Give it back: the host is stopping."""


class Dispatcher:
    """The runs of this process.

    `make` builds the execution of a claimed run; `fail` ends one that this host could not carry through.
    """

    def __init__(
        self,
        db: Database,
        host_id: str,
        make: Callable[[Run], Execution],
        fail: Callable[[Tx, Run], None],
        *,
        max_active: int,
        max_queued: int,
    ) -> None:
        self._db = db
        self._host_id = host_id
        self._make = make
        self._fail = fail
        self._max_active = max_active
        self._max_queued = max_queued
        self._reserved = 0
        self._active: dict[str, Execution] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._per_agent: Counter[str] = Counter()
        self._agent_limits: dict[str, int] = {}
        self._waiting = 0
        self._wake = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._stopping = False
        self.finished = 0
        """Runs that left this process since it started."""

    # -- slots ------------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether as many runs wait as may."""
        return self._waiting >= self._max_queued

    @property
    def active(self) -> int:
        """Runs under way."""
        return len(self._active)

    @property
    def waiting(self) -> int:
        """Runs that wait in queues of this database, as far as this process knows."""
        return self._waiting

    def reserve(self, agent: Agent) -> str | None:
        """Keep a slot for a run that is about to be opened: the host id to claim it with; None: it waits."""
        self._note_limit(agent)
        if self._room(agent.agent_id) == 0:
            return None
        if self._stopping or self._free() <= 0:
            return None
        self._reserved += 1
        self._per_agent[agent.agent_id] += 1
        return self._host_id

    def release(self, agent: Agent) -> None:
        """Give a reserved slot back."""
        self._reserved -= 1
        self._left(agent.agent_id)

    def _note_limit(self, agent: Agent) -> None:
        limit = agent.spec.concurrency.max_runs
        if limit is not None:
            self._agent_limits[agent.agent_id] = limit
        else:
            self._agent_limits.pop(agent.agent_id, None)

    def _room(self, agent_id: str) -> int | None:
        """How many more runs of an agent may go on; None: as many as there are slots."""
        limit = self._agent_limits.get(agent_id)
        return None if limit is None else max(0, limit - self._per_agent[agent_id])

    def _free(self) -> int:
        return self._max_active - len(self._active) - self._reserved

    def _left(self, agent_id: str) -> None:
        self._per_agent[agent_id] -= 1
        if self._per_agent[agent_id] <= 0:
            del self._per_agent[agent_id]
        if self._waiting:
            self._wake.set()

    # -- runs -------------------------------------------------------------------------------------

    def start_reserved(self, run: Run) -> None:
        """Execute a run that was claimed with a reserved slot."""
        self._reserved -= 1
        self._launch(run)

    def queued(self, count: int = 1) -> None:
        """So many runs wait now."""
        self._waiting += count
        self._wake.set()

    def cancel(self, run_id: str, reason: str) -> None:
        """Ask a run to stop, if it is under way here."""
        execution = self._active.get(run_id)
        if execution is not None:
            execution.cancel(reason)

    def _launch(self, run: Run) -> None:
        execution = self._make(run)
        self._active[run.run_id] = execution
        task = asyncio.create_task(self._carry(execution), name=f"run {run.run_id}")
        self._tasks[run.run_id] = task

    async def _carry(self, execution: Execution) -> None:
        run = execution.run
        try:
            if run.cancel_reason is not None:
                execution.cancel(run.cancel_reason)
            await execution.execute()
        except Exception:
            # The top of a run's worker: the mistake is in the log, and the run still gets its ending.
            log.exception("run %s: the host failed to carry it through", run.run_id)
            await self._abandon(run)
        finally:
            self._active.pop(run.run_id, None)
            self._tasks.pop(run.run_id, None)
            self.finished += 1
            self._waiting += execution.queued_again
            self._left(run.agent_id)

    async def _abandon(self, run: Run) -> None:
        try:
            await self._db.write(lambda tx: self._fail(tx, run))
        except HostlerError as error:
            log.error("run %s: not settled now (%s); the next start settles it", run.run_id, error)

    # -- claims -----------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Count what waits, learn the limits of its agents, and begin to claim it."""
        self._waiting = await self._db.read(lambda tx: runs.count_queued(tx, self._max_queued))
        for agent in await self._db.read(_waited_for):
            self._note_limit(agent)
        self._wake.set()
        self._loop = asyncio.create_task(self._claim_loop(), name="dispatcher")

    async def _claim_loop(self) -> None:
        while not self._stopping:
            await self._wait()
            free = self._free()
            if self._stopping or free <= 0:
                continue
            try:
                await self._claim(free)
            except StorageError as error:
                log.warning("queued runs cannot be claimed now: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                self._wake.set()

    async def _claim(self, free: int) -> None:
        """Claim into free slots, in steps that no agent's limit can be passed by."""
        while free > 0:
            rooms = {agent_id: self._room(agent_id) or 0 for agent_id in self._agent_limits}
            full = [agent_id for agent_id, room in rooms.items() if room == 0]
            step = min([free, *filter(None, rooms.values())])
            claimed = await self._take(step, full)
            if len(claimed) < step:
                break
            free = self._free()
        else:
            return
        if self._waiting:
            # what is left waits for its lane or its time; others may have been cancelled meanwhile
            self._waiting = await self._db.read(lambda tx: runs.count_queued(tx, self._max_queued))

    async def _take(self, limit: int, full: list[str]) -> list[Run]:
        claimed = await self._db.write(lambda tx: runs.claim_next(tx, self._host_id, limit, skip_agents=full))
        for run in claimed:
            self._per_agent[run.agent_id] += 1
            self._launch(run)
        self._waiting = max(0, self._waiting - len(claimed))
        return claimed

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(await self._pause()):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _pause(self) -> float | None:
        """How long nothing can become claimable without a wake-up; None: for ever."""
        if self._wake.is_set():
            return None
        due = await self._db.read(runs.next_due) if self._waiting else None
        until_due = None if due is None else max(0.01, due / 1000 - time.time())
        if self._db.dialect == "sqlite":
            return until_due
        return SHARED_POLL_SECONDS if until_due is None else min(until_due, SHARED_POLL_SECONDS)

    # -- the end ----------------------------------------------------------------------------------

    async def stop(self, grace_seconds: float) -> None:
        """Claim nothing more, let runs finish for a while, then hand over what is left."""
        self._stopping = True
        self._wake.set()
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        await self._settle(grace_seconds)
        for execution in list(self._active.values()):
            execution.hand_over("the host was stopped before the run ended")
        await self._settle(HAND_OVER_SECONDS)
        for task in list(self._tasks.values()):
            task.cancel()  # the database takes nothing: the next start settles them
        await self._settle(None)

    async def _settle(self, seconds: float | None) -> None:
        while self._tasks:
            _, left = await asyncio.wait(list(self._tasks.values()), timeout=seconds)
            if left and seconds is not None:
                return

    def snapshot(self) -> dict[str, Any]:
        """For metrics and `doctor`."""
        return {"active": self.active, "waiting": self._waiting, "finished": self.finished}


def _waited_for(tx: Tx) -> list[Agent]:
    """The agents of all workspaces that have queued runs."""
    return [agent for ws in runs.waiting_workspaces(tx) for agent in agents.active(tx, ws)]
