"""The parts of one attempt, assembled before its runner starts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import count
from typing import Protocol

import msgspec

from hostler.calls.budgets import RunBudget
from hostler.calls.executor import CallExecutor
from hostler.calls.gate import Gate, GatedRun
from hostler.calls.run_tokens import RunDoors
from hostler.domain.pause_values import PausedCall
from hostler.domain.result_sequence import ResultStream
from hostler.domain.usage import add_usage
from hostler.journal.feed import Feed
from hostler.journal.resume import Resumption, artifact_id_of, read_answer
from hostler.journal.run_log import RunLog
from hostler.pauses.explicit import ExplicitPauses
from hostler.pauses.parking import Used
from hostler.pauses.requests import Questions
from hostler.pauses.waiting import HeldCalls
from hostler.plugins.connection import PluginConnection
from hostler.runs.attempt_pauses import Attempt, AttemptPauses
from hostler.runs.attempt_results import AttemptResults
from hostler.runs.preparation import Prepared
from hostler.runs.projections import Projector
from hostler.storage.port import Database, Tx
from hostler.storage.stores import runs
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.journal import Entries
from hostler.storage.stores.pause_claims import begin_resuming
from hostler.storage.stores.run_rows import Fenced, Moved, Run
from hostler_protocol.content import Usage
from hostler_protocol.errors import CancelledCallError
from hostler_protocol.events import AgentRunContext
from hostler_protocol.manifest import AgentRunnerManifest


@dataclass(slots=True)
class Equipment:
    """The services that every attempt of this host uses."""

    db: Database
    feed: Feed
    gate: Gate
    connect: Callable[[str], Awaitable[PluginConnection]]
    """By runner id; PluginError, or NotFoundError, where there is none."""
    replace: Callable[[PluginConnection, str], None]
    """Has the next runs of a plugin started on another process than this one, and says why."""
    prepare: Callable[[Run, Mapping[str, AgentRunnerManifest]], Awaitable[Prepared]]
    """Grant, context and configuration of an attempt."""
    projector: Projector
    blobs: BlobFolder
    host_id: str
    cancel_grace_seconds: float
    hold_seconds: float
    """How long calls that wait for people are held before the run is parked."""
    explicit_pauses: ExplicitPauses
    stall_seconds: float
    """How long recorded answers of a resumed attempt wait for what the runner did before them."""
    assets: RunDoors = field(default_factory=RunDoors)
    """Tokens for services outside that runs work with."""


class RunMeter:
    """Usage and cost of the run's model calls, charged to its budget. `cost`: of earlier attempts."""

    def __init__(self, budget: RunBudget, cost: Decimal) -> None:
        self._budget = budget
        self.usage: Usage | None = None
        self.cost = cost
        self.measured = False

    async def add(self, usage: Usage | None, cost: Decimal | None) -> None:
        """Count one model call."""
        self.measured = True
        self.usage = add_usage(self.usage, usage)
        self.cost += cost or 0
        await self._budget.spend(usage, cost)


class RunningAttempt(Attempt, Protocol):
    """The callbacks by which the parts notify their attempt."""

    def used(self) -> Used:
        """Return usage and cost of the run so far, over all attempts."""
        ...

    def requested(self, call: PausedCall) -> None:
        """A call is newly put to people."""
        ...

    def park(self) -> None:
        """The calls that wait for people were held long enough."""
        ...

    def active(self) -> None:
        """The runner did something, or was answered."""
        ...

    def went_live(self, frontier: int) -> None:
        """From here on the attempt does what no recording holds."""
        ...

    def diverged(self, why: str) -> None:
        """The runner did something else than before."""
        ...


