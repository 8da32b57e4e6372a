"""Fan-out of one run to many event streams: CPU per subscriber and token.

Three servers, one after the other in processes of their own, send the same tokens to as many subscribers:
ours (feed, event streams, uvicorn), a bare ASGI stream under uvicorn, and bare asyncio sockets. The bare ones
are handed ready-made bytes and write once per pace, which is the least that can be done. Prints a table and
ratios; `--json` one object. The client runs in this process, so that it does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import logging
import multiprocessing
import multiprocessing.connection
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from bench.table import Row, middle

PACE_SECONDS = 0.025
WARM_UP_TOKENS = 20


def _token(sequence: int) -> bytes:
    return (
        b'{"run_id":"6f1c5cbe-9d0c-4e55-b54f-1d8a3a6c8f10","type":"message.delta","sequence":%d,'
        b'"data":{"chunk":{"role":"assistant","content":"token %d "}},"timestamp":1700000000.123}'
    ) % (sequence, sequence)


class Emitted(NamedTuple):
    """What it took to publish all tokens: CPU seconds of this process from the end of the warm-up."""

    cpu: float
    began: float
    """When the first one was published, by the clock of all processes of this machine."""


async def _emit(tokens: int, per_second: float, publish: Callable[[int], None]) -> Emitted:
    """Publish tokens evenly."""
    began = asyncio.get_running_loop().time()
    cpu = 0.0
    for index in range(tokens):
        if index == WARM_UP_TOKENS:
            cpu = time.process_time()
        due = began + index / per_second
        delay = due - asyncio.get_running_loop().time()
        if delay > 0:
            await asyncio.sleep(delay)
        publish(index + 1)
    await asyncio.sleep(4 * PACE_SECONDS)
    return Emitted(time.process_time() - cpu, began)


Control = multiprocessing.connection.Connection


Translate = Callable[[int], Any]
"""Number of a stream -> its translation into a dialect; None: the results as they are."""


async def ours(
    control: Control, tokens: int, per_second: float, translate: Translate = lambda _: None
) -> None:
    """Serve the tokens by this host's streams."""
    from hostler.http.event_stream import EventStream  # noqa: PLC0415
    from hostler.http.streams import Streams  # noqa: PLC0415
    from hostler.journal.feed import Feed, Seen, StoredResult  # noqa: PLC0415

    numbers = itertools.count()

    async def nothing_read(run_id: str, after: int, limit: int) -> Seen:
        return Seen([], is_over=False)

    feed, streams = Feed(nothing_read), Streams(pace=PACE_SECONDS)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        watch = partial(feed.watch, "run")
        stream = EventStream(streams.serve, "run", watch, translation=translate(next(numbers)))
        await stream.send(scope, receive, send)

    def publish(sequence: int) -> None:
        feed.publish("run", [StoredResult(sequence, "message.delta", _token(sequence))])

    await _under_uvicorn(control, app, lambda: _emit(tokens, per_second, publish))


async def _bare_asgi(control: Control, tokens: int, per_second: float) -> None:
    board = _Board()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", b"text/event-stream")],
            }
        )
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                await send({"type": "http.response.body", "body": await board.next(), "more_body": True})

    await _under_uvicorn(control, app, lambda: board.emit(tokens, per_second))


async def _bare_asyncio(control: Control, tokens: int, per_second: float) -> None:
    writers: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        writers.append(writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=4096)
    control.send(server.sockets[0].getsockname()[1])
    await asyncio.to_thread(control.recv)
    board = _Board()

    async def write() -> None:
        while True:
            data = await board.next()
            chunk = b"%x\r\n%b\r\n" % (len(data), data)
            for writer in writers:
                writer.write(chunk)
            for writer in writers:
                await writer.drain()

    writing = asyncio.create_task(write())
    control.send((await board.emit(tokens, per_second), _peak_mib()))
    await asyncio.to_thread(control.recv)
    writing.cancel()


