"""How an attempt waits for people: its calls are held, then it is parked; or its runner pauses the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from hostler.calls.executor import CallExecutor
from hostler.domain.grants import Grant
from hostler.domain.outcomes import Paused
from hostler.domain.pause_values import PausedCall
from hostler.domain.pauses import OnMessage
from hostler.domain.result_sequence import ResultStream
from hostler.pauses import entries as pause_entries
from hostler.pauses.explicit import ExplicitPauses, pause_run
from hostler.pauses.parking import Parked, Used, park
from hostler.pauses.requests import request_of
from hostler.pauses.waiting import HeldCalls
from hostler.runs.attempt_results import AttemptResults
from hostler.storage.port import Tx
from hostler.storage.stores.journal import Entry
from hostler.storage.stores.run_rows import Fenced, Moved, Run
from hostler_protocol.errors import HostlerError, RunFailure, StorageError


class Attempt(Protocol):
    """The attempt, as its pauses need it."""

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
    calls: CallExecutor
    holding: HeldCalls
    explicit: ExplicitPauses
    on_message: OnMessage
    used: Callable[[], Used]
    _task: asyncio.Task[None] | None = None
    _queued: bool = field(default=False)

    def requested(self, call: PausedCall) -> None:
        """Show a call that is put to people to whoever watches the run."""
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
        await self.calls.quiet()
        if not self.holding.waiting or not self.attempt.may_pause():
            return
        entries = [pause_entries.paused(self.holding.held())]
        first = self.stream.state.reserve(1)  # run.paused
        self.attempt.begin_pause()
        self.holding.close()  # what is decided from now on is for the next attempt

        def move(tx: Tx) -> tuple[Moved | Fenced, list[Entry]]:
            moved = park(tx, self.run, entries, actor=self.results.host_id, used=self.used())
            return self._moved(moved), entries

        self.results.add_pause(first, move, self._told)

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
        first = self.stream.state.reserve(len(prepared.new.calls) + 1)  # each call, then run.paused
        self.attempt.begin_pause()

        def move(tx: Tx) -> tuple[Moved | Fenced, list[Entry]]:
            entries: list[Entry] = []
            used, actor = self.used(), self.results.host_id
            moved = pause_run(tx, self.run, prepared, entries, actor=actor, used=used)
            return self._moved(moved), entries

        self.results.add_pause(first, move, self._told)

    def _moved(self, parked: Parked | Fenced) -> Moved | Fenced:
        if isinstance(parked, Fenced):
            return parked
        self._queued = parked.queued
        return parked.moved

    def _told(self, _answer: Any, error: HostlerError | None) -> None:
        self.attempt.paused(error is None and self._queued)
