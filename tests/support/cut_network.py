"""A network between a browser and a host, that can be cut and is whole again later."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

PIECE_BYTES = 16_384


class Network:
    """Forwards connections to a host. `url` is its own address."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._is_cut = False
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.url = ""

    def cut(self) -> None:
        """Break all connections, and refuse new ones."""
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def hang(self) -> None:
        """Let nothing through any more, while connections look as if they stood."""
        self._flows.clear()

    def join(self) -> None:
        """Let connections through again, with all that was held back."""
        self._is_cut = False
        self._flows.set()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection, both ways."""
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            far, near = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:  # the host is not there
            writer.transport.abort()
            return
        with contextlib.suppress(OSError):
            self._writers |= {writer, near}
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._forward(reader, near))
                    both.create_task(self._forward(far, writer))
            finally:
                self._writers -= {writer, near}

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(PIECE_BYTES):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
            await self._flows.wait()
        writer.transport.abort()


@contextlib.asynccontextmanager
async def network_to(port: int) -> AsyncIterator[Network]:
    """A network to the port of a host on this machine."""
    made = Network(port)
    server = await asyncio.start_server(made.take, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        made.cut()
        server.close()
