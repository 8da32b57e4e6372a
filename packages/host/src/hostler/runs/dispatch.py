"""Dispatch queued runs: claim them into the slots of this process, and execute them.

The queue is in the database. Whoever queues a run, or makes one claimable, wakes the dispatcher so that it
starts at once; but nothing depends on that: every few seconds it looks for runs that may start.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from hostler.domain.agents import Agent
from hostler.domain.slots import NoPlaces, Places, SlotKey, Slots, slot_key
from hostler.runs.active_attempts import ActiveAttempt, ActiveAttempts, grace_of
from hostler.runs.queue_limit import QueueLimit
from hostler.runs.snapshot import FactsAhead
from hostler.storage.port import Database, Tx
from hostler.storage.stores import run_claims as claims
from hostler.storage.stores import run_hosts
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_claims import Claims, Queues
from hostler.storage.stores.run_rows import Run, RunAttempt
from hostler_protocol.errors import StorageError

T = TypeVar("T")
log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""Interval of the search for claimable runs: the longest that a run waits whose wake-up was lost. It is one
query of a tenth of a millisecond, so that an idle host costs nothing."""
SHARED_LOOK_SECONDS = 0.5
"""The same on a database that other hosts write to: they queue, hand over and cancel runs."""
LOST_SECONDS = 5.0
"""Interval of the search for runs that this host claimed but does not execute. A run that two searches in a
row found is settled by its agent's recovery policy."""
CLAIM_SECONDS = 10.0
"""How long a stopping host waits for a claim that has begun."""
RETRY_SECONDS = 1.0
"""Back-off after the database did not answer."""


class Reservation(msgspec.Struct, frozen=True, eq=False):
    """A place for a run that is about to be opened: in a slot, in the queue, or both."""

    slot: SlotKey
    claim: Membership | None
    """The host that claims the run; None: there is no slot for it."""
    may_wait: bool
    """Whether it may be queued."""


