"""The services that attempts use, and what is built for one attempt before its calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import msgspec

from hostler.calls.active_time import ActiveTime
from hostler.calls.budgets import Freed, RunBudget
from hostler.calls.gate import Gate, GatedRun
from hostler.calls.needs import Needs
from hostler.calls.run_tokens import RunTokens
from hostler.calls.scope import CallScope
from hostler.calls.spending import Spending
from hostler.domain.budgets import Account
from hostler.domain.clock import monotonic_clock
from hostler.domain.result_sequence import ResultStream
from hostler.domain.usage import Used
from hostler.journal.feed import Feed
from hostler.journal.resume import artifact_id_of
from hostler.journal.run_log import Item
from hostler.pauses.explicit import ExplicitPauses
from hostler.plugins.connection import PluginConnection
from hostler.runs.attempt_end import AttemptEnd, LookAtEnd
from hostler.runs.attempt_results import AttemptResults
from hostler.runs.growing_replies import growing_reply_of
from hostler.runs.preparation import PreparedAttempt
from hostler.runs.projections import Projector
from hostler.runs.run_meter import RunMeter
from hostler.runs.snapshot import FactsAhead
from hostler.storage.port import Database, Tx
from hostler.storage.stores import runs
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.journal import Entries
from hostler.storage.stores.pause_claims import begin_resuming
from hostler.storage.stores.run_rows import Fenced, Moved, Run
from hostler.storage.stores.runs import Begun
from hostler_protocol.errors import CancelledCallError, UnavailableError
from hostler_protocol.manifest import AgentRunnerManifest

CONFIRMED_SECONDS = 1.0
"""An answer of the database that took no longer says that the run is still here: no lease is as short."""
CONFIRMATIONS = 5
"""How often a slow answer is asked for again."""


@dataclass(slots=True)
class AttemptServices:
    """The services that every attempt of this host uses."""

    db: Database
    feed: Feed
    gate: Gate
    connect: Callable[[Run], Awaitable[PluginConnection]]
    """By the run; raises PluginError, or NotFoundError, if there is none."""
    replace: Callable[[PluginConnection, str], None]
    """Has the next runs of a plugin started in another process than this one; the text says why."""
    prepare: Callable[[Run, Mapping[str, AgentRunnerManifest], FactsAhead | None], Awaitable[PreparedAttempt]]
    """Builds grant, context and configuration of an attempt."""
    projector: Projector
    blobs: BlobFolder
    host_id: str
    cancel_grace_seconds: float
    hold_seconds: float
    """How long calls that wait for people are held before the run is parked."""
    explicit_pauses: ExplicitPauses
    stall_seconds: float
    """How long recorded answers of a resumed attempt wait for what the runner did before them."""
    look_at_end: LookAtEnd = lambda _tx, _run: lambda: None
    """Called in the transaction that ends a run."""
    assets: RunTokens = field(default_factory=RunTokens)
    """Tokens for services outside that runs work with."""
    workspace_accounts: Callable[[str], Sequence[Account]] = lambda _: ()
    """Returns the accounts of a workspace, as the installation limits them now."""
    ended: Callable[[Run, str | None], None] = lambda _run, _status: None
    """Called once an attempt is over, with the status with which it ended its run, or None."""
    freed: Freed = field(default_factory=Freed)
    """Wakes calls that wait until reservations are given back."""


class Parts(msgspec.Struct, frozen=True):
    """The parts of one attempt that do not refer back to it."""

    run: Run
    prepared: PreparedAttempt
    connection: PluginConnection
    end: AttemptEnd
    stream: ResultStream
    gated: GatedRun
    spending: Spending
    meter: RunMeter
    scope: CallScope
    results: AttemptResults

    def starting(self) -> Item:
        """Return the item of the move to `running`: the grant is frozen, and a decided pause claimed."""
        prepared, deadline = self.prepared, self.prepared.deadline_at
        begun = Begun.of(
            cause="the plugin took it",
            actor=self.end.host_id,
            deadline_at=None if deadline is None else int(deadline * 1000),
            grant_json=prepared.grant.encoded,
        )
        resumes = partial(self._resume, begun) if self.run.attempt > 1 else None
        return Item(
            entry=prepared.context_entry,
            begun=begun if resumes is None else None,
            move=resumes,
            synced=False,
        )

    def _resume(self, begun: Begun, tx: Tx, entries: Entries, _: Begun | None) -> Moved | Fenced:
        run = self.run
        moved = runs.begin(tx, run.run_id, run.attempt, begun, [*entries, begun.entry])
        begin_resuming(tx, run.run_id, run.attempt)
        return moved

    async def confirm_owned(self) -> None:
        """Raise CancelledCallError if another host has taken the run, before a tool is called.

        A slow answer is asked for again: if this process was stopped meanwhile, its lease may be over.
        UnavailableError if no answer is fast enough.
        """
        run, db = self.run, self.scope.services.db
        for _ in range(CONFIRMATIONS):
            asked_at = monotonic_clock()
            current = await db.read(lambda tx: runs.by_id(tx, run.run_id))
            if current is None or current.attempt != run.attempt or current.status != "running":
                raise CancelledCallError("this attempt was superseded: the tool was not called")
            if monotonic_clock() - asked_at < CONFIRMED_SECONDS:
                return
        raise UnavailableError("the database is too slow to confirm that this host has the run: try again")


def assemble(
    services: AttemptServices, end: AttemptEnd, connection: PluginConnection, prepared: PreparedAttempt
) -> Parts:
    """Build the parts of an attempt that starts."""
    run = end.run
    uploads, artifacts = dict(prepared.uploads), count(1)
    stream = ResultStream(
        run.run_id,
        prepared.grant,
        state=prepared.stream_state,
        uploads=uploads,
        artifact_id=lambda: artifact_id_of(run.run_id, run.base_attempt, next(artifacts)),
    )
    budget = RunBudget(
        services.db,
        run.workspace_id,
        run.run_id,
        run.attempt,
        prepared.accounts,
        partial(services.workspace_accounts, run.workspace_id),
        services.freed,
    )
    needs, time = Needs(budget, prepared.services.models), ActiveTime(budget)
    spending = Spending(budget, needs, prepared.waiting, time, journal=end.journal)
    end.settle = budget.settle_all
    gated = GatedRun(run.run_id, prepared.grant, deadline_at=prepared.deadline_at, budget=spending)
    meter = RunMeter(Used(run.usage, run.cost), prepared.stream_state)
    scope = prepared.scope(meter, uploads)
    growing = growing_reply_of(
        scope,
        end.journal,
        services.projector.on_queued,
        is_first=run.attempt == 1,
        resumes=prepared.recording is not None,
    )
    results = AttemptResults(end, connection, gated, meter, scope, services.projector, growing)
    return Parts(run, prepared, connection, end, stream, gated, spending, meter, scope, results)
