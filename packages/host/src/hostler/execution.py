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
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from hostler.calls.scope import CallScope
from hostler.domain.grants import Grant
from hostler.domain.outcomes import Ending, Paused, Step, Stored, Warned
from hostler.domain.recovery import Settlement, settle
from hostler.domain.sequence import ResultStream, StreamState, added
from hostler.feed import Feed, StoredResult
from hostler.gate import Gate, GatedRun
from hostler.plugins.connection import PluginConnection
from hostler.ports import Database, Tx
from hostler.preparing import Prepared
from hostler.projecting import Projector
from hostler.run_calls import RunCalls
from hostler.runlog import FencedError, Item, RunLog
from hostler.stores import runs
from hostler.stores.blobs import BlobFolder
from hostler.stores.journal import Entry
from hostler.stores.run_rows import Run
from hostler_protocol.content import Usage
from hostler_protocol.errors import (
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
from hostler_protocol.results import AgentRunResult

WIDER_CREDIT = 192
"""Added to the first grant once a run has stored results: a stream of deltas fills one commit while the one
before it is on its way. The bytes in flight are bounded for the whole connection."""

log = logging.getLogger(__name__)
_encoder = msgspec.json.Encoder()


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
    _pump: asyncio.Task[None] | None = None
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _connection: PluginConnection | None = None
    _gated: GatedRun | None = None
    _scope: CallScope | None = None
    _meter: RunMeter | None = None
    _calls: RunCalls | None = None
    _prepared: Prepared | None = None
    _stop_timer: asyncio.TimerHandle | None = None
    _deadline_timer: asyncio.TimerHandle | None = None
    _ended: bool = False
    _effects: bool = False
    _credit: int = 0
    _credit_bytes: int = 0
    _wider: int = WIDER_CREDIT
    _starting: asyncio.Timeout | None = None
    """Around the wait for the plugin: how it is cut short."""
    handed_over: bool = False
    queued_again: bool = False

    def __post_init__(self) -> None:
        self._log = RunLog(self.bench.db, self.bench.feed, self.run.run_id, self.run.attempt, self._fenced)
        self._effects = self.run.kept_sequence > 0

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
        self._connection, self._prepared = connection, prepared
        uploads = dict(prepared.uploads)
        stream = self._stream = ResultStream(
            run.run_id, prepared.grant, state=prepared.stream_state, uploads=uploads
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
        self._scope = prepared.scope(self._meter, uploads)
        self._calls = RunCalls(
            gate=bench.gate,
            blobs=bench.blobs,
            connection=connection,
            gated=self._gated,
            scope=self._scope,
            journal=self._log,
        )
        if run.attempt > 1:
            self._apply(stream.attempt_started(run.attempt, prepared.cause))
        for note in prepared.notes:
            self._apply(stream.warn(note))
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
        self._apply(stream.stop("cancelled", self.stop_requested))
        return True

    def _to_running(self, tx: Tx) -> Any:
        prepared = self._prepared
        if prepared is None:
            raise RuntimeError("the run was not prepared")
        frozen = runs.freeze_grant(tx, self.run.run_id, self.run.attempt, prepared.grant.encoded)
        if not isinstance(frozen, str):
            return frozen
        deadline = prepared.deadline_at
        return runs.transition(
            tx,
            self.run.run_id,
            self.run.attempt,
            "running",
            cause="the plugin took it",
            actor=self.bench.host_id,
            deadline_at=None if deadline is None else int(deadline * 1000),
        )

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
        steps = stream.receive(result, size)
        last = next((step for step in reversed(steps) if isinstance(step, Stored)), None)
        if last is None:
            self._give_credit(1, size)
        self._apply(steps, credited=last, size=size)

    def on_end(self) -> None:
        """The runner finished."""
        if self._stream is not None and not self._ended:
            self._apply(self._stream.end())

    def on_broken(self, code: str, reason: str) -> None:
        """The run broke the rules."""
        if self._stream is not None and not self._ended:
            self._apply(self._stream.fail(code, reason))

    def on_warning(self, reason: str) -> None:
        """Something was dropped."""
        if self._stream is not None and not self._ended:
            self._apply(self._stream.warn(reason))

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

    def cancel(self, reason: str) -> None:
        """Ask the runner to stop; after the grace time the run ends without it."""
        if self._ended or self.stop_requested is not None:
            return
        self.stop_requested = reason
        if self._stream is None or self._connection is None:
            self._wait_no_more()  # `_start` looks before it goes on
            return
        self._stream.stopping("cancelled", reason)
        self._connection.cancel_run(self.run.run_id, reason)
        loop = asyncio.get_running_loop()
        self._stop_timer = loop.call_later(self.bench.cancel_grace_seconds, self._stop_now, reason)

    def _stop_now(self, reason: str) -> None:
        if self._stream is not None and not self._ended:
            self._apply(self._stream.stop("cancelled", reason))

    def _set_deadline(self, deadline_at: float | None) -> None:
        if deadline_at is not None:
            delay = max(0.0, deadline_at - time.time())
            self._deadline_timer = asyncio.get_running_loop().call_later(delay, self._deadline_over)

    def _deadline_over(self) -> None:
        if self._stream is None or self._ended:
            return
        if self._connection is not None:
            self._connection.cancel_run(self.run.run_id, "deadline")
        self._apply(self._stream.stop("timeout", "the run did not end within its deadline"))

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
        if settlement is not None and settlement.restart:
            self._restart(settlement.why, crashed=not self.handed_over)
            return
        stream = self._ensure_stream()
        code = "host.restarted" if self.handed_over else error.status_code
        self._apply(stream.fail(code, error.message))

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
            had_effects=self._effects or (self._calls is not None and self._calls.had_effects),
            cancelled=self.stop_requested is not None,
        )

    def _restart(self, why: str, *, crashed: bool) -> None:
        self._ended = True
        usage, cost = self._used()

        def again(tx: Tx) -> Any:
            return runs.transition(
                tx,
                self.run.run_id,
                self.run.attempt,
                "queued",
                cause=why,
                actor=self.bench.host_id,
                crashed=crashed,
                usage=usage,
                cost=cost,
            )

        self._log.add(Item(move=again, last=True, done=self._given_back))

    def _given_back(self, _answer: Any, error: HostlerError | None) -> None:
        self.queued_again = error is None
        self._over.set()

    def _end_before_start(self, code: str, error: str) -> None:
        self._apply(self._ensure_stream().fail(code, error))

    def _fenced(self, error: FencedError) -> None:
        log.info("run %s: %s", self.run.run_id, error)
        self._ended = True
        if self._gated is not None:
            self._gated.standing = "fenced"
        if self._connection is not None:
            self._connection.cancel_run(self.run.run_id, "superseded")
        self._over.set()

    def _finish(self, _answer: Any, _error: HostlerError | None) -> None:
        self._over.set()

    # -- writing down -----------------------------------------------------------------------------

    def _apply(self, steps: list[Step], credited: Stored | None = None, size: int = 0) -> None:
        for step in steps:
            if isinstance(step, Warned):
                data = _encoder.encode({"reason": step.reason, "result_type": step.result_type})
                self._log.add(Item(entry=Entry("warning", "dropped", data), synced=False, size=len(data)))
            else:
                self._store(step, size if step is credited else 0, credited=step is credited)

    def _store(self, stored: Stored, size: int, *, credited: bool) -> None:
        body = stored.body()
        entry = Entry("result", stored.type, body)
        published = StoredResult.of(self.run.run_id, stored.sequence, stored.type, body)
        item = Item(published=published, synced=not stored.is_delta, size=len(published.json))
        if stored.projection is not None:
            if self._scope is None:
                raise RuntimeError("a projection before the run was started")
            item.before, item.after = self.bench.projector.project(self._scope, stored)
            self._effects = True
        match stored.outcome:
            case Ending() as ending:
                self._ended = True
                item.move = partial(self._end, ending, entry)
                item.last = True
                item.done = self._finish
                if self._gated is not None:
                    self._gated.standing = "ended"
            case Paused():
                raise RuntimeError("a pause was let through, although no grant holds it")
            case None:
                item.entry = entry
                if credited:
                    item.done = partial(self._committed, size)
        self._log.add(item)

    def _end(self, ending: Ending, entry: Entry, tx: Tx) -> Any:
        usage, cost = self._used()
        return runs.transition(
            tx,
            self.run.run_id,
            self.run.attempt,
            ending.status,
            cause=ending.error or ending.finish_reason or "the runner finished",
            actor=self.bench.host_id,
            status_code=ending.status_code,
            entries=[entry],
            usage=usage,
            cost=cost,
        )

    def _used(self) -> tuple[Usage | None, str | None]:
        """Over all attempts, what the host measured; where the run called no model here, what it reported."""
        if self._meter is not None and self._meter.measured and self._gated is not None:
            cost = self._gated.spent.cost
            return added(self.run.usage, self._meter.usage), str(cost) if cost else None
        reported = self._stream.state.usage if self._stream is not None else None
        return added(self.run.usage, reported), None

    def _committed(self, size: int, _answer: Any, error: HostlerError | None) -> None:
        if error is None:
            self._credit += 1
            self._credit_bytes += size
            if self._credit == 1:
                # one credit message for all results of the commit that has just been told
                asyncio.get_running_loop().call_soon(self._send_credit)

    def _give_credit(self, results: int, size: int) -> None:
        if self._connection is not None:
            self._connection.credit(self.run.run_id, results, size)

    def _send_credit(self) -> None:
        results, size = self._credit + self._wider, self._credit_bytes
        self._credit = self._credit_bytes = self._wider = 0
        self._give_credit(results, size)


def _empty_grant(run: Run) -> Grant:
    """For a run that ends before its grant could be built."""
    return Grant(
        workspace_id=run.workspace_id,
        agent_id=run.agent_id,
        agent_version=run.agent_version,
        runner_id=run.runner_id,
        owner="",
    )
