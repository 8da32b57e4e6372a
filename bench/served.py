"""A `hostler serve` process with the bench's plugin, and a small HTTP client that costs little itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psutil

from hostler.host.lock import read_holder

PLUGIN = Path(__file__).with_name("plugin")
RUNNER = "plugin:bench/bench/default"
KEY = "the key of the bench"
START_SECONDS = 60.0
LOOK_SECONDS = 0.002
MAX_LINE = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Served:
    """A host process that takes requests."""

    process: psutil.Process
    port: int

    def cpu_seconds(self) -> float:
        """Of the host and all its plugin processes."""
        total = 0.0
        for process in (self.process, *self.process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def memory_bytes(self) -> int:
        """Resident memory of the host process alone."""
        return int(self.process.memory_info().rss)


@contextlib.contextmanager
def serving(*, with_plugin: bool = True) -> Iterator[Served]:
    """Start a host over a fresh data directory; everything is gone at the end."""
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        process = start(Path(folder), log, with_plugin=with_plugin)
        try:
            yield Served(psutil.Process(process.pid), wait_ready(Path(folder), process))
        finally:
            process.terminate()
            process.wait(START_SECONDS)


def start(folder: Path, log: Any, *, with_plugin: bool) -> subprocess.Popen[bytes]:
    """Spawn `hostler serve` over `folder`/data."""
    agents = [{"name": "worker", "runner": RUNNER}] if with_plugin else []
    plugins = [str(PLUGIN)] if with_plugin else []
    config = folder / "config.json"
    config.write_text(json.dumps({"plugins": plugins, "agents": agents}))
    command = [sys.executable, "-m", "hostler", "serve", "--data", str(folder / "data")]
    command += ["--port", "0", "--config", str(config), "--log-level", "warning"]
    env = environment() | {"HOSTLER_ADMIN_KEY": KEY}
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)


def environment() -> dict[str, str]:
    """The variables of a measured process: without settings of Hostler, and bytecode is kept as in use."""
    left_out = ("HOSTLER_", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


def wait_ready(folder: Path, process: subprocess.Popen[bytes]) -> int:
    """Wait until the host takes requests; its port."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        holder = read_holder(folder / "data")
        if holder is not None and holder.url:
            return int(holder.url.rpartition(":")[2])
        time.sleep(LOOK_SECONDS)
    raise RuntimeError(f"the host did not start: {(folder / 'log').read_text()[-2000:]}")


@dataclass(slots=True)
class Client:
    """One kept-alive connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, bytes]:
        """One request; status and body."""
        status, size = await self._ask(path, body, headers)
        if size is None:
            return status, b"".join([chunk async for chunk in self._chunks()])
        return status, await self.reader.readexactly(size)

    async def stream(self, path: str, body: Any) -> AsyncIterator[bytes]:
        """One request whose answer is an event stream; its chunks as they come."""
        status, size = await self._ask(path, body, {"accept": "text/event-stream"})
        if status != 200 or size is not None:
            raise RuntimeError(f"{path} answered {status}")
        async for chunk in self._chunks():
            yield chunk

    async def _ask(self, path: str, body: Any, headers: dict[str, str]) -> tuple[int, int | None]:
        content = msgspec.json.encode(body)
        lines = [f"POST {path} HTTP/1.1", "host: bench", f"authorization: Bearer {KEY}"]
        lines += [f"content-type: application/json\r\ncontent-length: {len(content)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + content)
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        size = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        return int(head.split(b" ", 2)[1]), int(size) if size else None

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)


@contextlib.asynccontextmanager
async def client(port: int) -> AsyncIterator[Client]:
    """A connection to the server at `port`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=MAX_LINE)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def message(event_id: str, text: str) -> dict[str, Any]:
    """An event for the bench's runner, in a conversation of its own."""
    return {
        "event_type": "message.received",
        "event_id": event_id,
        "agent": "worker",
        "conversation_id": f"conversation of {event_id}",
        "input": {"text": text},
    }
