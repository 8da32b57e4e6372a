"""MCP servers as processes, and the tools of a host that has them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from hostler.domain.mcp_entry import McpEntry
from hostler.domain.tool_entries import ToolEntry
from hostler.domain.tool_pins import ListedTool, StoredPin, pin_changes
from hostler.host.workers import Workers
from hostler.plugins.tool_servers import McpProcesses
from hostler.secrets.stored import StoredSecrets
from hostler.tools.errors import OutcomeUnknownError
from hostler.tools.mcp.limits import DEFAULT_MCP_LIMITS, McpLimits
from hostler.tools.mcp.port import McpContext
from hostler.tools.mcp.source import McpTools
from hostler.tools.port import OfferedTool, ToolInvocation
from hostler_protocol.errors import UnavailableError

PROGRAM = Path(__file__).with_name("mcp_server.py")
WORKSPACE = "w"
BOUND_SECONDS = 90.0
"""Of every wait: generous, since it only has to end what hangs."""
LOOPBACK = ["127.0.0.0/8"]


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test that is a coroutine."""

    @functools.wraps(test)
    def run(*given: Any, **named: Any) -> None:
        asyncio.run(test(*given, **named))

    return run


class Pins:
    """A `PinStore` in memory: the one in the database has its own tests."""

    def __init__(self) -> None:
        self.pins: dict[str, dict[str, StoredPin]] = {}
        self.refusals: list[tuple[str, str]] = []

    async def known(self, owner: str) -> Mapping[str, StoredPin]:
        return dict(self.pins.get(owner, {}))

    async def see(self, owner: str, seen: Mapping[str, ListedTool]) -> Mapping[str, StoredPin]:
        known = self.pins.setdefault(owner, {})
        known |= {change.pin.tool: change.pin for change in pin_changes(known, seen)}
        return dict(known)

    async def approve(self, owner: str, tool: str, digest: str, actor: str) -> bool:
        pin = self.pins[owner][tool]
        if pin.seen_digest != digest:
            return False
        self.pins[owner][tool] = replace(pin, digest=digest, definition=pin.seen_definition)
        return True

    async def refused(self, owner: str, tool: str, digest: str, reason: str) -> None:
        self.refusals.append((f"{owner}#{tool}", reason))


@dataclass
class Bench:
    """The tools of one server, and the folder by which it is told what to do."""

    tools: McpTools
    folder: Path
    pins: Pins
    data: Path
    name: str = "s"
    calls: int = field(default=0)

    def offered(self, tool: str) -> OfferedTool:
        return self.tools.offered(WORKSPACE)[f"mcp:{self.name}#{tool}"]

    def invocation(self, tool: str, given: dict[str, Any], seconds: float | None = None) -> ToolInvocation:
        self.calls += 1
        return ToolInvocation(
            tool_name=f"{self.name}.{tool}",
            parameters=given,
            run_id="r",
            call_id=f"c{self.calls}",
            effect_key=f"key {self.calls}",
            workspace_id=WORKSPACE,
            pin=self.offered(tool).pin,
            deadline=None if seconds is None else time.time() + seconds,
        )

    async def call(self, tool: str, /, *, seconds: float | None = None, **given: Any) -> Any:
        async with asyncio.timeout(BOUND_SECONDS):
            return await self.tools.call(self.invocation(tool, given, seconds))

    async def text(self, tool: str, /, **given: Any) -> str:
        """The one text that a tool answers."""
        (element,) = (await self.call(tool, **given))["content"]
        assert element["type"] == "text"
        said: str = element["text"]
        return said

    async def time_out(self, tool: str) -> None:
        """Have a call end by its deadline that the server had begun, however slow the machine is."""
        seconds = 0.5
        while not self.begun(tool):
            with contextlib.suppress(OutcomeUnknownError, UnavailableError):
                await self.call(tool, seconds=seconds)
                raise AssertionError(f"{tool} has answered")
            seconds *= 2

    def begun(self, tool: str) -> int:
        """How often the server began to run a tool."""
        return sum(line.startswith(f"call {tool} ") for line in self.journal)

    @property
    def journal(self) -> list[str]:
        path = self.folder / "journal"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def state(self) -> tuple[str, str]:
        (server,) = self.tools.servers(WORKSPACE)
        return server.state, server.reason or ""

    @property
    def last_fault(self) -> str:
        (server,) = self.tools.servers(WORKSPACE)
        return server.last_fault or ""

    @property
    def failures(self) -> int:
        """How often in a row it could not be connected to."""
        return self.tools._servers[self.name]._breaker.failures

    async def until(self, holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(BOUND_SECONDS):
            while not holds():
                await asyncio.sleep(0.02)

    async def until_ready(self) -> None:
        await self.until(lambda: self.state[0] == "ready")


@contextlib.asynccontextmanager
async def benched(
    entry: McpEntry,
    folder: Path,
    data: Path,
    *,
    pins: Pins | None = None,
    limits: McpLimits = DEFAULT_MCP_LIMITS,
    ready: bool = True,
    secrets: StoredSecrets | None = None,
) -> AsyncIterator[Bench]:
    """The tools of one server, connected."""
    book = pins or Pins()
    resolve = (secrets or StoredSecrets()).resolve
    around = McpContext(McpProcesses(data), book, Workers(), limits, resolve=resolve)
    tools = McpTools(WORKSPACE, around)
    bench = Bench(tools, folder, book, data, entry.name)
    try:
        tools.check([ToolEntry(mcp=entry)])
        await tools.configure([ToolEntry(mcp=entry)])
        if ready:
            await bench.until_ready()
        yield bench
    finally:
        async with asyncio.timeout(BOUND_SECONDS):
            await tools.close()


def command(folder: Path, *options: str) -> list[str]:
    """The command of a server over stdio."""
    folder.mkdir(exist_ok=True)
    return [sys.executable, str(PROGRAM), str(folder), *options]


def over_stdio(folder: Path, *options: str, **more: Any) -> McpEntry:
    """The entry of a server that is started over stdio."""
    return McpEntry(name="s", command=command(folder, *options), level="trusted", **more)


@contextlib.contextmanager
def http_server(folder: Path, *options: str) -> Iterator[str]:
    """A server over HTTP; its address."""
    process = subprocess.Popen(command(folder, *options, "--http"), stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + BOUND_SECONDS
        while not (folder / "port").exists():
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        yield f"http://127.0.0.1:{(folder / 'port').read_text()}/mcp"
    finally:
        process.kill()
        process.wait()


def over_http(url: str, **more: Any) -> McpEntry:
    """The entry of a server over HTTP on this machine."""
    return McpEntry(name="s", url=url, **{"network": LOOPBACK, **more})


def answer_all(folder: Path, status: int, headers: dict[str, str], body: str = "") -> None:
    """Have a server over HTTP answer everything like this."""
    (folder / "answer").write_text(json.dumps([status, headers, body]))
