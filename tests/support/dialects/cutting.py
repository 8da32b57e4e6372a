"""A TCP proxy between a client and a host: it hands on a byte at a time, or breaks connections off."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field


@dataclass
class Cutting:
    """Where it leads to, and what it does. `url` is the address for clients."""

    port: int
    """Of the host; it may be another one later."""
    url: str = ""
    crumbs: bool = False
    """Whether each byte to the client is a write of its own."""
    connections: int = 0
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection."""
        self.connections += 1
        try:
            from_host, to_host = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, to_host}
        with contextlib.suppress(OSError):
            await asyncio.gather(
                self._forward(reader, to_host), self._forward(from_host, writer, self.crumbs)
            )
        self._writers -= {writer, to_host}

    def cut(self) -> None:
        """Break off all connections, as they stand."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, crumbs: bool = False
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                for piece in [data[n : n + 1] for n in range(len(data))] if crumbs else [data]:
                    writer.write(piece)
                    await writer.drain()
                    if crumbs:
                        await asyncio.sleep(0)
        writer.close()


@contextlib.asynccontextmanager
async def cutting(port: int) -> AsyncIterator[Cutting]:
    """A proxy in front of a port of this machine."""
    made = Cutting(port)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        made.cut()
        server.close()
