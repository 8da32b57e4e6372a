"""A small HTTP client on plain sockets: it sees every byte of a stream, and reads as slowly as it likes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from support.server_process import KEY

LOST = (OSError, EOFError, asyncio.IncompleteReadError)
"""How a broken connection shows."""
UNKNOWN_KEY = 401
BUFFER_BYTES = 64 * 1024


class Answer(NamedTuple):
    """Status and whole body."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return msgspec.json.decode(self.body)


class Seen(NamedTuple):
    """One event of a stream."""

    sequence: int
    type: str
    data: bytes


async def ask(
    url: str, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> Answer:
    """One request on a connection of its own. One of LOST where the connection breaks."""
    async with _sent(url, method, path, body, headers or {}) as (reader, status, headers):
        if headers.get("transfer-encoding") == "chunked":
            return Answer(status, b"".join([chunk async for chunk in _chunks(reader)]))
        return Answer(status, await reader.readexactly(int(headers.get("content-length", "0"))))


async def stream(
    url: str, run_id: str, after: int = 0, *, buffer: int = BUFFER_BYTES
) -> AsyncGenerator[list[Seen], None]:
    """Follow a run: what came at once, each time. One of LOST where the stream breaks off.

    `buffer`: bytes that are taken from the host and not read yet, here and in the kernel.
    """
    headers = {"Last-Event-ID": str(after)} if after else {}
    path = f"/v1/runs/{run_id}/stream"
    async with _sent(url, "GET", path, None, headers, buffer) as (reader, status, _):
        assert status == 200, (status, await reader.read())
        rest = b""
        async for chunk in _chunks(reader):
            *events, rest = (rest + chunk).split(b"\n\n")
            if seen := [_seen(event) for event in events if not event.startswith(b":")]:
                yield seen
        assert not rest, f"the stream ended within an event: {rest[:200]!r}"


def _seen(event: bytes) -> Seen:
    number, name, data = event.split(b"\n")
    assert number.startswith(b"id: "), event[:200]
    assert name.startswith(b"event: "), event[:200]
    assert data.startswith(b"data: "), event[:200]
    return Seen(int(number[4:]), name[7:].decode(), data[6:])


@contextlib.asynccontextmanager
async def _sent(
    url: str, method: str, path: str, body: Any, headers: dict[str, str], buffer: int = BUFFER_BYTES
) -> AsyncIterator[tuple[asyncio.StreamReader, int, dict[str, str]]]:
    place = urlsplit(url)
    plain = socket.socket()
    plain.setblocking(False)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    try:
        await asyncio.get_running_loop().sock_connect(plain, (place.hostname, place.port))
    except OSError:
        plain.close()
        raise
    reader, writer = await asyncio.open_connection(sock=plain, limit=buffer)
    try:
        content = b"" if body is None else msgspec.json.encode(body)
        lines = [f"{method} {path} HTTP/1.1", f"Host: {place.netloc}", f"Authorization: Bearer {KEY}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode() + content)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split()[1])
        if status == UNKNOWN_KEY:
            raise ConnectionRefusedError("the host is gone, and another one has its port")
        named = (line.partition(":") for line in head[1:] if line)
        yield reader, status, {name.lower(): value.strip() for name, _, value in named}
    finally:
        writer.close()
        with contextlib.suppress(*LOST):
            await writer.wait_closed()


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield (await reader.readexactly(size + 2))[:-2]
