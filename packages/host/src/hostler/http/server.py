"""The HTTP server around the application: its socket, its bounds, and its orderly end."""

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
from hostler.http.limits import (
    KEEP_ALIVE_SECONDS,
    MAX_HEADER_BYTES,
    SHUTDOWN_SECONDS,
    STREAM_FINISH_SECONDS,
)
from hostler_protocol.errors import UnavailableError
from hostler_protocol.limits import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from hostler.host.config import Settings
    from hostler.host.host import Host

_BACKLOG = 2048


class _Uvicorn(uvicorn.Server):
    """uvicorn without its signal handlers: the command line decides what a signal means."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
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
                ws=bounded_socket,  # type: ignore[arg-type]  # only called, as the class would be
                ws_max_size=MAX_MESSAGE_BYTES + 1,
                ws_max_queue=4,
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # an address that a header can change is none
                server_header=False,
                h11_max_incomplete_event_size=MAX_HEADER_BYTES,
                timeout_keep_alive=int(KEEP_ALIVE_SECONDS),
                timeout_graceful_shutdown=int(SHUTDOWN_SECONDS),
            )
        )
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where it listens, with the port it really has."""
        return url_of(*self._listener.getsockname()[:2])

    async def start(self) -> None:
        """Begin to answer."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._listener]), name="http server")

    async def wait(self) -> None:
        """Until it has ended; raises what ended it, if it was an error."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def close(self) -> None:
        """End open streams, let requests finish for SHUTDOWN_SECONDS, cut off what is left.

        Streams of runs that have ended are sent to their end first.
        """
        await self.app.state.streams.finish(STREAM_FINISH_SECONDS)
        self.app.state.streams.close()
        self._server.should_exit = True
        if self._task is not None:
            await self._task
        self._listener.close()


def url_of(host: str, port: int) -> str:
    """The URL of an address."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """Bind the address. UnavailableError names it where that is not possible."""
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
    """Bind, and answer from now on. The server that is returned knows its `url`; `close` ends it."""
    server = HttpServer(make_app(host), listen(settings.host, settings.port))
    if host.assets.url is None:
        host.assets.url = f"{server.url}{ASSETS_PATH}"
    await server.start()
    return server
