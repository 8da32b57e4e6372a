"""A fake OpenAI-compatible service on a real socket, scripted by the test.

    async with ModelServer() as server:          # or `with ModelServer() as server:` from a sync test
        server.say("hi")                         # the next answer; queued answers are given in order
        server.call_tool("add", {"a": 1})
        server.fail(429, "slow down", {"retry-after": "1"})
        server.always("ok")                      # when nothing is queued
        ... base_url=server.base_url ...
        server.requests[-1].json["messages"]

It speaks plain HTTP/1.1 by hand, so that a test rules over every byte: `cut` ends the connection in the
middle, `raw` sends anything, a `Gate` holds an answer back at a given place until the test opens it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from support.gates import BOUND_SECONDS, Bell, Gate
from support.model_answers import Answer, Recorded, body_of, wishes, words


class ModelServer:
    def __init__(self, *, api_key: str | None = None) -> None:
        self.api_key = api_key
        self.requests: list[Recorded] = []
        self.disconnects = 0
        """Connections that the client closed while an answer was being written or held."""
        self.connections = 0
        self._queue: deque[tuple[str | None, Answer]] = deque()
        self._default: Callable[[Recorded], Answer] | None = None
        self._server: asyncio.Server | None = None
        self._thread: _Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._bell = Bell()
        self.port = 0

    # -- the script -------------------------------------------------------------------------------

    def say(self, text: str | Iterable[str | Gate], *, model: str | None = None, **more: Any) -> Answer:
        """Answer with text; a list gives the pieces of the stream. `model`: only to requests for it."""
        pieces: list[str | Gate] = [text] if isinstance(text, str) else list(text)
        return self.add(Answer(pieces=pieces, **more), model=model)

    def call_tool(
        self, name: str, arguments: dict[str, Any], *, call_id: str = "call_1", **more: Any
    ) -> Answer:
        """Answer with the wish to call a tool."""
        return self.add(wishes((call_id, name, arguments), **more))

    def fail(
        self,
        status: int,
        message: str = "no",
        headers: dict[str, str] | None = None,
        *,
        code: str | None = None,
        times: int = 1,
        model: str | None = None,
    ) -> None:
        """Answer with an error, as such services write them."""
        body = json.dumps({"error": {"message": message, "type": "error", "code": code}}).encode()
        for _ in range(times):
            self.add(Answer(status=status, headers=headers or {}, body=body), model=model)

    def raw(self, body: bytes, *, content_type: str = "application/json", **more: Any) -> Answer:
        """Answer with any bytes."""
        return self.add(Answer(body=body, headers={"content-type": content_type}, **more))

    def refuse_connection(self, *, times: int = 1) -> None:
        """Close the connection without a byte."""
        for _ in range(times):
            self.add(Answer(close=True))

    def add(self, answer: Answer, *, model: str | None = None) -> Answer:
        self._queue.append((model, answer))
        return answer

    def always(self, text: str | Callable[[Recorded], str | Answer]) -> None:
        """What is answered when nothing is queued."""

        def give(request: Recorded) -> Answer:
            found = text if isinstance(text, str) else text(request)
            return found if isinstance(found, Answer) else Answer(pieces=words(found))

        self._default = give

    def _next(self, request: Recorded) -> Answer:
        wanted = request.json.get("model") if request.body else None
        for place, (model, answer) in enumerate(self._queue):
            if model is None or model == wanted:
                del self._queue[place]
                return answer
        if self._default is not None:
            return self._default(request)
        body = json.dumps({"error": {"message": "the test scripted no answer for this request"}}).encode()
        return Answer(status=400, body=body)

    # -- running ----------------------------------------------------------------------------------

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def __enter__(self) -> Self:
        self._thread = _Thread(self)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._thread is not None
        self._thread.stop()

    def sent(self, place: int = -1) -> list[dict[str, Any]]:
        """The messages of a request."""
        messages: list[dict[str, Any]] = self.requests[place].json["messages"]
        return messages

    async def asked(self, count: int) -> None:
        """Wait until `count` requests have come."""
        await self._bell.until(lambda: len(self.requests) >= count, f"fewer than {count} requests came")

    def wait_asked(self, count: int) -> None:
        """The same from a thread."""
        self._bell.wait(lambda: len(self.requests) >= count, f"fewer than {count} requests came")

    async def disconnected(self, count: int = 1) -> None:
        """Wait until the client has closed `count` connections in the middle of an answer."""
        await self._bell.until(lambda: self.disconnects >= count, "the client kept its connection")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            early: bytes | None = b""  # of the next request, read while the last answer was written
            while early is not None:
                request = await _read_request(reader, early)
                self.requests.append(request)
                self._bell.ring()
                early = await self._reply(request, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # cancelled only when the server closes
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _reply(
        self, request: Recorded, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes | None:
        """Answer one request; None where the connection ends with it."""
        if self.api_key and request.headers.get("authorization") != f"Bearer {self.api_key}":
            given = request.headers.get("authorization", "").removeprefix("Bearer ")
            message = f"Incorrect API key provided: {given}"
            answer = Answer(
                status=401,
                body=json.dumps({"error": {"message": message, "code": "invalid_api_key"}}).encode(),
            )
        else:
            answer = self._next(request)
        if answer.close:
            writer.transport.abort()
            return None
        writing = asyncio.ensure_future(_write(answer, request, writer))
        reading = asyncio.ensure_future(reader.read(1))  # b"" once the client has gone
        try:
            await asyncio.wait({writing, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not writing.done() and not await reading:
                self._left()
                return None
            if not await writing:
                return None
            return reading.result() if reading.done() else b""
        except ConnectionError:
            self._left()
            return None
        finally:
            writing.cancel()
            reading.cancel()
            await asyncio.gather(writing, reading, return_exceptions=True)

    def _left(self) -> None:
        self.disconnects += 1
        self._bell.ring()


async def _read_request(reader: asyncio.StreamReader, early: bytes) -> Recorded:
    head = early + await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Recorded(method, path, headers, body)


async def _write(answer: Answer, request: Recorded, writer: asyncio.StreamWriter) -> bool:
    if answer.hold is not None:
        await answer.hold.passed()
    streamed = answer.body is None and request.json.get("stream", False)
    headers = {"content-type": "text/event-stream" if streamed else "application/json"} | answer.headers
    lines = [f"HTTP/1.1 {answer.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join([*lines, "transfer-encoding: chunked", "", ""]).encode())
    await writer.drain()
    left = answer.cut_after
    async for data in body_of(answer, request, streamed):
        part = data if left is None else data[:left]
        step = answer.split or max(len(part), 1)
        for start in range(0, len(part), step):
            piece = part[start : start + step]
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        if left is not None:
            left -= len(part)
            if left <= 0:
                return False  # without the last chunk: the client sees a body that is cut short
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


class _Thread(threading.Thread):
    """The server on a loop of its own."""

    def __init__(self, server: ModelServer) -> None:
        super().__init__(name="model-server", daemon=True)
        self._server = server
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    def start(self) -> None:
        super().start()
        assert self._ready.wait(BOUND_SECONDS), "the model server did not start"

    def run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with self._server:
            self._ready.set()
            await self._stopping.wait()

    def stop(self) -> None:
        assert self._loop is not None
        assert self._stopping is not None
        self._loop.call_soon_threadsafe(self._stopping.set)
        self.join(BOUND_SECONDS)
        assert not self.is_alive(), "the model server did not stop"