class Dispatcher:
    """Decides which runs this process executes, and when.

    `member` returns the membership under which this host claims; None: its lease is lost, and it claims
    nothing. `make` builds the attempt of a claimed run; `fail` ends a run whose attempt raised, and wakes its
    watchers; `settle` settles attempts that were claimed here and are not executed, by the policies of their
    agents.
    """

    def __init__(
        self,
        db: Database,
        member: Callable[[], Membership | None],
        make: Callable[[Run, FactsAhead | None], ActiveAttempt],
        fail: Callable[[Run], Awaitable[None]],
        settle: Callable[[list[RunAttempt]], Awaitable[Any]],
        *,
        max_active: int,
        max_queued: int,
        max_per_workspace: int | None = None,
        max_per_plugin: int | None = None,
        places: Places | None = None,
        look_seconds: float | None = None,
        lost_seconds: float = LOST_SECONDS,
    ) -> None:
        self._db = db
        self._member = member
        self._attempts = ActiveAttempts(make, fail, self._attempt_left)
        self._settle_lost = settle
        self._slots = Slots(max_active, max_per_workspace, max_per_plugin, places=places or NoPlaces())
        self._shared = db.shared
        own = SHARED_LOOK_SECONDS if self._shared else LOOK_SECONDS
        self._look_seconds = own if look_seconds is None else look_seconds
        self._lost_seconds = lost_seconds
        self._steered: set[str] = set()
        """Runs under way that absorbed messages; what they do not pull becomes another run at their end."""
        self._hints = 0
        """Number of calls of `look`."""
        self._may_wait = True
        """Whether runs may wait that could start in a free slot: seen by the last look, or reported since."""
        self._contended = False
        """Whether runs may wait for slots: then, to be fair, no new run may bypass the queue."""
        self._due: float | None = None
        """When the next delayed run becomes due (UTC epoch seconds)."""
        self._missing: set[RunAttempt] = set()
        self._searched_at = time.monotonic()
        self._wake = asyncio.Event()
        self._looking = asyncio.Lock()
        """Held during a claim, so that `stop` can wait for it."""
        self._writing: set[asyncio.Task[Any]] = set()
        """Transactions of `write_and_claim`."""
        self._stopping = False
        self.queue = QueueLimit(db, max_queued)
        self.finished = 0
        """Runs that left this process since it started."""

    # -- slots ------------------------------------------------------------------------------------

    @property
    def active(self) -> int:
        """Number of runs under way."""
        return len(self._attempts)

    async def check_room(self) -> None:
        """Raise RateLimitedError if the queue is full and a new run could not start at once."""
        if await self.queue.is_full() and (self._contended or not self._slots.free):
            raise self.queue.error()

    def reserve(self, agent: Agent, *, begins: bool = True) -> Reservation:
        """Reserve a place for a run that is about to be opened: a slot if it `begins` now and one is free.

        A run for a remote worker is queued, and claimed with a place there. `opened` or `release` must
        follow.
        """
        self._slots.limit_agent(agent.agent_id, agent.spec.concurrency.max_runs)
        slot = _agent_slot(agent)
        claim = None
        member = self._member()
        begins = begins and not agent.spec.worker_labels
        if begins and member is not None and not self._stopping and not self._contended:
            claim = member if self._slots.take(slot) else None
            self._contended = not self._slots.free
        return Reservation(slot, claim, self.queue.enter())

    def release(self, reserved: Reservation) -> None:
        """Release a place in which no run was opened."""
        if reserved.may_wait:
            self.queue.leave()
        if reserved.claim is not None:
            self._left(reserved.slot)

    def opened(self, reserved: Reservation, run: Run, ahead: FactsAhead | None = None) -> None:
        """Execute the run that was opened in the place, if it was claimed; otherwise it waits."""
        if run.status == "claimed":
            if reserved.may_wait:
                self.queue.leave()
            self._launch(run, ahead)
        else:
            self.release(reserved)
            self.queued()

    def _left(self, slot: SlotKey) -> None:
        self._slots.give_back(slot)
        if self._may_wait:
            self._wake.set()

    # -- runs -------------------------------------------------------------------------------------

    def queued(self) -> None:
        """Note that one more run waits."""
        self.queue.queued()
        self.look()

    def look(self) -> None:
        """Look for claimable runs soon."""
        self._hints += 1
        self._may_wait = True
        self._wake.set()

    def steered(self, run_id: str) -> None:
        """Note that a run has absorbed a message."""
        if run_id in self._attempts:
            self._steered.add(run_id)
        else:
            self.look()  # it may be over by now, or is another host's

    def pause_changed(self, run_id: str) -> None:
        """Note that the pause of a run has changed: the run goes on here, or may be claimable."""
        attempt = self._attempts.find(run_id)
        if attempt is not None:
            attempt.people_changed()
        self.look()

    def cancel(self, run_id: str, reason: str, grace: float | None = None) -> None:
        """Ask a run to stop, if it is under way here."""
        attempt = self._attempts.find(run_id)
        if attempt is not None:
            attempt.cancel(reason, grace)

    def _launch(self, run: Run, ahead: FactsAhead | None = None) -> None:
        if run.member != self._member():  # the lease was lost since the claim: its successor settles the run
            self._left(_run_slot(run))
            return
        if run.steers:
            self._steered.add(run.run_id)
        self._attempts.launch(run, ahead)

    def _attempt_left(self, attempt: ActiveAttempt) -> None:
        run = attempt.run
        self.finished += 1
        if attempt.queued_again or run.run_id in self._steered:
            self._steered.discard(run.run_id)
            self.look()
        self._left(_run_slot(run))

    # -- claims -----------------------------------------------------------------------------------

    async def work(self, succeeded: Callable[[], None] = lambda: None) -> None:
        """Claim queued runs until the dispatcher is stopped. A worker of the host."""
        self.look()
        while not self._stopping:
            woken = await self._wait()
            try:
                async with self._looking:
                    await self._look(woken=woken)
            except StorageError as error:
                log.warning("queued runs cannot be claimed now: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                self.look()
            else:
                succeeded()

    async def _wait(self) -> bool:
        """Wait until runs may be claimable. Return False if only the interval of the search is over."""
        seconds = self._look_seconds
        if self._due is not None:
            seconds = min(seconds, max(0.01, self._due - time.time()))
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass
        woken = self._wake.is_set()
        self._wake.clear()
        return woken

    async def _look(self, *, woken: bool) -> None:
        """Claim what may start. `woken` False: look also for cancellations and for lost runs."""
        hints = self._hints
        if self._shared or not woken:
            await self._apply_cancellations()
            await self._find_lost()
        queues = None if woken else await self._queues()
        if queues is None or queues.ready:
            claimed_at = await self._claim()
            queues = await self._queues(claimed_at) if self._slots.free else None
        self._contended = not self._slots.free
        if queues is None:  # a slot that becomes free wakes the dispatcher
            self._may_wait, self._due = True, None
        else:
            self._may_wait = queues.waiting or self._hints != hints
            self._due = None if queues.due is None else queues.due / 1000

    async def _claim(self) -> int | None:
        """Claim into free slots what the limits allow. Return the time of the last claim, if any."""
        at = None
        while self._slots.free and not self._stopping and (member := self._member()) is not None:
            claimed = await self._take(member)
            at = claimed.at
            if not claimed.again:
                break
        return at

    async def _queues(self, since: int | None = None) -> Queues:
        return await self._db.read(lambda tx: claims.look(tx, since))

    async def _apply_cancellations(self) -> None:
        """Cancel runs whose cancellation was recorded by another host, or did not reach this dispatcher."""
        member = self._member()
        if self._attempts and member is not None:
            for run in await self._db.read(lambda tx: run_hosts.cancelled_of(tx, member)):
                self.cancel(run.run_id, run.cancel_reason or "cancelled", grace_of(run))

    async def _find_lost(self) -> None:
        """Settle runs that this host claimed and does not execute: they would wait for ever.

        A run that is just being claimed is not under way yet, so a run must be found twice.
        """
        now, member = time.monotonic(), self._member()
        if member is None or now - self._searched_at < self._lost_seconds:
            return
        self._searched_at = now
        claimed = await self._db.read(lambda tx: run_hosts.attempts_of(tx, member))
        missing = {one for one in claimed if one.run_id not in self._attempts}
        lost = missing & self._missing
        self._missing = missing
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
            give_back()  # the transaction may be tried again
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
        return await asyncio.shield(task)  # claimed runs are launched although the caller was cancelled

    async def _write_and_claim(
        self, member: Membership, work: Callable[[Tx], T], queues: Callable[[T], bool]
    ) -> tuple[T, bool]:
        async with self._looking:
            done, claimed = await self._write_and_take(member, work, queues)
        return done, bool(claimed.runs) and not claimed.again

    # -- a lost lease -----------------------------------------------------------------------------

    async def end_all(self, why: str) -> list[str]:
        """End all attempts at once without writing anything. Return their runs once all have left."""
        return await self._attempts.end_all(why)

    # -- the end ----------------------------------------------------------------------------------

    async def stop(self, grace_seconds: float) -> None:
        """Claim nothing more, let runs finish for a while, then hand over what is left."""
        self._stopping = True
        self._wake.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLAIM_SECONDS), self._looking:
                pass  # runs of a claim that had begun are handed over like the others
        await self._attempts.stop(grace_seconds)

    def snapshot(self) -> dict[str, Any]:
        """Return numbers for the metrics."""
        return {"active": self.active, "finished": self.finished}


def _agent_slot(agent: Agent) -> SlotKey:
    return slot_key(agent.workspace_id, agent.spec.runner, agent.agent_id)


def _run_slot(run: Run) -> SlotKey:
    return slot_key(run.workspace_id, run.runner_id, run.agent_id, (run.run_id, run.attempt))
