"""An event loop in simulated time, shared by processes that can be killed and frozen.

Callbacks of one process run in the order in which asyncio promises to run them. Time stands still while
anything can run; then it moves to the next timer. Processes meet only through what takes time (messages,
jobs of a database), so all that a seed decides is how long each of those takes: the number of callbacks that
a version of asyncio needs for the same work changes nothing.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

MAX_CALLBACKS_PER_INSTANT = 20_000
"""A process that still has something to do is taken to wait for the clock, which then moves."""
STEP_SECONDS = 0.001
"""How far the clock moves for a process that never waits."""
THREAD_RETRY_SECONDS = 0.01
"""How soon a thread that had to wait is tried again."""

_process: ContextVar[SimulatedProcess] = ContextVar("hostler_simulated_process")


class NothingLeftError(Exception):
    """Something waits, and nothing can happen any more."""


class MustWaitError(BaseException):
    """A thread would wait here for another process, which needs the world's only thread to go on.

    A function in a simulated thread is tried again, from its beginning. No `except Exception` of it may take
    this for an error of its work.
    """


@dataclass(eq=False, slots=True)
class Clock:
    """The wall clock of one machine; its processes share it. `ahead`: seconds that it is wrong by."""

    ahead: float = 0.0


class SimulatedProcess:
    """What one process of an operating system is to the loop: callbacks that live and die together.

    Its tasks are never closed when it is killed: no `finally` and no `except` of it runs.
    """

    def __init__(self, loop: SimulatedLoop, name: str, clock: Clock | None = None) -> None:
        self.name = name
        self.loop = loop
        self.clock = Clock() if clock is None else clock
        self.alive = True
        self.frozen = False
        self.after_callback: Callable[[], None] | None = None
        """Called after each of its callbacks, which end where its code awaits something."""
        self.waits = False
        """Whether it is in the queue of those that may run."""
        self.at_death: list[Callable[[], None]] = []
        """Called once when it is killed or has exited: what its operating system does for it."""
        self.ready: deque[_Handle | _TimerHandle] = deque()
        self.tasks: set[asyncio.Task[Any]] = set()
        self._context = Context()
        self._context.run(_process.set, self)

    def context(self) -> Context:
        """Return a context in which callbacks belong to this process."""
        return self._context.copy()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task of this process. It belongs to a dead process from the start if this one is dead."""
        return self._context.copy().run(self.loop.create_task, work)

    def kill(self) -> None:
        """End it at once: nothing of it runs any more."""
        if self.alive:
            self.alive = False
            self.ready.clear()
            dying, self.at_death = self.at_death, []
            for last in dying:
                last()

    def freeze(self) -> None:
        """Stop it, like SIGSTOP: what happens for it waits."""
        self.frozen = True

    def thaw(self) -> None:
        """Let it go on."""
        self.frozen = False
        self.loop.may_run(self)


def current_process() -> SimulatedProcess | None:
    """Return the process whose code is running; None outside of all."""
    return _process.get(None)


class _Handle(asyncio.Handle):
    """A handle that knows its process. It sets its fields itself, since lives make millions of them."""

    __slots__ = ("process",)

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: SimulatedLoop,
        context: Context,
        process: SimulatedProcess,
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False
        self._repr = self._source_traceback = None
        self.process = process


