"""Plain HTTP over an asyncio connection; h11 does the protocol."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias
from urllib.parse import quote, urlsplit

import h11

from hostler.cli.transport import (
    PIECE_BYTES,
    BrokenError,
    HttpReply,
    HttpRequest,
    NotConnectedError,
    Streamed,
)

MAX_HEAD_BYTES = 64 * 1024
READ_BYTES = 64 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024
"""The longest line of a stream. A result is one line of at most 1 MiB."""
_Event: TypeAlias = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]


class HttpTransport:
    """A `Transport` over plain HTTP, with one connection per request."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._name = parts.netloc.rpartition("@")[2].encode("idna").decode()
        self._base = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")

    async def send(self, request: HttpRequest) -> HttpReply:
        """See `Transport`."""
        try:
            async with asyncio.timeout(request.seconds), self._exchange(request) as answer:
                body = b"".join([piece async for piece in answer.body()])
        except TimeoutError:
            raise BrokenError(f"no answer came within {request.seconds:g} s") from None
        return HttpReply(answer.status, answer.reason, body)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncGenerator[Streamed]:
        """See `Transport`."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(request.seconds):
                    answer = await stack.enter_async_context(self._exchange(request))
            except TimeoutError:
                raise BrokenError(f"no answer came within {request.seconds:g} s") from None
            yield Streamed(answer.status, answer.reason, _lines(answer.body(), request.seconds))

    async def close(self) -> None:
        """See `Transport`."""

    @asynccontextmanager
    async def _exchange(self, request: HttpRequest) -> AsyncGenerator[_Answer]:
        """Send a request and read the head of its answer."""
        try:
            reader, writer = await asyncio.open_connection(self._host, self._port)
        except OSError as error:
            raise NotConnectedError(str(error)) from error
        answer = _Answer(reader)
        try:
            try:
                writer.write(answer.head_bytes(request, self._base, self._name))
                await _send_body(writer, request)
            except OSError as error:
                # a body that is too large is refused before all of it is read
                with contextlib.suppress(BrokenError):
                    await answer.read_head()
                if answer.status == 0:
                    raise BrokenError(str(error) or "the server closed the connection") from error
            else:
                await answer.read_head()
            yield answer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


class _Answer:
    """One request and its answer on one connection."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self.status = 0
        self.reason = ""

    def head_bytes(self, request: HttpRequest, base: str, host: str) -> bytes:
        """Return the bytes in front of the body of a request, which follows as it is."""
        headers = {"host": host, **request.headers, "connection": "close"}
        headers["content-length"] = str(len(request.body))
        head = h11.Request(method=request.method, target=base + request.target, headers=[*headers.items()])
        send = self._connection.send
        found = send(head) or b""
        for event in (h11.Data(data=request.body), h11.EndOfMessage()):
            send(event)
        return found

    async def read_head(self) -> None:
        """Read the head of the final answer. BrokenError."""
        event = await self._next()
        while isinstance(event, h11.InformationalResponse):
            event = await self._next()
        if not isinstance(event, h11.Response):
            raise BrokenError("the server closed the connection")
        self.status, self.reason = event.status_code, bytes(event.reason).decode("latin-1")

    async def body(self) -> AsyncIterator[bytes]:
        """Read the body, piece by piece. BrokenError."""
        while isinstance(event := await self._next(), h11.Data):
            yield bytes(event.data)

    async def _next(self) -> _Event:
        try:
            while (event := self._connection.next_event()) is h11.NEED_DATA:
                self._connection.receive_data(await self._reader.read(READ_BYTES))
        except h11.RemoteProtocolError as error:
            raise BrokenError(f"the answer is not HTTP, or was cut off: {error}") from error
        except OSError as error:
            raise BrokenError(str(error) or "the server closed the connection") from error
        return event


async def _send_body(writer: asyncio.StreamWriter, request: HttpRequest) -> None:
    """Write the body piece by piece, as fast as the server takes it. OSError."""
    whole = memoryview(request.body)
    for begin in range(0, len(whole), PIECE_BYTES):
        piece = whole[begin : begin + PIECE_BYTES]
        writer.write(piece)
        await writer.drain()
        request.on_sent(begin + len(piece))
    await writer.drain()


async def _lines(pieces: AsyncIterator[bytes], silence: float) -> AsyncIterator[bytes]:
    """Split a body into lines, without their ends. BrokenError after `silence` seconds without a piece."""
    rest = b""
    while True:
        try:
            async with asyncio.timeout(silence):
                piece = await anext(pieces, None)
        except TimeoutError:
            raise BrokenError(f"nothing was received for {silence:g} s") from None
        if piece is None:
            break
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r")
        if len(rest) > MAX_LINE_BYTES:
            raise BrokenError(f"a line of the answer is longer than {MAX_LINE_BYTES:,} bytes")
    if rest:
        yield rest
