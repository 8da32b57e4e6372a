"""The response of a route that streams a run's results, as they are or in a dialect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

import msgspec

from hostler.domain.record import Record
from hostler.http.asgi import Receive, Scope, Send
from hostler.http.responses import Headers

if TYPE_CHECKING:
    from hostler.http.dialects.fold import Folding
    from hostler.http.dialects.placeholders import Filling
    from hostler.http.problems import Problem
    from hostler.http.sse import EventChunk
    from hostler.journal.feed import StoredResult
    from hostler_protocol.content import Usage

Batches = AsyncIterator[list["StoredResult"]]
Watch = Callable[[int], Batches]
"""Sequence -> the results after it, in order, up to the terminal one."""


class Framing(Protocol):
    """Turns batches of results into chunks, from the first one of its reading on."""

    @property
    def over(self) -> bool:
        """Whether nothing follows the chunks so far but those of `finish`."""

    @property
    def waits(self) -> bool:
        """Whether the stream ends if no result follows soon."""

    @property
    def shareable(self) -> bool:
        """Whether streams at the same cursor may share this reading."""

    def begin(self) -> list[EventChunk]:
        """Return what precedes any result."""

    def chunks(self, batch: list[StoredResult]) -> Iterator[EventChunk]:
        """Yield the chunks of a batch, which may be none; each is made when it is wanted."""

    def cut(self) -> None:
        """No result followed while it waited: the stream is over."""

    async def finish(self) -> list[EventChunk]:
        """Return what follows the last result, once it is over."""

    def refuse(self, problem: Problem) -> EventChunk:
        """Return what says that the stream has to end now."""


async def next_batch(batches: Batches, seconds: float | None) -> list[StoredResult] | None:
    """Return the next batch, None if there is none. TimeoutError if it does not come within `seconds`."""
    async with asyncio.timeout(seconds):
        return await anext(batches, None)


class Translation(Record):
    """How a stream says a run's results in a dialect.

    `folding` begins a new reading; readings of equal `kind` give equal frames, and share their work. `usage`
    is that of the run so far. `filling`: what this stream has in the place of the frames' placeholders.
    """

    kind: Hashable
    folding: Callable[[], Folding]
    usage: Callable[[], Awaitable[Usage | None]]
    filling: Filling = ()


class EventStream(Record):
    """A run's results after the sequence `after`; of a translated stream it is 0.

    `opening`: an iterator over them that was started already.
    """

    serve: Callable[[EventStream, Scope, Receive, Send], Awaitable[int]]
    """`Streams.serve` of the server."""
    run_id: str
    watch: Watch
    after: int = 0
    headers: Headers = msgspec.field(default_factory=list)
    opening: Batches | None = None
    while_valid: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Raises a HostlerError in its block when the stream has to end, since its reader's key has."""

    translation: Translation | None = None
    """None: each result is one event, as it is stored."""
    on_disconnect: Callable[[], Awaitable[object]] | None = None
    """Called when the client disconnects before the end of the stream."""

    framing: Callable[[], Framing] | None = None
    """Begins a reading of a stream that is none of one run's results; `topic` then is its key."""
    topic: Hashable = None

    @property
    def key(self) -> Hashable:
        """Streams of the same key send the same bytes for the same results."""
        if self.topic is not None:
            return self.topic
        return self.run_id if self.translation is None else (self.run_id, self.translation.kind)

    @property
    def filling(self) -> Filling:
        """What this stream has in the place of placeholders."""
        return () if self.translation is None else self.translation.filling

    async def send(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Send the stream; return its status."""
        return await self.serve(self, scope, receive, send)
