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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from hostler.domain.bindings import FilterOutcome
from hostler.domain.events import Event
from hostler.domain.filters import ValueOutcome
from hostler.domain.record import Record
from hostler.runs.filter_worker import CPU_SECONDS, MAX_VALUE_BYTES, READY
from hostler_protocol.errors import UnavailableError

T = TypeVar("T")

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
_value = msgspec.json.Decoder(ValueOutcome)
_WAITING = "too many events wait for their filters; send it again shortly"


class _Job(Record, Generic[T]):
    """What a process is asked of some texts, and how its answers are read."""

    encode: Callable[[Sequence[str]], bytes]
    decode: Callable[[bytes], T]
    not_evaluated: Callable[[str], T]


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
        view = msgspec.Raw(_encoder.encode(event.envelope))
        return await self._in_turn(lambda: self._evaluate(view, filters))

    async def values(self, names: Mapping[str, Any], expressions: Sequence[str]) -> dict[str, ValueOutcome]:
        """Return the values of expressions over these names; one that took too long is unknown.

        UnavailableError if MAX_WAITING events wait already.
        """
        view = msgspec.Raw(_encoder.encode(names))
        return await self._in_turn(lambda: self._values(view, list(dict.fromkeys(expressions))))

    async def _in_turn(self, work: Callable[[], Awaitable[T]]) -> T:
        if self._waiting >= MAX_WAITING or self._closed:
            raise UnavailableError(_WAITING)
        self._waiting += 1
        try:
            async with self._free:
                return await work()
        finally:
            self._waiting -= 1

    async def _evaluate(self, view: msgspec.Raw, filters: Sequence[str]) -> dict[str, FilterOutcome]:
        job = _Job(
            lambda texts: _encoder.encode({"event": view, "filters": texts}),
            _outcome.decode,
            FilterOutcome.not_evaluated,
        )
        return await self._ask_all(job, filters)

    async def _values(self, view: msgspec.Raw, expressions: Sequence[str]) -> dict[str, ValueOutcome]:
        job = _Job(
            lambda texts: _encoder.encode({"names": view, "expressions": texts}),
            _value.decode,
            ValueOutcome.not_evaluated,
        )
        return await self._ask_all(job, expressions)

    async def close(self) -> None:
        """End the processes."""
        self._closed = True
        idle, self._idle = self._idle, []
        for worker in idle:
            await _ended(worker.process)

    async def _ask_all(self, job: _Job[T], filters: Sequence[str]) -> dict[str, T]:
        """Evaluate filters in one process; if one of them kills it, a new process goes on with the next."""
        outcomes: dict[str, T] = {}
        while len(outcomes) < len(filters):
            rest = filters[len(outcomes) :]
            try:
                worker = await self._worker()
            except FilterProcessError as error:
                return outcomes | dict.fromkeys(rest, job.not_evaluated(str(error)))
            used_before = worker.evaluated > 0
            answered, status = await self._ask(worker, job, rest)
            outcomes.update(zip(rest, answered, strict=False))
            if status is None:
                continue
            if used_before and not answered and status != -signal.SIGPROF:
                continue  # it died before this event: another process is asked
            outcomes[rest[len(answered)]] = job.not_evaluated(_reason(status))
        return outcomes

    async def _ask(self, worker: _Worker, job: _Job[T], filters: Sequence[str]) -> tuple[list[T], int | None]:
        """Return the outcomes of a process, and its exit status: None if it is idle again."""
        answered: list[T] = []
        status = None
        try:
            await _ask(worker.process, job, filters, answered)
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
            limit=MAX_VALUE_BYTES + 1,
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
    process: asyncio.subprocess.Process, job: _Job[T], texts: Sequence[str], answered: list[T]
) -> None:
    """Write one job and append the outcomes as they come; fewer than its texts: the process ended."""
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("a filter process has no pipes")
    try:
        process.stdin.write(job.encode(texts) + b"\n")
        with contextlib.suppress(ConnectionError):  # a later filter killed it: earlier outcomes count
            await asyncio.wait_for(process.stdin.drain(), ANSWER_SECONDS)
        while len(answered) < len(texts):
            line = await asyncio.wait_for(process.stdout.readline(), ANSWER_SECONDS)
            if not line.endswith(b"\n"):
                return
            answered.append(job.decode(line))
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
