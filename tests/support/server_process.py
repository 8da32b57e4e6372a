"""`hostler serve` as a process of its own, to be killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psutil

from hostler.host.data_directory import own_database
from hostler.host.lock import read_holder
from support import ready_processes
from support.databases import prepare_sqlite
from support.loopback import NO_CERTIFICATES
from support.ready_processes import CommandProcess
from support.trust import plugin_entry

KEY = secrets.token_urlsafe()
"""Of this test process: a host of another one, at a port that was ours before, refuses it."""
HOSTLER = [sys.executable, "-c", "from hostler.cli.main import main; main()"]
READY_SECONDS = 180.0
"""Bound of a start; generous, since it only has to end what hangs."""
CLIENT_SECONDS = 60.0
LOOK_SECONDS = 0.02
SAMPLE_SECONDS = 0.05
PLUGINS = Path(__file__).with_name("plugins")


class HostDiedError(Exception):
    """The host ended although nobody asked it to; the text is the end of its log."""


def config_file(path: Path, *, plugins: list[Path], agents: list[dict[str, Any]], **more: Any) -> Path:
    """Write a configuration (JSON is YAML)."""
    entries = [msgspec.to_builtins(plugin_entry(plugin)) for plugin in plugins]
    content = {"plugins": entries, "agents": agents, **more}
    path.write_text(json.dumps(content))
    return path


@dataclass
class HostProcess:
    """One host over one data directory, through all its lives."""

    data: Path
    config: Path
    database: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    within: list[str] = field(default_factory=list)
    """A command that goes on as the host, in other surroundings."""
    options: list[str] = field(default_factory=list)
    """Further ones of `hostler serve`."""
    constants: Mapping[str, float] = field(default_factory=dict)
    """Other values of module constants that shorten waits, see `ready_processes.start`."""
    url: str = ""
    lives: int = 0
    up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while it takes requests."""
    _process: CommandProcess | None = None

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """The end of what it wrote."""
        path = self.data.with_suffix(".log")
        return path.read_text(errors="replace")[-20_000:] if path.exists() else ""

    @property
    def data_seen(self) -> Path:
        """Where its data directory is to be found from here, whatever is mounted there for it."""
        if not self.within or self._process is None:
            return self.data
        return Path(f"/proc/{self._process.pid}/root", *self.data.parts[1:])

    def spawn(self) -> None:
        """Start the process, without waiting for anything."""
        assert self._process is None
        arguments = ["--data", str(self.data), "--port", "0", "--config", str(self.config)]
        if self.database is not None:
            arguments += ["--database", self.database]
        elif not self.within:
            prepare_sqlite(own_database(self.data))
        arguments += self.options
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HOSTLER_")}
        environment |= {"HOSTLER_ADMIN_KEY": KEY, "PYTHONFAULTHANDLER": "1", **self.environment}
        with self.data.with_suffix(".log").open("ab") as log:
            if self.within:
                self._process = subprocess.Popen(
                    [*self.within, *HOSTLER, "serve", *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                )
            else:
                self._process = ready_processes.start(
                    ["serve", *arguments], environment, log, constants=self.constants
                )
        self.lives += 1

    def client(self) -> httpx.AsyncClient:
        """An HTTP client with the administrator's key."""
        headers = {"authorization": f"Bearer {KEY}"}
        return httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=CLIENT_SECONDS, verify=NO_CERTIFICATES
        )

    async def locked(self) -> None:
        """Wait until it has the data directory; it is starting up then."""
        await self._until(lambda: self._holder() is not None)

    async def ready(self) -> None:
        """Wait until it takes requests."""
        await self._until(lambda: self._holder() not in {None, ""})
        self.url = self._holder() or ""
        self.up.set()

    async def start(self) -> None:
        """Start, and wait until it takes requests."""
        self.spawn()
        await self.ready()

    def check(self) -> None:
        """HostDiedError unless it lives."""
        if self._process is None or self._process.poll() is not None:
            status = None if self._process is None else self._process.returncode
            raise HostDiedError(f"it ended with status {status}\n{self.log}")

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it by force, and wait until the process is gone."""
        self.check()
        self.up.clear()
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(READY_SECONDS)
        self._process = None

    async def stop(self) -> int:
        """Ask it to end; its exit status."""
        self.up.clear()
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        process, self._process = self._process, None
        return await asyncio.to_thread(process.wait, READY_SECONDS)

    def pause(self) -> None:
        """Stop the process without it knowing."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def memory(self) -> int:
        """Resident bytes of the host process alone."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def end(self) -> None:
        """Whatever state it is in: nothing of it is left."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(READY_SECONDS)
        self._process = None

    def _holder(self) -> str | None:
        holder = read_holder(self.data_seen)
        if holder is None or self._process is None or holder.pid != self._process.pid:
            return None
        return holder.url or ""

    async def _until(self, holds: Any) -> None:
        async with asyncio.timeout(READY_SECONDS):
            while not holds():
                self.check()
                await asyncio.sleep(LOOK_SECONDS)


@dataclass
class Memory:
    """Resident bytes of a host: at first, and at most since then."""

    before: int
    peak: int

    @property
    def added(self) -> int:
        """What came in addition."""
        return self.peak - self.before


@contextlib.asynccontextmanager
async def sampled_memory(host: HostProcess) -> AsyncIterator[Memory]:
    """Look at the host's memory while the block runs."""
    memory = Memory(host.memory(), host.memory())

    async def sample() -> None:
        while True:
            memory.peak = max(memory.peak, host.memory())
            await asyncio.sleep(SAMPLE_SECONDS)

    sampling = asyncio.create_task(sample())
    try:
        yield memory
    finally:
        sampling.cancel()
        await asyncio.wait([sampling])
    memory.peak = max(memory.peak, host.memory())


@contextlib.asynccontextmanager
async def serving(host: HostProcess) -> AsyncIterator[HostProcess]:
    """A host that takes requests; gone when the block is left, however it is left."""
    try:
        await host.start()
        yield host
    finally:
        host.end()
