"""The attempts under way in this process: one task each, and never two attempts of a run at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from hostler.runs.snapshot import FactsAhead
from hostler.storage.sealing.envelope import KeyMissingError
from hostler.storage.sql.session import CommitUnknownError
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import HostlerError

log = logging.getLogger(__name__)

LEAVE_SECONDS = 10.0
"""How long a new attempt waits for the previous one of its run to leave; then that one is cancelled."""
HAND_OVER_SECONDS = 10.0
"""How long a stopping host waits for the last writes of runs that it hands over."""


class ActiveAttempt(Protocol):
    """An attempt of a run."""

    run: Run

    @property
    def queued_again(self) -> bool:
        """Whether the run waits for another attempt, once `execute` has returned."""

    async def execute(self) -> None:
        """Carry the attempt through to its end."""

    def cancel(self, reason: str, grace: float | None = None) -> None:
        """Ask it to stop; after `grace` seconds (None: the host's default) it is ended."""

    def people_changed(self) -> None:
        """Look for decisions that it waits for."""

    def hand_over(self, why: str) -> None:
        """Give the run back: the host is stopping."""

    def fence(self, why: str) -> None:
        """End it at once and write nothing more: another attempt has the run."""


class ActiveAttempts:
    """Executes attempts.

    `make` builds the attempt of a claimed run, from the facts that were read with the claim. `fail` ends a
    run whose attempt raised, and wakes its watchers. `left` is called for each attempt that is over.
    """

    def __init__(
        self,
        make: Callable[[Run, FactsAhead | None], ActiveAttempt],
        fail: Callable[[Run], Awaitable[None]],
        left: Callable[[ActiveAttempt], None],
    ) -> None:
        self._make = make
        self._fail = fail
        self._on_left = left
        self._active: dict[str, ActiveAttempt] = {}
        """The newest attempt here, by run."""
        self._tasks: dict[ActiveAttempt, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._active)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._active

    def find(self, run_id: str) -> ActiveAttempt | None:
        """Return the newest attempt of a run here, or None if there is none."""
        return self._active.get(run_id)

    def launch(self, run: Run, ahead: FactsAhead | None = None) -> None:
        """Execute the claimed attempt of a run, once the previous one has left."""
        before = self._active.get(run.run_id)
        attempt = self._active[run.run_id] = self._make(run, ahead)
        task = asyncio.create_task(self._carry(attempt, before), name=f"run {run.run_id}")
        self._tasks[attempt] = task

    async def _carry(self, attempt: ActiveAttempt, before: ActiveAttempt | None) -> None:
        run = attempt.run
        try:
            if before is not None:
                await self._wait_for(before, f"attempt {run.attempt} of the run has begun")
            if run.cancel_reason is not None:
                attempt.cancel(run.cancel_reason, grace_of(run))
            await attempt.execute()
        except (CommitUnknownError, KeyMissingError) as error:  # no fault of the run
            log.error("run %s: %s; the next search for lost runs settles it", run.run_id, error)
        except Exception:
            # The top of a run's worker: the log has the traceback, and the run gets an ending.
            log.exception("run %s: the host failed to carry it through", run.run_id)
            await self._abandon(run)
        finally:
            if self._active.get(run.run_id) is attempt:
                del self._active[run.run_id]
            del self._tasks[attempt]
            self._on_left(attempt)

    async def _wait_for(self, before: ActiveAttempt, why: str) -> None:
        """Fence the previous attempt of a run, and wait until it has left."""
        before.fence(why)
        while (task := self._tasks.get(before)) is not None:
            _, left = await asyncio.wait([task], timeout=LEAVE_SECONDS)
            if left:
                log.error("run %s: its attempt %d does not leave", before.run.run_id, before.run.attempt)
                task.cancel()

    async def _abandon(self, run: Run) -> None:
        try:
            await self._fail(run)
        except HostlerError as error:
            log.error("run %s: not settled now (%s); the next search for lost runs does", run.run_id, error)

    async def end_all(self, why: str) -> list[str]:
        """End all attempts at once without writing anything. Return their runs once all have left."""
        ended = list(self._tasks)
        for attempt in ended:
            attempt.fence(why)
        while self._tasks:
            await self._settle(LEAVE_SECONDS)
            for attempt, task in list(self._tasks.items()):
                log.error("run %s: its attempt does not leave; it is cancelled", attempt.run.run_id)
                task.cancel()
        return [attempt.run.run_id for attempt in ended]

    async def stop(self, grace_seconds: float) -> None:
        """Let runs finish for a while, then hand over what is left."""
        await self._settle(grace_seconds)
        for attempt in list(self._active.values()):
            attempt.hand_over("the host was stopped before the run ended")
        await self._settle(HAND_OVER_SECONDS)
        for task in list(self._tasks.values()):
            task.cancel()  # the database does not answer: the next start of the host settles them
        await self._settle(None)

    async def _settle(self, seconds: float | None) -> None:
        while self._tasks:
            _, left = await asyncio.wait(list(self._tasks.values()), timeout=seconds)
            if left and seconds is not None:
                return


def grace_of(run: Run) -> float | None:
    """Return the grace of a cancelled run in seconds; None: the host's default."""
    return None if run.cancel_grace is None else run.cancel_grace / 1000
