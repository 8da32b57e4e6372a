"""The door's HTTP/1.1 server: what clients of a model service need, within limits.

Its clients are programs of the same plugin, so it guards against mistakes; what a run may do is checked by
the host. Without a dependency, as every plugin would have to install it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import sys
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple

from hostler_sdk.errors import RuntimeFailure
from hostler_sdk.model_door.exchange import DoorAnswer, DoorRequest, error_answer
from hostler_sdk.model_door.limits import (
    BACKLOG,
    BODY_SECONDS,
    HEAD_SECONDS,
    IDLE_SECONDS,
    MAX_BODY_BYTES,
    MAX_CHUNK_LINE_BYTES,
    MAX_CONNECTIONS,
    MAX_HEAD_BYTES,
    WRITE_SECONDS,
)
from hostler_sdk.model_door.loop_watch import LoopWatch
from hostler_sdk.model_door.problems import DoorError

ADDRESS = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
"""An address of its own, where the whole network 127.0.0.0/8 is the machine: so that clients can be told to
reach it without a proxy (`NO_PROXY`), and `localhost` with one."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LENGTH = re.compile(r"[0-9]{1,12}")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(;[^\r\n]*)?\r\n")
_NO_LOOPBACK = (
    "this process may not listen on its loopback ({}), as in a sandbox without namespaces: use "
    "ctx.models.openai_client(), or give your framework ctx.models.openai_http_client()"
)

logger = logging.getLogger("hostler_sdk")
Respond = Callable[[DoorRequest], Awaitable[DoorAnswer]]


class _Head(NamedTuple):
    """Request line and headers. `minor`: of the version, HTTP/1.x."""

    method: str
    target: str
    minor: int
    headers: dict[str, str]

    @property
    def keeps_alive(self) -> bool:
        stated = self.headers.get("connection", "").lower()
        return "close" not in stated and (self.minor > 0 or "keep-alive" in stated)


