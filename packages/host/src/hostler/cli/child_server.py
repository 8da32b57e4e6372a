"""A server as a child process, for commands that need one while none is running."""

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
"""From the start of the process to an answer of /readyz; environments of plugins may have to be built."""
POLL_SECONDS = 0.03
STOP_SECONDS = 45.0
"""A server gives its runs 30 s to finish."""
MAX_STDERR_LINES = 200


class ServerDiedError(HostError):
    """The child process ended before it was ready; the message is its last error."""


class ChildServer:
    """A running `hostler serve`."""

    def __init__(self, process: asyncio.subprocess.Process, data_dir: Path) -> None:
        self._process = process
        self._stderr: deque[str] = deque(maxlen=MAX_STDERR_LINES)
        self._reader = asyncio.create_task(self._read())
        self._not_ready = ""
        self.data_dir = data_dir
        self.address = Address("", "")

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def _read(self) -> None:
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            self._stderr.append(line.decode("utf-8", "replace").rstrip())

    async def ready(self) -> None:
        """Wait until it accepts events. ServerDiedError if it ends, or is not ready within 60 s."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                while not await self._is_ready():
                    await asyncio.wait([self._reader], timeout=POLL_SECONDS)
                    if self._reader.done():
                        await self._process.wait()
                        raise ServerDiedError(self._why())
        except TimeoutError:
            why = self._not_ready or "it did not announce its address"
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
        for line in reversed(self._stderr):
            if line.startswith("error: "):
                return line.removeprefix("error: ")
        return self._stderr[-1] if self._stderr else f"it ended with status {self._process.returncode}"

    async def kill(self) -> None:
        """Kill it with SIGKILL, like a power cut."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reader

    async def stop(self) -> None:
        """Stop it with SIGTERM, and kill it if it has not ended after 45 s."""
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
    """Start a server and wait until it is ready. ServerDiedError with the reason if it does not start."""
    command = [sys.executable, "-m", "hostler", "serve", "--data", str(data_dir), "--port", str(port)]
    if config is not None:
        command += ["--config", str(config)]
    admin_key(data_dir, os.environ.get("HOSTLER_ADMIN_KEY"))  # so that the server does not print a new one
    process = await asyncio.create_subprocess_exec(
        *command,
        "--log-level",
        "warning",
        "--with-parent",
        stdin=asyncio.subprocess.PIPE,  # closes when this process ends; the server then stops
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in the terminal is for the command alone
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
    """Run a child server during the block."""
    server = await start_server(data_dir, port=port, config=config)
    try:
        yield server
    finally:
        await server.stop()
