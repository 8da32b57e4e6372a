"""The supervisor of all background work of a host: it logs, counts and restarts workers that fail.

A worker is a coroutine function that runs until the host stops. It gets a function to call after each round
that succeeded. It handles the errors that it expects; any other one ends it and is logged with its traceback,
and the worker starts again after a back-off that grows with its consecutive failures.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from hostler.domain.breaker import MAX_BACK_OFF_SECONDS, restart_wait
from hostler.domain.clock import monotonic_clock
from hostler.secrets.known_values import redact

log = logging.getLogger(__name__)

FAILING_AFTER = 3
"""Consecutive failures after which a worker is reported: restarts do not help it."""
STOP_SECONDS = 10.0
"""How long a cancelled worker may take to end; a slower one is abandoned and logged."""

Work: TypeAlias = Callable[[Callable[[], None]], Coroutine[Any, Any, None]]
"""A worker. Its argument `succeeded` is to be called after each successful round."""


@dataclass(slots=True)
class Worker:
    """The state of one worker, for metrics and operators."""

    name: str
    running: bool = True
    """False while it waits for its next start, and once it has ended."""
    failures: int = 0
    """Since the host started."""
    failures_in_a_row: int = 0
    """Since a round succeeded."""
    error: str = ""
    """The last failure; "" if there was none since a round succeeded."""
    retry_at: float | None = None
    """When it starts again, by the clock of `Workers`; None while it runs."""

    @property
    def failing(self) -> bool:
        """Whether it keeps failing."""
        return self.failures_in_a_row >= FAILING_AFTER

    def succeeded(self) -> None:
        """Record a successful round."""
        self.failures_in_a_row = 0
        self.error = ""


class Workers:
    """All workers of a host. `clock` is monotonic; `back_off`: consecutive failures -> seconds to wait."""

    def __init__(
        self, *, clock: Callable[[], float] = monotonic_clock, back_off: Callable[[int], float] = restart_wait
    ) -> None:
        self._clock = clock
        self._back_off = back_off
        self._workers: dict[str, Worker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, work: Work, *, longest_wait: float = MAX_BACK_OFF_SECONDS) -> None:
        """Start a worker; `longest_wait` bounds its back-off (seconds). ValueError for a name in use."""
        if name in self._workers:
            raise ValueError(f"there is a worker {name!r} already")
        worker = self._workers[name] = Worker(name)
        self._tasks[name] = asyncio.get_running_loop().create_task(
            self._keep(worker, work, longest_wait), name=name
        )

    def all(self) -> list[Worker]:
        """Return all workers, in the order of their start."""
        return list(self._workers.values())

    def failing(self) -> list[Worker]:
        """Return the workers that keep failing."""
        return [worker for worker in self._workers.values() if worker.failing]

    def end(self, name: str, seconds: float = STOP_SECONDS) -> Awaitable[None]:
        """Cancel a worker, if there is one, and forget it: its name is free at once.

        The result waits until it has ended, at most `seconds`.
        """
        self._workers.pop(name, None)
        task = self._tasks.pop(name, None)
        if task is None:
            return _wait([], seconds)
        task.cancel()
        return _wait([task], seconds)

    async def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Cancel all workers and wait until they have ended, at most `seconds`."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await _wait(tasks, seconds)

    async def _keep(self, worker: Worker, work: Work, longest_wait: float) -> None:
        this = asyncio.current_task()
        try:
            while True:
                try:
                    await work(worker.succeeded)
                    return
                except asyncio.CancelledError as error:
                    if this is not None and this.cancelling():
                        raise
                    failure: BaseException = error  # this worker was not cancelled by `stop`
                except Exception as error:  # noqa: BLE001  the top of every worker: recorded below
                    failure = error
                await asyncio.sleep(self._failed(worker, failure, longest_wait))
                worker.running, worker.retry_at = True, None
        finally:
            worker.running = False

    def _failed(self, worker: Worker, failure: BaseException, longest_wait: float) -> float:
        worker.failures += 1
        worker.failures_in_a_row += 1
        worker.error = redact(f"{type(failure).__name__}: {failure}")[:300]
        wait = min(self._back_off(worker.failures_in_a_row), longest_wait)
        worker.running, worker.retry_at = False, self._clock() + wait
        log.error(
            "the worker %s failed, %d times in a row; it starts again in %g s",
            worker.name,
            worker.failures_in_a_row,
            wait,
            exc_info=failure,
        )
        return wait


async def _wait(tasks: list[asyncio.Task[None]], seconds: float) -> None:
    if tasks:
        _, left = await asyncio.wait(tasks, timeout=seconds)
        for task in left:
            log.error("the worker %s does not end; it is abandoned", task.get_name())
