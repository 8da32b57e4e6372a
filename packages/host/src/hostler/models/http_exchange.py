"""One HTTP exchange in its own task.

A caller that waits for an answer may be cancelled, more than once and at any point, but an HTTP client that
is interrupted while it closes a connection leaves it open. So the client runs in its own task, and passes on
the answer through a bounded queue, which the caller can leave at any time.
"""

from __future__ import annotations

import asyncio

import httpx

from hostler.models.limits import END_OF_STREAM_SECONDS, MAX_PIECES_AHEAD

Arrived = httpx.Response | bytes | Exception | None


class ExchangeTask:
    """Sends a request, and returns the head of the response and then its body in pieces."""

    def __init__(self, client: httpx.AsyncClient, request: httpx.Request) -> None:
        self._client = client
        self._request = request
        self._inbox: asyncio.Queue[Arrived] = asyncio.Queue(MAX_PIECES_AHEAD)
        self._left = False
        self._complete = False
        self.task = asyncio.create_task(self._run())

    async def head(self) -> httpx.Response:
        """Return the response with its body unread. Raises the errors of httpx. Call it once, first."""
        head = await self._next()
        assert isinstance(head, httpx.Response)
        return head

    async def piece(self) -> bytes | None:
        """Return the next bytes of the body; None at its end. Raises the errors of httpx."""
        piece = await self._next()
        assert not isinstance(piece, httpx.Response)
        if piece is None:
            self._complete = True
        return piece

    def complete(self) -> None:
        """Mark the answer as complete: the rest of the body is not needed and should be short."""
        self._complete = True

    def leave(self) -> None:
        """Stop waiting. The connection is closed, or kept for reuse if the answer is complete."""
        self._left = True
        while not self._inbox.empty():
            self._inbox.get_nowait()  # lets a task continue that waits for space
        if not self._complete:
            self.task.cancel()
        elif not self.task.done():  # a connection that is read to its end can be reused
            asyncio.get_running_loop().call_later(END_OF_STREAM_SECONDS, self.task.cancel)

    async def _next(self) -> httpx.Response | bytes | None:
        arrived = await self._inbox.get()
        if isinstance(arrived, Exception):
            raise arrived
        return arrived

    async def _run(self) -> None:
        try:
            response = await self._client.send(self._request, stream=True)
            try:
                await self._put(response)
                async for data in response.aiter_bytes():
                    await self._put(data)
            finally:
                await response.aclose()
        except Exception as error:  # noqa: BLE001 - the top of a worker: raised again by `_next`
            await self._put(error)
        else:
            await self._put(None)

    async def _put(self, arrived: Arrived) -> None:
        if not self._left:
            await self._inbox.put(arrived)
