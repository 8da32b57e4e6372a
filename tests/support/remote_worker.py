"""Remote workers for tests: as a task of the test process, and as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from hostler.plugins.remote_workers.client import WorkerClient, WorkerSettings
from hostler_protocol.runs import TERMINAL_STATUSES
from support import ready_processes
from support.http_host import Served
from support.ready_processes import CommandProcess

PATH = "/v1/workers/connect"
LOOK_SECONDS = 0.02
READY_SECONDS = 120.0
"""Bound of a start; generous, since it only has to end what hangs."""
QUICK = {
    f"hostler.domain.worker_limits.{name}": value
    for name, value in {"BEAT_SECONDS": 0.2, "STALE_SECONDS": 3.0, "QUIET_SECONDS": 2.0}.items()
}
"""A worker that is silent is found within seconds; a machine that is only slow is not taken for one."""


def socket_url(url: str) -> str:
    """The address of the WebSocket of workers of a host."""
    return url.replace("http://", "ws://").replace("https://", "wss://") + PATH


@contextlib.asynccontextmanager
async def joined(
    served: Served,
    folder: Path,
    worker_id: str = "w1",
    labels: tuple[str, ...] = ("gpu",),
    *,
    slots: int = 4,
    workspace: str = "default",
    trusted: tuple[str, ...] = ("test/puppet",),
) -> AsyncIterator[WorkerClient]:
    """A worker in this process, once it has joined; stopped at the end."""
    key = await served.key(workspace, "workers:connect")
    settings = WorkerSettings(
        socket_url(served.url), key, worker_id, folder / worker_id, labels, slots, frozenset(trusted)
    )
    client = WorkerClient(settings)
    has_joined = asyncio.Event()
    client.on_joined = has_joined.set
    task = asyncio.create_task(client.run(), name=f"worker {worker_id}")
    waiting = asyncio.create_task(has_joined.wait())
    try:
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=READY_SECONDS)
        if task.done():
            task.result()
        assert has_joined.is_set()
        yield client
    finally:
        waiting.cancel()
        client.stop()
        await asyncio.wait([task])
        if (error := task.exception()) is not None:
            print(f"worker {worker_id}: {error}")


@dataclass
class WorkerProcess:
    """`hostler worker` as a process of its own, to be killed, through all its lives."""

    folder: Path
    worker_id: str
    url: str
    key: str
    labels: str = "gpu"
    slots: int = 4
    trusted: tuple[str, ...] = ("test/puppet",)
    environment: dict[str, str] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=lambda: dict(QUICK))
    _process: CommandProcess | None = None

    @property
    def log_path(self) -> Path:
        return self.folder / f"{self.worker_id}.log"

    @property
    def log(self) -> str:
        """The end of what it wrote."""
        return self.log_path.read_text(errors="replace")[-20_000:] if self.log_path.exists() else ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def spawn(self) -> None:
        """Start the process, without waiting for anything."""
        assert self._process is None
        arguments = ["worker", "--connect", self.url, "--id", self.worker_id, "--labels", self.labels]
        arguments += ["--slots", str(self.slots), "--data", str(self.folder)]
        for plugin in self.trusted:
            arguments += ["--trust", plugin]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HOSTLER_")}
        environment |= {"HOSTLER_KEY": self.key, "PYTHONFAULTHANDLER": "1", **self.environment}
        with self.log_path.open("ab") as log:
            self._process = ready_processes.start(arguments, environment, log, constants=self.constants)

    async def joined(self, times: int = 1) -> None:
        """Wait until it has said so often that it is connected."""
        async with asyncio.timeout(READY_SECONDS):
            while self.log.count("is connected to") < times:
                assert self._process is not None
                assert self._process.poll() is None, self.log
                await asyncio.sleep(LOOK_SECONDS)

    async def start(self) -> None:
        """Start, and wait until it has joined."""
        before = self.log.count("is connected to")
        self.spawn()
        await self.joined(before + 1)

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def ended(self) -> int:
        """Wait until it has ended; its exit status."""
        process, self._process = self._process, None
        assert process is not None
        return await asyncio.to_thread(process.wait, READY_SECONDS)

    def plugin_processes(self, plugin: str = "test/puppet") -> list[psutil.Process]:
        """The processes of a plugin that it has started and that live."""
        log = self.folder / "workers" / self.worker_id / "logs" / "plugins" / f"{plugin}.log"
        pids = {int(pid) for pid in re.findall(r"started as process (\d+)", log.read_text())}
        return [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]

    def kill(self) -> None:
        """End it by force, and wait until the process is gone."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(READY_SECONDS)
        self._process = None

    def end(self) -> None:
        """Whatever state it is in: nothing of it is left."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGCONT)
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(READY_SECONDS)
        self._process = None


async def worker_of(served: Served, worker_id: str = "w1") -> Any:
    """A worker as `/v1/workers` shows it."""
    answer = await served.client.get(f"/v1/workers/{worker_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def worker_when(served: Served, holds: Callable[[Any], bool], worker_id: str = "w1") -> Any:
    """A worker as `/v1/workers` shows it, once it is so."""
    async with asyncio.timeout(READY_SECONDS):
        while not holds(found := await worker_of(served, worker_id)):
            await asyncio.sleep(LOOK_SECONDS)
    return found


async def run_when(served: Served, run_id: str, holds: Callable[[Any], bool]) -> Any:
    """A run as `/v1/runs` shows it, once it is so."""
    async with asyncio.timeout(READY_SECONDS):
        while not holds(found := (await served.client.get(f"/v1/runs/{run_id}")).json()):
            await asyncio.sleep(LOOK_SECONDS)
    return found


async def ended(served: Served, run_id: str) -> Any:
    """A run once it is over."""
    return await run_when(served, run_id, lambda run: run["status"] in TERMINAL_STATUSES)


async def send(served: Served, text: str, agent: str = "far", **fields: Any) -> str:
    """Send a message to an agent; the id of its run."""
    accepted = await served.say(text, wait=None, agent=agent, **fields)
    return str(accepted["run"]["run_id"])


async def at_work(served: Served, run_id: str) -> Any:
    """A run once its runner has said something."""
    return await run_when(served, run_id, lambda run: (run["sequence"] or 0) > 0)
