"""One attempt of one run, from its claim to its end.

`ActiveRun` is what the plugin's connection talks to. Results, calls, warnings and status changes go through
its `RunLog` in the order they happened; nothing is shown to anyone before its commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hostler.calls.gate import Standing
from hostler.domain.grants import Grant
from hostler.domain.outcomes import Paused, Stored, StreamState
from hostler.domain.pause_values import PausedCall
from hostler.domain.recovery import Action, Settlement, failure_of, postpone, settle
from hostler.domain.result_sequence import ResultStream
from hostler.domain.usage import add_usage
from hostler.journal.resume import Resumption
from hostler.journal.run_log import FencedError, Item, RunLog
from hostler.pauses.parking import Used, begin_after_loss
from hostler.plugins.lingering_runs import RunLingersError
from hostler.runs.attempt_parts import Equipment, Parts, assemble
from hostler.runs.attempt_results import AttemptResults
from hostler.runs.timers import AttemptClock
from hostler.storage.port import Tx
from hostler.storage.stores import pauses
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import (
    HostlerError,
    PluginCrashedError,
    PluginError,
    PluginStartError,
    RunFailure,
    UnavailableError,
)
from hostler_protocol.frames import MessageId
from hostler_protocol.incoming import ResultArrived
from hostler_protocol.limits import INITIAL_RESULT_CREDIT
from hostler_protocol.methods import RunStartParams
from hostler_protocol.results import TERMINAL_RESULTS, AgentRunResult

log = logging.getLogger(__name__)
_ENDS = TERMINAL_RESULTS | {"run.paused"}


@dataclass(eq=False)
class ActiveRun:
    """An attempt under way. `execute` returns when the run has ended, was queued again, or is another's."""

    equipment: Equipment
    run: Run
    stop_requested: str | None = None
    _stream: ResultStream | None = None
    _log: RunLog = field(init=False)
    _results: AttemptResults = field(init=False)
    _pump: asyncio.Task[None] | None = None
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _parts: Parts | None = None
    """None: its runner has not been started."""
    _clock: AttemptClock = field(default_factory=AttemptClock)
    _ended: bool = False
    handed_over: bool = False
    queued_again: bool = False

    def __post_init__(self) -> None:
        equipment, run = self.equipment, self.run
        self._log = RunLog(equipment.db, equipment.feed, run.run_id, run.attempt, run.member, self._fenced)
        self._results = AttemptResults(
            run,
            equipment.host_id,
            self._log,
            equipment.projector,
            used=self.used,
            ended=self._begin_ending,
            over=self._over.set,
            paused=self._pause,
            kept_before=run.kept_sequence > 0,
        )

    # -- the attempt ------------------------------------------------------------------------------

    async def execute(self) -> None:
        """Carry the attempt through. Never raises for what a plugin or caller did.

        StorageError: the journal takes nothing more of it, and it has no ending yet.
        """
        self.equipment.feed.open(self.run.run_id, self.run.sequence)
        self._pump = asyncio.create_task(self._log.pump(), name=f"journal of run {self.run.run_id}")
        self._pump.add_done_callback(lambda _: self._over.set())  # without its journal a run is over
        try:
            try:
                await self._start()
            except RunLingersError as error:
                self._move_to_another_process(error.message)
            except UnavailableError as error:
                self._restart(error.message, crashed=False)  # the plugin is being replaced
            except HostlerError as error:
                await self._not_started(error)
            await self._wait_over()
        finally:
            await self._leave()

    async def _start(self) -> None:
        equipment, run = self.equipment, self.run
        if self._stopped_early():
            return
        connection = await self._clock.unless_cut_short(equipment.connect(run.runner_id))
        if connection is None:
            self._stopped_early()
            return
        prepared = await equipment.prepare(run, connection.runners)
        if self._ended:  # handed over meanwhile
            return
        parts = self._parts = assemble(
            equipment, run, connection, prepared, self, journal=self._log, results=self._results
        )
        stream = self._stream = parts.stream
        begins = partial(parts.to_running, equipment.host_id)
        if prepared.recording is not None:
            # its context stands in the journal, and what it does again is not told again
            self._log.add(Item(move=begins, synced=False), hurry=False)
        else:
            if run.attempt > 1:
                self._results.write(stream.attempt_started(run.attempt, prepared.cause))
            for note in prepared.notes:
                self._results.write(stream.warn(note))
            self._log.add(Item(entry=prepared.context_entry, move=begins, synced=False), hurry=False)
        self._clock.end_at(prepared.deadline_at, self._deadline_over)
        if self._stopped_early():  # asked for while the plugin was being prepared
            return
        params = RunStartParams(
            runner_id=run.runner_id,
            runner_name=prepared.manifest.name,
            context=parts.context_with(equipment.assets),
            credit=INITIAL_RESULT_CREDIT,
        )
        # an answer may take half a minute, an earlier attempt seconds to leave
        await self._clock.unless_cut_short(connection.start_run(params, self))
        self._clock.watch_idle(prepared.grant.idle_seconds, self._is_busy, self._idle_over)

    def _move_to_another_process(self, why: str) -> None:
        """An earlier attempt does not leave the process that this one was to be started in."""
        if self._parts is not None:
            self.equipment.replace(self._parts.connection, why)
        self._restart(f"{why}; its plugin's process is replaced", crashed=False)

    def _stopped_early(self) -> bool:
        if self._ended:
            return True
        if self.stop_requested is None:
            return False
        self._results.write(self._ensure_stream().stop("cancelled", self.stop_requested))
        return True

    async def _wait_over(self) -> None:
        if not self._ended:
            await self._over.wait()

    async def _leave(self) -> None:
        """Whatever happened: nothing of this attempt goes on, and all that it wrote down is durable."""
        self._clock.close()
        self.equipment.assets.close(self.run.run_id, self.run.attempt)
        if self._parts is not None:
            self._parts.close()
        self._log.close()
        try:
            if self._pump is not None:
                await asyncio.shield(self._pump)  # raises where the journal could not be written
        finally:
            self._stand("ended")
            self.equipment.feed.close(self.run.run_id)
            if self.queued_again:  # results may have been written with that which no stream has seen
                self.equipment.feed.wake(self.run.run_id)
            # what it works with refers back to it; left so, each run would cost the collector a millisecond
            self._ended, self._parts, self._stream, self._pump = True, None, None, None
            del self._log, self._results

    def _ensure_stream(self) -> ResultStream:
        """The stream of results; before the grant is known only endings go through it."""
        if self._stream is None:
            state = StreamState(sequence=self.run.sequence, kept_sequence=self.run.kept_sequence)
            self._stream = ResultStream(self.run.run_id, _empty_grant(self.run), state=state)
        return self._stream

    # -- what the plugin says (RunHandler) --------------------------------------------------------

    def on_results(self, arrived: Sequence[ResultArrived]) -> None:
        """Take results that came together; deltas many at once."""
        self._clock.active()
        taken = 0
        while taken < len(arrived) and self._parts is not None and not self._ended:
            stream, before = self._parts.stream, taken
            if skipped := stream.skip_deltas(arrived, taken):
                taken += skipped
                self._results.take_unstored(skipped, sum([item.size for item in arrived[before:taken]]))
                continue
            goes_on = self._parts.going_on is not None
            deltas = None if goes_on else stream.receive_deltas(arrived, taken)
            if deltas is None:
                self._take_result(arrived[taken].result, arrived[taken].size)
                taken += 1
            else:
                taken += len(deltas.payloads)
                self._results.write_deltas(deltas, sum([item.size for item in arrived[before:taken]]))

    def _take_result(self, result: AgentRunResult, size: int) -> None:
        parts = self._parts
        if parts is None or self._ended or not self._may_end(result.type):
            return
        state = parts.stream.state
        kept, used = state.kept_sequence, state.usage
        steps = parts.stream.receive(result, size)
        if parts.going_on is not None:
            made, was_live = len(steps), parts.going_on.is_live
            steps = parts.going_on.new_ones(parts.stream, steps, kept)
            if not steps and (made or not was_live):  # it counted when it was made first
                state.usage = used
        last = next((step for step in reversed(steps) if isinstance(step, Stored)), None)
        if last is None:
            self._results.take_unstored(1, size)
        self._results.write(steps, credited=last, size=size)

    def _may_end(self, result_type: str) -> bool:
        """A runner may not end before it came to where it was when its last attempt was lost."""
        if result_type not in _ENDS or self._going_on is None or self._stopping:
            return True
        return self._going_on.end()

    @property
    def _going_on(self) -> Resumption | None:
        return None if self._parts is None else self._parts.going_on

    @property
    def _stopping(self) -> bool:
        return self.stop_requested is not None

    def on_end(self) -> None:
        """The runner finished."""
        if self._stream is not None and not self._ended and self._may_end("run.completed"):
            if self._going_on is not None:
                self._going_on.go_live()
            self._results.write(self._stream.end())

    def on_broken(self, code: RunFailure, reason: str) -> None:
        """The run broke the rules."""
        if self._stream is not None and not self._ended:
            self._results.write(self._stream.fail(code, reason))

    def on_warning(self, reason: str) -> None:
        """Something was dropped."""
        if self._stream is not None and not self._ended:
            self._results.write(self._stream.warn(reason))

    def on_call(self, call_id: MessageId, method: str, params: Any) -> None:
        """A Host API call."""
        self._clock.active()
        if self._parts is not None:
            self._parts.calls.begin(call_id, method, params)

    def on_call_cancelled(self, call_id: MessageId) -> None:
        """The runner no longer waits for it."""
        if self._parts is not None:
            self._parts.calls.give_up(call_id, goes_on=self.may_pause())

    def on_lost(self, error: PluginError) -> None:
        """The plugin process is gone."""
        self._lose(error)

    def active(self) -> None:
        """A call is over: the runner has something to go on with."""
        self._clock.active()

    # -- stopping ---------------------------------------------------------------------------------

    def cancel(self, reason: str, grace: float | None = None) -> None:
        """Ask the runner to stop; after the grace time (seconds; None: the host's) the run ends without it.

        Asked again with less time, it has less.
        """
        if self._ended or (self.stop_requested is not None and grace is None):
            return
        grace = self.equipment.cancel_grace_seconds if grace is None else grace
        asked_before = self.stop_requested is not None
        if not asked_before:
            self.stop_requested = reason
        if self._parts is None:  # it has not begun, and goes no further: `_start` looks before it goes on
            self._clock.cut_short()
            return
        if not asked_before:
            self._parts.stream.stopping("cancelled", reason)
            self._tell_runner(reason)
        self._clock.stop_within(grace, self._stop_now)

    def _stop_now(self) -> None:
        if self._stream is not None and not self._ended and self.stop_requested is not None:
            self._results.write(self._stream.stop("cancelled", self.stop_requested))

    def _deadline_over(self) -> None:
        if self._stream is None or self._ended:
            return
        self._tell_runner("deadline")
        self._results.write(self._stream.stop("timeout", "the run did not end within its deadline"))

    def _is_busy(self) -> bool:
        """Whether anything is under way that the runner may wait for."""
        parts = self._parts
        if parts is None or parts.stream.outcome is not None:
            return True
        return parts.calls.under_way or self._log.is_writing

    def _idle_over(self) -> None:
        if self._stream is None or self._parts is None or self._ended or self._stopping:
            return
        seconds = self._parts.prepared.grant.idle_seconds
        self._tell_runner("idle")
        why = f"the run gave no result and made no call for {seconds:g} s (idle_timeout)"
        self._results.write(self._stream.stop("timeout", why))

    def hand_over(self, why: str) -> None:
        """The host is stopping: give the run back for another attempt, or end it, by its policy."""
        if not self._ended:
            self.handed_over = True
            self._tell_runner(why)
            self._lose(PluginCrashedError(why))
            self._clock.cut_short()

    # -- endings ----------------------------------------------------------------------------------

    def _lose(self, error: PluginError) -> None:
        """The process that worked on it is gone: by the agent's policy it begins again, or fails."""
        if self._ended or (self._stream is not None and isinstance(self._stream.outcome, Paused)):
            return  # a run that its runner pauses needs no process any more
        if self.handed_over and self._parts is None and self.stop_requested is None:
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
        """Return the settlement of a lost attempt by the agent's policy, or None if it was never started."""
        parts = self._parts
        if parts is None:
            return None
        made = self._results.had_effects or parts.calls.had_effects
        return settle(
            parts.prepared.recovery,
            cause="host" if self.handed_over else "plugin",
            resumable=parts.prepared.manifest.capabilities.resumable,
            crashes=self.run.crashes,
            had_effects=made or self._results.kept_before,
            cancelled=self._stopping,
            handed_over=self.handed_over,
            undone=parts.prepared.is_undone and not made,
        )

    def diverged(self, why: str) -> None:
        """The runner did something else than before: the policy decides, and going on is out of question."""
        if self._ended or self._parts is None or self._stopping:
            return
        self._tell_runner("replay.diverged")
        if self._going_on is not None:
            self._going_on.go_live()  # who watches is told what stays
        recovery = self._parts.prepared.recovery
        if recovery.on_crash == "restart" and self.run.crashes + 1 < recovery.max_attempts:
            self._restart(f"replay.diverged: {why}", crashed=True, restart=True)
        else:
            self._results.write(self._parts.stream.fail("replay.diverged", why))

    def went_live(self, frontier: int) -> None:
        """From here on the attempt does what it did not do before: who watches is told."""
        if self._ended or self._parts is None:
            return
        stream, prepared = self._parts.stream, self._parts.prepared
        self._results.went_live(frontier)
        if prepared.recording is not None:
            stream.keep_ids(prepared.recording.message_ids)
        self._results.write(stream.attempt_started(self.run.attempt, prepared.cause, frontier))

    def _restart(self, why: str, *, crashed: bool, restart: bool = False) -> None:
        """Queue the run for another attempt; it goes on from the journal unless it is to `restart`."""
        action: Action = "restart" if restart else "resume"
        self._begin_again(Settlement(action, why, "host.restarted"), crashed=crashed)

    def _begin_again(self, settlement: Settlement, *, crashed: bool | None = None) -> None:
        self._ended = True
        crashed = not self.handed_over if crashed is None else crashed
        used = self.used()

        def again(tx: Tx) -> Any:
            actor = self.equipment.host_id
            return begin_after_loss(tx, self.run, settlement, actor=actor, used=used, crashed=crashed)

        self._log.add(Item(move=self._log.entries_first(again), last=True, done=self._given_back))

    def _given_back(self, _answer: Any, error: HostlerError | None) -> None:
        self.queued_again = error is None
        self._over.set()

    async def _not_started(self, error: HostlerError) -> None:
        """The attempt could not be started: it ends, or is put off where people have decided about it."""
        code = failure_of(error)
        pause = None
        if self._parts is None and self.run.attempt > 1 and not self._stopping and not self.handed_over:
            pause = await self.equipment.db.read(lambda tx: pauses.unsettled(tx, self.run.run_id))
        if pause is not None and pause.status == "ready" and not self._ended:
            by_plugin, own = isinstance(error, PluginError), pause.form == "explicit"
            later = postpone(error.message, code, own_pause=own, by_plugin=by_plugin)
            self._begin_again(later, crashed=True)
        elif isinstance(error, PluginError) and not isinstance(error, PluginStartError):
            self._lose(error)
        else:
            self._results.write(self._ensure_stream().fail(code, error.message))

    def _fenced(self, error: FencedError) -> None:
        log.info("run %s: %s", self.run.run_id, error)
        self._ended = True
        self._stand("fenced")
        self._tell_runner("superseded")
        self._over.set()

    def fence(self, why: str) -> None:
        """End the attempt here at once and write nothing more: the run is another attempt's by now."""
        if self._over.is_set():
            return
        error = FencedError(why)
        self._fenced(error)
        self._log.abandon(error)
        self._clock.cut_short()

    def _begin_ending(self) -> None:
        self._ended = True
        self._stand("ended")

    def _stand(self, standing: Standing) -> None:
        if self._parts is not None:
            self._parts.gated.standing = standing

    def _tell_runner(self, reason: str) -> None:
        """Ask the runner to stop, if it was started."""
        if self._parts is not None:
            self._parts.connection.cancel_run(self.run.run_id, reason)

    # -- waiting for people -----------------------------------------------------------------------

    def people_changed(self) -> None:
        """Something was decided about this run."""
        if self._parts is not None:
            self._parts.pauses.holding.changed()

    def requested(self, call: PausedCall) -> None:
        """A call is newly put to people: who watches sees it."""
        if self._parts is not None and not self._ended:
            if self._going_on is not None:
                self._going_on.go_live()
            self._parts.pauses.requested(call)

    def park(self) -> None:
        """The calls that wait for people were held long enough."""
        if self._parts is not None:
            self._parts.pauses.park()

    def _pause(self, paused: Paused) -> None:
        if self._parts is None:
            raise RuntimeError("a pause before the run was started")
        self._stand("paused")  # what is under way ends; the runner begins nothing more
        self._parts.pauses.pause(paused)

    def may_pause(self) -> bool:
        """Whether the attempt may still be parked."""
        return not self._ended and not self._stopping

    def begin_pause(self) -> None:
        """The attempt is over for its runner."""
        self._ended = True
        self._stand("paused")

    def paused(self, queued: bool) -> None:
        """The pause is durable: the runner's task is ended, and what it held is free."""
        self.queued_again |= queued
        if self._parts is not None:
            self._parts.connection.park_run(self.run.run_id)
        self._over.set()

    def used(self) -> Used:
        """Over all attempts, what the host measured; where the run called no model here, what it reported."""
        measured = None if self._parts is None else self._parts.used()
        if measured is not None:
            return measured
        reported = self._stream.state.usage if self._stream is not None else None
        return Used(add_usage(self.run.usage, reported))


def _empty_grant(run: Run) -> Grant:
    """For a run that ends before its grant could be built."""
    return Grant(
        workspace_id=run.workspace_id,
        agent_id=run.agent_id,
        agent_version=run.agent_version,
        runner_id=run.runner_id,
        owner="",
    )
