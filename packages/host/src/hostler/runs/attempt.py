"""One attempt of one run, from its claim to its end.

It has two stages: `StartingAttempt`, until its plugin is connected and its grant is known, then
`RunningAttempt`. Nothing of it is shown to anyone before its commit.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import msgspec

from hostler.domain.outcomes import Ending, StreamState
from hostler.domain.recovery import begin_again, leave_to_others, postpone
from hostler.domain.usage import Used
from hostler.journal.run_log import FencedError, RunLog
from hostler.runs.attempt_end import AttemptEnd, result_item
from hostler.runs.attempt_parts import AttemptServices, assemble
from hostler.runs.running_attempt import RunningAttempt
from hostler.runs.snapshot import FactsAhead
from hostler.runs.timers import AttemptClock
from hostler.secrets.known_values import redact
from hostler.storage.sealing.envelope import KeyMissingError
from hostler.storage.sql.session import ConnectionLostError
from hostler.storage.stores import pauses
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import HostlerError, PluginError, RunFailure, StorageError, UnavailableError
from hostler_protocol.results import RunFailed
from hostler_protocol.runs import RunStatus

log = logging.getLogger(__name__)


class Attempt:
    """An attempt. `execute` returns when its run has ended, was queued again or parked, or is another's."""

    def __init__(self, services: AttemptServices, run: Run, ahead: FactsAhead | None = None) -> None:
        """`ahead`: facts that were read with the claim of the run."""
        self.run = run
        self._services = services
        # before it is executed: who has just accepted its event watches it, and need not read the journal
        services.feed.open(run.run_id, run.sequence)
        journal = RunLog(services.db, services.feed, run.run_id, run.attempt, run.member)
        self._end = AttemptEnd(run, services.host_id, journal, look=services.look_at_end)
        self._clock = AttemptClock()
        self._starting = StartingAttempt(services, self._end, self._clock, ahead)
        self._stage: StartingAttempt | RunningAttempt = self._starting

    @property
    def queued_again(self) -> bool:
        """Whether the run waits for another attempt."""
        return self._end.queued_again

    # -- from the claim to the end ----------------------------------------------------------------

    async def execute(self) -> None:
        """Carry the attempt through. Never raises for what a plugin or caller did.

        StorageError: the journal can no longer be written, and the attempt has no ending yet. It raises any
        other error of its background work too, and has no ending then either.
        """
        run, end = self.run, self._end
        self._services.feed.open(run.run_id, run.sequence)
        pump = asyncio.create_task(end.journal.pump(self._fenced), name=f"journal of run {run.run_id}")
        pump.add_done_callback(lambda _: end.over.set())  # an attempt ends with its journal
        try:
            try:
                await self._start()
            except HostlerError as error:
                await self._stage.not_started(error)
            if not end.ended:
                await end.over.wait()
        finally:
            try:
                await self._leave(pump)
            finally:
                self._services.ended(run, end.status)
        if end.failure is not None:
            raise end.failure

    async def _start(self) -> None:
        running = await self._starting.connect()
        if running is not None:
            self._stage = running
            await running.start()

    async def _leave(self, pump: asyncio.Task[None]) -> None:
        """End everything that is under way, and wait until all that was journalled is committed.

        Raises what `pump` raises if the journal could not be written.
        """
        run_id, feed = self.run.run_id, self._services.feed
        self._end.ended = True
        self._clock.close()
        self._stage.close()
        self._end.journal.close()
        try:
            await asyncio.shield(pump)
            await self._stage.stop_time()
        finally:
            feed.close(run_id)
            if self._end.queued_again:  # results may have been written that the feed does not know
                feed.wake(run_id)

    # -- stopping ---------------------------------------------------------------------------------

    def cancel(self, reason: str, grace: float | None = None) -> None:
        """Ask the runner to stop; after `grace` seconds (None: the host's) the run ends without it.

        A repeated request can only shorten the grace.
        """
        end = self._end
        first = end.stop_reason is None
        if end.ended or (not first and grace is None):
            return
        if first:
            end.stop_reason = reason
        seconds = self._services.cancel_grace_seconds if grace is None else grace
        self._stage.cancel(reason, seconds, first=first)

    def hand_over(self, why: str) -> None:
        """Give the run back for another attempt, or end it, by its policy: the host is stopping."""
        if not self._end.ended:
            self._end.handed_over = True
            self._stage.hand_over(why)
            self._clock.cut_short()

    def fence(self, why: str) -> None:
        """End the attempt here at once and write nothing more: another attempt has the run."""
        if self._end.over.is_set():
            return
        error = FencedError(why)
        self._fenced(error)
        self._end.journal.abandon(error)
        self._clock.cut_short()

    def _fenced(self, error: FencedError) -> None:
        log.info("run %s: %s", self.run.run_id, error)
        self._end.ended = True
        self._stage.fenced()
        self._end.over.set()

    def people_changed(self) -> None:
        """Look for decisions about this run."""
        self._stage.people_changed()


