"""Calls of a plugin's tools on one connection: bounded, with a deadline and definite about unknown
outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hostler.domain.clock import wall_clock
from hostler.plugins.limits import ConnectionLimits
from hostler.plugins.pending_requests import PendingRequests
from hostler.tools.errors import OutcomeUnknownError, ToolFailedError
from hostler_protocol.errors import (
    CancelledCallError,
    DeadlineExceededError,
    HostlerError,
    PluginError,
    UnavailableError,
)
from hostler_protocol.frames import MessageId
from hostler_protocol.tools import ToolCancelNote, ToolFound, ToolInvokeParams, ToolLookupParams, ToolOutcome

Confirm = Callable[[], Awaitable[None]]


class PluginToolCalls:
    """Calls of tools on one connection. `notify` sends a notification if the connection is open."""

    def __init__(
        self,
        requests: PendingRequests,
        is_ready: Callable[[], bool],
        notify: Callable[[str, Any], None],
        limits: ConnectionLimits,
        clock: Callable[[], float] = wall_clock,
    ) -> None:
        self._requests = requests
        self._is_ready = is_ready
        self._notify = notify
        self._limits = limits
        self._clock = clock
        self._room = asyncio.Semaphore(limits.tool_calls)

    async def call(
        self, params: ToolInvokeParams, deadline: float | None = None, confirm: Confirm | None = None
    ) -> Any:
        """Return the tool's result. `deadline` in UTC epoch seconds; `confirm` is awaited right before
        sending.

        Raises ToolFailedError or OutcomeUnknownError; after any other error nothing was sent.
        """
        reply: ToolOutcome = await self._ask("tool/call", params.tool_name, params, deadline, confirm)
        return reply.result

    async def look_up(self, params: ToolLookupParams, deadline: float | None = None) -> ToolFound:
        """Return the tool's record of a call; after any error the outcome is unknown."""
        found: ToolFound = await self._ask("tool/lookup", params.tool_name, params, deadline, None)
        return found

    async def _ask(
        self, method: str, tool_name: str, params: Any, deadline: float | None, confirm: Confirm | None
    ) -> Any:
        try:
            async with asyncio.timeout(self._rest(deadline)):
                await self._room.acquire()
        except TimeoutError:
            raise DeadlineExceededError(f"the deadline passed before {tool_name} was called") from None
        try:
            if confirm is not None:
                self._check_ready(tool_name)
                await confirm()
            self._check_ready(tool_name)
            if deadline is not None and self._clock() >= deadline:
                raise DeadlineExceededError(f"the deadline passed before {tool_name} was called")
            id_, answer = self._requests.begin(method, params)
            try:
                await self._wait_for(id_, answer, self._rest(deadline))
            finally:
                self._requests.give_up(id_)
        finally:
            self._room.release()
        return _outcome(tool_name, answer)

    async def _wait_for(self, id_: MessageId, answer: asyncio.Future[Any], seconds: float | None) -> None:
        try:
            await asyncio.wait([answer], timeout=seconds)
        except asyncio.CancelledError:
            self._notify("tool/cancel", ToolCancelNote(id=id_))
            raise
        if not answer.done():
            # the tool is stopped, and may still report that it had finished
            self._notify("tool/cancel", ToolCancelNote(id=id_))
            await asyncio.wait([answer], timeout=self._limits.tool_cancel_seconds)

    def _rest(self, deadline: float | None) -> float | None:
        return None if deadline is None else max(0.0, deadline - self._clock())

    def _check_ready(self, tool_name: str) -> None:
        if not self._is_ready():
            raise UnavailableError(f"the plugin of {tool_name} is ending; nothing was called, try again")


def _outcome(tool_name: str, answer: asyncio.Future[Any]) -> Any:
    if not answer.done() or answer.cancelled():
        raise OutcomeUnknownError(f"{tool_name} did not answer by its deadline; it may have done its work")
    error = answer.exception()
    if error is None:
        return answer.result()
    if isinstance(error, CancelledCallError):
        raise OutcomeUnknownError(f"{tool_name} was stopped before it was finished") from error
    if isinstance(error, PluginError):
        text = f"the answer of {tool_name} was lost, it may have done its work: {error.message}"
        raise OutcomeUnknownError(text) from error
    if isinstance(error, HostlerError):
        raise ToolFailedError.of(error) from error
    raise error
