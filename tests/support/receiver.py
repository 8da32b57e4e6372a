"""A receiver of webhooks on a real socket, scripted by the test.

    async with Receiver() as receiver:
        receiver.answers = ["500", "hang", "302", "die", "slow", "200"]   # one a request; then 200
        got = await receiver.request()                                     # the next one that came in

`hang` never answers, `die` closes in the middle of the answer, `slow` sends headers byte by byte for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from support.databases import TEST_SECONDS


@dataclass(frozen=True)
class Received:
    """One request as it came in. Header names are lower case."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """The server. `headers` are added to every answer."""

    answers: list[str] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    requests: list[Received] = field(default_factory=list)
    _news: asyncio.Queue[Received] = field(default_factory=asyncio.Queue)
    _server: asyncio.Server | None = None
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/hook?token=in-the-address"

    async def request(self) -> Received:
        """The next request that came in."""
        async with asyncio.timeout(TEST_SECONDS):
            return await self._news.get()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._one(reader, writer):
                    pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        received = Received(head[0].split(" ")[1], headers, body)
        answer = self.answers.pop(0) if self.answers else "200"
        self.requests.append(received)
        self._news.put_nowait(received)
        match answer:
            case "hang":
                await asyncio.Event().wait()
            case "die":
                writer.write(b"HTTP/1.1 200 O")
                await writer.drain()
                return False
            case "slow":
                writer.write(b"HTTP/1.1 200 OK\r\n")
                while True:
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.01)
        extra = "".join(f"{line}\r\n" for line in self.headers)
        writer.write(f"HTTP/1.1 {answer} X\r\ncontent-length: 12\r\n{extra}\r\n".encode() + b"their secret")
        await writer.drain()
        return True