@dataclass(slots=True, eq=False)
class StartingAttempt:
    """The first stage of an attempt, before its plugin is connected: it can only end."""

    services: AttemptServices
    end: AttemptEnd
    clock: AttemptClock
    ahead: FactsAhead | None

    async def connect(self) -> RunningAttempt | None:
        """Connect the plugin and prepare the run. Return the second stage, or None if the attempt has ended.

        Raises PluginError, and what `Preparer.prepare` raises.
        """
        services, run = self.services, self.end.run
        if self._has_stopped():
            return None
        connection = await self.clock.unless_cut_short(services.connect(run))
        if connection is None:
            self._has_stopped()
            return None
        prepared = await services.prepare(run, connection.runners, self.ahead)
        if self.end.ended:  # handed over meanwhile
            return None
        return RunningAttempt(services, self.clock, assemble(services, self.end, connection, prepared))

    def _has_stopped(self) -> bool:
        """End the attempt if it was asked to stop; return whether it has ended."""
        if self.end.stop_reason is not None:
            self._finish("cancelled", "cancelled", self.end.stop_reason)
        return self.end.ended

    async def not_started(self, error: HostlerError) -> None:
        """End the attempt, or put it off if the run waits only for its turn or for what people decided."""
        end = self.end
        # the plugin is being replaced, or the database went away: what the preparation writes may be repeated
        if isinstance(error, (UnavailableError, ConnectionLostError)):
            end.resume_later(error.message, self._used())
            return
        if isinstance(error, KeyMissingError) and end.stop_reason is None:
            again = leave_to_others(error.message, attempt=end.run.attempt)
            end.requeue(again, self._used(), crashed=False)
            return
        pause = None
        if end.run.attempt > 1 and end.stop_reason is None and not end.handed_over:
            pause = await self.services.db.read(lambda tx: pauses.unsettled(tx, end.run.run_id))
        by_plugin = isinstance(error, PluginError)
        if pause is not None and pause.status == "ready" and not end.ended:
            own_pause = pause.form == "explicit"
            later = postpone(error.message, error.status_code, own_pause=own_pause, by_plugin=by_plugin)
            end.requeue(later, self._used(), crashed=True)
            return
        why = error.message
        if isinstance(error, StorageError) and end.stop_reason is None:
            again = begin_again(why, crashes=end.run.crashes)
            if again.goes_on:
                end.requeue(again, self._used(), crashed=True)
                return
            why = again.why
        self._finish("failed", error.status_code, why)

    def cancel(self, reason: str, grace: float, *, first: bool) -> None:
        """End a wait for the plugin; the attempt goes no further."""
        self.clock.cut_short()

    def hand_over(self, why: str) -> None:
        """Queue the run again, of which nothing was begun; fail it if it was asked to stop."""
        if self.end.stop_reason is None:
            self.end.resume_later(why, self._used())
        else:
            self._finish("failed", "host.restarted", why)

    def fenced(self) -> None:
        """Do nothing: there is no runner to stop."""

    def people_changed(self) -> None:
        """Do nothing: no call waits for people yet."""

    def close(self) -> None:
        """Do nothing: nothing is under way."""

    async def stop_time(self) -> None:
        """Do nothing: no time was charged."""

    def _finish(self, status: RunStatus, code: RunFailure, reason: str) -> None:
        """Write the terminal result, unless the attempt has ended."""
        run, end = self.end.run, self.end
        if end.ended:
            return
        reason = redact(reason)
        ending = Ending(status, status_code=code, error=reason)
        data = msgspec.json.encode(RunFailed.by_host(code, reason))
        stored = StreamState(sequence=run.sequence).store("run.failed", data, outcome=ending)
        end.finish(*result_item(run.run_id, stored), ending, self._used)

    def _used(self) -> Used:
        return Used(self.end.run.usage)