class _Board:
    """Ready-made events of one pace, handed to whoever waits."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[bytes]] = []
        self._events: list[bytes] = []

    def next(self) -> asyncio.Future[bytes]:
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    async def emit(self, tokens: int, per_second: float) -> Emitted:
        flushing = asyncio.create_task(self._flush())
        try:
            return await _emit(tokens, per_second, self._publish)
        finally:
            flushing.cancel()

    def _publish(self, sequence: int) -> None:
        self._events.append(b"id: %d\nevent: message.delta\ndata: %s\n\n" % (sequence, _token(sequence)))

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(PACE_SECONDS)
            if self._events:
                data, self._events = b"".join(self._events), []
                waiting, self._waiting = self._waiting, []
                for future in waiting:
                    future.set_result(data)


async def _under_uvicorn(control: Control, app: Any, emit: Callable[[], Awaitable[Emitted]]) -> None:
    import uvicorn  # noqa: PLC0415

    from hostler.http.connection import BoundedConnection  # noqa: PLC0415
    from hostler.http.server import listen  # noqa: PLC0415

    listener = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        app, http=BoundedConnection, lifespan="off", log_config=None, access_log=False, ws="none"
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    control.send(listener.getsockname()[1])
    await asyncio.to_thread(control.recv)
    control.send((await emit(), _peak_mib()))
    await asyncio.to_thread(control.recv)
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


Serve = Callable[[Control, int, float], Awaitable[None]]
SERVERS: dict[str, Serve] = {
    "ours": ours,
    "bare ASGI": _bare_asgi,
    "bare asyncio": _bare_asyncio,
}


def _child(serve: Serve, control: Control, tokens: int, per_second: float) -> None:
    logging.disable()  # at the end all streams are cut off, which uvicorn would have much to say about

    async def run() -> None:
        await serve(control, tokens, per_second)

    asyncio.run(run())


class Measured(NamedTuple):
    """What one round of a server took."""

    us: float
    """CPU microseconds of the server for a subscriber and token."""
    peak_mib: float
    """Its peak memory."""
    first_ms: float
    """From its publication to the first bytes with the text of the first token, in the middle of all
    subscribers."""


async def _read_all(
    port: int, subscribers: int, control: Control, tokens: int
) -> tuple[Emitted, float, float]:
    """Connect everybody, let the server begin, read to the last token.

    Return what the server measured (and its peak memory), and the moment of the first token, in the middle of
    all subscribers.
    """
    readers = []
    writers = []
    for _ in range(subscribers):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /stream HTTP/1.1\r\nhost: bench\r\n\r\n")
        readers.append(reader)
        writers.append(writer)
    for reader in readers:
        await reader.readuntil(b"\r\n\r\n")
    control.send("begin")
    first, last = b"token 1", b"token %d" % tokens  # without the blank: dialects hold it back
    firsts: list[float] = []

    async def read(reader: asyncio.StreamReader) -> None:
        tail, seen = b"", False
        while last not in tail:
            piece = await reader.read(65536)
            if not piece:
                raise RuntimeError("a stream ended before its last token")
            tail = tail[-200:] + piece
            if not seen and first in tail:
                seen = True
                firsts.append(time.monotonic())

    async with asyncio.timeout(300):
        await asyncio.gather(*map(read, readers))
    emitted, peak = await asyncio.to_thread(control.recv)
    control.send("end")
    for writer in writers:
        writer.transport.abort()
    if len(firsts) < subscribers:
        raise RuntimeError(f"{subscribers - len(firsts)} streams never had the text of the first token")
    return emitted, peak, middle(firsts)


def measure(
    serve: Serve, subscribers: int, tokens: int, per_second: float, *, forked: bool = False
) -> Measured:
    """Serve so many tokens to so many subscribers, in a process of its own.

    `forked`: the server is not a new interpreter but forked from one that has imported what it needs.
    """
    here, there = multiprocessing.Pipe()
    forking, spawning = multiprocessing.get_context("forkserver"), multiprocessing.get_context("spawn")
    forking.set_forkserver_preload(["bench.dialects", "hostler.http.server", "hostler.http.dialect_table"])
    start = forking.Process if forked else spawning.Process
    process = start(target=_child, args=(serve, there, tokens, per_second), daemon=True)
    process.start()
    there.close()  # a server that fails is heard of, and not waited for
    emitted, peak, first = asyncio.run(_read_all(here.recv(), subscribers, here, tokens))
    process.join(10)
    if process.is_alive():
        process.kill()
    us = emitted.cpu / subscribers / (tokens - WARM_UP_TOKENS) * 1e6
    return Measured(us, peak, (first - emitted.began) * 1000)


def rows(quick: bool) -> list[Row]:
    """Measure all three, in turns."""
    subscribers, tokens, rounds = (20, 40, 1) if quick else (1000, 120, 3)
    allow_sockets(subscribers)
    found: dict[str, list[float]] = {name: [] for name in SERVERS}
    for _ in range(rounds):
        for name, serve in SERVERS.items():
            found[name].append(measure(serve, subscribers, tokens, 40.0, forked=quick).us)
    us = {name: middle(values) for name, values in found.items()}
    name = f"fan-out to {subscribers:,} event streams, CPU of a subscriber and token"
    return [
        Row(
            name,
            us["ours"],
            "us",
            us["ours"] / us["bare asyncio"],
            f"bare asyncio sockets ({us['bare asyncio']:.1f} us)",
            "at most 1.5",
        ),
        Row(
            name,
            us["ours"],
            "us",
            us["ours"] / us["bare ASGI"],
            f"a bare ASGI stream ({us['bare ASGI']:.1f} us)",
        ),
    ]


def allow_sockets(subscribers: int) -> None:
    """Raise the limit of open files, as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, subscribers + 200)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main() -> int:
    """Measure all three and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subscribers", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=220)
    parser.add_argument("--per-second", type=float, default=40.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    allow_sockets(options.subscribers)
    found = {
        name: measure(serve, options.subscribers, options.tokens, options.per_second)
        for name, serve in SERVERS.items()
    }
    ours, asgi, bare = (found[name].us for name in SERVERS)
    if options.json:
        values = {
            "subscribers": options.subscribers,
            "us": {name: round(one.us, 2) for name, one in found.items()},
            "peak_mib": {name: round(one.peak_mib, 1) for name, one in found.items()},
            "ratio_to_asgi": round(ours / asgi, 3),
            "ratio_to_asyncio": round(ours / bare, 3),
        }
        print(json.dumps(values))
        return 0
    print(f"{options.subscribers} subscribers, {options.per_second:g} tokens a second")
    for name, (us, peak, _) in found.items():
        print(f"  {name:14} {us:7.2f} us CPU per subscriber and token   peak {peak:6.1f} MiB")
    print(f"  ours / bare ASGI    {ours / asgi:.2f}")
    print(f"  ours / bare asyncio {ours / bare:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
