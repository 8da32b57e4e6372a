"""What the servers of platforms have in common: listening, being cut off, and waiting for what comes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


def application() -> web.Application:
    """An application that takes large files."""
    return web.Application(client_max_size=2**28)


@dataclass  # without slots: those of platforms have other bases with slots
class PlatformServer:
    """A server on a port of this machine. `tls`: with it, it is reached by https:// and wss://."""

    port: int = 0
    tls: ssl.SSLContext | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _runner: web.AppRunner | None = None
    _open: set[asyncio.Transport] = field(default_factory=set)

    @property
    def origin(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    async def listen(self, app: web.Application) -> None:
        """Listen on a free port of this machine, or on the one it had before."""
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True, ssl_context=self.tls)
        await site.start()
        assert site._server is not None
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]

    async def stop(self) -> None:
        """Cut all connections and listen no more."""
        runner, self._runner = self._runner, None
        self.cut()
        if runner is not None:
            await runner.cleanup()

    def cut(self) -> None:
        """Cut all connections."""
        for transport in list(self._open):
            # before Python 3.11.4 one of TLS that was closed twice cannot be aborted; it holds nothing more
            if getattr(transport, "_ssl_protocol", transport) is not None:
                transport.abort()

    async def until_true(self, reached: Callable[[], Any]) -> Any:
        """Wait until something is so, as far as what comes to the server tells; return what it gave."""
        while not (found := reached()):
            self._changed.clear()
            await self._changed.wait()
        return found


def taken(waiting: Mapping[str, list[Any]], *names: str) -> Any:
    """Take what comes in place of the next answer, by the first name that has something; None: the usual."""
    for name in names:
        if found := waiting.get(name):
            return found.pop(0)
    return None
