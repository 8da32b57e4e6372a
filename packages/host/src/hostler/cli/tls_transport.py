"""HTTP over TLS or a proxy, with httpx."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx

from hostler.cli.transport import (
    PIECE_BYTES,
    BrokenError,
    HttpReply,
    HttpRequest,
    NotConnectedError,
    Streamed,
)


class TlsTransport:
    """A `Transport` over httpx, which handles certificates and the proxies of the environment."""

    def __init__(self, url: str) -> None:
        self._client = httpx.AsyncClient(base_url=url)

    async def send(self, request: HttpRequest) -> HttpReply:
        """See `Transport`."""
        try:
            answer = await self._client.send(self._built(request))
        except httpx.TransportError as error:
            raise _translated(error) from error
        return HttpReply(answer.status_code, answer.reason_phrase, answer.content)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncGenerator[Streamed]:
        """See `Transport`."""
        try:
            answer = await self._client.send(self._built(request), stream=True)
        except httpx.TransportError as error:
            raise _translated(error) from error
        try:
            yield Streamed(answer.status_code, answer.reason_phrase, _lines(answer))
        finally:
            await answer.aclose()

    async def close(self) -> None:
        """See `Transport`."""
        await self._client.aclose()

    def _built(self, request: HttpRequest) -> httpx.Request:
        headers = dict(request.headers)
        if request.body:
            headers["content-length"] = str(len(request.body))
        return self._client.build_request(
            request.method,
            request.target,
            headers=headers,
            content=_pieces(request) if request.body else b"",
            timeout=request.seconds,
        )


async def _pieces(request: HttpRequest) -> AsyncIterator[bytes]:
    for begin in range(0, len(request.body), PIECE_BYTES):
        yield request.body[begin : begin + PIECE_BYTES]
        request.on_sent(min(begin + PIECE_BYTES, len(request.body)))


async def _lines(answer: httpx.Response) -> AsyncIterator[bytes]:
    rest = b""
    try:
        async for piece in answer.aiter_bytes():
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.removesuffix(b"\r")
    except httpx.TransportError as error:
        raise _translated(error) from error
    if rest:
        yield rest


def _translated(error: httpx.TransportError) -> NotConnectedError | BrokenError:
    why = str(error) or type(error).__name__
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return NotConnectedError(why)
    return BrokenError(why)
