"""Which run goes on when: slots of this process, claims of queued runs, and what is under way.

The queue is what the database says. Whoever queues a run, or makes one claimable, tells the dispatcher, so
that it starts at once; but nothing depends on that. Every few seconds it looks by itself, and whatever may
start then, starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import msgspec

from hostler.domain.agents import Agent
from hostler.domain.slots import SlotKey, Slots, slot_key
from hostler.runs.queue_limit import QueueLimit
from hostler.storage.port import Database, Tx
from hostler.storage.stores import run_claims as claims
from hostler.storage.stores import runs
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_claims import Claims, Queues
from hostler.storage.stores.run_rows import Run, RunAttempt
from hostler_protocol.errors import HostlerError, StorageError

T = TypeVar("T")
log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""How often a host looks at its own database for runs that nobody told it of: the longest that a run waits
whose wake-up was lost. One query of a tenth of a millisecond, so that an idle host costs nothing."""
SHARED_LOOK_SECONDS = 0.5
"""The same on a database that other hosts write to: they queue runs, give them back and ask for their end."""
LOST_SECONDS = 5.0
"""From one search for runs that this host claimed but does not execute to the next. One that two searches in
a row found is settled by its agent's recovery policy."""
LEAVE_SECONDS = 10.0
"""How long a new attempt waits here for the one before it to leave; then that one is cancelled."""
HAND_OVER_SECONDS = 10.0
"""How long a stopping host waits for the last writes of runs that it hands over."""
RETRY_SECONDS = 1.0
"""Back-off after the database did not answer."""


class Execution(Protocol):
    """A run under way."""

    run: Run

    @property
    def queued_again(self) -> bool:
        """Whether the run waits for another attempt, once `execute` has returned."""

    async def execute(self) -> None:
        """Carry it through to its end."""

    def cancel(self, reason: str, grace: float | None = None) -> None:
        """Ask it to stop; after `grace` seconds (None: what the host gives) it is ended without it."""

    def people_changed(self) -> None:
        """Somebody decided about what it waits for."""

    def hand_over(self, why: str) -> None:
        """Give it back: the host is stopping."""

    def fence(self, why: str) -> None:
        """End it here at once and write nothing more: the run is another attempt's by now."""


class Reservation(msgspec.Struct, frozen=True, eq=False):
    """A place for a run that is about to be opened: in a slot, in the queue, or in either."""

    slot: SlotKey
    claim: Membership | None
    """Who claims the run; None: there is no slot for it."""
    may_wait: bool
    """Whether it may be queued."""