class HttpServer:
    """Serves requests on a port of the loopback, until it is closed."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener = _listen()
        self._connections = 0
        self._watch = LoopWatch()
        self.port: int = self._listener.getsockname()[1]
        self._keep(asyncio.get_running_loop().create_task(self._accept(), name="model door"))

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{ADDRESS}:{self.port}"

    def close(self) -> None:
        """Close the port and all connections."""
        self._watch.stop()
        for task in list(self._tasks):
            task.cancel()
        self._listener.close()

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        with self._listener:
            while True:
                try:
                    client, _ = await loop.sock_accept(self._listener)
                except OSError as error:  # no descriptors are left, for now
                    logger.warning("the model door cannot accept a connection: %s", error)
                    await asyncio.sleep(1.0)
                    continue
                self._keep(loop.create_task(self._serve(client), name="model door connection"))

    async def _serve(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader, writer = await asyncio.open_connection(sock=client, limit=MAX_HEAD_BYTES)
        self._connections += 1
        try:
            if self._connections > MAX_CONNECTIONS:
                text = f"{MAX_CONNECTIONS} connections to this door are open; use fewer"
                busy = error_answer(DoorError(429, text, "rate_limit_exceeded", retry_after=1))
                await _write(writer, busy, keep=False, chunked=False)
                return
            await _Connection(reader, writer, self._respond).serve()
        except (OSError, EOFError, TimeoutError):
            pass  # the client has gone, or is too slow
        except Exception:
            # the top of a worker: the client sees its connection end, the plugin's log has the traceback
            logger.exception("a connection of the model door failed")
        finally:
            self._connections -= 1
            writer.close()


class _Connection:
    """One connection of a client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, respond: Respond) -> None:
        self._reader, self._writer, self._respond = reader, writer, respond

    async def serve(self) -> None:
        """Serve requests, one after another."""
        early: bytes | None = b""
        try:
            while early is not None:
                head = await self._head(early)
                if head is None:
                    return
                early = await self._exchange(head)
        except DoorError as error:
            await _write(self._writer, error_answer(error), keep=False, chunked=False)

    async def _head(self, early: bytes) -> _Head | None:
        """Read the head of the next request; None: there is none. `early` was read before."""
        if not early:
            async with asyncio.timeout(IDLE_SECONDS):
                early = await self._reader.read(1)
            if not early:
                return None
        if early == b"\r":
            raise DoorError(400, "the request begins with an empty line", "bad_request")
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                rest = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise DoorError(
                431, f"the headers are over {MAX_HEAD_BYTES:,} bytes", "headers_too_large"
            ) from None
        return _parse_head(early + rest)

    async def _exchange(self, head: _Head) -> bytes | None:
        """Answer a request. Return what was read of the next one; None: the connection ends."""
        if head.headers.get("expect", "").lower() == "100-continue" and head.minor > 0:
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        async with asyncio.timeout(BODY_SECONDS):
            body = await self._body(head)
        request = DoorRequest(head.method, head.target, head.headers, body)
        answering = asyncio.ensure_future(self._answer(request, head))
        reading = asyncio.ensure_future(self._reader.read(1))
        try:
            await asyncio.wait({answering, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done() and not reading.result():
                return None  # the client has gone: what it asked for is given up
            await answering
            if not head.keeps_alive:
                return None
            if not reading.done():
                return b""
            return reading.result() or None
        finally:
            answering.cancel()
            reading.cancel()
            await asyncio.gather(answering, reading, return_exceptions=True)

    async def _answer(self, request: DoorRequest, head: _Head) -> None:
        answer = await self._respond(request)
        try:
            await _write(self._writer, answer, keep=head.keeps_alive, chunked=head.minor > 0)
        finally:
            await answer.close()

    # -- bodies -----------------------------------------------------------------------------------

    async def _body(self, head: _Head) -> bytes:
        coding, length = head.headers.get("transfer-encoding"), head.headers.get("content-length")
        if coding is not None:
            if coding.lower() != "chunked" or length is not None:
                raise DoorError(400, "the body's length is said in an unknown or double way", "bad_request")
            return await self._chunked()
        if length is None:
            return b""
        if not _LENGTH.fullmatch(length):
            raise DoorError(400, f"content-length is {length!r:.40}", "bad_request")
        if int(length) > MAX_BODY_BYTES:
            raise _too_large()
        return await self._reader.readexactly(int(length))

    async def _chunked(self) -> bytes:
        body = bytearray()
        while True:
            size = await self._chunk_size()
            if len(body) + size > MAX_BODY_BYTES:
                raise _too_large()
            if size == 0:
                await self._trailers()
                return bytes(body)
            body += await self._reader.readexactly(size)
            if await self._reader.readexactly(2) != b"\r\n":
                raise DoorError(400, "a chunk is longer than it says", "bad_request")

    async def _chunk_size(self) -> int:
        line = await self._line()
        size = _CHUNK_SIZE.fullmatch(line)
        if size is None:
            raise DoorError(400, f"a chunk begins with {line[:40]!r}", "bad_request")
        return int(size[1], 16)

    async def _trailers(self) -> None:
        for _ in range(MAX_HEAD_BYTES // MAX_CHUNK_LINE_BYTES):
            if await self._line() == b"\r\n":
                return
        raise DoorError(431, "the trailers are too many", "headers_too_large")

    async def _line(self) -> bytes:
        try:
            line = await self._reader.readuntil(b"\r\n")
        except asyncio.LimitOverrunError:
            line = bytes(MAX_CHUNK_LINE_BYTES + 1)
        if len(line) > MAX_CHUNK_LINE_BYTES:
            raise DoorError(400, "a line of a chunked body is too long", "bad_request")
        return line


def _listen() -> socket.socket:
    try:
        listener = socket.socket()
        try:
            listener.bind((ADDRESS, 0))
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise RuntimeFailure(_NO_LOOPBACK.format(error.strerror or error)) from error
    listener.setblocking(False)
    return listener


def _parse_head(data: bytes) -> _Head:
    line, *lines = data[:-4].decode("latin-1").split("\r\n")
    method, _, rest = line.partition(" ")
    target, _, version = rest.rpartition(" ")
    if not _TOKEN.fullmatch(method) or version not in ("HTTP/1.0", "HTTP/1.1") or not target.startswith("/"):
        raise DoorError(400, f"the request begins with {line!r:.100}; HTTP/1.1 is expected", "bad_request")
    headers: dict[str, str] = {}
    for one in lines:
        name, colon, value = one.partition(":")
        if not colon or not _TOKEN.fullmatch(name):
            raise DoorError(400, f"a header is {one!r:.100}", "bad_request")
        name = name.lower()
        if name in headers and name in ("content-length", "transfer-encoding", "authorization"):
            raise DoorError(400, f"the header {name} is there twice", "bad_request")
        headers[name] = value.strip() if name not in headers else f"{headers[name]}, {value.strip()}"
    return _Head(method, target, int(version[-1]), headers)


async def _write(writer: asyncio.StreamWriter, answer: DoorAnswer, *, keep: bool, chunked: bool) -> None:
    headers = [*answer.headers, ("connection", "keep-alive" if keep else "close")]
    if answer.pieces is None:
        headers.append(("content-length", str(len(answer.body))))
    elif chunked:
        headers.append(("transfer-encoding", "chunked"))
    phrase = HTTPStatus(answer.status).phrase
    lines = [f"HTTP/1.1 {answer.status} {phrase}", *(f"{name}: {value}" for name, value in headers)]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + answer.body)
    if answer.pieces is not None:
        async for piece in answer.pieces:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            await _drain(writer)
        if chunked:
            writer.write(b"0\r\n\r\n")
    await _drain(writer)


async def _drain(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(WRITE_SECONDS):
        await writer.drain()


def _too_large() -> DoorError:
    text = f"the body is over {MAX_BODY_BYTES:,} bytes; send large content as artifacts of the run"
    return DoorError(413, text, "payload_too_large")
