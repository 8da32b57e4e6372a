"""Which run goes on when: slots of this process, claims of queued runs, and what is under way."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from hostler.domain.agents import Agent
from hostler.domain.slots import Place, Slots, place_of
from hostler.ports import Database, Tx
from hostler.stores import claims, runs
from hostler.stores.claims import Claims
from hostler.stores.run_rows import Run
from hostler_protocol.errors import HostlerError, StorageError

log = logging.getLogger(__name__)

SHARED_POLL_SECONDS = 0.5
"""How often a host looks for what another one on its database queued, gave back, or asked to end."""
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

    def cancel(self, reason: str, grace: float | None = None) -> None:
        """Ask it to stop; after `grace` seconds (None: what the host gives) it is ended without it."""

    def people_changed(self) -> None:
        """Somebody decided about what it waits for."""

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
        max_per_workspace: int | None = None,
        max_per_plugin: int | None = None,
    ) -> None:
        self._db = db
        self._host_id = host_id
        self._make = make
        self._fail = fail
        self._max_queued = max_queued
        self._slots = Slots(max_active, max_per_workspace, max_per_plugin)
        self._active: dict[str, Execution] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._steered: set[str] = set()
        """Runs under way that absorbed messages: when they end, what they did not pull is another run."""
        self._waiting = 0
        self._looked_at = 0
        """As of when queued runs were looked at last, by the database's clock."""
        self._contended = False
        """Whether runs wait for slots: then nobody gets one past the queue, which is fair."""
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
        self._slots.limit_agent(agent.agent_id, agent.spec.concurrency.max_runs)
        if self._stopping or (self._waiting and self._contended):
            return None
        if self._slots.take(_place_of(agent)):
            return self._host_id
        self._contended = self._contended or not self._slots.free
        return None

    def release(self, agent: Agent) -> None:
        """Give a reserved slot back."""
        self._left(_place_of(agent))

    def _left(self, place: Place) -> None:
        self._slots.give_back(place)
        if self._waiting:
            self._wake.set()

    # -- runs -------------------------------------------------------------------------------------

    def start_reserved(self, run: Run) -> None:
        """Execute a run that was claimed with a reserved slot."""
        self._launch(run)

    def queued(self, count: int = 1) -> None:
        """So many runs wait now."""
        self._waiting += count
        self._wake.set()

    def look(self) -> None:
        """Something may have become claimable."""
        self._waiting = max(1, self._waiting)
        self._wake.set()

    def steered(self, run_id: str) -> None:
        """A run has absorbed a message."""
        if run_id in self._active:
            self._steered.add(run_id)
        else:
            self.look()  # it may be over by now, or is another host's

    def pause_changed(self, run_id: str) -> None:
        """Somebody decided about a run that waits: it goes on here, or has become claimable."""
        execution = self._active.get(run_id)
        if execution is not None:
            execution.people_changed()
        self.look()

    def cancel(self, run_id: str, reason: str, grace: float | None = None) -> None:
        """Ask a run to stop, if it is under way here."""
        execution = self._active.get(run_id)
        if execution is not None:
            execution.cancel(reason, grace)

    def _launch(self, run: Run) -> None:
        if run.steers:
            self._steered.add(run.run_id)
        execution = self._make(run)
        self._active[run.run_id] = execution
        task = asyncio.create_task(self._carry(execution), name=f"run {run.run_id}")
        self._tasks[run.run_id] = task

    async def _carry(self, execution: Execution) -> None:
        run = execution.run
        try:
            if run.cancel_reason is not None:
                execution.cancel(run.cancel_reason, grace_of(run))
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
            if run.run_id in self._steered:
                self._steered.discard(run.run_id)
                self.look()
            self._left(_place_of_run(run))

    async def _abandon(self, run: Run) -> None:
        try:
            await self._db.write(lambda tx: self._fail(tx, run))
        except HostlerError as error:
            log.error("run %s: not settled now (%s); the next start settles it", run.run_id, error)

    # -- claims -----------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Count what waits, learn the limits of its agents, and begin to claim it."""
        self._waiting = await self._db.read(lambda tx: runs.count_queued(tx, self._max_queued))
        self._wake.set()
        self._loop = asyncio.create_task(self._claim_loop(), name="dispatcher")

    async def _claim_loop(self) -> None:
        while not self._stopping:
            await self._wait()
            try:
                if self._db.dialect != "sqlite" and self._active:
                    await self._hear_cancellations()
                if not self._stopping:
                    await self._claim()
            except StorageError as error:
                log.warning("queued runs cannot be claimed now: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                self._wake.set()

    async def _hear_cancellations(self) -> None:
        """End what another host on this database was told to end."""
        for run in await self._db.read(lambda tx: runs.cancelled_of_host(tx, self._host_id)):
            self.cancel(run.run_id, run.cancel_reason or "cancelled", grace_of(run))

    async def _claim(self) -> None:
        """Claim into free slots what the limits allow."""
        while self._slots.free and not self._stopping and (await self._take()).again:
            pass
        self._contended = not self._slots.free
        if self._slots.free and self._waiting:
            # what is left waits for its lane, its time or a limit; others may have been cancelled meanwhile
            self._waiting = await self._db.read(lambda tx: runs.count_queued(tx, self._max_queued))

    async def _take(self) -> Claims:
        held: list[Place] = []

        def give_back() -> None:
            while held:
                self._slots.give_back(held.pop())

        def work(tx: Tx) -> Claims:
            give_back()  # where it was tried before
            return claims.claim(tx, self._host_id, self._slots, held)

        try:
            claimed = await self._db.write(work)
        except StorageError:
            give_back()
            raise
        self._looked_at = claimed.at
        for run in claimed.runs:
            self._launch(run)
        self._waiting = max(0, self._waiting - len(claimed.runs))
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
        due = None
        if self._waiting and self._slots.free:  # else whoever gives a slot back wakes us
            due = await self._db.read(lambda tx: runs.next_due(tx, self._looked_at))
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


def grace_of(run: Run) -> float | None:
    """What a cancelled run's runner is given to end by itself, in seconds; None: what the host gives."""
    return None if run.cancel_grace is None else run.cancel_grace / 1000


def _place_of(agent: Agent) -> Place:
    return place_of(agent.workspace_id, agent.spec.runner, agent.agent_id)


def _place_of_run(run: Run) -> Place:
    return place_of(run.workspace_id, run.runner_id, run.agent_id)
