"""How an attempt waits for people: its calls are held, then it is parked; or its runner pauses the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from hostler.attempt_results import AttemptResults
from hostler.domain.grants import Grant
from hostler.domain.outcomes import Paused
from hostler.domain.pause_values import NewCall
from hostler.domain.pauses import OnMessage
from hostler.domain.sequence import ResultStream
from hostler.explicit_pauses import ExplicitPauses, pause_run
from hostler.holding import Holding
from hostler.parking import Parked, Used, park
from hostler.pause_questions import pending_of, request_of
from hostler.ports import Tx
from hostler.run_calls import RunCalls
from hostler.stores.journal import Entry
from hostler.stores.run_rows import Fenced, Moved, Run
from hostler_protocol.errors import HostlerError, RunFailure, StorageError
from hostler_protocol.results import RunPaused


class Attempt(Protocol):
    """What is asked of the attempt."""

    def may_pause(self) -> bool:
        """Whether it may still be parked: it has not ended, and nobody stops it."""
        ...

    def begin_pause(self) -> None:
        """It is over for its runner: nothing of it is taken any more."""
        ...

    def paused(self, queued: bool) -> None:
        """The pause is durable; `queued`: the run waits for its next attempt already."""
        ...


@dataclass(eq=False)
class AttemptPauses:
    """The pauses of one attempt."""

    attempt: Attempt
    run: Run
    grant: Grant
    stream: ResultStream
    results: AttemptResults
    calls: RunCalls
    holding: Holding
    explicit: ExplicitPauses
    on_message: OnMessage
    used: Callable[[], Used]
    _task: asyncio.Task[None] | None = None
    _queued: bool = field(default=False)

    def __post_init__(self) -> None:
        self.holding.entered = self.calls.look_again

    def requested(self, call: NewCall) -> None:
        """A call is newly asked: whoever watches the run sees it."""
        self.results.write(self.stream.requested(request_of(call)))

    def park(self) -> None:
        """The hold time is over: park the run as soon as nothing else of it is under way."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._park(), name=f"parking of run {self.run.run_id}")

    def pause(self, paused: Paused) -> None:
        """The runner pauses the run itself."""
        self._task = asyncio.create_task(self._pause(paused), name=f"pause of run {self.run.run_id}")

    def close(self) -> None:
        """The attempt is over."""
        self.holding.close()
        if self._task is not None:
            self._task.cancel()

    async def _park(self) -> None:
        await self.calls.quiet(lambda: self.holding.waiting)
        if not self.holding.waiting or not self.attempt.may_pause():
            return
        stored = self.stream.park(self.holding.pending())
        self.attempt.begin_pause()
        self.results.add_pause(stored, self._parking, self._told)

    def _parking(self, entry: Entry, tx: Tx) -> Moved | Fenced:
        return self._moved(park(tx, self.run, [entry], actor=self.results.host_id, used=self.used()))

    async def _pause(self, paused: Paused) -> None:
        await self.calls.tools.quiet()  # what a tool did must not stay unknown for that
        try:
            prepared = await self.explicit.prepare(self.run, self.grant, paused, self.on_message)
        except HostlerError as error:
            if self.stream.outcome is paused:
                is_ours = isinstance(error, StorageError)
                code: RunFailure = "host.error" if is_ours else "runner.protocol"
                self.stream.unpaused()
                self.results.write(self.stream.fail(code, f"run.paused: {error.message}"))
            return
        if self.stream.outcome is not paused:  # it was stopped meanwhile
            return
        shown = RunPaused(
            pending=[pending_of(call) for call in prepared.new.calls], expires_in=paused.expires_in
        )
        stored = self.stream.repaused(shown)
        self.attempt.begin_pause()

        def move(entry: Entry, tx: Tx) -> Moved | Fenced:
            used, actor = self.used(), self.results.host_id
            return self._moved(pause_run(tx, self.run, prepared, [entry], actor=actor, used=used))

        self.results.add_pause(stored, move, self._told)

    def _moved(self, parked: Parked | Fenced) -> Moved | Fenced:
        if isinstance(parked, Fenced):
            return parked
        self._queued = parked.queued
        return parked.moved

    def _told(self, _answer: Any, error: HostlerError | None) -> None:
        self.attempt.paused(error is None and self._queued)
