"""One attempt of one run: runs the runner's code and sends its results."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Generator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

from hostler_protocol.json_values import fields_problem
from hostler_protocol.limits import MAX_LOG_CHARS
from hostler_protocol.methods import RunAheadNote, RunStartParams
from hostler_sdk.context import RunContext
from hostler_sdk.errors import Cancelled, HostError, InvalidArgument, writable
from hostler_sdk.host_calls import CallInFlight, CallTable, RunCalls
from hostler_sdk.outflow import Outflow, Wire
from hostler_sdk.results import Result, failed, log, message, without_reasoning
from hostler_sdk.runner import Runner

if TYPE_CHECKING:  # few runs ask for it
    from hostler_sdk.model_door.door import ModelDoor
    from hostler_sdk.model_door.run_door import RunDoor

MAX_ERROR_CHARS = 4_000
"""Text of an exception in `run.failed`; the log entry before it has the whole text."""
RESULTS_PER_TURN = 32
"""Results that one run sends before other tasks of the loop get their turn, so that a ping is answered."""


class Connection(Wire, Protocol):
    """The connection, as an execution uses it."""

    @property
    def calls(self) -> CallTable:
        """The Host API calls of all runs."""
        ...

    async def turn(self) -> None:
        """Let other tasks run, and wait while the host does not read."""
        ...

    @property
    def takes_reasoning(self) -> bool:
        """Whether the host takes `reasoning` of messages."""
        ...

    @property
    def model_door(self) -> ModelDoor:
        """The model door of this connection."""
        ...


class _Sent:
    """Returned by `post`. Awaiting it waits until every result posted before is sent."""

    __slots__ = ("_outflow",)

    def __init__(self, outflow: Outflow) -> None:
        self._outflow = outflow

    def __await__(self) -> Generator[Any, None, None]:
        return self._outflow.settle().__await__()


class RunExecution:
    """One attempt of one run. It is the run's `Emitter` and its `HostCalls`."""

    def __init__(self, runner: Runner, start: RunStartParams, connection: Connection) -> None:
        self.run_id = start.context.run_id
        self.attempt = start.context.attempt
        self.cancelled = False
        self.fenced = False
        """Nothing of this attempt may reach the host any more."""
        self._runner = runner
        self._given = start.context
        self._connection = connection
        self._outflow = Outflow(self.run_id, connection)
        self._calls = RunCalls()
        self._since_turn = 0
        self._door: tuple[ModelDoor, RunDoor] | None = None
        self.task: asyncio.Task[None] | None = None

    # -- called by the connection ----------------------------------------------------------------

    def cancel(self) -> None:
        """Cancel the runner's code: the host cancelled the run. The runner may still clean up."""
        self.cancelled = True
        if self.task is not None:
            self.task.cancel()

    def fence(self) -> None:
        """Stop the runner and send nothing more: the attempt is over for the host."""
        self.cancelled = True
        for call in self._calls.open:
            call.fenced = True
        self.close()
        if self.task is not None:
            self.task.cancel()

    def close(self) -> None:
        """Send neither results nor calls any more."""
        self.fenced = True
        if self._door is not None:
            door, own = self._door
            door.shut(own)
        self._outflow.close()
        self._calls.ahead.clear()
        for call in list(self._calls.open):
            call.settle(error=Cancelled("this attempt of the run is over"))

    def credited(self) -> None:
        """Send queued results: the host gave credit."""
        self._outflow.pump()

    def answered_ahead(self, note: RunAheadNote) -> None:
        """Keep answers for calls that the runner has not made yet."""
        self._calls.ahead.add(note)

    # -- called by the runner's context ----------------------------------------------------------

    async def emit(self, result: Result) -> None:
        """Send a result. Waits for credit, and while the host does not read."""
        self.post(result)
        if self._outflow.waiting:
            await self._outflow.settle()
        self._since_turn += 1
        if self._since_turn >= RESULTS_PER_TURN:
            self._since_turn = 0
            await self._connection.turn()

    def post(self, result: Result) -> Awaitable[None]:
        """Send or queue a result without waiting."""
        if not isinstance(result, Result):
            raise TypeError(_not_a_result("was given", result))
        sent = result if self._connection.takes_reasoning else without_reasoning(result)
        if sent is not None:
            self._outflow.post(sent)
        return _Sent(self._outflow)

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        """Make a Host API call in the name of this run."""
        return await self._connection.calls.call(method, self._named(method, params), self._calls)

    def stream(self, method: str, params: dict[str, Any]) -> AbstractAsyncContextManager[CallInFlight]:
        """Make a streaming Host API call in the name of this run."""
        return self._connection.calls.stream(method, self._named(method, params), self._calls)

    def open_door(self) -> tuple[ModelDoor, RunDoor]:
        """Return the model door, and that of this run; it is opened when it is first asked for."""
        if self.fenced:
            raise Cancelled("this attempt of the run is over, and its model door is shut")
        if self._door is None:
            door = self._connection.model_door
            self._door = door, door.open(self._given, self)
        return self._door

    def _named(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self.fenced:
            raise Cancelled(f"{method}: this attempt of the run is over")
        problem = fields_problem(params)
        if problem is not None:
            raise InvalidArgument(f"{method}: {problem}")
        return {**params, "run_id": self.run_id}

    # -- the attempt -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the runner to its end. Never raises: an exception becomes `run.failed`."""
        try:
            await self._drive(RunContext(self._given, self, self, self.open_door))
        except asyncio.CancelledError:
            if not self.cancelled:
                self._end_with([failed("cancelled", "the runner cancelled itself")])
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the top of a worker: recorded as a result
            trace, ending = _results_of(error)
            # the host decides how a cancelled run ends; an error in its clean-up is still logged
            self._end_with([trace] if self.cancelled else [trace, ending])
        await self._send_the_rest()

    async def _drive(self, ctx: RunContext) -> None:
        outcome: Any = self._runner.run(ctx)
        if isinstance(outcome, AsyncIterable):
            await self._forward(outcome.__aiter__())
        elif isinstance(outcome, Awaitable):
            value = await outcome
            if isinstance(value, str):
                await self.emit(message(value))
            elif isinstance(value, Result):
                await self.emit(value)
            elif value is not None:
                raise TypeError(_not_a_result("returned", value))
        else:
            raise TypeError(
                f"{type(self._runner).__name__}.run must be an async generator (async def with yield) or a "
                f"coroutine (async def), but it gave {type(outcome).__name__}"
            )

    async def _forward(self, items: AsyncIterator[Any]) -> None:
        try:
            async for item in items:
                if not isinstance(item, Result):
                    raise TypeError(_not_a_result("yielded", item))
                await self.emit(item)
        finally:
            if isinstance(items, AsyncGenerator):
                await items.aclose()

    def _end_with(self, results: list[Result]) -> None:
        if not self.fenced:
            for result in results:
                self._outflow.post(result, bounded=False)

    async def _send_the_rest(self) -> None:
        """Wait until queued results are sent. A cancelled run gets no credit: its queue is dropped."""
        if self.cancelled:
            return
        try:
            await self._outflow.settle()
        except (asyncio.CancelledError, Cancelled):
            return  # cancelled or fenced while it waited: the host has recorded both


def _not_a_result(verb: str, value: Any) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return (
        f"the runner {verb} {type(value).__name__} {shown}, which is not a result; "
        "use delta(text), message(text) or another function of hostler_sdk"
    )


def _results_of(error: BaseException) -> tuple[Result, Result]:
    trace = writable("".join(traceback.format_exception(error)))
    if len(trace) > MAX_LOG_CHARS:
        half = MAX_LOG_CHARS // 2 - 50
        trace = f"{trace[:half]}\n... {len(trace) - 2 * half:,} characters left out ...\n{trace[-half:]}"
    retryable = error.retryable if isinstance(error, HostError) else False
    return log(trace, "error"), failed("runner.error", writable(_sentence(error)), retryable)


def _sentence(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, BaseExceptionGroup):
        text += "; the first: " + _sentence(error.exceptions[0])
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[: MAX_ERROR_CHARS - 3]}..."
