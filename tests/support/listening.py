"""An HTTP server on a real socket whose answers a test writes, byte for byte."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Self


class Asked(NamedTuple):
    """One request as it came in. Header names are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


async def read_request(reader: asyncio.StreamReader) -> Asked:
    """The next request of a connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in head[1:] if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, body)


@dataclass
class Listening:
    """The server, for the time of the block: whoever derives from it says what it answers."""

    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    connections: int = 0
    port: int = 0
    _server: asyncio.Server | None = None
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self.host, 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def answer(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection stays."""
        raise NotImplementedError

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self.answer(await read_request(reader), writer):
                    await writer.drain()
        finally:
            self._open.discard(task)
            writer.close()


__all__ = ["Asked", "Listening", "read_request"]