class Parts(msgspec.Struct, frozen=True):
    """One attempt, assembled."""

    run: Run
    prepared: Prepared
    connection: PluginConnection
    stream: ResultStream
    gated: GatedRun
    meter: RunMeter
    calls: CallExecutor
    pauses: AttemptPauses
    going_on: Resumption | None

    def context_with(self, assets: RunDoors) -> AgentRunContext:
        """Return the runner's context, with a run token if it asks for one."""
        context, prepared = self.prepared.context, self.prepared
        may_wait = not prepared.manifest.capabilities.resumable  # others could be parked meanwhile
        return assets.open(context, prepared.grant, self.calls, may_wait=may_wait)

    def close(self) -> None:
        """The attempt is over: nothing of it goes on."""
        self.connection.end_run(self.run.run_id)
        self.calls.stop()
        if self.going_on is not None:
            self.going_on.close()
        self.pauses.close()

    def used(self) -> Used | None:
        """Return the usage that the host measured over all attempts, or None without a model call."""
        if not self.meter.measured:
            return None
        cost = self.meter.cost
        return Used(add_usage(self.run.usage, self.meter.usage), str(cost) if cost else None)

    def to_running(self, host_id: str, tx: Tx, entries: Entries) -> Moved | Fenced:
        """The plugin takes the run: its grant is frozen, and a pause whose decisions are in is claimed."""
        run, deadline = self.run, self.prepared.deadline_at
        moved = runs.transition(
            tx,
            run.run_id,
            run.attempt,
            "running",
            cause="the plugin took it",
            actor=host_id,
            entries=entries,
            deadline_at=None if deadline is None else int(deadline * 1000),
            grant_json=self.prepared.grant.encoded,
        )
        if run.attempt > 1:
            begin_resuming(tx, run.run_id, run.attempt)
        return moved


def assemble(
    equipment: Equipment,
    run: Run,
    connection: PluginConnection,
    prepared: Prepared,
    attempt: RunningAttempt,
    *,
    journal: RunLog,
    results: AttemptResults,
) -> Parts:
    """Put together what an attempt works with. `results` learns its connection and its scope."""
    uploads = dict(prepared.uploads)
    artifacts = count(1)
    stream = ResultStream(
        run.run_id,
        prepared.grant,
        state=prepared.stream_state,
        uploads=uploads,
        artifact_id=lambda: artifact_id_of(run.run_id, run.base_attempt, next(artifacts)),
    )
    budget = RunBudget(equipment.db, run.workspace_id, prepared.accounts)
    gated = GatedRun(
        run.run_id,
        prepared.grant,
        deadline_at=prepared.deadline_at,
        budget=budget if prepared.accounts else None,
    )
    meter = RunMeter(budget, Decimal(run.cost or 0))
    scope = prepared.scope(meter, uploads)
    results.connection, results.scope = connection, scope
    going_on = None
    if prepared.recording is not None:
        going_on = Resumption(
            prepared.recording,
            partial(read_answer, equipment.db, equipment.blobs, run.run_id),
            stall_seconds=equipment.stall_seconds,
            live=attempt.went_live,
            diverged=attempt.diverged,
        )
    tools = scope.services.tools
    progressed = asyncio.Event()
    holding = HeldCalls(
        journal,
        run,
        Questions(run.workspace_id, run.run_id, tools),
        tools,
        prepared.on_message,
        equipment.hold_seconds,
        equipment.stall_seconds,
        requested=attempt.requested,
        park=attempt.park if prepared.manifest.capabilities.resumable else None,
        looked=progressed.set,
    )
    shared = equipment.db.dialect == "postgres"
    calls = CallExecutor(
        gate=equipment.gate,
        gated=gated,
        scope=scope,
        journal=journal,
        blobs=equipment.blobs,
        runner=connection,
        resumption=going_on,
        inherited=prepared.inherited,
        held=holding,
        progressed=progressed,
        confirm=partial(_confirm, equipment.db, run) if shared else None,
        active=attempt.active,
    )
    pauses = AttemptPauses(
        attempt,
        run,
        prepared.grant,
        stream,
        results,
        calls,
        holding,
        equipment.explicit_pauses,
        prepared.on_message,
        attempt.used,
    )
    return Parts(run, prepared, connection, stream, gated, meter, calls, pauses, going_on)


async def _confirm(db: Database, run: Run) -> None:
    """Before a tool is asked: another host may have taken the run while this one was stopped."""
    current = await db.read(lambda tx: runs.by_id(tx, run.run_id))
    if current is None or current.attempt != run.attempt or current.status != "running":
        raise CancelledCallError("this attempt was superseded: the tool was not called")
