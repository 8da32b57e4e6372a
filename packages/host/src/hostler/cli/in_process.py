"""A host in this process as the server of one command, without a socket.

A request that only reads is answered from the database; the first other one opens a passive host, which
starts no runs. `hostler run` brings a host of its own, which does.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from hostler.cli.transport import BrokenError, HttpReply, HttpRequest, Streamed

if TYPE_CHECKING:
    from hostler.host.host import Host
    from hostler.host.read_only import ReadOnlyHost
    from hostler.http.app import App

WAITING_MESSAGES = 16
"""Pieces of a stream that wait to be read."""


class InProcessTransport:
    """A `Transport` to a data directory. The first request that needs a host opens it."""

    def __init__(self, data_dir: Path, database: str | None, key: str | None = None) -> None:
        self._data_dir = data_dir
        self._database = database
        self._opened = AsyncExitStack()
        self._app: App | None = None
        self._reading: ReadOnlyHost | None = None
        self.key = key or secrets.token_urlsafe(24)
        """The administrator's key of the host, known to this process alone."""

    @classmethod
    def of_host(cls, host: Host) -> InProcessTransport:
        """Connect to a host that is open already; it stays open after `close`."""
        from hostler.http.app import make_app

        transport = cls(host.settings.data_dir, host.settings.database, host.settings.admin_key)
        transport._app = make_app(host)
        return transport

    async def send(self, request: HttpRequest) -> HttpReply:
        """See `Transport`."""
        if self._app is None and (found := await self._read(request)) is not None:
            return found
        async with self.stream(request) as answer:
            body = b"\n".join([line async for line in answer.lines])
        return HttpReply(answer.status, answer.reason, body)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncGenerator[Streamed]:
        """See `Transport`."""
        app = await self._host()
        exchange = _Exchange(request)
        task = asyncio.create_task(app(_scope(request), exchange.receive, exchange.messages.put))
        task.add_done_callback(lambda _: exchange.over.set())
        try:
            status = await exchange.status(task)
            yield Streamed(status, "", exchange.lines(task))
        finally:
            exchange.gone.set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        """Close the host and the database."""
        await self._opened.aclose()

    async def _read(self, request: HttpRequest) -> HttpReply | None:
        """Answer a request that only reads, without a host. None if it needs one."""
        if self._database is not None or request.method != "GET":
            return None
        from hostler.host.data_directory import DEFAULT_WORKSPACE
        from hostler.http.read_only import answer, can_answer
        from hostler.storage.sql.read_only import NeedsHostError

        path, _, query = request.target.partition("?")
        if not can_answer(path) or (host := await self._reading_host()) is None:
            return None
        try:
            status, body = await answer(host, DEFAULT_WORKSPACE, path, query)
        except NeedsHostError:
            return None
        return HttpReply(status, "", body)

    async def _reading_host(self) -> ReadOnlyHost | None:
        if self._reading is None:
            from hostler.host.read_only import ReadOnlyHost

            self._reading = await ReadOnlyHost.open(self._data_dir)
            if self._reading is not None:
                self._opened.push_async_callback(self._reading.close)
        return self._reading

    async def _host(self) -> App:
        if self._app is None:
            from hostler.host.config import Settings
            from hostler.host.host import Host
            from hostler.http.app import make_app

            settings = Settings(
                data_dir=self._data_dir,
                database=self._database,
                admin_key=self.key,
                passive=True,
                shutdown_grace_seconds=0.0,
            )
            self._app = make_app(await self._opened.enter_async_context(Host.open(settings)))
        return self._app


class _Exchange:
    """One request to the application, and its answer so far."""

    def __init__(self, request: HttpRequest) -> None:
        self.messages: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue(WAITING_MESSAGES)
        self.gone = asyncio.Event()
        """Set when the answer is no longer read."""
        self.over = asyncio.Event()
        self._body: bytes | None = request.body
        self._on_sent = request.on_sent

    async def receive(self) -> dict[str, Any]:
        """Return the next ASGI message to the application: the body, then the disconnect."""
        if self._body is not None:
            body, self._body = self._body, None
            self._on_sent(len(body))
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def status(self, task: asyncio.Task[None]) -> int:
        """Wait for the status. BrokenError if the application ends without one."""
        message = await self._next(task)
        if message is None:
            raise BrokenError("the host gave no answer")
        status: int = message["status"]
        return status

    async def lines(self, task: asyncio.Task[None]) -> AsyncIterator[bytes]:
        """Yield the lines of the body, without line ends."""
        rest = b""
        while (message := await self._next(task)) is not None and message["type"] == "http.response.body":
            *whole, rest = (rest + message.get("body", b"")).split(b"\n")
            for line in whole:
                yield line
            if not message.get("more_body", False):
                break
        yield rest

    async def _next(self, task: asyncio.Task[None]) -> MutableMapping[str, Any] | None:
        waiting, over = asyncio.ensure_future(self.messages.get()), asyncio.ensure_future(self.over.wait())
        try:
            await asyncio.wait({waiting, over}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            if not self.messages.empty():
                return self.messages.get_nowait()
            await task  # ended without an answer: raises its error
            return None
        finally:
            waiting.cancel()
            over.cancel()


def _scope(request: HttpRequest) -> dict[str, Any]:
    path, _, query = request.target.partition("?")
    headers = {**request.headers, "content-length": str(len(request.body))}
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "headers": [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()],
        "server": ("localhost", 80),
        "client": ("127.0.0.1", 0),
        "root_path": "",
    }
