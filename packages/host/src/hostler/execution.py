"""One attempt of one run, from its claim to its end.

`ActiveRun` is what the plugin's connection talks to. Results, calls, warnings and status changes go through
its `RunLog` in the order they happened; nothing is shown to anyone before its commit.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

from hostler.attempt_pauses import AttemptPauses
from hostler.attempt_results import AttemptResults
from hostler.domain.grants import Grant
from hostler.domain.outcomes import Paused, Step, Stored, Warned
from hostler.domain.pause_values import NewCall
from hostler.domain.recovery import Action, Settlement, settle
from hostler.domain.sequence import ResultStream, StreamState, added
from hostler.explicit_pauses import ExplicitPauses
from hostler.feed import Feed
from hostler.gate import Gate, GatedRun
from hostler.holding import Holding
from hostler.parking import Used, begin_after_loss
from hostler.pause_questions import Questions
from hostler.plugins.connection import PluginConnection
from hostler.ports import Database, Tx
from hostler.preparing import Prepared
from hostler.projecting import Projector
from hostler.resuming import GoingOn, artifact_id_of, read_answer
from hostler.run_calls import RunCalls
from hostler.runlog import FencedError, Item, RunLog
from hostler.stores import runs
from hostler.stores.blobs import BlobFolder
from hostler.stores.pause_claims import begin_resuming
from hostler.stores.run_rows import Run
from hostler_protocol.content import Usage
from hostler_protocol.errors import (
    CancelledCallError,
    HostError,
    HostlerError,
    PayloadTooLargeError,
    PluginCrashedError,
    PluginError,
    PluginStartError,
    UnavailableError,
)
from hostler_protocol.frames import MessageId
from hostler_protocol.limits import INITIAL_RESULT_CREDIT
from hostler_protocol.methods import RunStartParams
from hostler_protocol.results import TERMINAL_RESULTS, AgentRunResult

log = logging.getLogger(__name__)
_ENDS = TERMINAL_RESULTS | {"run.paused"}


@dataclass(slots=True)
class Bench:
    """What every run of this host works with."""

    db: Database
    feed: Feed
    gate: Gate
    connect: Callable[[str], Awaitable[PluginConnection]]
    """By runner id; PluginError, or NotFoundError, where there is none."""
    prepare: Callable[[Run, PluginConnection], Awaitable[Prepared]]
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
    gated: WeakValueDictionary[str, GatedRun] = field(default_factory=WeakValueDictionary)
    """The runs under way, by id: a child finds the budget of its parent."""


class RunMeter:
    """What the run's model calls used; the gate's budget counts along."""

    def __init__(self, gated: GatedRun) -> None:
        self._gated = gated
        self.usage: Usage | None = None
        self.measured = False

    def add(self, usage: Usage | None, cost: Any) -> None:
        """Count one model call."""
        self.measured = True
        self.usage = added(self.usage, usage)
        self._gated.add(usage, cost)


@dataclass(eq=False)
class ActiveRun:
    """An attempt under way. `execute` returns when the run has ended, was queued again, or is another's."""

    bench: Bench
    run: Run
    stop_requested: str | None = None
    _stream: ResultStream | None = None
    _log: RunLog = field(init=False)
    _results: AttemptResults = field(init=False)
    _pump: asyncio.Task[None] | None = None
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _connection: PluginConnection | None = None
    _gated: GatedRun | None = None
    _meter: RunMeter | None = None
    _calls: RunCalls | None = None
    _going_on: GoingOn | None = None
    _pauses: AttemptPauses | None = None
    _prepared: Prepared | None = None
    _stop_timer: asyncio.TimerHandle | None = None
    _deadline_timer: asyncio.TimerHandle | None = None
    _ended: bool = False
    _starting: asyncio.Timeout | None = None
    """Around the wait for the plugin: how it is cut short."""
    handed_over: bool = False
    queued_again: bool = False

    def __post_init__(self) -> None:
        self._log = RunLog(self.bench.db, self.bench.feed, self.run.run_id, self.run.attempt, self._fenced)
        self._results = AttemptResults(
            self.run,
            self.bench.host_id,
            self._log,
            self.bench.projector,
            used=self._used,
            ended=self._begin_ending,
            over=self._over.set,
            paused=self._pause,
            had_effects=self.run.kept_sequence > 0,
        )

    # -- the attempt ------------------------------------------------------------------------------

    async def execute(self) -> None:
        """Carry the attempt through. Never raises for what a plugin or caller did.

        StorageError: the journal takes nothing more of it, and it has no ending yet.
        """
        self.bench.feed.open(self.run.run_id, self.run.sequence)
        self._pump = asyncio.create_task(self._log.pump(), name=f"journal of run {self.run.run_id}")
        self._pump.add_done_callback(lambda _: self._over.set())  # without its journal a run is over
        try:
            try:
                await self._start()
            except PluginStartError as error:
                self._end_before_start(error.status_code, error.message)
            except PluginError as error:
                self._lose(error)
            except UnavailableError as error:
                self._restart(error.message, crashed=False)  # the plugin is being replaced
            except HostError as error:
                self._end_before_start("host.error", error.message)
            except PayloadTooLargeError as error:
                self._end_before_start("payload_too_large", error.message)
            except HostlerError as error:
                self._end_before_start("runner.config_invalid", error.message)
            await self._wait_over()
        finally:
            await self._leave()

    async def _start(self) -> None:
        bench, run = self.bench, self.run
        if self._stopped_early(self._ensure_stream()):
            return
        connection = await self._connected()
        if connection is None:
            self._stopped_early(self._ensure_stream())
            return
        prepared = await bench.prepare(run, connection)
        if self._ended:  # handed over meanwhile
            return
        self._assemble(connection, prepared)
        stream = self._ensure_stream()
        if prepared.recording is not None:
            # its context stands in the journal, and what it does again is not told again
            self._log.add(Item(move=self._to_running, synced=False))
        else:
            if run.attempt > 1:
                self._results.write(stream.attempt_started(run.attempt, prepared.cause))
            for note in prepared.notes:
                self._results.write(stream.warn(note))
            self._log.add(Item(entry=prepared.context_entry, move=self._to_running, synced=False))
        self._set_deadline(prepared.deadline_at)
        if self._stopped_early(stream):  # asked for while the plugin was being prepared
            return
        params = RunStartParams(
            runner_id=run.runner_id,
            runner_name=prepared.manifest.name,
            context=prepared.context,
            credit=INITIAL_RESULT_CREDIT,
        )
        await connection.start_run(params, self)

    def _assemble(self, connection: PluginConnection, prepared: Prepared) -> None:
        """Put together what the attempt works with."""
        bench, run = self.bench, self.run
        self._connection, self._prepared = connection, prepared
        uploads = dict(prepared.uploads)
        artifacts = count(1)
        self._stream = ResultStream(
            run.run_id,
            prepared.grant,
            state=prepared.stream_state,
            uploads=uploads,
            artifact_id=lambda: artifact_id_of(run.run_id, run.base_attempt, next(artifacts)),
        )
        self._gated = GatedRun(
            run.run_id,
            run.attempt,
            prepared.grant,
            connection,
            deadline_at=prepared.deadline_at,
            daily=prepared.daily,
            parent=bench.gated.get(run.parent_run_id or ""),
        )
        bench.gated[run.run_id] = self._gated
        self._gated.spent.add(run.usage, None if run.cost is None else Decimal(run.cost))
        self._meter = RunMeter(self._gated)
        self._results.connection = connection
        self._results.scope = scope = prepared.scope(self._meter, uploads)
        if prepared.recording is not None:
            self._going_on = GoingOn(
                prepared.recording,
                partial(read_answer, bench.db, bench.blobs, run.run_id),
                stall_seconds=bench.stall_seconds,
                live=self._went_live,
                diverged=self._diverged,
            )
        holding = Holding(
            bench.db,
            run,
            Questions(run.workspace_id, run.run_id, scope.services.tools),
            scope.services.tools,
            prepared.on_message,
            bench.hold_seconds,
            bench.stall_seconds,
            requested=self._requested,
            park=self._park if prepared.manifest.capabilities.resumable else None,
        )
        self._calls = RunCalls(
            gate=bench.gate,
            blobs=bench.blobs,
            connection=connection,
            gated=self._gated,
            scope=scope,
            journal=self._log,
            going_on=self._going_on,
            inherited=prepared.inherited,
            people=holding,
            confirm=self._confirm if bench.db.dialect == "postgres" else None,
        )
        self._pauses = AttemptPauses(
            self,
            run,
            prepared.grant,
            self._stream,
            self._results,
            self._calls,
            holding,
            bench.explicit_pauses,
            prepared.on_message,
            lambda: Used(*self._used()),
        )

    async def _confirm(self) -> None:
        """Before a tool is asked: another host may have taken the run while this one was stopped."""
        run_id, attempt = self.run.run_id, self.run.attempt
        current = await self.bench.db.read(lambda tx: runs.by_id(tx, run_id))
        if current is None or current.attempt != attempt or current.status != "running":
            raise CancelledCallError("this attempt was superseded: the tool was not called")

    async def _connected(self) -> PluginConnection | None:
        """The plugin's connection, whose start may take minutes; None: the run is to go no further."""
        starting = self._starting = asyncio.timeout(None)
        try:
            async with starting:
                return await self.bench.connect(self.run.runner_id)
        except TimeoutError:
            if not starting.expired():
                raise
            return None
        finally:
            self._starting = None

    def _wait_no_more(self) -> None:
        if self._starting is not None and not self._starting.expired():
            self._starting.reschedule(asyncio.get_running_loop().time())

    def _stopped_early(self, stream: ResultStream) -> bool:
        if self._ended:
            return True
        if self.stop_requested is None:
            return False
        self._results.write(stream.stop("cancelled", self.stop_requested))
        return True

    def _to_running(self, tx: Tx) -> Any:
        prepared = self._prepared
        if prepared is None:
            raise RuntimeError("the run was not prepared")
        frozen = runs.freeze_grant(tx, self.run.run_id, self.run.attempt, prepared.grant.encoded)
        if not isinstance(frozen, str):
            return frozen
        deadline = prepared.deadline_at
        moved = runs.transition(
            tx,
            self.run.run_id,
            self.run.attempt,
            "running",
            cause="the plugin took it",
            actor=self.bench.host_id,
            deadline_at=None if deadline is None else int(deadline * 1000),
        )
        if self.run.attempt > 1:  # a pause whose decisions are in is this attempt's from now on
            begin_resuming(tx, self.run.run_id, self.run.attempt)
        return moved

    async def _wait_over(self) -> None:
        if not self._ended:
            await self._over.wait()

    async def _leave(self) -> None:
        """Whatever happened: nothing of this attempt goes on, and all that it wrote down is durable."""
        for timer in (self._stop_timer, self._deadline_timer):
            if timer is not None:
                timer.cancel()
        if self._connection is not None:
            self._connection.end_run(self.run.run_id)
        if self._calls is not None:
            self._calls.stop()
        if self._going_on is not None:
            self._going_on.close()
        if self._pauses is not None:
            self._pauses.close()
        self._log.close()
        try:
            if self._pump is not None:
                await asyncio.shield(self._pump)  # raises where the journal could not be written
        finally:
            if self._gated is not None:
                self._gated.standing = "ended"
            self.bench.feed.close(self.run.run_id)

    def _ensure_stream(self) -> ResultStream:
        """The stream of results; before the grant is known only endings go through it."""
        if self._stream is None:
            state = StreamState(sequence=self.run.sequence, kept_sequence=self.run.kept_sequence)
            self._stream = ResultStream(self.run.run_id, _empty_grant(self.run), state=state)
        return self._stream

    # -- what the plugin says (RunHandler) --------------------------------------------------------

    def on_result(self, result: AgentRunResult, size: int) -> None:
        """Take one result."""
        stream = self._stream
        if stream is None or self._ended:
            return
        if self._going_on is not None and not self._may_end(result.type):
            return
        kept = stream.state.kept_sequence
        steps = stream.receive(result, size)
        if self._going_on is not None:
            steps = self._new_ones(self._going_on, stream, steps, kept)
        last = next((step for step in reversed(steps) if isinstance(step, Stored)), None)
        if last is None:
            self._results.give_credit(1, size)
        self._results.write(steps, credited=last, size=size)

    def _may_end(self, result_type: str) -> bool:
        """A runner may not end before it came to where it was when its last attempt was lost."""
        if result_type not in _ENDS or self._going_on is None or self._stopping:
            return True
        return self._going_on.end()

    def _new_ones(self, going_on: GoingOn, stream: ResultStream, steps: list[Step], kept: int) -> list[Step]:
        """The steps that do not stand in the journal yet. `kept`: the last completed message before them."""
        new: list[Step] = []
        for step in steps:
            if isinstance(step, Warned):
                if going_on.is_live:
                    new.append(step)
                continue
            stream.take_back(step, kept)
            if step.outcome is not None:
                going_on.go_live()
            elif going_on.take(step.type, step.data):
                continue
            new.append(stream.number(step))
        return new

    @property
    def _stopping(self) -> bool:
        return self.stop_requested is not None

    def on_end(self) -> None:
        """The runner finished."""
        if self._stream is not None and not self._ended and self._may_end("run.completed"):
            if self._going_on is not None:
                self._going_on.go_live()
            self._results.write(self._stream.end())

    def on_broken(self, code: str, reason: str) -> None:
        """The run broke the rules."""
        if self._stream is not None and not self._ended:
            self._results.write(self._stream.fail(code, reason))

    def on_warning(self, reason: str) -> None:
        """Something was dropped."""
        if self._stream is not None and not self._ended:
            self._results.write(self._stream.warn(reason))

    def on_call(self, call_id: MessageId, method: str, params: Any) -> None:
        """A Host API call."""
        if self._calls is not None:
            self._calls.begin(call_id, method, params)

    def on_call_cancelled(self, call_id: MessageId) -> None:
        """The runner no longer waits for it."""
        if self._calls is not None:
            self._calls.give_up(call_id)

    def on_lost(self, error: PluginError) -> None:
        """The plugin process is gone."""
        self._lose(error)

    # -- stopping ---------------------------------------------------------------------------------

    def cancel(self, reason: str, grace: float | None = None) -> None:
        """Ask the runner to stop; after the grace time (seconds; None: the host's) the run ends without it.

        Asked again with less time, it has less.
        """
        if self._ended or (self.stop_requested is not None and grace is None):
            return
        grace = self.bench.cancel_grace_seconds if grace is None else grace
        if self.stop_requested is not None:
            self._stop_within(self.stop_requested, grace)
            return
        self.stop_requested = reason
        if self._stream is None or self._connection is None:
            self._wait_no_more()  # `_start` looks before it goes on
            return
        self._stream.stopping("cancelled", reason)
        self._connection.cancel_run(self.run.run_id, reason)
        self._stop_within(reason, grace)

    def _stop_within(self, reason: str, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._connection is None or self._stream is None:
            return  # it has not begun, and goes no further
        if self._stop_timer is not None:
            if self._stop_timer.when() <= loop.time() + seconds:
                return
            self._stop_timer.cancel()
        self._stop_timer = loop.call_later(seconds, self._stop_now, reason)

    def _stop_now(self, reason: str) -> None:
        if self._stream is not None and not self._ended:
            self._results.write(self._stream.stop("cancelled", reason))

    def _set_deadline(self, deadline_at: float | None) -> None:
        if deadline_at is not None:
            delay = max(0.0, deadline_at - time.time())
            self._deadline_timer = asyncio.get_running_loop().call_later(delay, self._deadline_over)

    def _deadline_over(self) -> None:
        if self._stream is None or self._ended:
            return
        if self._connection is not None:
            self._connection.cancel_run(self.run.run_id, "deadline")
        self._results.write(self._stream.stop("timeout", "the run did not end within its deadline"))

    def hand_over(self, why: str) -> None:
        """The host is stopping: give the run back for another attempt, or end it, by its policy."""
        if not self._ended:
            self.handed_over = True
            if self._connection is not None:
                self._connection.cancel_run(self.run.run_id, why)
            self._lose(PluginCrashedError(why))
            self._wait_no_more()

    # -- endings ----------------------------------------------------------------------------------

    def _lose(self, error: PluginError) -> None:
        """The process that worked on it is gone: by the agent's policy it begins again, or fails."""
        if self._ended:
            return
        if self.handed_over and self._prepared is None and self.stop_requested is None:
            self._restart(error.message, crashed=False)  # nothing of it was begun
            return
        settlement = self._settlement() if error.status_code == "runner.crashed" else None
        if settlement is not None and settlement.goes_on:
            self._begin_again(settlement)
            return
        stream = self._ensure_stream()
        code = "host.restarted" if self.handed_over else error.status_code
        self._results.write(stream.fail(code, error.message))

    def _settlement(self) -> Settlement | None:
        """What the agent's policy says of an attempt that was lost; None: it was never begun."""
        prepared = self._prepared
        if prepared is None:
            return None
        return settle(
            prepared.recovery,
            cause="host" if self.handed_over else "plugin",
            resumable=prepared.manifest.capabilities.resumable,
            crashes=self.run.crashes,
            had_effects=self._results.had_effects or (self._calls is not None and self._calls.had_effects),
            cancelled=self._stopping,
        )

    def _diverged(self, why: str) -> None:
        """The runner did something else than before: the policy decides, and going on is out of question."""
        if self._ended or self._prepared is None or self._stopping:
            return
        if self._connection is not None:
            self._connection.cancel_run(self.run.run_id, "replay.diverged")
        if self._going_on is not None:
            self._going_on.go_live()  # who watches is told what stays
        recovery = self._prepared.recovery
        if recovery.on_crash == "restart" and self.run.crashes + 1 < recovery.max_attempts:
            self._restart(f"replay.diverged: {why}", crashed=True, restart=True)
        else:
            self._results.write(self._ensure_stream().fail("replay.diverged", why))

    def _went_live(self, frontier: int) -> None:
        """From here on the attempt does what it did not do before: who watches is told."""
        if self._ended or self._prepared is None:
            return
        self._results.went_live(frontier)
        stream = self._ensure_stream()
        if self._prepared.recording is not None:
            stream.keep_ids(self._prepared.recording.message_ids)
        self._results.write(stream.attempt_started(self.run.attempt, self._prepared.cause, frontier))

    def _restart(self, why: str, *, crashed: bool, restart: bool = False) -> None:
        """Queue the run for another attempt; it goes on from the journal unless it is to `restart`."""
        action: Action = "restart" if restart else "resume"
        self._begin_again(Settlement(action, why, "host.restarted"), crashed=crashed)

    def _begin_again(self, settlement: Settlement, *, crashed: bool | None = None) -> None:
        self._ended = True
        crashed = not self.handed_over if crashed is None else crashed
        used = Used(*self._used())

        def again(tx: Tx) -> Any:
            actor = self.bench.host_id
            return begin_after_loss(tx, self.run, settlement, actor=actor, used=used, crashed=crashed)

        self._log.add(Item(move=again, last=True, done=self._given_back))

    def _given_back(self, _answer: Any, error: HostlerError | None) -> None:
        self.queued_again = error is None
        self._over.set()

    def _end_before_start(self, code: str, error: str) -> None:
        self._results.write(self._ensure_stream().fail(code, error))

    def _fenced(self, error: FencedError) -> None:
        log.info("run %s: %s", self.run.run_id, error)
        self._ended = True
        if self._gated is not None:
            self._gated.standing = "fenced"
        if self._connection is not None:
            self._connection.cancel_run(self.run.run_id, "superseded")
        self._over.set()

    def _begin_ending(self) -> None:
        self._ended = True
        if self._gated is not None:
            self._gated.standing = "ended"

    # -- waiting for people -----------------------------------------------------------------------

    def people_changed(self) -> None:
        """Something was decided about this run."""
        if self._pauses is not None:
            self._pauses.holding.changed()

    def _requested(self, call: NewCall) -> None:
        if self._pauses is not None and not self._ended:
            if self._going_on is not None:
                self._going_on.go_live()
            self._pauses.requested(call)

    def _park(self) -> None:
        if self._pauses is not None:
            self._pauses.park()

    def _pause(self, paused: Paused) -> None:
        if self._pauses is None:
            raise RuntimeError("a pause before the run was started")
        self._pauses.pause(paused)

    def may_pause(self) -> bool:
        """Whether the attempt may still be parked."""
        return not self._ended and not self._stopping

    def begin_pause(self) -> None:
        """The attempt is over for its runner."""
        self._ended = True
        if self._gated is not None:
            self._gated.standing = "paused"

    def paused(self, queued: bool) -> None:
        """The pause is durable: the runner's task is ended, and what it held is free."""
        self.queued_again = queued
        if self._connection is not None:
            self._connection.park_run(self.run.run_id)
        self._over.set()

    def _used(self) -> tuple[Usage | None, str | None]:
        """Over all attempts, what the host measured; where the run called no model here, what it reported."""
        if self._meter is not None and self._meter.measured and self._gated is not None:
            cost = self._gated.spent.cost
            return added(self.run.usage, self._meter.usage), str(cost) if cost else None
        reported = self._stream.state.usage if self._stream is not None else None
        return added(self.run.usage, reported), None


def _empty_grant(run: Run) -> Grant:
    """For a run that ends before its grant could be built."""
    return Grant(
        workspace_id=run.workspace_id,
        agent_id=run.agent_id,
        agent_version=run.agent_version,
        runner_id=run.runner_id,
        owner="",
    )