class _TimerHandle(asyncio.TimerHandle):
    """The same for a moment in time."""

    __slots__ = ("process",)

    def __init__(  # noqa: PLR0917  as asyncio's, which lives call just as often
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: SimulatedLoop,
        context: Context,
        process: SimulatedProcess,
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = self._scheduled = False
        self._repr = self._source_traceback = None
        self._when = when
        self.process = process


class SimulatedLoop(asyncio.BaseEventLoop):
    """The loop. Threads, sockets and child processes do not exist in it; `thread_seconds` says how long what
    is handed to a thread takes."""

    def __init__(self, thread_seconds: Callable[[SimulatedProcess], float]) -> None:
        super().__init__()
        self.callbacks = 0
        """Run so far."""
        self.errors: list[dict[str, Any]] = []
        """What no code handled: contexts of asyncio's exception handler."""
        self._now = 0.0
        self._timers: list[tuple[float, int, _TimerHandle]] = []
        self._numbers = itertools.count()
        self._runnable: deque[SimulatedProcess] = deque()
        self._thread_seconds = thread_seconds
        self.outside = SimulatedProcess(self, "outside")
        self.set_exception_handler(lambda _, context: self.errors.append(context))

    # -- time and order ---------------------------------------------------------------------------

    def time(self) -> float:
        """Return the simulated seconds since the world began."""
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """See asyncio."""
        if context is None:
            context = contextvars.copy_context()
        process = context.get(_process, self.outside)
        handle = _Handle(callback, args, self, context, process)
        if process.alive:
            process.ready.append(handle)
            if not process.waits and not process.frozen:
                process.waits = True
                self._runnable.append(process)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        if context is None:
            context = contextvars.copy_context()
        handle = _TimerHandle(when, callback, args, self, context, context.get(_process, self.outside))
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        if context is None:
            context = contextvars.copy_context()
        when = self._now + delay
        handle = _TimerHandle(when, callback, args, self, context, context.get(_process, self.outside))
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def create_task(self, coro: Any, **more: Any) -> asyncio.Task[Any]:
        """See asyncio."""
        task: asyncio.Task[Any] = super().create_task(coro, **more)
        tasks = _process.get(self.outside).tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    def may_run(self, process: SimulatedProcess) -> None:
        """Run what a process has to do, unless it is frozen."""
        if process.ready and not process.frozen and not process.waits:
            process.waits = True
            self._runnable.append(process)

    def _run_once(self) -> None:
        """Run until something asks the loop to stop: asyncio's own loop around it does nothing in between."""
        runnable = self._runnable
        while True:
            if not runnable:
                self._advance()
            for _ in range(len(runnable)):
                process = runnable.popleft()
                process.waits = False
                self._run_process(process)
            if self._stopping:  # type: ignore[attr-defined]
                return

    def _run_process(self, process: SimulatedProcess) -> None:
        """Run what a process has to do at this instant."""
        ready = process.ready
        for _ in range(MAX_CALLBACKS_PER_INSTANT):
            if not ready or process.frozen or self._stopping:  # type: ignore[attr-defined]
                break
            handle = ready.popleft()
            if not handle._cancelled:
                self.callbacks += 1
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001  as asyncio does: its handler is called
                    self._failed(handle, error)
                if process.after_callback is not None:
                    process.after_callback()
        else:
            self._advance(self._now + STEP_SECONDS)
        self.may_run(process)

    def _failed(self, handle: asyncio.Handle, error: BaseException) -> None:
        message = f"Exception in callback {handle!r}"
        self.call_exception_handler({"message": message, "exception": error, "handle": handle})

    def _advance(self, limit: float = float("inf")) -> None:
        """Move the clock to the next timer, at most to `limit`, and make what is due ready."""
        timers, pop = self._timers, heapq.heappop
        while timers and (timers[0][2]._cancelled or not timers[0][2].process.alive):
            pop(timers)
        if not timers and limit == float("inf"):
            raise NothingLeftError
        due = min(limit, timers[0][0]) if timers else limit
        now = self._now = max(self._now, due)
        while timers and timers[0][0] <= now:
            handle = pop(timers)[2]
            process = handle.process
            if not handle._cancelled and process.alive:
                process.ready.append(handle)
                if not process.waits and not process.frozen:
                    process.waits = True
                    self._runnable.append(process)

    # -- threads ----------------------------------------------------------------------------------

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run a function after the time that a thread takes, if its process still lives."""
        future: asyncio.Future[T] = self.create_future()
        process = _process.get(self.outside)
        self.call_later(self._thread_seconds(process), self._work, future, func, args)
        return future

    # no closure that refers to itself: what a job returns would stay, since nothing collects cycles
    def _work(self, future: asyncio.Future[T], func: Callable[..., T], args: tuple[Any, ...]) -> None:
        try:
            value = func(*args)
        except MustWaitError:
            self.call_later(THREAD_RETRY_SECONDS, self._work, future, func, args)
        except BaseException as error:  # noqa: BLE001  raised at the caller
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(value)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("there are no sockets, pipes and processes in a simulated loop")

    getaddrinfo = create_connection = create_server = connect_read_pipe = connect_write_pipe = _refuse
    subprocess_exec = subprocess_shell = add_signal_handler = _refuse  # type: ignore[assignment]

    def _process_events(self, event_list: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass
