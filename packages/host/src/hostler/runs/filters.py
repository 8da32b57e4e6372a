"""Evaluation of filters off the loop, bounded in processor time, memory and number.

A thread cannot be stopped, and the expression engine holds the interpreter's lock: a filter that takes a
second would stop the whole host for a second. So filters run in a few small processes that end themselves
when a filter takes too long, and are started when they are first needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from hostler.domain.bindings import FilterOutcome
from hostler.domain.events import Event
from hostler.runs.filter_worker import CPU_SECONDS, READY
from hostler_protocol.errors import UnavailableError

log = logging.getLogger(__name__)
PROCESSES = 2
MAX_WAITING = 1_000
"""Events that wait for a process; more are refused as `UnavailableError`, to be sent again."""
START_SECONDS = 60.0
"""The longest start of a process: a first start compiles all that it imports."""
END_SECONDS = 1.0
"""The longest time that a process may take to exit; then it is killed."""
ANSWER_SECONDS = 30.0
"""The longest wait for the answer of one filter; the limit of its processor time ends it long before."""
WORKER = (sys.executable, "-m", "hostler.runs.filter_worker")
_encoder = msgspec.json.Encoder()
_outcome = msgspec.json.Decoder(FilterOutcome)


class FilterProcessError(Exception):
    """A process that evaluates filters cannot be started."""


@dataclass(slots=True, eq=False)
class _Worker:
    process: asyncio.subprocess.Process
    evaluated: int = 0
    """Filters that it has evaluated."""

    @property
    def is_alive(self) -> bool:
        return self.process.returncode is None


class FilterProcesses:
    """A pool of processes that evaluate filters, and the events that wait for one."""

    def __init__(self, processes: int = PROCESSES, *, worker: Sequence[str] = WORKER) -> None:
        """`worker`: the command of one process."""
        self._command = tuple(worker)
        self._free = asyncio.Semaphore(processes)
        self._idle: list[_Worker] = []
        self._waiting = 0
        self._closed = False

    async def evaluate(self, event: Event, filters: Sequence[str]) -> dict[str, FilterOutcome]:
        """Evaluate filters for an event; a filter that took too long, or had no process, is unknown.

        UnavailableError if MAX_WAITING events wait already.
        """
        if self._waiting >= MAX_WAITING or self._closed:
            raise UnavailableError("too many events wait for their filters; send it again shortly")
        view = msgspec.Raw(_encoder.encode(event.envelope))
        self._waiting += 1
        try:
            async with self._free:
                return await self._ask_all(view, filters)
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """End the processes."""
        self._closed = True
        idle, self._idle = self._idle, []
        for worker in idle:
            await _ended(worker.process)

    async def _ask_all(self, view: msgspec.Raw, filters: Sequence[str]) -> dict[str, FilterOutcome]:
        """Evaluate filters in one process; if one of them kills it, a new process goes on with the next."""
        outcomes: dict[str, FilterOutcome] = {}
        while len(outcomes) < len(filters):
            rest = filters[len(outcomes) :]
            try:
                worker = await self._worker()
            except FilterProcessError as error:
                return outcomes | dict.fromkeys(rest, FilterOutcome.not_evaluated(str(error)))
            used_before = worker.evaluated > 0
            answered, status = await self._ask(worker, view, rest)
            outcomes.update(zip(rest, answered, strict=False))
            if status is None:
                continue
            if used_before and not answered and status != -signal.SIGPROF:
                continue  # it died before this event: another process is asked
            outcomes[rest[len(answered)]] = FilterOutcome.not_evaluated(_reason(status))
        return outcomes

    async def _ask(
        self, worker: _Worker, view: msgspec.Raw, filters: Sequence[str]
    ) -> tuple[list[FilterOutcome], int | None]:
        """Return the outcomes of a process, and its exit status: None if it is idle again."""
        job = _encoder.encode({"event": view, "filters": filters})
        answered: list[FilterOutcome] = []
        status = None
        try:
            await _ask(worker.process, job, len(filters), answered)
        finally:
            worker.evaluated += len(answered)
            if len(answered) == len(filters) and not self._closed:
                self._idle.append(worker)
            else:
                status = await _ended(worker.process)
        return answered, None if len(answered) == len(filters) else status

    async def _worker(self) -> _Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive:
                return worker
            log.warning("a process that evaluates filters ended with status %s", worker.process.returncode)
        return _Worker(await _started(self._command))


async def _started(command: Sequence[str]) -> asyncio.subprocess.Process:
    """Return a process that is ready. Raises FilterProcessError."""
    # nothing of the host's environment but where the worker's modules are
    environment = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "LC_ALL": "C.UTF-8"}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise FilterProcessError(f"no process could be started to evaluate it: {error}") from error
    said = b""
    try:
        if process.stdout is not None:
            said = await asyncio.wait_for(process.stdout.readline(), START_SECONDS)
    except TimeoutError:
        pass
    except asyncio.CancelledError:
        await _ended(process)
        raise
    if said != READY:
        status = await _ended(process)
        raise FilterProcessError(f"the process that was to evaluate it did not start (status {status})")
    return process


async def _ask(
    process: asyncio.subprocess.Process, job: bytes, count: int, answered: list[FilterOutcome]
) -> None:
    """Write one job and append the outcomes as they come; fewer than `count`: the process ended."""
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("a filter process has no pipes")
    try:
        process.stdin.write(job + b"\n")
        with contextlib.suppress(ConnectionError):  # a later filter killed it: earlier outcomes count
            await asyncio.wait_for(process.stdin.drain(), ANSWER_SECONDS)
        while len(answered) < count:
            line = await asyncio.wait_for(process.stdout.readline(), ANSWER_SECONDS)
            if not line.endswith(b"\n"):
                return
            answered.append(_outcome.decode(line))
    except (ConnectionError, TimeoutError):
        return  # the caller ends the process and logs its status


async def _ended(process: asyncio.subprocess.Process) -> int:
    """End a process that is idle or unusable; return its exit status, negative for a signal."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        # One that died by itself must be waited for before it is sent anything: on Python 3.11 sending a
        # signal may collect its status before the event loop does, and then nobody learns of it.
        return await asyncio.wait_for(process.wait(), END_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return await process.wait()


def _reason(status: int) -> str:
    if status == -signal.SIGPROF:
        return f"the filter takes more than {CPU_SECONDS} s of processor time for this event"
    if status == -signal.SIGKILL:
        return "the filter gave no answer in time"
    return f"the filter needs too much memory, or breaks its evaluator (status {status})"
