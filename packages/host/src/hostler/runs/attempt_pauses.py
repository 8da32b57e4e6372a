"""How an attempt waits for people: its calls are held, then it is parked; or its runner pauses the run."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from hostler.calls.executor import CallExecutor
from hostler.domain.outcomes import Paused
from hostler.pauses import entries as pause_entries
from hostler.pauses.explicit import ExplicitPauses, pause_run
from hostler.pauses.held_calls import HeldCalls
from hostler.pauses.parking import Parked, park
from hostler.runs.attempt_parts import Parts
from hostler.storage.port import Tx
from hostler.storage.stores.journal import NewEntry
from hostler.storage.stores.run_rows import Fenced, Moved
from hostler_protocol.errors import HostlerError, RunFailure, StorageError


@dataclass(slots=True, eq=False)
class AttemptPauses:
    """The pauses of one attempt."""

    parts: Parts
    calls: CallExecutor
    held_calls: HeldCalls
    explicit: ExplicitPauses
    _task: asyncio.Task[None] | None = None
    _queued: bool = False
    """Whether the parked run waits for its next attempt already."""

    def park(self) -> None:
        """Park the run, as its hold time is over, as soon as no other call is under way."""
        if self._task is None or self._task.done():
            self._begin(self._park(), "parking")

    def pause(self, paused: Paused) -> None:
        """Pause the run, as its runner asks for."""
        self.parts.gated.standing = "paused"  # the runner makes no more calls
        self._begin(self._pause(paused), "pause")

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._task = asyncio.create_task(work, name=f"{name} of run {self.parts.run.run_id}")
        self.parts.end.watch(self._task)

    def close(self) -> None:
        """Answer no held call any more, and give up a pause that is not written yet."""
        self.held_calls.close()
        if self._task is not None:
            self._task.cancel()

    async def _park(self) -> None:
        await self.calls.quiet()
        if not self.held_calls.waiting or not self.parts.end.goes_on:
            return
        entries = [pause_entries.paused(self.held_calls.held())]
        self._end_attempt()
        self.held_calls.close()  # decisions from now on are for the next attempt

        def work(tx: Tx) -> tuple[Moved | Fenced, list[NewEntry]]:
            parts = self.parts
            parked = park(tx, parts.run, entries, actor=parts.end.host_id, used=parts.meter.used())
            return self._moved(parked), entries

        self._write(len(entries), work)

    async def _pause(self, paused: Paused) -> None:
        parts, stream = self.parts, self.parts.stream
        await self.calls.tools.quiet()  # the outcome of a tool must not get lost for the pause
        try:
            prepared = await self.explicit.prepare(
                parts.run, parts.prepared.grant, paused, parts.prepared.on_message
            )
        except HostlerError as error:
            if stream.outcome is paused:
                code: RunFailure = "host.error" if isinstance(error, StorageError) else "runner.protocol"
                stream.unpaused()
                parts.results.write(stream.fail(code, f"run.paused: {error.message}"))
            return
        if stream.outcome is not paused:  # it was stopped meanwhile
            return
        self._end_attempt()

        def work(tx: Tx) -> tuple[Moved | Fenced, list[NewEntry]]:
            entries: list[NewEntry] = []
            used, actor = parts.meter.used(), parts.end.host_id
            parked = pause_run(tx, parts.run, prepared, entries, actor=actor, used=used)
            return self._moved(parked), entries

        self._write(len(prepared.new.calls) + 1, work)  # each call, then run.paused

    def _end_attempt(self) -> None:
        self.parts.end.ended = True
        self.parts.gated.standing = "paused"

    def _write(self, results: int, work: Any) -> None:
        self.parts.end.park(self.parts.stream.state.reserve(results), work, self._parked)

    def _moved(self, parked: Parked | Fenced) -> Moved | Fenced:
        if isinstance(parked, Fenced):
            return parked
        self._queued = parked.queued
        return parked.moved

    def _parked(self, _answer: Any, error: HostlerError | None) -> None:
        """The pause is durable, or never will be: the runner's task ends, and its calls stay unanswered."""
        end = self.parts.end
        end.queued_again |= error is None and self._queued
        self.parts.connection.park_run(self.parts.run.run_id)
        end.over.set()
