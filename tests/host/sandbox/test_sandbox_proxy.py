"""The proxy of a sandbox with the HTTP client of a plugin, and with servers of every manner."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from hostler.sandbox.port import Violation
from hostler.sandbox.proxy import CHUNK_BYTES, Proxy
from support.loopback import NO_CERTIFICATES

SECONDS = 60.0
REQUESTS = 200


@asynccontextmanager
async def server(answer: bytes, *, closes: bool = True) -> AsyncIterator[int]:
    """A server that gives one answer to each request; with `closes`, then ends the connection untold."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"keep-alive" not in head.lower()
        writer.write(answer)
        await writer.drain()
        if not closes:
            await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield listening.sockets[0].getsockname()[1]


@asynccontextmanager
async def proxy(port: int) -> AsyncIterator[int]:
    """A proxy that reaches that port of this machine."""
    told: list[Violation] = []
    serving = Proxy("test", [f"127.0.0.1:{port}"], told.append)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving.serve(listener)
        try:
            yield listener.getsockname()[1]
        finally:
            serving.close()
            assert told == []


async def answered(answer: bytes, *, closes: bool = True) -> bytes:
    """Return what a client gets by the proxy, as bytes."""
    async with asyncio.timeout(SECONDS), server(answer, closes=closes) as port, proxy(port) as through:
        reader, writer = await asyncio.open_connection("127.0.0.1", through)
        writer.write(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        if not closes:
            got = await reader.readuntil(b"hi")
            writer.close()
            return got
        got = await reader.read()
        writer.close()
        return got


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\nKeep-Alive: timeout=9\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhi",
    ],
)
async def test_a_client_that_keeps_connections_never_sends_into_a_closed_one(answer: bytes) -> None:
    async with (
        asyncio.timeout(SECONDS),
        server(answer) as port,
        proxy(port) as through,
        httpx.AsyncClient(
            proxy=f"http://127.0.0.1:{through}", timeout=SECONDS, verify=NO_CERTIFICATES
        ) as client,
    ):
        for _ in range(REQUESTS):
            got = await client.get(f"http://127.0.0.1:{port}/me")
            assert (got.status_code, got.text) == (200, "hi")
            assert got.headers.get_list("connection") == ["close"]
            assert "keep-alive" not in got.headers


async def test_a_server_that_keeps_its_connection_is_read_to_the_length_of_its_answer() -> None:
    got = await answered(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", closes=False)
    assert got == b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"


async def test_what_comes_before_the_answer_is_passed_on() -> None:
    got = await answered(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
    assert got == (
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        (b"", b""),
        (b"HTTP/1.1 200", b"HTTP/1.1 200"),
        (b"HTTP/1.1 200 OK\r\nCut: sho", b"HTTP/1.1 200 OK\r\nConnection: close\r\nCut: sho"),
        (b"hello\nyou\n\nall", b"hello\nyou\n\nall"),
        (b"HTTP/1.1 200 OK\nA: b\n\nhi", b"HTTP/1.1 200 OK\nConnection: close\r\nA: b\n\nhi"),
        (b"x" * 3 * CHUNK_BYTES, b"x" * 3 * CHUNK_BYTES),
        (
            b"HTTP/1.1 200 OK\r\nConnection: a,\r\n keep-alive\r\nB: c\r\n d\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nB: c\r\n d\r\n\r\n",
        ),
    ],
)
async def test_broken_answers_reach_the_client_as_they_are(answer: bytes, got: bytes) -> None:
    assert await answered(answer) == got


def resolves_to(*addresses: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every name have these addresses, as in a zone with IPv6 that leads nowhere."""
    loop = asyncio.get_running_loop()
    entries = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]
    real = loop.getaddrinfo

    async def found(host: str, *given: Any, **more: Any) -> Any:
        return entries if host == "localhost" else await real(host, *given, **more)

    monkeypatch.setattr(loop, "getaddrinfo", found)


async def connected(port: int) -> bytes:
    """Return the first line that the proxy answers to a CONNECT to `localhost`."""
    proxy = Proxy("test", [f"localhost:{port}"], lambda _: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy.serve(listener)
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(f"CONNECT localhost:{port} HTTP/1.1\r\n\r\n".encode())
        async with asyncio.timeout(SECONDS):
            line = await reader.readline()
        writer.close()
        proxy.close()
        return line


async def test_all_addresses_of_a_name_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]
        resolves_to("127.0.0.2", "127.0.0.3", "127.0.0.1", monkeypatch=monkeypatch)
        assert await connected(port) == b"HTTP/1.1 200 Connection established\r\n"
        resolves_to("127.0.0.2", "127.0.0.3", monkeypatch=monkeypatch)
        assert await connected(port) == b"HTTP/1.1 502 Bad Gateway\r\n"


async def test_an_address_that_is_silent_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The silent one has a full queue: it neither accepts nor refuses."""
    with socket.create_server(("127.0.0.1", 0)) as there, socket.socket() as silent, ExitStack() as queued:
        port = there.getsockname()[1]
        silent.bind(("127.0.0.2", port))
        silent.listen(0)
        for _ in range(4):
            one = queued.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.2", port))
        resolves_to("127.0.0.2", "127.0.0.1", monkeypatch=monkeypatch)
        assert await connected(port) == b"HTTP/1.1 200 Connection established\r\n"
