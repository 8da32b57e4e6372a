"""Carry out the host's calls of a plugin's tools: one task per call, answered exactly once."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from hostler_protocol.errors import (
    CancelledCallError,
    Fault,
    HostlerError,
    NotFoundError,
    PayloadTooLargeError,
    RemoteFaultError,
    from_fault,
)
from hostler_protocol.frames import MessageId, raw
from hostler_protocol.incoming import Called
from hostler_protocol.link import Link
from hostler_protocol.manifest import ToolList
from hostler_protocol.tools import ToolCallContext, ToolFound, ToolInvokeParams, ToolLookupParams, ToolOutcome
from hostler_sdk.errors import HostError, writable
from hostler_sdk.execution import MAX_ERROR_CHARS
from hostler_sdk.tools import Tool, ToolContext

MAX_TOOL_THREADS = 32
"""Plain functions that run at once, each in a thread; further calls wait for their turn."""

ENVELOPE_BYTES = 512
"""Room for the rest of the message around a result."""

logger = logging.getLogger("hostler_sdk")


class ServedToolCalls:
    """The tool calls of one connection. `ended` is called after each answer."""

    def __init__(
        self, tools: Mapping[str, Tool], link: Link, write: Callable[[bytes], None], ended: Callable[[], None]
    ) -> None:
        self._tools = {tool.name: tool for tool in tools.values()}
        self._link = link
        self._write = write
        self._ended = ended
        self._tasks: dict[MessageId, asyncio.Task[None]] = {}
        self._cancelled: set[MessageId] = set()
        self._threads = asyncio.Semaphore(MAX_TOOL_THREADS)

    def __len__(self) -> int:
        return len(self._tasks)

    def __bool__(self) -> bool:
        return bool(self._tools)

    def listed(self) -> ToolList:
        """Return the answer to `tools/list`."""
        return ToolList(tools=[raw(tool.manifest) for tool in self._tools.values()])

    def take(self, request: Called) -> asyncio.Task[None]:
        """Start a `tool/call` or `tool/lookup`. Raises NotFoundError for an unknown tool."""
        params: ToolInvokeParams | ToolLookupParams = request.params
        tool = self._tools.get(params.tool_name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            raise NotFoundError(f"there is no tool {params.tool_name!r} here; this plugin offers {known}")
        name = f"{request.method} {tool.name}"
        task = asyncio.get_running_loop().create_task(self._serve(request.id, tool, params), name=name)
        self._tasks[request.id] = task
        return task

    def cancel(self, id_: MessageId) -> None:
        """Cancel a call: stop its code. A plain function in a thread cannot be stopped, and goes on."""
        task = self._tasks.get(id_)
        if task is not None and id_ not in self._cancelled:
            self._cancelled.add(id_)
            # not before its first step: a task cancelled before it began would never answer
            asyncio.get_running_loop().call_soon(task.cancel)

    def close(self) -> None:
        """Cancel all calls: the host is gone."""
        for id_ in list(self._tasks):
            self.cancel(id_)

    async def _serve(self, id_: MessageId, tool: Tool, params: ToolInvokeParams | ToolLookupParams) -> None:
        try:
            answer = self._link.reply(id_, await self._answer(tool, params))
        except HostlerError as error:
            answer = self._link.refuse(id_, error)
        except HostError as error:
            answer = self._link.refuse(id_, from_fault(error.fault()))
        except asyncio.CancelledError:
            stopped = "the call was cancelled" if id_ in self._cancelled else "the tool cancelled itself"
            kind = CancelledCallError if id_ in self._cancelled else HostlerError
            answer = self._link.refuse(id_, kind(stopped))
        except (Exception, SystemExit) as error:  # the top of a worker: it becomes the answer
            logger.error("tool %s failed", tool.name, exc_info=error)
            answer = self._link.refuse(id_, _failure_of(error))
        self._tasks.pop(id_, None)
        self._cancelled.discard(id_)
        self._write(answer)
        self._ended()

    async def _answer(self, tool: Tool, params: ToolInvokeParams | ToolLookupParams) -> msgspec.Raw:
        if isinstance(params, ToolLookupParams):
            found = await self._run(tool.lookup_function, {"effect_key": params.effect_key}, by_name=False)
            answer: Any = ToolFound(found=found is not None, result=tool.json_result(found))
        else:
            arguments = tool.arguments_of(params.parameters, _context_of(params.context))
            answer = ToolOutcome(result=tool.json_result(await self._run(tool.function, arguments)))
        encoded = raw(answer)
        size, limit = len(bytes(encoded)) + ENVELOPE_BYTES, self._link.limits.max_message_bytes
        if size > limit:
            raise PayloadTooLargeError(
                f"the result of {tool.name} has {size:,} bytes; at most {limit:,} fit into a message: "
                "put larger content into an artifact",
                limit_bytes=limit,
            )
        return encoded

    async def _run(
        self, function: Callable[..., Any], named: Mapping[str, Any], *, by_name: bool = True
    ) -> Any:
        def call() -> Any:
            return function(**named) if by_name else function(*named.values())

        if inspect.iscoroutinefunction(function):
            return await call()
        async with self._threads:
            outcome = await _in_thread(call)
        return await outcome if inspect.isawaitable(outcome) else outcome


def _context_of(given: ToolCallContext) -> ToolContext:
    return ToolContext(
        run_id=given.run_id,
        call_id=given.call_id,
        effect_key=given.effect_key,
        workspace_id=given.workspace_id,
        actor=given.actor,
        deadline=given.deadline,
    )


def _failure_of(error: BaseException) -> HostlerError:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return RemoteFaultError(Fault(code="runtime_error", message=writable(text[:MAX_ERROR_CHARS])))


async def _in_thread(call: Callable[[], Any]) -> Any:
    """Call in a daemon thread, which cannot keep the process alive, and wait for the end of the call."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)

    def work() -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            result = context.run(call)
        except StopIteration as error:  # a future cannot hold it
            failure = RuntimeError(f"StopIteration: {error}")
        except BaseException as error:  # noqa: BLE001 - raised in the task that waits
            failure = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, daemon=True, name="hostler tool").start()
    while True:
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            if outcome.done():
                return outcome.result()
