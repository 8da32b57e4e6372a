"""The response of a route that streams a run's results."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hostler.http.asgi import Receive, Scope, Send
from hostler.http.responses import Headers

if TYPE_CHECKING:
    from hostler.journal.feed import StoredResult

Batches = AsyncIterator[list["StoredResult"]]
Watch = Callable[[int], Batches]
"""Sequence -> the results after it, in order, up to the terminal one."""


@dataclass(frozen=True, slots=True)
class EventStream:
    """A run's results after the sequence `after`.

    `opening`: an iterator over them that was started already.
    """

    serve: Callable[[EventStream, Scope, Receive, Send], Awaitable[int]]
    """`Streams.serve` of the server."""
    run_id: str
    watch: Watch
    after: int = 0
    headers: Headers = field(default_factory=list)
    opening: Batches | None = None
    while_valid: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Raises a HostlerError in its block when the stream has to end, since its reader's key has."""

    async def send(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Send the stream; return its status."""
        return await self.serve(self, scope, receive, send)
