"""The worker that fires schedules, on any host of a database, each planned time once.

The transaction that stores the event of a firing also moves its schedule on to the next planned time. Of
several hosts that try the same firing one does, and a host that dies before the commit has fired nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from hostler.domain.clock import monotonic_clock
from hostler.domain.events import Caller
from hostler.domain.members import is_person
from hostler.domain.misfires import Step, next_step
from hostler.domain.reminders import MAKER_REMOVED as MADE_FOR_REMOVED
from hostler.domain.reminders import NOT_ALLOWED, delivered
from hostler.domain.schedules import MAKER_REMOVED, Firing, Schedule, envelope_of
from hostler.domain.token_bucket import TokenBuckets
from hostler.runs.admission import Opened
from hostler.runs.orchestrator import Accepted, Orchestrator, Pending
from hostler.storage.port import Database, Tx
from hostler.storage.stores import agents, events, members, schedules
from hostler.storage.stores.events import StoredEvent
from hostler.storage.stores.schedules import StoredSchedule
from hostler_protocol.errors import (
    ConflictError,
    DeniedError,
    HostlerError,
    InvalidArgumentError,
    StorageError,
)
from hostler_protocol.events import EventEnvelope
from hostler_protocol.ids import new_id

log = logging.getLogger(__name__)
LOOK_SECONDS = 5.0
"""Interval of the search for schedules that other hosts have changed; own changes and due times wake it."""
RETRY_SECONDS = 1.0
"""Wait after the database did not answer, or an event could not be taken now (the queue is full)."""
MIN_WAIT_SECONDS = 0.005
FIRINGS_PER_SECOND = 20.0
"""Of one workspace, on average; more are late, not lost. Each may start a run."""
FIRINGS_AT_ONCE = 1_000
"""Of one workspace, before that rate applies: each of its schedules may fire on the hour."""
MAX_RATED = 10_000
"""Workspaces whose rates are remembered."""
NO_AGENT = {
    "unrouted": "no agent takes its event: name one, or see `hostler events explain`",
    "conflict": "several agents match its event equally: name one",
}
"""Why an event reached no agent, by its outcome."""
MAX_UNREADABLE = 10_000
CALLER = "schedule"
"""The beginning of the key id that events of schedules have."""


class Scheduler:
    """Fires schedules while `work` runs. `look_seconds`: interval of the search for what others changed."""

    def __init__(
        self,
        db: Database,
        orchestrator: Orchestrator,
        *,
        look_seconds: float = LOOK_SECONDS,
        clock: Callable[[], float] = monotonic_clock,
    ) -> None:
        self._db = db
        self._orchestrator = orchestrator
        self._look_seconds = look_seconds
        self._wake = asyncio.Event()
        self._rates = TokenBuckets(FIRINGS_PER_SECOND, FIRINGS_AT_ONCE, clock=clock, max_buckets=MAX_RATED)
        self._unreadable: set[tuple[str, int]] = set()
        """Id and version of the schedules that were logged as unreadable."""

    def wake(self) -> None:
        """Look for the next due schedule again: some were changed."""
        self._wake.set()

    async def work(self, succeeded: Callable[[], None] = lambda: None) -> None:
        """Fire what is due, until cancelled. A worker of the host."""
        while True:
            wait = RETRY_SECONDS
            try:
                if self._orchestrator.accepting:
                    wait = await self._fire_due()
                succeeded()
            except StorageError as error:
                log.warning("schedules cannot be fired now: %s", error)
            await self._sleep(wait)

    async def ask(self, schedule: StoredSchedule, caller: Caller, asked_id: str | None = None) -> Accepted:
        """Fire a schedule now, beside its planned times, for this caller.

        `asked_id`: the id of its event, of which there is one. CallerError as `accept` raises it; then
        nothing is recorded.
        """
        spec, ws = schedule.spec, schedule.workspace_id
        asked_id = new_id() if asked_id is None else asked_id

        def look(tx: Tx) -> tuple[int, StoredEvent | None]:
            return tx.now, events.find(tx, ws, asked_id)

        planned, known = await self._db.read(look, brief=True)
        if known is not None:
            again = Accepted(event_id=asked_id, duplicate=True, outcome=known.outcome, run=None)
            return await self._orchestrator.known(ws, again)
        firing = Firing(ws, schedule.schedule_id, planned, asked_id=asked_id)
        pending = await self._orchestrator.prepare(_envelope(schedule, spec, firing), caller)

        def work(tx: Tx) -> Opened:
            opened = _opened(pending, tx)
            if opened.duplicate is not None:
                return opened
            if opened.outcome == "conflict":  # undone: each further try would store another one
                raise ConflictError(NO_AGENT[opened.outcome])
            number = schedules.count_asked(tx, schedule)
            if number is not None:
                _record(tx, firing, number, opened, asked_by=caller.subject)
            return opened

        opened = await self._orchestrator.store(msgspec.structs.replace(pending, work=work))
        return await pending.answer(opened)

    async def _fire_due(self) -> float:
        """Fire what is due, and return the seconds to the next look."""
        wait, last, began = self._look_seconds, None, None
        while True:
            now, due = await self._db.read(lambda tx: schedules.due(tx, last))  # noqa: B023  awaited here
            began = now if began is None else began
            for one in due:
                # first: what a workspace over its rate has missed is not computed at each look
                if over := self._rates.wait(one.workspace_id):
                    wait = min(wait, max(over, RETRY_SECONDS))
                    continue
                again_in = await self._try(one, now)
                wait = wait if again_in is None else min(wait, again_in)
            if len(due) < schedules.MAX_DUE:
                break
            last = due[-1]
        next_in = await self._db.read(lambda tx: schedules.seconds_to_next(tx, began), brief=True)
        return wait if next_in is None else min(wait, next_in)

    async def _try(self, schedule: StoredSchedule, now: int) -> float | None:
        """Do what a schedule that is due does next.

        Return the seconds until it is to be looked at again; None: that depends on when it is due.
        """
        if schedule.next_planned is None:
            return None
        try:
            spec, timing = schedule.spec, schedule.timing
        except InvalidArgumentError as error:  # another version of the host can read it
            if len(self._unreadable) > MAX_UNREADABLE:
                self._unreadable.clear()
            if (schedule.schedule_id, schedule.version) not in self._unreadable:
                self._unreadable.add((schedule.schedule_id, schedule.version))
                log.error("schedule %s does not fire here: %s", schedule.name, error.message)
            return None
        step = await asyncio.to_thread(
            next_step, timing, spec.policy, schedule.schedule_id, schedule.next_planned, now
        )
        if step is None:
            return None
        if step.fire is None:
            await self._leave_out(schedule, step)
        elif wait := self._rates.take(schedule.workspace_id):
            return wait
        else:
            retry = await self._fire(schedule, spec, step, step.fire)
            if retry is not None:
                return retry
        # with more to catch up on it is due at once, which no timer says
        return 0.0 if step.next is not None and step.next <= now else None

    async def _fire(self, schedule: StoredSchedule, spec: Schedule, step: Step, planned: int) -> float | None:
        """Send the event of a firing; return the seconds until the next try if it cannot be taken now."""
        firing = Firing(
            schedule.workspace_id, schedule.schedule_id, planned, late=step.late, left_out=step.left_out
        )
        try:
            await self._check_maker(schedule)
            caller = Caller(schedule.workspace_id, schedule.made_by, f"{CALLER}:{schedule.schedule_id}")
            pending = await self._orchestrator.prepare(_envelope(schedule, spec, firing), caller)
            await self._store(schedule, step, firing, pending)
        except StorageError:
            raise
        except HostlerError as error:
            if error.retryable:
                log.warning("schedule %s cannot fire now: %s", schedule.name, error.message)
                return RETRY_SECONDS
            await self._refuse(schedule, step, firing, error)
        return None

    async def _check_maker(self, schedule: StoredSchedule) -> None:
        """Raise DeniedError for a schedule of a person who was removed from its workspace, and for one that a
        run made whose agent may make none any more.
        """
        ws, maker, by_run = schedule.workspace_id, schedule.made_by, schedule.run_id is not None
        if is_person(maker) and maker in await self._db.read(lambda tx: members.removed(tx, ws, [maker])):
            raise DeniedError(MADE_FOR_REMOVED if by_run else MAKER_REMOVED)
        if not by_run:
            return
        name = schedule.spec.agent or ""
        agent = await self._db.read(lambda tx: agents.readable(tx, ws, name))
        if agent is not None and not agent.spec.resource_policy.allow_schedules:
            raise DeniedError(NOT_ALLOWED)

    async def _store(self, schedule: StoredSchedule, step: Step, firing: Firing, pending: Pending) -> None:
        """Store the event and move the schedule on, in one transaction, unless another host has."""

        def work(tx: Tx) -> Opened | None:
            number = schedules.advance(tx, schedule, step)
            if number is None:
                return None
            opened = _opened(pending, tx)
            _record(tx, firing, number, opened)
            if opened.outcome in NO_AGENT:
                schedules.note_error(tx, schedule, NO_AGENT[opened.outcome])
            return opened

        def started(opened: Any) -> None:
            if opened is None:
                pending.give_up()
            else:
                pending.started(opened)

        opened = await self._orchestrator.store(msgspec.structs.replace(pending, work=work, started=started))
        if opened is not None:
            log.info("schedule %s fired: event %s %s", schedule.name, firing.event_id, opened.outcome)

    async def _refuse(
        self, schedule: StoredSchedule, step: Step, firing: Firing, error: HostlerError
    ) -> None:
        """Record that no agent took a firing, and move the schedule on."""
        reason = f"{error.code}: {error.message}"

        def refuse(tx: Tx) -> bool:
            number = schedules.advance(tx, schedule, step, error=reason)
            if number is not None:
                schedules.record(tx, firing, number, "refused", reason=reason)
            return number is not None

        if await self._db.write(refuse):
            log.error("schedule %s fired, and no agent took it: %s", schedule.name, reason)

    async def _leave_out(self, schedule: StoredSchedule, step: Step) -> None:
        """Move a schedule on whose missed firings do not happen."""
        planned = schedule.next_planned or 0
        firing = Firing(schedule.workspace_id, schedule.schedule_id, planned, left_out=step.left_out)

        def leave_out(tx: Tx) -> bool:
            number = schedules.advance(tx, schedule, step, error=schedule.error)
            if number is not None:
                schedules.record(tx, firing, number, "left_out", reason="its time had passed")
            return number is not None

        if await self._db.write(leave_out):
            log.warning("schedule %s: %d missed firings are left out", schedule.name, step.left_out)

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(MIN_WAIT_SECONDS, seconds)):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()


def _envelope(schedule: StoredSchedule, spec: Schedule, firing: Firing) -> EventEnvelope:
    """Return the event of a firing. That of one which a run made goes where the answers of that run went."""
    envelope, reminder = envelope_of(spec, firing), schedule.reminder
    return envelope if reminder is None else delivered(envelope, reminder)


def _opened(pending: Pending, tx: Tx) -> Opened:
    """Store the event; an event that is refused undoes all of the transaction."""
    opened: Opened = pending.work(tx)
    if opened.refused is not None:
        raise opened.refused
    return opened


def _record(tx: Tx, firing: Firing, number: int, opened: Opened, *, asked_by: str | None = None) -> None:
    run_id = None if opened.run is None else opened.run.run_id
    schedules.record(
        tx,
        firing,
        number,
        opened.outcome,
        event_id=firing.event_id,
        run_id=run_id,
        reason=opened.reason,
        asked_by=asked_by,
    )
