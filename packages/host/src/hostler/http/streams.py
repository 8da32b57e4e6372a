"""Event streams: a fan-out per run, so that a thousand readers of one run cost little more than one.

A stream reads the feed alone until it has caught up with the other streams of its run. Then it joins their
fan-out: one task reads the feed, frames each batch once and writes the bytes to every member. A member whose
buffer is full leaves the fan-out with its cursor and reads on alone, at its own speed. So no reader waits for
a slow one, which takes the memory of one batch of results and one chunk. A client that disconnects cancels
nothing.

Streams of the same run in the same dialect share a fan-out, too: its results are folded once, and what is
each reader's own, as the id of its request, is filled in as it is written. A reader that leaves it folds them
again from the first, and writes what follows its cursor.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hostler.http.asgi import Receive, Scope, Send
from hostler.http.dialects.placeholders import Filling
from hostler.http.event_stream import Batches, EventStream, Framing, next_batch
from hostler.http.framing import Translated, framing_of
from hostler.http.limits import (
    STREAM_COMMENT_SECONDS,
    STREAM_FINISH_SECONDS,
    STREAM_PACE_SECONDS,
    STREAM_QUIET_SECONDS,
    STREAM_STUCK_SECONDS,
)
from hostler.http.problems import problem_of
from hostler.http.responses import Headers
from hostler.http.sse import COMMENT, EventChunk
from hostler.journal.feed import BATCH_BYTES, BATCH_RESULTS, StoredResult
from hostler_protocol.errors import HostlerError

if TYPE_CHECKING:  # it imports uvicorn, which a host inside of one command does not need
    from hostler.http.connection import BoundedConnection

_STREAM_HEADERS: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-accel-buffering", b"no"),
]


log = logging.getLogger("hostler.http")


@dataclass(eq=False, slots=True)
class _Stream:
    """One open stream. Times are of the event loop's clock."""

    answer: EventStream
    last_write: float
    send: Send
    connection: BoundedConnection | None
    framing: Framing
    filling: Filling = ()
    writing_since: float | None = None
    pump: asyncio.Task[None] | None = None
    dismissed: asyncio.Future[int | None] | None = None
    """Exists while in a fan-out. Its result: the cursor to read on from alone; None if the run is over."""

    async def write(self, chunk: EventChunk) -> None:
        """Write a chunk; return once the reader has room for the next."""
        chunk = chunk.filled(self.filling)
        if self.connection is None:
            await self.send({"type": "http.response.body", "body": chunk.body, "more_body": True})
        elif not self.connection.write_chunk(chunk.framed):
            await self.connection.drained()


@dataclass(eq=False, slots=True)
class _Fanout:
    """The streams of one run, in one dialect, that have sent everything up to the result `cursor`."""

    cursor: int
    framing: Framing
    members: set[_Stream] = field(default_factory=set)
    task: asyncio.Task[None] | None = None

    def write(self, chunk: EventChunk, now: float) -> None:
        """Write a chunk to every member; dismiss those whose buffers are full."""
        for stream in self._write(chunk, now):
            self.dismiss(stream, chunk.last)

    def finish(self, chunks: list[EventChunk], now: float) -> None:
        """Write the last chunks to every member, and dismiss all."""
        for chunk in chunks:
            self._write(chunk, now)
        for stream in list(self.members):
            self.dismiss(stream, None)

    def _write(self, chunk: EventChunk, now: float) -> list[_Stream]:
        self.cursor = chunk.last
        full = []
        for stream in self.members:
            stream.last_write = now
            framed = chunk.filled(stream.filling).framed if stream.filling else chunk.framed
            if stream.connection is not None and not stream.connection.write_chunk(framed):
                full.append(stream)
        return full

    def dismiss(self, stream: _Stream, cursor: int | None) -> None:
        """Remove a member. `cursor`: where it reads on alone; None if the run is over."""
        self.members.discard(stream)
        if stream.dismissed is not None and not stream.dismissed.done():
            stream.dismissed.set_result(cursor)


