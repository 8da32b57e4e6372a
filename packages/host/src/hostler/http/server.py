"""The HTTP server: its socket, its limits, its start and its graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import uvicorn

from hostler.host.config import ASSETS_PATH
from hostler.http.app import App, make_app
from hostler.http.connection import BoundedConnection, bounded_socket
from hostler.http.limits import KEEP_ALIVE_SECONDS, MAX_HEADER_BYTES, SHUTDOWN_SECONDS, STREAM_FINISH_SECONDS
from hostler_protocol.errors import UnavailableError
from hostler_protocol.limits import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from hostler.host.config import Settings
    from hostler.host.host import Host

_KEYS_WORKER = "keys in use"
_BACKLOG = 2048
"""Connections that wait in the kernel until they are accepted."""
_ACCEPTED_AT_ONCE = 8
"""In one turn of the event loop; they are counted, and refused if they are too many, in later ones. asyncio
accepts as many as its backlog, which would use up all open files before the first is counted."""


class _Uvicorn(uvicorn.Server):
    """uvicorn without its signal handlers, because the command line handles signals."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start serving, with a queue in the kernel that is longer than what asyncio accepts at once."""
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(_BACKLOG)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield


class HttpServer:
    """One listening socket and the application behind it."""

    def __init__(self, app: App, listener: socket.socket) -> None:
        self.app = app
        self._listener = listener
        self._server = _Uvicorn(
            uvicorn.Config(
                app,
                http=BoundedConnection,
                ws=bounded_socket,  # type: ignore[arg-type]  # a callable instead of a class
                ws_max_size=MAX_MESSAGE_BYTES + 1,
                ws_max_queue=4,
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # a client must not set its address by a header
                server_header=False,
                backlog=_ACCEPTED_AT_ONCE,
                h11_max_incomplete_event_size=MAX_HEADER_BYTES,
                timeout_keep_alive=int(KEEP_ALIVE_SECONDS),
                timeout_graceful_shutdown=int(SHUTDOWN_SECONDS),
            )
        )
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The URL of the server, with its actual port."""
        return url_of(*self._listener.getsockname()[:2])

    async def start(self) -> None:
        """Start serving."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._listener]), name="http server")
        state = self.app.state
        state.host.workers.start(_KEYS_WORKER, state.open_keys.keep)

    async def wait(self) -> None:
        """Wait until the server has ended. Raises the error that ended it."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def close(self) -> None:
        """End open streams, let requests finish for SHUTDOWN_SECONDS, then close all connections.

        Streams of runs that have ended get STREAM_FINISH_SECONDS first to send the last results.
        """
        await self.app.state.streams.finish(STREAM_FINISH_SECONDS)
        self.app.state.streams.close()
        await self.app.state.host.workers.end(_KEYS_WORKER)
        self._server.should_exit = True
        if self._task is not None:
            await self._task
        self._listener.close()


def url_of(host: str, port: int) -> str:
    """Return the HTTP URL of an address."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """Bind and listen. UnavailableError, naming the address, if that fails."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise UnavailableError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another with --host or --port"
        ) from error
    return listener


async def serve(host: Host, settings: Settings) -> HttpServer:
    """Bind the configured address and start to serve. `close` the returned server at the end."""
    server = HttpServer(make_app(host), listen(settings.host, settings.port))
    if host.assets.url is None:
        host.assets.url = f"{server.url}{ASSETS_PATH}"
    await server.start()
    return server
