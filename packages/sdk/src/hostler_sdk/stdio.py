"""Standard input and output as a transport, safe from stray prints."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from typing import Any, NamedTuple, cast

from hostler_sdk.client import HostConnection
from hostler_sdk.loading import PluginLoadError
from hostler_sdk.plugin import Plugin

READ_BYTES = 64 * 1024
"""What a pipe of Linux holds. asyncio's default is 256 KiB, which malloc maps and unmaps for each read."""
WRITE_BUFFER_BYTES = 256 * 1024
"""Bytes that may wait for a host that does not read, before runners have to wait."""
STOP_SECONDS = 1.0
"""Time for the code of runs to clean up, once the host is gone."""
FLUSH_SECONDS = 5.0
"""Time for the host to read the last messages after an orderly shutdown."""


class Wires(NamedTuple):
    """The file descriptors that carry the protocol."""

    read: int
    write: int


def check_stdio() -> None:
    """Raise PluginLoadError unless standard input and output can carry the protocol."""
    for number, name in ((0, "input"), (1, "output")):
        try:
            mode = os.fstat(number).st_mode
        except OSError as error:
            raise PluginLoadError(f"standard {name} is closed; a host starts plugins with pipes") from error
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)):
            raise PluginLoadError(
                f"standard {name} must be a pipe, not a file: a host speaks to a plugin through both; "
                "try `hostler run` or `hostler test`"
            )


def take_stdio() -> Wires:
    """Reserve standard input and output for the protocol; from then on prints go to standard error.

    This replaces the descriptors too, so that child processes and C code cannot disturb the protocol either.
    """
    wires = Wires(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return wires


class _Reader(asyncio.Protocol):
    def __init__(self) -> None:
        self.connection: HostConnection | None = None

    def data_received(self, data: bytes) -> None:
        if self.connection is not None:
            self.connection.received(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self.connection is not None:
            self.connection.lost("the host closed standard input" if error is None else str(error))


class _Writer(asyncio.BaseProtocol):
    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self.connection: HostConnection | None = None
        self.transport: asyncio.WriteTransport | None = None

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    async def drain(self) -> None:
        await self._writable.wait()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._writable.set()
        self.closed.set()
        if self.connection is not None:
            self.connection.lost("the host no longer reads" if error is None else str(error))


async def serve_stdio(plugin: Plugin, wires: Wires) -> bool:
    """Serve a host over two pipes until it shuts the plugin down or is gone.

    Return whether the code of all runs has ended; if not, the caller must force the process to exit.
    """
    loop = asyncio.get_running_loop()
    writer, reader = _Writer(), _Reader()
    transport, _ = await loop.connect_write_pipe(lambda: writer, os.fdopen(wires.write, "wb", 0))
    transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
    writer.transport = transport
    connection = HostConnection(plugin, writer)
    writer.connection = reader.connection = connection
    reading, _ = await loop.connect_read_pipe(lambda: reader, os.fdopen(wires.read, "rb", 0))
    cast("Any", reading).max_size = READ_BYTES
    loop.add_signal_handler(signal.SIGTERM, connection.lost, "the process was asked to end")
    await connection.closed.wait()
    stopped = await connection.stopped(STOP_SECONDS)
    reading.close()
    if connection.reason:
        transport.abort()
    else:
        transport.close()
    try:
        async with asyncio.timeout(FLUSH_SECONDS):
            await writer.closed.wait()
    except TimeoutError:
        transport.abort()
    return stopped
