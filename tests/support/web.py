"""A web server on a real socket that says what a test tells it, and a resolver that answers by script.

async with Web() as web:
    web.pages["/"] = page("<p>hello")
    web.pages["/slow"] = b"..."          # the bytes of a whole answer, as they stand
    web.pages["/by-hand"] = serve        # async (Asked, StreamWriter) -> None
    ... web.url("/"); web.asked
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import TracebackType
from typing import Self

from hostler.egress.addresses import IPAddress


@dataclass(frozen=True)
class Asked:
    """One request as it came in. Header names are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Page = bytes | Callable[[Asked, asyncio.StreamWriter], Awaitable[None]] | Callable[[Asked], bytes]


def page(
    body: bytes | str = b"",
    *,
    status: str = "200 OK",
    kind: str = "text/html; charset=utf-8",
    headers: Sequence[str] = (),
) -> bytes:
    """A whole answer."""
    data = body.encode() if isinstance(body, str) else body
    lines = [
        f"HTTP/1.1 {status}",
        f"content-type: {kind}",
        f"content-length: {len(data)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def redirect(to: str, status: int = 302) -> bytes:
    """An answer that leads elsewhere."""
    return page(b"elsewhere", status=f"{status} Found", headers=[f"location: {to}"])


@dataclass
class Web:
    """The server."""

    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
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

    def url(self, path: str = "/", host: str | None = None) -> str:
        return f"{'https' if self.tls else 'http'}://{host or self.host}:{self.port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._one(reader, writer):
                    pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        asked = Asked(method, path, headers, body)
        self.asked.append(asked)
        found = self.pages.get(path, self.pages.get(path.partition("?")[0], self.pages.get("*")))
        if found is None:
            found = page("nothing here", status="404 Not Found", kind="text/plain")
        if isinstance(found, bytes):
            writer.write(found)
        else:
            said = found(asked) if _takes_one(found) else found(asked, writer)  # type: ignore[call-arg]
            if isinstance(said, bytes):
                writer.write(said)
            else:
                await said
                return False
        await writer.drain()
        return True


def _takes_one(serve: Callable[..., object]) -> bool:
    code = getattr(serve, "__code__", None)
    bound = 1 if hasattr(serve, "__self__") else 0
    return code is not None and code.co_argcount - bound == 1


@dataclass
class Names:
    """A resolver with answers by name: a list is one answer for ever, a list of lists one after the other."""

    answers: dict[str, list[str] | list[list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> Sequence[IPAddress]:
        self.asked.append(host)
        found = self.answers.get(host)
        if found is None:
            raise OSError("no such name")
        if found and isinstance(found[0], list):
            lists = found
            now = lists.pop(0) if len(lists) > 1 else lists[0]
            return [ip_address(text) for text in now]
        return [ip_address(str(text)) for text in found]
