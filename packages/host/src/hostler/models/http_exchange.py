"""One HTTP exchange in a task of its own.

Who waits for an answer may be cancelled, more than once and at any point; an HTTP client that is interrupted
while it closes a connection leaves it open. So the client runs in a task that nobody else cancels, and hands
over what arrives through a bounded queue: who waits can simply leave.
"""

from __future__ import annotations

import asyncio

import httpx

from hostler.models.limits import END_OF_STREAM_SECONDS, MAX_PIECES_AHEAD

Arrived = httpx.Response | bytes | Exception | None


class Exchange:
    """Sends a request; gives the response's head, then its body piece by piece."""

    def __init__(self, client: httpx.AsyncClient, request: httpx.Request) -> None:
        self._client = client
        self._request = request
        self._inbox: asyncio.Queue[httpx.Response | bytes | Exception | None] = asyncio.Queue(
            MAX_PIECES_AHEAD
        )
        self._left = False
        self._complete = False
        self.task = asyncio.create_task(self._run())

    async def head(self) -> httpx.Response:
        """The response, its body unread. Raises what httpx raises. Called once, first."""
        head = await self._next()
        assert isinstance(head, httpx.Response)
        return head

    async def piece(self) -> bytes | None:
        """The next bytes of the body; None at its end. Raises what httpx raises."""
        piece = await self._next()
        assert not isinstance(piece, httpx.Response)
        if piece is None:
            self._complete = True
        return piece

    def complete(self) -> None:
        """Say that the rest of the body does not matter, and should be near its end."""
        self._complete = True

    def leave(self) -> None:
        """Nobody waits any more. The connection is closed, or kept where the answer is complete."""
        self._left = True
        while not self._inbox.empty():
            self._inbox.get_nowait()  # lets a full pump go on
        if not self._complete:
            self.task.cancel()
        elif not self.task.done():  # a connection that is read to its end is used again
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
        except Exception as error:  # noqa: BLE001 - the top of a worker: raised again where somebody waits
            await self._put(error)
        else:
            await self._put(None)

    async def _put(self, arrived: Arrived) -> None:
        if not self._left:
            await self._inbox.put(arrived)
