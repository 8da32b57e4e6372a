"""The commands' plain HTTP: answers however they are framed, and every way in which a server fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from hostler.cli.client import Api
from hostler.cli.http_transport import MAX_HEAD_BYTES, HttpTransport
from hostler.cli.transport import BrokenError, HttpRequest, NotConnectedError
from hostler_protocol.errors import InvalidArgumentError

LONG = 100.0
LIST = HttpRequest("GET", "/v1/runs?limit=2", {"authorization": "Bearer k"}, b"", LONG)
HEAD = b"HTTP/1.1 200 OK\r\n"


@asynccontextmanager
async def answering(answer: bytes, *, close: bool = True) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that gives one answer to everything, and keeps what it was asked."""
    asked: list[bytes] = []
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = [
            int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line
        ]
        asked.append(head + await reader.readexactly(length))
        writer.write(answer)
        await writer.drain()
        if not close:
            await over.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        over.set()
        server.close()
        await server.wait_closed()


WHOLE = {
    "of a stated length": HEAD + b"content-length: 5\r\n\r\none\r\n",
    "in chunks": HEAD + b"transfer-encoding: chunked\r\n\r\n3;x=1\r\none\r\n2\r\n\r\n\r\n0\r\nt: 1\r\n\r\n",
    "until the end": HEAD + b"\r\none\r\n",
    "announced": b"HTTP/1.1 103 Early\r\nlink: a\r\n\r\n" + HEAD + b"content-length: 5\r\n\r\none\r\n",
}


@pytest.mark.parametrize("answer", WHOLE.values(), ids=list(WHOLE))
async def test_an_answer_is_read_however_it_is_framed(answer: bytes) -> None:
    async with answering(answer) as (url, asked):
        reply = await HttpTransport(url + "/under").send(LIST)
        assert (reply.status, reply.reason, reply.body) == (200, "OK", b"one\r\n")
        assert asked[0].startswith(b"GET /under/v1/runs?limit=2 HTTP/1.1\r\n")
        assert f"host: {url.removeprefix('http://')}".encode() in asked[0].lower()
        async with HttpTransport(url).stream(LIST) as streamed:
            assert [line async for line in streamed.lines] == [b"one"]


async def test_a_body_is_sent_with_its_length() -> None:
    async with answering(b"HTTP/1.1 204 No Content\r\n\r\n") as (url, asked):
        reply = await HttpTransport(url).send(HttpRequest("POST", "/v1/events", {}, b'{"a":1}', LONG))
        assert (reply.status, reply.body) == (204, b"")
        assert asked[0].endswith(b'\r\n\r\n{"a":1}')


BROKEN = {
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "not HTTP"),
    "nothing": (b"", "cut off|closed"),
    "half a head": (HEAD + b"content-le", "cut off|closed"),
    "half a body": (HEAD + b"content-length: 9\r\n\r\nhalf", "cut off|closed"),
    "half a chunk": (HEAD + b"transfer-encoding: chunked\r\n\r\n9\r\nhalf", "cut off|closed"),
    "a head without end": (HEAD + b"a: " + b"b" * (MAX_HEAD_BYTES + 1), "not HTTP"),
}


@pytest.mark.parametrize(("answer", "told"), BROKEN.values(), ids=list(BROKEN))
async def test_a_broken_answer_is_an_error(answer: bytes, told: str) -> None:
    async with answering(answer) as (url, _):
        with pytest.raises(BrokenError, match=told):
            await HttpTransport(url).send(LIST)
        with pytest.raises(BrokenError, match=told):
            async with HttpTransport(url).stream(LIST) as streamed:
                _ = [line async for line in streamed.lines]


SILENT = {
    "no head": (b"", "no answer"),
    "no body": (HEAD + b"content-length: 9\r\n\r\n", "no answer came|nothing was received"),
}


@pytest.mark.parametrize(("answer", "told"), SILENT.values(), ids=list(SILENT))
async def test_a_silent_server_is_given_up(answer: bytes, told: str) -> None:
    brief = HttpRequest("GET", "/", {}, b"", 0.5)

    async def whole(url: str) -> None:
        await HttpTransport(url).send(brief)

    async def streamed(url: str) -> None:
        async with HttpTransport(url).stream(brief) as answered:
            _ = [line async for line in answered.lines]

    ways: list[Callable[[str], Awaitable[None]]] = [whole, streamed]
    for way in ways:
        async with answering(answer, close=False) as (url, _):
            with pytest.raises(BrokenError, match=told):
                await way(url)


async def test_no_server_and_no_address_are_told() -> None:
    with pytest.raises(NotConnectedError):
        await HttpTransport("http://127.0.0.1:1").send(LIST)
    for url in (
        "http://",
        "http://:80",
        f"http://{'a' * 70}:8420",
        "http://h:99999",
        "ftp://h",
        "http://[::1",
    ):
        with pytest.raises(InvalidArgumentError, match="not the address"):
            Api.at(url, "k")
