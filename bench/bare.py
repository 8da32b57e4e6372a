"""The bare parts that a host is made of, to be measured beside it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec

from hostler.sandbox.read_pipe import connect_read_pipe

HERE = Path(__file__)
BARE_CHILD = """
import asyncio, sys, msgspec

async def main():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    pipe.max_size = 65536
    writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout)
    decoder, encoder = msgspec.json.Decoder(), msgspec.json.Encoder()
    while line := await reader.readline():
        asked = decoder.decode(line)
        for _ in range(asked["frames"]):
            writer.write(encoder.encode(asked["frame"]) + b"\\n")

asyncio.run(main())
"""
ECHO = """
import asyncio, sys, msgspec

async def main():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    pipe.max_size = 65536
    writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout)
    decoder, encoder = msgspec.json.Decoder(), msgspec.json.Encoder()
    while line := await reader.readline():
        writer.write(encoder.encode(decoder.decode(line)) + b"\\n")

asyncio.run(main())
"""
FRAME = {
    "jsonrpc": "2.0",
    "method": "run/result",
    "params": {
        "run_id": "6f1c5cbe-9d0c-4e55-b54f-1d8a3a6c8f10",
        "type": "message.delta",
        "sequence": 1,
        "data": {"chunk": {"role": "assistant", "content": "The cheapest one leaves "}},
    },
}


class BarePipe:
    """A child that answers one line by so many frames: msgspec and asyncio alone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.WriteTransport) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = msgspec.json.Decoder()

    async def frames(self, count: int) -> None:
        """Ask for so many frames and read them."""
        context = {"about": "what a run's context weighs " * 60}
        self._writer.write(msgspec.json.encode({"frames": count, "frame": FRAME, "context": context}) + b"\n")
        for _ in range(count):
            self._decoder.decode(await self._reader.readline())


@contextlib.asynccontextmanager
async def bare_echo() -> AsyncIterator[Callable[[int], Awaitable[float]]]:
    """Start a child that sends each message back; the function returns the seconds of one of so many."""
    encoder, decoder = msgspec.json.Encoder(), msgspec.json.Decoder()
    params = {"run_id": "6f1c5cbe-9d0c-4e55-b54f-1d8a3a6c8f10", "scope": "actor", "key": "name"}
    message = {"jsonrpc": "2.0", "id": "c1", "method": "host/state.get", "params": params}
    async with _child(ECHO) as (reader, writer):

        async def echo(times: int) -> float:
            began = time.perf_counter()
            for _ in range(times):
                writer.write(encoder.encode(message) + b"\n")
                decoder.decode(await reader.readline())
            return (time.perf_counter() - began) / times

        yield echo


@contextlib.asynccontextmanager
async def bare_pipe() -> AsyncIterator[BarePipe]:
    """Start the child; it is gone at the end."""
    async with _child(BARE_CHILD) as (reader, writer):
        yield BarePipe(reader, writer)


@contextlib.asynccontextmanager
async def _child(code: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.WriteTransport]]:
    # Both ends read with 64 KiB at a time, as the host does: asyncio's 256 KiB would cost more than the rest
    # in some processes and nothing in others, by what malloc has seen before.
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**22)
    reading, _ = await connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
    writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
    try:
        yield reader, writer
    finally:
        writer.close()
        await reader.read()
        reading.close()
        process.wait()


@contextlib.contextmanager
def bare_asgi() -> Iterator[int]:
    """The port of an ASGI application under uvicorn that answers at once, in a process of its own.

    It decodes its body and answers it; to `accept: text/event-stream` with one event.
    """
    process = subprocess.Popen(
        [sys.executable, str(HERE)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _serve() -> None:
    import uvicorn  # noqa: PLC0415  (paid by the child that uses it)

    async def app(scope: dict[str, object], receive: object, send: object) -> None:
        body, more = b"", True
        while more:
            message = await receive()  # type: ignore[operator]
            body += message.get("body", b"")
            more = message.get("more_body", False)
        answer = msgspec.json.encode(msgspec.json.decode(body))
        headers = dict(scope["headers"])  # type: ignore[call-overload]
        streams = headers.get(b"accept") == b"text/event-stream"
        kind = b"text/event-stream" if streams else b"application/json"
        sent = [(b"content-type", kind)]
        if not streams:
            sent.append((b"content-length", b"%d" % len(answer)))
        await send({"type": "http.response.start", "status": 200, "headers": sent})  # type: ignore[operator]
        event = b"id: 1\nevent: message.delta\ndata: " + answer + b"\n\n" if streams else answer
        await send({"type": "http.response.body", "body": event, "more_body": streams})  # type: ignore[operator]
        if streams:
            await send({"type": "http.response.body", "body": b"", "more_body": False})  # type: ignore[operator]

    # asyncio turns Nagle's algorithm off only for sockets that say they are TCP
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    _serve()
