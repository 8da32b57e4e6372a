"""Wrap a transport of the SDK: limit unsolicited messages, and report the end of the connection."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.client import Transport
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

from hostler.tools.mcp.flood import FloodError, Intake
from hostler.tools.mcp.limits import McpLimits

Incoming = SessionMessage | Exception


class _Sending:
    """The sending side of a transport; counts requests, and so the expected responses."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.pending = 0

    async def send(self, item: SessionMessage, /) -> None:
        if isinstance(item.message, JSONRPCRequest):
            self.pending += 1
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *failure: Any) -> bool | None:
        suppress: bool | None = await self._inner.__aexit__(*failure)
        return suppress

    def expects(self, item: Incoming) -> bool:
        """Whether an item is one of the expected responses."""
        if isinstance(item, Exception) or not isinstance(item.message, JSONRPCResponse | JSONRPCError):
            return False
        self.pending -= 1
        return self.pending >= 0


@asynccontextmanager
async def guarded(
    transport: Transport, limits: McpLimits, ended: Callable[[str | None], None]
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[Incoming], _Sending]]:
    """Yield the transport within limits. `ended` is called with the reason of its end (None: the server)."""
    to_session, from_server = anyio.create_memory_object_stream[Incoming](0)
    intake = Intake(limits, time.monotonic())

    async def pump(read: Any, write: _Sending) -> None:
        reason: str | None = None
        async with to_session:
            try:
                async for item in read:
                    if write.expects(item) or intake.takes(time.monotonic()):
                        await to_session.send(item)
            except FloodError as error:
                reason = str(error)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                pass
        ended(reason)

    inner: AbstractAsyncContextManager[Any] = transport
    async with inner as (read, write):
        sending = _Sending(write)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pump, read, sending)
            try:
                yield from_server, sending
            finally:
                tasks.cancel_scope.cancel()
                from_server.close()
