"""A server as a child process: for commands that bring their own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hostler.cli.client import Api
from hostler.cli.server_address import Address
from hostler.host.lock import read_holder
from hostler.http.admin_key import admin_key
from hostler_protocol.errors import HostError, HostlerError

READY_SECONDS = 60.0
"""From the start of the process to the answer of /readyz; plugins may have environments to build."""
POLL_SECONDS = 0.03
STOP_SECONDS = 45.0
"""A server lets its runs finish for 30 s."""
KEPT_LINES = 200


class ServerDiedError(HostError):
    """The child process ended before it was ready; the message is its own."""


class ChildServer:
    """A running `hostler serve`."""

    def __init__(self, process: asyncio.subprocess.Process, data_dir: Path) -> None:
        self._process = process
        self._said: deque[str] = deque(maxlen=KEPT_LINES)
        self._reader = asyncio.create_task(self._read())
        self._not_ready = ""
        self.data_dir = data_dir
        self.address = Address("", "")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def _read(self) -> None:
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            self._said.append(line.decode("utf-8", "replace").rstrip())

    async def ready(self) -> None:
        """Wait until it takes events. ServerDiedError."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                while not await self._is_ready():
                    await asyncio.wait([self._reader], timeout=POLL_SECONDS)
                    if self._reader.done():
                        await self._process.wait()
                        raise ServerDiedError(self._why())
        except TimeoutError:
            why = self._not_ready or "it did not say where it listens"
            raise ServerDiedError(f"the server was not ready within {READY_SECONDS:.0f} s: {why}") from None

    async def _is_ready(self) -> bool:
        holder = read_holder(self.data_dir)
        if holder is None or holder.pid != self._process.pid or holder.url is None:
            return False
        key = admin_key(self.data_dir, os.environ.get("HOSTLER_ADMIN_KEY")).key
        self.address = Address(holder.url, key)
        api = Api.at(holder.url, key)
        try:
            await api.get("/readyz")
        except HostlerError as error:
            self._not_ready = error.message
            return False
        finally:
            await api.close()
        return True

    def _why(self) -> str:
        for line in reversed(self._said):
            if line.startswith("error: "):
                return line.removeprefix("error: ")
        return self._said[-1] if self._said else f"it ended with status {self._process.returncode}"

    async def kill(self) -> None:
        """kill -9, as a power cut would."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reader

    async def stop(self) -> None:
        """End it in order; killed where that takes too long."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._process.wait()
        if self._process.returncode is None:
            await self.kill()
        await self._reader


async def start_server(data_dir: Path, *, port: int = 0, config: Path | None = None) -> ChildServer:
    """Start one and wait until it is ready. ServerDiedError with its reason."""
    command = [sys.executable, "-m", "hostler", "serve", "--data", str(data_dir), "--port", str(port)]
    if config is not None:
        command += ["--config", str(config)]
    admin_key(data_dir, os.environ.get("HOSTLER_ADMIN_KEY"))  # made here, so that it is not said twice
    process = await asyncio.create_subprocess_exec(
        *command,
        "--log-level",
        "warning",
        "--with-parent",
        stdin=asyncio.subprocess.PIPE,  # held open: its end tells the server that we are gone
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in the terminal is the command's to act on
    )
    server = ChildServer(process, data_dir)
    try:
        await server.ready()
    except BaseException:
        await server.kill()
        raise
    return server


@asynccontextmanager
async def serving(data_dir: Path, *, port: int = 0, config: Path | None = None) -> AsyncIterator[ChildServer]:
    """A child server for the time of the block."""
    server = await start_server(data_dir, port=port, config=config)
    try:
        yield server
    finally:
        await server.stop()