@dataclass(slots=True)
class Streams:
    """All event streams of this server."""

    quiet_after: float = STREAM_QUIET_SECONDS
    pace: float = STREAM_PACE_SECONDS
    comment_after: float = STREAM_COMMENT_SECONDS
    stuck_after: float = STREAM_STUCK_SECONDS
    _open: set[_Stream] = field(default_factory=set)
    _fanouts: dict[Hashable, _Fanout] = field(default_factory=dict)
    _waiting: list[asyncio.Future[None]] = field(default_factory=list)
    _closing: bool = False

    @property
    def count(self) -> int:
        """The number of open streams."""
        return len(self._open)

    @property
    def members(self) -> list[int]:
        """The number of streams in each fan-out: those that share its work."""
        return [len(fanout.members) for fanout in self._fanouts.values()]

    def close(self) -> None:
        """End all streams and every later one. Clients reconnect to another process, or later."""
        self._closing = True
        for stream in self._open:
            if stream.pump is not None:
                stream.pump.cancel()

    async def finish(self, seconds: float) -> None:
        """Wait at most `seconds` until the open streams have sent the terminal results of their runs."""
        if pumps := {stream.pump for stream in self._open if stream.pump is not None}:
            await asyncio.wait(pumps, timeout=seconds)

    async def serve(self, answer: EventStream, scope: Scope, receive: Receive, send: Send) -> int:
        """Send a run's results until the terminal one, a disconnect of the client, or `close`."""
        headers = [*_STREAM_HEADERS, *answer.headers]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["method"] != "HEAD" and not self._closing:
            now = asyncio.get_running_loop().time()
            stream = _Stream(answer, now, send, _connection_of(scope), framing_of(answer), answer.filling)
            try:
                async with answer.while_valid():
                    await self._serve(stream, receive)
            except HostlerError as error:
                await self._refuse(stream, error)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return 200

    async def _serve(self, stream: _Stream, receive: Receive) -> None:
        stream.pump = pump = asyncio.create_task(self._pump(stream))
        gone = asyncio.create_task(_disconnected(receive))
        self._open.add(stream)
        try:
            while not (pump.done() or gone.done()):
                await asyncio.wait(
                    {pump, gone}, timeout=self.comment_after, return_when=asyncio.FIRST_COMPLETED
                )
                if not (pump.done() or gone.done()) and not await self._keep_alive(stream):
                    break
        finally:
            self._open.discard(stream)
            for task in (pump, gone):
                task.cancel()
            await asyncio.wait({pump, gone})
        if pump.cancelled():
            gone_early = not self._closing and not stream.framing.over
            if gone_early and stream.answer.on_disconnect is not None:
                await stream.answer.on_disconnect()
        elif (error := pump.exception()) is not None:
            raise error

    async def _refuse(self, stream: _Stream, error: HostlerError) -> None:
        """Write why the stream ends, if its reader takes that soon; else break its connection off."""
        try:
            async with asyncio.timeout(STREAM_FINISH_SECONDS):
                await stream.write(stream.framing.refuse(problem_of(error)))
        except TimeoutError:
            if stream.connection is not None:
                stream.connection.transport.abort()

    async def _pump(self, stream: _Stream) -> None:
        answer = stream.answer
        batches = answer.opening or answer.watch(answer.after)
        await self._write(stream, stream.framing.begin())
        while True:
            reached = await self._catch_up(stream, batches)
            if reached is None:
                return
            cursor = await self._follow(stream, *reached)
            if cursor is None:
                return
            stream.writing_since = asyncio.get_running_loop().time()
            if stream.connection is not None:
                await stream.connection.drained()
            stream.writing_since = None
            batches = self._read_on(stream, cursor)

    def _read_on(self, stream: _Stream, cursor: int) -> Batches:
        """Begin to read alone after a result that was written."""
        stream.framing = framing = framing_of(stream.answer)
        if not isinstance(framing, Translated):
            return stream.answer.watch(cursor)
        framing.folding.mute_through(cursor)
        framing.begin()
        return stream.answer.watch(0)

    async def _catch_up(self, stream: _Stream, batches: Batches) -> tuple[_Fanout, int] | None:
        """Read and write alone until the stream can join or start a fan-out.

        Return the fan-out and the cursor reached; None if the run, or the answer, is over.
        """
        loop = asyncio.get_running_loop()
        framing = stream.framing
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(_close, batches)
            while (batch := await self._next(batches, framing)) is not None:
                await self._write(stream, framing.chunks(batch))
                if framing.over:
                    break
                cursor = batch[-1].sequence
                if not framing.shareable:
                    continue
                if stream.connection is not None and stream.answer.key not in self._fanouts:
                    stack.pop_all()  # the fan-out takes over this iterator
                    return self._begin(stream, cursor, batches), cursor
                # Checked before and after the tick: other streams of this run may wake before or after this
                # one.
                if (fanout := self._at(stream, cursor)) is not None:
                    return fanout, cursor
                await self._pace_after(loop, batch)
                if (fanout := self._at(stream, cursor)) is not None:
                    return fanout, cursor
        await self._write(stream, await framing.finish())
        return None

    async def _write(self, stream: _Stream, chunks: Iterable[EventChunk]) -> None:
        """Write chunks to a stream that reads alone, at its own speed."""
        loop = asyncio.get_running_loop()
        for chunk in chunks:
            stream.writing_since = loop.time()
            await stream.write(chunk)
            stream.writing_since = None
        stream.last_write = loop.time()

    async def _next(self, batches: Batches, framing: Framing) -> list[StoredResult] | None:
        """Return the next batch; None if there is none, or if none came while the answer waited."""
        try:
            return await next_batch(batches, self.quiet_after if framing.waits else None)
        except TimeoutError:
            framing.cut()
            return None

    def _at(self, stream: _Stream, cursor: int) -> _Fanout | None:
        """Return the fan-out of the stream's run if it is at this cursor, so that the stream can join it."""
        fanout = self._fanouts.get(stream.answer.key)
        if stream.connection is None or fanout is None or fanout.cursor != cursor:
            return None
        return fanout

    def _begin(self, stream: _Stream, cursor: int, batches: Batches) -> _Fanout:
        key = stream.answer.key
        fanout = self._fanouts[key] = _Fanout(cursor, stream.framing)
        fanout.task = asyncio.create_task(self._fan_out(key, fanout, batches))
        return fanout

    async def _follow(self, stream: _Stream, fanout: _Fanout, cursor: int) -> int | None:
        """Be a member until dismissed; return the cursor to read on from, or None if the run is over."""
        if self._at(stream, cursor) is not fanout:
            return cursor  # it advanced or ended while this stream closed its iterator
        stream.dismissed = asyncio.get_running_loop().create_future()
        fanout.members.add(stream)
        try:
            return await stream.dismissed
        finally:
            stream.dismissed = None
            fanout.members.discard(stream)
            if not fanout.members and fanout.task is not None:
                fanout.task.cancel()
                self._forget(stream.answer.key, fanout)

    async def _fan_out(self, key: Hashable, fanout: _Fanout, batches: Batches) -> None:
        """Read a run's results for all members, until it is over or no member is left."""
        loop = asyncio.get_running_loop()
        framing = fanout.framing
        try:
            await self._tick(loop)
            while (batch := await self._next(batches, framing)) is not None:
                for chunk in framing.chunks(batch):
                    fanout.write(chunk, loop.time())
                fanout.cursor = batch[-1].sequence
                if framing.over:
                    break
                await self._pace_after(loop, batch)
            fanout.finish(await framing.finish(), loop.time())
        except HostlerError as error:
            log.info("%s: its streams read on alone: %s", key, error.message)
        finally:
            self._forget(key, fanout)
            for stream in list(fanout.members):  # after an error: each reads it alone
                fanout.dismiss(stream, fanout.cursor)
            await _close(batches)

    def _forget(self, key: Hashable, fanout: _Fanout) -> None:
        if self._fanouts.get(key) is fanout:
            del self._fanouts[key]

    async def _keep_alive(self, stream: _Stream) -> bool:
        """Write a comment after a silence; return False if the reader has accepted no bytes for too long."""
        now = asyncio.get_running_loop().time()
        if stream.writing_since is not None:
            return now - stream.writing_since < self.stuck_after
        if now - stream.last_write >= self.comment_after:
            stream.last_write = now
            await stream.write(COMMENT)
        return True

    async def _pace_after(self, loop: asyncio.AbstractEventLoop, batch: list[StoredResult]) -> None:
        """Wait between two batches: for the next tick after a small one, not at all after a full one."""
        if len(batch) < BATCH_RESULTS and sum(len(one.json) for one in batch) < BATCH_BYTES // 2:
            await self._tick(loop)
        else:
            await asyncio.sleep(0)

    async def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for the next tick. All streams share one timer.

        It begins once all that wrote at the last tick have written: where writing takes long, the results of
        many fan-outs come together in as few chunks as those of one would.
        """
        if not self._waiting:
            loop.call_soon(loop.call_later, self.pace, self._fire)
        tick: asyncio.Future[None] = loop.create_future()
        self._waiting.append(tick)
        await tick

    def _fire(self) -> None:
        waiting, self._waiting = self._waiting, []
        for tick in waiting:
            if not tick.done():
                tick.set_result(None)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _close(batches: Batches) -> None:
    if isinstance(batches, AsyncGenerator):
        await batches.aclose()


def _connection_of(scope: Scope) -> BoundedConnection | None:
    """Return the connection of a request if its response may be written in chunks directly, else None.

    h11 keeps no count inside a chunked body, so a stream may bypass it: half the cost per reader.
    """
    connection: BoundedConnection | None = scope.get("state", {}).get("connection")
    return connection if scope.get("http_version") == "1.1" else None
