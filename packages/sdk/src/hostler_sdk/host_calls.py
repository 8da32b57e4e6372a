"""Open Host API calls: match answers to requests, and pieces to streams."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hostler_protocol.calls import CALLS
from hostler_protocol.errors import HostlerError, PayloadTooLargeError
from hostler_protocol.frames import MessageId, raw
from hostler_protocol.limits import MAX_OPEN_REQUESTS
from hostler_protocol.link import Link, LinkError
from hostler_protocol.methods import CallCancelNote
from hostler_protocol.states import State
from hostler_sdk.answers_ahead import AnswersAhead
from hostler_sdk.errors import (
    Cancelled,
    HostError,
    InvalidArgument,
    PayloadTooLarge,
    RuntimeFailure,
    host_error,
)

MAX_STREAM_BUFFER_BYTES = 16 * 1024 * 1024
"""Buffer of one streaming answer for a slow runner: twice the largest message."""


class CallInFlight:
    """One open call: the pieces received so far, then its reply or error."""

    def __init__(self, id_: MessageId) -> None:
        self.id = id_
        self.reply: Any = None
        self.error: HostError | None = None
        self.done = False
        self.fenced = False
        """The attempt is over for the host: nothing about this call is sent any more."""
        self._pieces: deque[msgspec.Raw] = deque()
        self._buffered_bytes = 0
        self._wake: asyncio.Future[None] | None = None

    def settle(self, reply: Any = None, error: HostError | None = None) -> None:
        """Set the reply or the error. Only the first one counts."""
        if self.done:
            return
        self.reply, self.error, self.done = reply, error, True
        self._notify()

    def add(self, piece: msgspec.Raw) -> bool:
        """Buffer a piece for the reader. Return False if the buffer is full."""
        size = len(bytes(piece))
        if self._buffered_bytes + size > MAX_STREAM_BUFFER_BYTES:
            return False
        self._pieces.append(piece)
        self._buffered_bytes += size
        self._notify()
        return True

    async def finished(self) -> Any:
        """Wait for the reply and return it. Raises HostError if the call was refused."""
        while not self.done:
            await self._news()
        if self.error is not None:
            raise self.error
        return self.reply

    async def __aiter__(self) -> AsyncIterator[msgspec.Raw]:
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                self._buffered_bytes -= len(bytes(piece))
                yield piece
            if self.done:
                break
            await self._news()
        if self.error is not None:
            raise self.error

    async def _news(self) -> None:
        self._wake = asyncio.get_running_loop().create_future()
        await self._wake

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


class RunCalls:
    """The calls of one attempt: those that are open, and the answers that the host sent ahead."""

    def __init__(self) -> None:
        self.open: set[CallInFlight] = set()
        self.ahead = AnswersAhead()
        self.taking = 0
        """Calls that took an answer sent ahead, and have not returned it yet."""

    @property
    def waiting(self) -> bool:
        """Whether the attempt waits for an answer."""
        return bool(self.open) or self.taking > 0


class CallTable:
    """The open calls of one connection, at most MAX_OPEN_REQUESTS; further calls wait for their turn."""

    def __init__(
        self,
        link: Link,
        write: Callable[[bytes], None],
        write_now: Callable[[bytes], None],
        write_later: Callable[[bytes], None],
        turn: Callable[[], Awaitable[None]],
    ) -> None:
        self._link = link
        self._write = write
        self._write_now = write_now
        self._write_later = write_later
        self._turn = turn
        self._calls: dict[MessageId, CallInFlight] = {}
        self._room = asyncio.Semaphore(MAX_OPEN_REQUESTS)

    async def call(self, method: str, params: dict[str, Any], owner: RunCalls) -> Any:
        """Make a call and return its reply. Raises HostError if it is refused."""
        if owner.ahead and (reply := self._take_ahead(method, params, owner)) is not None:
            owner.taking += 1
            try:
                await self._turn()  # like any answer, it lets the run's other tasks go on first
            finally:
                owner.taking -= 1
            return reply
        call = await self._begin(method, params, owner)
        try:
            return await call.finished()
        finally:
            self._end(call, owner)

    @asynccontextmanager
    async def stream(
        self, method: str, params: dict[str, Any], owner: RunCalls
    ) -> AsyncIterator[CallInFlight]:
        """Make a streaming call. Leaving the block before its end cancels it."""
        call = await self._begin(method, params, owner)
        try:
            yield call
        finally:
            self._end(call, owner)

    async def _begin(self, method: str, params: dict[str, Any], owner: RunCalls) -> CallInFlight:
        await self._room.acquire()
        try:
            call = self._request(method, params, owner)
        except BaseException:
            self._room.release()
            raise
        owner.open.add(call)
        return call

    def _take_ahead(self, method: str, params: dict[str, Any], owner: RunCalls) -> Any:
        """Return the reply if it is the next one sent ahead, and tell the host of the call; else None."""
        if method not in CALLS or owner.waiting or self._link.state not in (State.READY, State.DRAINING):
            return None
        try:
            data = self._link.notify(f"host/{method}", payload := raw({**params, "alone": True}))
        except (PayloadTooLargeError, TypeError, ValueError):
            return None  # `_request` says why
        reply = owner.ahead.take(method, payload)
        if reply is not None:
            self._write_later(data)
        return reply

    def _end(self, call: CallInFlight, owner: RunCalls) -> None:
        self._room.release()
        owner.open.discard(call)
        if self._calls.pop(call.id, None) is not None:  # not answered
            self._give_up(call)

    def _request(self, method: str, params: dict[str, Any], owner: RunCalls) -> CallInFlight:
        if method not in CALLS:
            group = method.partition(".")[0] + "."
            known = [name for name in CALLS if name.startswith(group)] or CALLS
            raise InvalidArgument(f"there is no host call {method!r:.100}; there are {', '.join(known)}")
        try:
            id_, data = self._link.request(f"host/{method}", {**params, "alone": not owner.waiting})
        except PayloadTooLargeError as error:
            raise PayloadTooLarge(f"{method}: {error.message}: send large content in parts") from error
        except (TypeError, ValueError) as error:  # msgspec: a value that is not JSON
            raise InvalidArgument(f"{method}: parameters must be JSON: {error}") from error
        except LinkError as error:
            raise Cancelled(f"{method}: the connection to the host is closed") from error
        call = self._calls[id_] = CallInFlight(id_)
        owner.ahead.requested()
        self._write_now(data)
        return call

    def _give_up(self, call: CallInFlight) -> None:
        self._link.abandon(call.id)
        if not call.fenced and self._link.state in (State.READY, State.DRAINING):
            self._write(self._link.notify("host/cancel", CallCancelNote(id=call.id)))

    def replied(self, id_: MessageId, reply: Any) -> None:
        """Take the host's answer."""
        if call := self._calls.pop(id_, None):
            call.settle(reply=reply)

    def refused(self, id_: MessageId, error: HostlerError) -> None:
        """Take the host's refusal."""
        if call := self._calls.pop(id_, None):
            call.settle(error=host_error(error))

    def piece(self, id_: MessageId, piece: msgspec.Raw) -> None:
        """Take a piece of a streaming answer. If the runner does not read, the whole call fails."""
        call = self._calls.get(id_)
        if call is not None and not call.done and not call.add(piece):
            del self._calls[id_]
            self._give_up(call)
            call.settle(
                error=RuntimeFailure(
                    f"over {MAX_STREAM_BUFFER_BYTES:,} bytes of a streaming answer were not read in time"
                )
            )

    def lost(self) -> None:
        """Fail all open calls: the connection is lost."""
        for call in list(self._calls.values()):
            call.settle(error=Cancelled("the connection to the host was lost"))
        self._calls.clear()
