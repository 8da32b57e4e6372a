"""The subscriptions of one WebSocket: each a cursor and a task that reads and writes in turn.

A task reads its next batch only when the last one was written. So a client that reads slowly holds its
subscriptions back, and costs the memory of one batch each.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any

import msgspec

from hostler.domain.record import Record
from hostler.http.event_stream import Batches
from hostler.http.limits import MAX_SUBSCRIPTIONS, STREAM_PACE_SECONDS, STREAM_WRITE_BYTES
from hostler.http.live.framing import stream_cursors
from hostler.http.live.messages import End, Progress, Subscribe
from hostler.http.live.wanted import place_of, wanted_by
from hostler.http.narrow import check_run
from hostler.http.problems import problem_of
from hostler.http.request import ApiRequest
from hostler.http.sse import last_event_id
from hostler.journal.feed import StoredResult
from hostler.journal.timeline_feed import PROGRESS
from hostler.storage.stores import runs
from hostler_protocol.errors import (
    ConflictError,
    HostError,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    RateLimitedError,
)

Write = Callable[[bytes], Awaitable[None]]
"""Writes one text frame; waits while the client accepts none."""
log = logging.getLogger("hostler.http")
_encode = msgspec.json.encode


class Source(Record):
    """What a subscription reads. `cursor_of`: sequence -> the cursor of the client; `begins` is the first."""

    batches: Batches
    cursor_of: Callable[[int], str]
    begins: str | None
    ends: bool
    """It ends, with its run."""


async def open_source(request: ApiRequest, wanted: Subscribe) -> Source:
    """Check a subscription, and return what it reads.

    NotFoundError, InvalidArgumentError and TimelineLostError, as the event streams.
    """
    if wanted.run_id is not None:
        return await _of_run(request, wanted, wanted.run_id)
    host = request.state.host
    filtered = wanted_by(
        request.caller,
        conversation_id=wanted.conversation_id,
        agent=wanted.agent,
        bot_id=wanted.bot_id,
        types=wanted.types,
    )
    cursors = stream_cursors(host.cursors, request.workspace_id)
    after = await place_of(host.runs.timelines, filtered, cursors, wanted.cursor, wanted.begin)
    batches = host.runs.timelines.watch(filtered, after)
    return Source(batches, cursors.issue, cursors.issue(after), ends=False)


async def _of_run(request: ApiRequest, wanted: Subscribe, run_id: str) -> Source:
    if wanted.conversation_id or wanted.agent or wanted.bot_id or wanted.types or wanted.begin != "now":
        raise InvalidArgumentError("run_id stands alone: a run is followed whole, from its first result")
    await check_run(request, run_id)
    after = last_event_id(None, wanted.cursor)
    run = await request.state.host.db.read(lambda tx: runs.get(tx, request.workspace_id, run_id))
    if after > run.sequence:
        raise InvalidArgumentError(f"cursor {after} is ahead of the run, whose last is {run.sequence}")
    begins = str(after) if after else None
    return Source(request.state.host.runs.feed.watch(run_id, after), str, begins, ends=True)


class Subscriptions:
    """The subscriptions of one connection."""

    def __init__(self, request: ApiRequest, write: Write) -> None:
        self._request = request
        self._write = write
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def check(self, name: str) -> None:
        """Raise ConflictError if the name is taken, RateLimitedError if there are too many."""
        if name in self._tasks:
            raise ConflictError(f"there is a subscription {name!r}: end it first, or take another name")
        if len(self._tasks) >= MAX_SUBSCRIPTIONS:
            raise RateLimitedError(
                f"this connection has {MAX_SUBSCRIPTIONS} subscriptions, which is the most: end one", 1.0
            )

    def begin(self, name: str, source: Source) -> None:
        """Begin to send events."""
        self._tasks[name] = asyncio.create_task(self._follow(name, source), name=f"subscription {name}")

    async def end(self, name: str) -> None:
        """End a subscription; nothing of it is written afterwards. NotFoundError."""
        task = self._tasks.pop(name, None)
        if task is None:
            raise NotFoundError(f"there is no subscription {name!r}")
        task.cancel()
        await asyncio.wait({task})

    async def close(self) -> None:
        """End all."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _follow(self, name: str, source: Source) -> None:
        problem = None
        try:
            async with contextlib.AsyncExitStack() as stack:
                if isinstance(source.batches, AsyncGenerator):
                    stack.push_async_callback(source.batches.aclose)
                async for batch in source.batches:
                    for frame in frames_of(name, batch, source.cursor_of):
                        await self._write(frame)
                    await asyncio.sleep(STREAM_PACE_SECONDS)
        except OSError:
            return  # the connection is gone, which its owner sees, too
        except HostlerError as error:
            problem = problem_of(error)
        except Exception as error:
            log.error("subscription %r failed", name, exc_info=error)
            problem = problem_of(HostError("the subscription failed; the log of the host says why"))
        if self._tasks.get(name) is asyncio.current_task():
            del self._tasks[name]
        with contextlib.suppress(OSError):
            await self._write(_encode(End(subscription=name, problem=problem), enc_hook=str))


def frames_of(name: str, batch: list[StoredResult], cursor_of: Callable[[int], str]) -> Iterator[bytes]:
    """Yield the messages of a batch, each of about STREAM_WRITE_BYTES and made when it is wanted."""
    head = b'{"type":"events","subscription":%b,"events":[' % _encode(name)
    waiting: list[bytes] = []
    size = 0
    for one in batch:
        cursor: Any = cursor_of(one.sequence)
        if one.type != PROGRESS:
            waiting.append(
                b'{"cursor":%b,"type":%b,"data":%b}' % (_encode(cursor), _encode(one.type), one.json)
            )
            size += len(waiting[-1])
        if waiting and (size >= STREAM_WRITE_BYTES or one.type == PROGRESS):
            yield head + b",".join(waiting) + b"]}"
            waiting, size = [], 0
        if one.type == PROGRESS:
            yield _encode(Progress(subscription=name, cursor=cursor))
    if waiting:
        yield head + b",".join(waiting) + b"]}"
