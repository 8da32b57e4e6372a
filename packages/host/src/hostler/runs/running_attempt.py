"""An attempt whose plugin is connected: it receives what the runner sends, until its end.

Results, calls, warnings and status changes go through the run's journal in the order they happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from hostler.calls.answers_ahead import SendAhead
from hostler.calls.executor import CallExecutor
from hostler.domain.outcomes import Paused, Stored
from hostler.domain.pause_values import PausedCall
from hostler.domain.recovery import Settlement, settle
from hostler.domain.reservations import BudgetExhausted
from hostler.domain.result_sequence import Stop
from hostler.domain.usage import Used
from hostler.journal.resume import Resumption, read_answer
from hostler.pauses.held_calls import HeldCalls
from hostler.pauses.requests import Questions, request_of
from hostler.plugins.lingering_runs import RunLingersError
from hostler.runs.attempt_parts import AttemptServices, Parts
from hostler.runs.attempt_pauses import AttemptPauses
from hostler.runs.timers import AttemptClock
from hostler_protocol.errors import (
    HostlerError,
    PluginCrashedError,
    PluginError,
    PluginProtocolError,
    PluginStartError,
    RunFailure,
    UnavailableError,
)
from hostler_protocol.frames import MessageId
from hostler_protocol.incoming import ResultArrived
from hostler_protocol.limits import INITIAL_RESULT_CREDIT, MAX_ANSWERS_AHEAD_BYTES
from hostler_protocol.methods import RunStartParams
from hostler_protocol.results import TERMINAL_RESULTS, AgentRunResult

_ENDS = TERMINAL_RESULTS | {"run.paused"}


class RunningAttempt:
    """The second stage of an attempt, and the `RunHandler` that its plugin's connection reports to.

    Its calls, held calls and recording call it back; they let go of it when it is closed. A cycle that were
    left would cost the garbage collector a millisecond per run.
    """

    def __init__(self, services: AttemptServices, clock: AttemptClock, parts: Parts) -> None:
        run, prepared, journal = parts.run, parts.prepared, parts.end.journal
        self._services = services
        self._clock = clock
        self._parts = parts
        self._run = run
        self._end = parts.end
        self._connection = parts.connection
        self._stream = parts.stream
        self._results = parts.results
        self._resumption: Resumption | None = None
        if prepared.recording is not None:
            self._resumption = Resumption(
                prepared.recording,
                partial(read_answer, services.db, services.blobs, run.run_id),
                stall_seconds=services.stall_seconds,
                live=self._went_live,
                diverged=self._diverged,
            )
        tools, progressed = parts.scope.services.tools, asyncio.Event()
        self._held_calls = HeldCalls(
            journal,
            run,
            Questions(run.workspace_id, run.run_id, tools),
            tools,
            prepared.on_message,
            services.hold_seconds,
            services.stall_seconds,
            requested=self._requested,
            park=self._park if prepared.manifest.capabilities.resumable else None,
            looked=progressed.set,
        )
        self._calls = CallExecutor(
            gate=services.gate,
            gated=parts.gated,
            scope=parts.scope,
            journal=journal,
            blobs=services.blobs,
            runner=parts.connection,
            resumption=self._resumption,
            ahead=self._ahead(),
            inherited=prepared.inherited,
            held=self._held_calls,
            progressed=progressed,
            confirm=parts.confirm_owned if services.db.shared else None,
            active=clock.active,
        )
        spending = parts.spending
        spending.held, spending.over = self._held_calls, self._over_budget
        if spending.time is not None:
            spending.time.over = self._time_over
        self._pauses = AttemptPauses(parts, self._calls, self._held_calls, services.explicit_pauses)

    def _ahead(self) -> SendAhead | None:
        connection = self._connection
        max_bytes = min(MAX_ANSWERS_AHEAD_BYTES, connection.link.limits.max_message_bytes // 2)
        if not connection.takes_ahead:
            return None
        return SendAhead(partial(connection.send_ahead, self._run.run_id), max_bytes)

    # -- the start and the end --------------------------------------------------------------------

    async def start(self) -> None:
        """Move the run to `running` and start its runner, unless the run was asked to stop meanwhile.

        Raises what `PluginConnection.start_run` raises.
        """
        run, prepared, end = self._run, self._parts.prepared, self._end
        if prepared.recording is None:  # otherwise context and warnings are in the journal already
            if run.attempt > 1:
                self._results.write(self._stream.attempt_started(run.attempt, prepared.cause))
            for note in prepared.notes:
                self._results.write(self._stream.warn(note))
        end.journal.add(self._parts.starting(), hurry=False)
        self._clock.end_at(prepared.deadline_at, self._deadline_over)
        if end.stop_reason is not None:
            self._results.write(self._stream.stop("cancelled", end.stop_reason))
            return
        # others could be parked while the call of a service outside waits for people
        may_wait = not prepared.manifest.capabilities.resumable
        params = RunStartParams(
            runner_id=run.runner_id,
            runner_name=prepared.manifest.name,
            context=self._services.assets.open(
                prepared.context, prepared.grant, self._calls, may_wait=may_wait
            ),
            credit=INITIAL_RESULT_CREDIT,
        )
        # an answer may take half a minute, an earlier attempt seconds to leave
        await self._clock.unless_cut_short(self._connection.start_run(params, self))
        if self._parts.spending.time is not None:
            self._parts.spending.time.start()
        self._clock.watch_idle(prepared.grant.idle_seconds, self._is_busy, self._idle_over)

    async def not_started(self, error: HostlerError) -> None:
        """End the attempt, or queue its run again, as its runner could not be started."""
        if isinstance(error, RunLingersError):
            self._services.replace(self._connection, error.message)
            self._end.resume_later(f"{error.message}; its plugin's process is replaced", self._used())
        elif isinstance(error, UnavailableError):  # the plugin is being replaced
            self._end.resume_later(error.message, self._used())
        elif isinstance(error, PluginError) and not isinstance(error, PluginStartError):
            self.on_lost(error)
        else:
            self._results.write(self._stream.fail(error.status_code, error.message))

    def close(self) -> None:
        """End everything that is under way; afterwards nothing refers to the attempt."""
        self._services.assets.close(self._run.run_id, self._run.attempt)
        self._connection.end_run(self._run.run_id)
        self._calls.stop()
        if self._resumption is not None:
            self._resumption.close()
        self._pauses.close()
        self._results.close()
        self._parts.gated.standing = "ended"
        spending = self._parts.spending
        spending.held, spending.over = None, lambda _: None
        if spending.time is not None:
            spending.time.close()

    async def stop_time(self) -> None:
        """Give back the time that was charged ahead."""
        if (time := self._parts.spending.time) is not None:
            await time.stop()

    def _used(self) -> Used:
        return self._parts.meter.used()

    # -- messages of the plugin (RunHandler) ------------------------------------------------------

    def on_results(self, arrived: Sequence[ResultArrived]) -> None:
        """Accept results that came together; deltas many at once."""
        self._clock.active()
        self._results.see(arrived)
        stream, results, taken = self._stream, self._results, 0
        while taken < len(arrived) and not self._end.ended:
            before = taken
            if skipped := stream.skip_deltas(arrived, taken):
                taken += skipped
                results.take_unstored(skipped, sum([item.size for item in arrived[before:taken]]))
                continue
            deltas = stream.receive_deltas(arrived, taken) if self._resumption is None else None
            if deltas is None:
                self._on_result(arrived[taken].result, arrived[taken].size)
                taken += 1
            else:
                taken += len(deltas.payloads)
                results.write_deltas(deltas, sum([item.size for item in arrived[before:taken]]))

    def _on_result(self, result: AgentRunResult, size: int) -> None:
        if not self._may_end(result.type):
            return
        state, resumption = self._stream.state, self._resumption
        kept, used = state.kept_sequence, state.usage
        steps = self._stream.receive(result, size)
        if resumption is not None:
            made, was_live = len(steps), resumption.is_live
            steps = resumption.new_steps(self._stream, steps, kept)
            if not steps and (made or not was_live):  # its usage counted when it was first received
                state.usage = used
        last = next((step for step in reversed(steps) if isinstance(step, Stored)), None)
        if last is None:
            self._results.take_unstored(1, size)
        paused = self._results.write(steps, credited=last, size=size)
        if paused is not None:
            self._pauses.pause(paused)

    def _may_end(self, result_type: str) -> bool:
        """Return False for an end before the runner has reached the end of its recording: it diverged."""
        if result_type not in _ENDS or self._resumption is None or self._end.stop_reason is not None:
            return True
        return self._resumption.end()

    def on_end(self) -> None:
        """End the run: the runner finished."""
        if not self._end.ended and self._may_end("run.completed"):
            self._go_live()
            self._results.write(self._stream.end())

    def on_broken(self, code: RunFailure, reason: str) -> None:
        """Fail the run: it broke the protocol."""
        if not self._end.ended:
            self._results.write(self._stream.fail(code, reason))

    def on_warning(self, reason: str) -> None:
        """Store a warning: a message was dropped."""
        if not self._end.ended:
            self._results.write(self._stream.warn(reason))

    def on_call(self, call_id: MessageId, method: str, params: Any) -> None:
        """Begin a Host API call."""
        self._clock.active()
        self._calls.begin(call_id, method, params)

    def on_call_ahead(self, method: str, params: Any) -> None:
        """Check a call whose answer was sent ahead of it."""
        if self._end.ended:
            return
        try:
            why = self._calls.take_ahead(method, params)
        except PluginProtocolError as error:
            self._stop_runner(error.message)
            self.on_broken("runner.protocol", error.message)
        else:
            if why is not None:
                self._diverged(why)

    def on_call_cancelled(self, call_id: MessageId) -> None:
        """Give a call up: the runner no longer waits for it."""
        self._calls.give_up(call_id, goes_on=self._end.goes_on)

    def on_lost(self, error: PluginError) -> None:
        """The process is gone: by the agent's policy the run is queued again, or fails."""
        end = self._end
        if end.ended or isinstance(self._stream.outcome, Paused):
            return  # a run that its runner pauses needs no process any more
        settlement = self._settlement() if error.status_code == "runner.crashed" else None
        if settlement is not None and settlement.goes_on:
            end.requeue(settlement, self._used(), crashed=not end.handed_over)
        else:
            code = "host.restarted" if end.handed_over else error.status_code
            self._results.write(self._stream.fail(code, error.message))

    def _settlement(self) -> Settlement:
        prepared, end = self._parts.prepared, self._end
        made = self._results.had_effects or self._calls.had_effects
        return settle(
            prepared.recovery,
            cause="host" if end.handed_over else "plugin",
            resumable=prepared.manifest.capabilities.resumable,
            crashes=self._run.crashes,
            had_effects=made or self._run.kept_sequence > 0,
            cancelled=end.stop_reason is not None,
            handed_over=end.handed_over,
            undone=prepared.is_undone and not made,
        )

    # -- stopping ---------------------------------------------------------------------------------

    def cancel(self, reason: str, grace: float, *, first: bool) -> None:
        """Ask the runner to stop, and end the run without it after `grace` seconds.

        Not the `first` request: only the grace changes, if it becomes shorter.
        """
        if first:
            self._stream.stopping("cancelled", reason)
            self._stop_runner(reason)
        self._clock.stop_within(grace, self._grace_over)

    def hand_over(self, why: str) -> None:
        """Stop the runner: the host is stopping, which loses the attempt."""
        self._stop_runner(why)
        self.on_lost(PluginCrashedError(why))

    def fenced(self) -> None:
        """Refuse all further calls, and stop the runner."""
        self._parts.gated.standing = "fenced"
        self._stop_runner("superseded")

    def _stop_runner(self, reason: str) -> None:
        self._connection.cancel_run(self._run.run_id, reason)

    def _grace_over(self) -> None:
        if self._end.stop_reason is not None:
            self._stop("cancelled", self._end.stop_reason)

    def _deadline_over(self) -> None:
        if not self._end.ended:
            self._stop_runner("deadline")
            self._stop("timeout", "the run did not end within its deadline")

    def _stop(self, stop: Stop, reason: str) -> None:
        """End the run, unless it has ended. A start that its plugin has not answered is given up."""
        if not self._end.ended:
            self._results.write(self._stream.stop(stop, reason))
            self._clock.cut_short()

    def _time_over(self, exhausted: BudgetExhausted) -> None:
        if exhausted.account.terms.on_exceeded == "end":
            self._over_budget(exhausted.sentence)

    def _over_budget(self, reason: str) -> None:
        """End the run by the terms of a budget."""
        if self._end.goes_on:
            self._stop_runner("budget.exceeded")
            self._go_live()
            self._results.write(self._stream.fail("budget.exceeded", reason))
            self._clock.cut_short()

    def _is_busy(self) -> bool:
        """Whether anything is under way that the runner may wait for."""
        under_way = self._calls.under_way or self._end.journal.is_writing
        return self._stream.outcome is not None or under_way

    def _idle_over(self) -> None:
        if self._end.goes_on:
            seconds = self._parts.prepared.grant.idle_seconds
            self._stop_runner("idle")
            why = f"the run gave no result and made no call for {seconds:g} s (idle_timeout)"
            self._stop("timeout", why)

    # -- an attempt that repeats a recording ------------------------------------------------------

    def _went_live(self, frontier: int) -> None:
        """Announce the attempt: from here on it does what no recording holds."""
        if self._end.ended:
            return
        stream, prepared = self._stream, self._parts.prepared
        self._results.went_live(frontier)
        if prepared.recording is not None:
            stream.keep_ids(prepared.recording.message_ids)
        self._results.write(stream.attempt_started(self._run.attempt, prepared.cause, frontier))

    def _diverged(self, why: str) -> None:
        """Restart or fail the run by its agent's policy: the runner did something else than before."""
        if not self._end.goes_on:
            return
        self._stop_runner("replay.diverged")
        self._go_live()  # watchers learn which results stay
        recovery = self._parts.prepared.recovery
        if recovery.on_crash == "restart" and self._run.crashes + 1 < recovery.max_attempts:
            settlement = Settlement("restart", f"replay.diverged: {why}", "host.restarted")
            self._end.requeue(settlement, self._used(), crashed=True)
        else:
            self._results.write(self._stream.fail("replay.diverged", why))

    def _go_live(self) -> None:
        if self._resumption is not None:
            self._resumption.go_live()

    # -- waiting for people -----------------------------------------------------------------------

    def people_changed(self) -> None:
        """Look for decisions about this run."""
        self._held_calls.changed()

    def _requested(self, call: PausedCall) -> None:
        """Publish a call that is newly put to people."""
        if not self._end.ended:
            self._go_live()
            self._results.write(self._stream.requested(request_of(call)))

    def _park(self) -> None:
        self._pauses.park()