class Dispatcher:
    """The runs of this process.

    `member` says who this host is when it claims; None: its lease is lost, and it claims nothing. `make`
    builds the execution of a claimed run; `fail` ends one that this host could not carry through; `settle`
    decides by policy about attempts that were claimed here and that nothing executes any more.
    """

    def __init__(
        self,
        db: Database,
        member: Callable[[], Membership | None],
        make: Callable[[Run], Execution],
        fail: Callable[[Tx, Run], None],
        settle: Callable[[list[RunAttempt]], Awaitable[Any]],
        *,
        max_active: int,
        max_queued: int,
        max_per_workspace: int | None = None,
        max_per_plugin: int | None = None,
        look_seconds: float | None = None,
        lost_seconds: float = LOST_SECONDS,
    ) -> None:
        self._db = db
        self._member = member
        self._make = make
        self._fail = fail
        self._settle_lost = settle
        self._slots = Slots(max_active, max_per_workspace, max_per_plugin)
        self._shared = db.dialect != "sqlite"
        own = SHARED_LOOK_SECONDS if self._shared else LOOK_SECONDS
        self._look_seconds = own if look_seconds is None else look_seconds
        self._lost_seconds = lost_seconds
        self._active: dict[str, Execution] = {}
        """By run: its newest attempt here."""
        self._tasks: dict[Execution, asyncio.Task[None]] = {}
        self._steered: set[str] = set()
        """Runs under way that absorbed messages: when they end, what they did not pull is another run."""
        self._hints = 0
        """How often something may have become claimable."""
        self._may_wait = True
        """Whether runs may wait that a free slot could take: told since the last look, or seen by it."""
        self._contended = False
        """Whether runs may wait for slots: then no new run bypasses the queue, which is fair."""
        self._due: float | None = None
        """When the next run becomes due that is held back, by the host's clock."""
        self._suspects: set[RunAttempt] = set()
        self._searched_at = time.monotonic()
        self._wake = asyncio.Event()
        self._looking = asyncio.Lock()
        """Held while it claims, so that `stop` can wait for what is on its way."""
        self._writing: set[asyncio.Task[Any]] = set()
        """Transactions of others that claim as well."""
        self._stopping = False
        self.queue = QueueLimit(db, max_queued)
        self.finished = 0
        """Runs that left this process since it started."""

    # -- slots ------------------------------------------------------------------------------------

    @property
    def active(self) -> int:
        """Runs under way."""
        return len(self._active)

    async def check_room(self) -> None:
        """Raise RateLimitedError where as many runs wait as may, and a new one could not begin either."""
        if await self.queue.is_full() and (self._contended or not self._slots.free):
            raise self.queue.error()

    def reserve(self, agent: Agent, *, begins: bool = True) -> Reservation:
        """Keep a place for a run that is about to be opened: a slot if it `begins` now and there is one.

        `opened` or `release` must follow.
        """
        self._slots.limit_agent(agent.agent_id, agent.spec.concurrency.max_runs)
        slot = _agent_slot(agent)
        claim = None
        member = self._member()
        if begins and member is not None and not self._stopping and not self._contended:
            claim = member if self._slots.take(slot) else None
            self._contended = not self._slots.free
        return Reservation(slot, claim, self.queue.enter())

    def release(self, reserved: Reservation) -> None:
        """Give a place back: no run was opened in it."""
        if reserved.may_wait:
            self.queue.leave()
        if reserved.claim is not None:
            self._left(reserved.slot)

    def opened(self, reserved: Reservation, run: Run) -> None:
        """The run was opened in the place: execute it if it was claimed, else it waits."""
        if run.status == "claimed":
            if reserved.may_wait:
                self.queue.leave()
            self._launch(run)
        else:
            self.release(reserved)
            self.queued()

    def _left(self, slot: SlotKey) -> None:
        self._slots.give_back(slot)
        if self._may_wait:
            self._wake.set()

    # -- runs -------------------------------------------------------------------------------------

    def queued(self) -> None:
        """One more run waits."""
        self.queue.queued()
        self.look()

    def look(self) -> None:
        """Something may have become claimable."""
        self._hints += 1
        self._may_wait = True
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
        if run.member != self._member():  # the lease was lost since it was claimed: somebody settles it
            self._left(_run_slot(run))
            return
        if run.steers:
            self._steered.add(run.run_id)
        before = self._active.get(run.run_id)
        execution = self._active[run.run_id] = self._make(run)
        task = asyncio.create_task(self._carry(execution, before), name=f"run {run.run_id}")
        self._tasks[execution] = task

    async def _carry(self, execution: Execution, before: Execution | None) -> None:
        run = execution.run
        try:
            if before is not None:
                await self._wait_for(before, f"attempt {run.attempt} of the run has begun")
            if run.cancel_reason is not None:
                execution.cancel(run.cancel_reason, grace_of(run))
            await execution.execute()
        except Exception:
            # The top of a run's worker: the mistake is in the log, and the run still gets its ending.
            log.exception("run %s: the host failed to carry it through", run.run_id)
            await self._abandon(run)
        finally:
            if self._active.get(run.run_id) is execution:
                del self._active[run.run_id]
            del self._tasks[execution]
            self.finished += 1
            if execution.queued_again or run.run_id in self._steered:
                self._steered.discard(run.run_id)
                self.look()
            self._left(_run_slot(run))

    async def _wait_for(self, before: Execution, why: str) -> None:
        """Wait until an earlier attempt of a run has left: two of them never work at once in this process."""
        before.fence(why)
        while (task := self._tasks.get(before)) is not None:
            _, left = await asyncio.wait([task], timeout=LEAVE_SECONDS)
            if left:
                log.error("run %s: its attempt %d does not leave", before.run.run_id, before.run.attempt)
                task.cancel()

    async def _abandon(self, run: Run) -> None:
        try:
            await self._db.write(lambda tx: self._fail(tx, run))
        except HostlerError as error:
            log.error("run %s: not settled now (%s); the next search for lost runs does", run.run_id, error)

    # -- claims -----------------------------------------------------------------------------------

    async def work(self, succeeded: Callable[[], None] = lambda: None) -> None:
        """Claim what waits, until the dispatcher is stopped. A worker of the host."""
        self.look()
        while not self._stopping:
            told = await self._wait()
            try:
                async with self._looking:
                    await self._look(told=told)
            except StorageError as error:
                log.warning("queued runs cannot be claimed now: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                self.look()
            else:
                succeeded()

    async def _wait(self) -> bool:
        """Wait until something may be claimable. False: nobody said so, it is only looked now and then."""
        seconds = self._look_seconds
        if self._due is not None:
            seconds = min(seconds, max(0.01, self._due - time.time()))
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass
        told = self._wake.is_set()
        self._wake.clear()
        return told

    async def _look(self, *, told: bool) -> None:
        """Claim what may start. What the database says now replaces all that was told before."""
        hints = self._hints
        if self._shared or not told:
            await self._hear_cancellations()
            await self._find_lost()
        queues = None if told else await self._queues()
        if queues is None or queues.ready:
            claimed_at = await self._claim()
            queues = await self._queues(claimed_at) if self._slots.free else None
        self._contended = not self._slots.free
        if queues is None:  # whoever gives a slot back wakes us
            self._may_wait, self._due = True, None
        else:
            self._may_wait = queues.waiting or self._hints != hints
            self._due = None if queues.due is None else queues.due / 1000

    async def _claim(self) -> int | None:
        """Claim into free slots what the limits allow; as of when it was looked last."""
        at = None
        while self._slots.free and not self._stopping and (member := self._member()) is not None:
            claimed = await self._take(member)
            at = claimed.at
            if not claimed.again:
                break
        return at

    async def _queues(self, since: int | None = None) -> Queues:
        return await self._db.read(lambda tx: claims.look(tx, since))

    async def _hear_cancellations(self) -> None:
        """End what another host on this database was asked to end, or this one without being told."""
        member = self._member()
        if self._active and member is not None:
            for run in await self._db.read(lambda tx: runs.cancelled_of(tx, member)):
                self.cancel(run.run_id, run.cancel_reason or "cancelled", grace_of(run))

    async def _find_lost(self) -> None:
        """Settle what this host claimed and does not execute: whatever became of it, it would wait for ever.

        A run that is being claimed in this moment is not known here yet, so a run must be found twice.
        """
        now, member = time.monotonic(), self._member()
        if member is None or now - self._searched_at < self._lost_seconds:
            return
        self._searched_at = now
        claimed = await self._db.read(lambda tx: runs.attempts_of(tx, member))
        missing = {one for one in claimed if one.run_id not in self._active}
        lost = missing & self._suspects
        self._suspects = missing
        if lost and not self._stopping:
            log.error("%d runs are claimed by this host, which does not execute them", len(lost))
            await self._settle_lost(sorted(lost))
            self.look()

    async def _take(self, member: Membership) -> Claims:
        return (await self._write_and_take(member, lambda _: None, lambda _: True))[1]

    async def _write_and_take(
        self, member: Membership, work: Callable[[Tx], T], queues: Callable[[T], bool]
    ) -> tuple[T, Claims]:
        held: list[SlotKey] = []

        def give_back() -> None:
            while held:
                self._slots.give_back(held.pop())

        def both(tx: Tx) -> tuple[T, Claims]:
            give_back()  # where it was tried before
            done = work(tx)
            return done, claims.claim(tx, member, self._slots, held) if queues(done) else Claims()

        try:
            done, claimed = await self._db.write(both)
        except Exception:
            give_back()
            raise
        for run in claimed.runs:
            self._launch(run)
        return done, claimed

    async def write_and_claim(self, work: Callable[[Tx], T], queues: Callable[[T], bool]) -> tuple[T, bool]:
        """Run `work` in a transaction and, if it queued a run, claim in the same one what may start.

        Return its result, and whether no run is left that could start: False means that `look` has to be
        called. Nothing is claimed on a shared database, where rows of runs and of queues would be locked in
        an order that other hosts do not keep, nor while another claim is under way.
        """
        member = self._member()
        if self._shared or member is None or self._stopping or self._looking.locked() or not self._slots.free:
            return await self._db.write(work), False
        task = asyncio.create_task(self._write_and_claim(member, work, queues))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        return await asyncio.shield(task)  # what is claimed is launched although the caller is gone

    async def _write_and_claim(
        self, member: Membership, work: Callable[[Tx], T], queues: Callable[[T], bool]
    ) -> tuple[T, bool]:
        async with self._looking:
            done, claimed = await self._write_and_take(member, work, queues)
        return done, bool(claimed.runs) and not claimed.again

    # -- a lost lease -----------------------------------------------------------------------------

    async def end_all(self, why: str) -> list[str]:
        """End every attempt here at once, without a word to the database; their runs, once all have left."""
        ended = list(self._tasks)
        for execution in ended:
            execution.fence(why)
        while self._tasks:
            await self._settle(LEAVE_SECONDS)
            for execution, task in list(self._tasks.items()):
                log.error("run %s: its attempt does not leave; it is cancelled", execution.run.run_id)
                task.cancel()
        return [execution.run.run_id for execution in ended]

    # -- the end ----------------------------------------------------------------------------------

    async def stop(self, grace_seconds: float) -> None:
        """Claim nothing more, let runs finish for a while, then hand over what is left."""
        self._stopping = True
        self._wake.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HAND_OVER_SECONDS), self._looking:
                pass  # a claim that was on its way is over: what it claimed is handed over like the rest
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
        """For metrics."""
        return {"active": self.active, "finished": self.finished}


def grace_of(run: Run) -> float | None:
    """Return the grace of a cancelled run in seconds; None: the host's default."""
    return None if run.cancel_grace is None else run.cancel_grace / 1000


def _agent_slot(agent: Agent) -> SlotKey:
    return slot_key(agent.workspace_id, agent.spec.runner, agent.agent_id)


def _run_slot(run: Run) -> SlotKey:
    return slot_key(run.workspace_id, run.runner_id, run.agent_id)
