"""Driving plugin processes in tests: contexts, a handler that records, and looks at /proc."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hostler.plugins.connection import PluginConnection
from hostler.plugins.limits import (
    DEFAULT_CONNECTION_LIMITS,
    DEFAULT_PROCESS_LIMITS,
    ConnectionLimits,
    ProcessLimits,
)
from hostler.plugins.logs import PluginLog
from hostler.plugins.process import PluginProcess, start_process
from hostler.plugins.stdio import StdioTransport
from hostler.sandbox.process import Command
from hostler_protocol.errors import PluginError
from hostler_protocol.events import AgentRunContext
from hostler_protocol.frames import MessageId
from hostler_protocol.ids import new_id
from hostler_protocol.incoming import ResultArrived
from hostler_protocol.limits import Limits
from hostler_protocol.methods import RunStartParams
from hostler_protocol.results import AgentRunResult

WIRE_PLUGIN = Path(__file__).with_name("plugins") / "wire_plugin.py"


def start_params(
    text: str, run_id: str | None = None, *, key: str = "test/wire", credit: int = 64
) -> RunStartParams:
    """What starts a run with this text as its input."""
    context = {
        "run_id": run_id or new_id(),
        "trigger": {"type": "message.received", "source": "api"},
        "event": {"event_id": new_id(), "event_type": "message.received", "source": "api"},
        "input": {"text": text},
    }
    return RunStartParams(
        runner_id=f"plugin:{key}/default",
        runner_name="default",
        context=msgspec.convert(context, AgentRunContext),
        credit=credit,
    )


def answer_to(method: str, params: Any) -> dict[str, Any]:
    """A plausible answer."""
    if method == "state.get":
        return {"value": params.key, "version": 1}
    return {"items": [], "next_cursor": None, "prev_cursor": None, "has_more": False}


@dataclass
class Recorder:
    """A RunHandler that keeps what it is told; `over` is done with how the run came to its end."""

    connection: PluginConnection
    run_id: str
    gives_credit: bool = True
    answers: bool = True
    results: list[AgentRunResult] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    calls: list[tuple[MessageId, str, Any]] = field(default_factory=list)
    calls_ahead: list[tuple[str, Any]] = field(default_factory=list)
    cancelled_calls: list[MessageId] = field(default_factory=list)
    over: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    something: asyncio.Event = field(default_factory=asyncio.Event)
    taken: int = 0

    def on_results(self, arrived: Sequence[ResultArrived]) -> None:
        for item in arrived:
            self.on_result(item.result, item.size)

    def on_result(self, result: AgentRunResult, size: int) -> None:
        self.taken += 1
        self.results.append(result)
        self.something.set()
        if self.gives_credit:
            self.connection.credit(self.run_id, 1, size)

    def on_end(self) -> None:
        self._end("end")

    def on_broken(self, code: str, reason: str) -> None:
        self._end((code, reason))

    def on_warning(self, reason: str) -> None:
        self.warnings.append(reason)

    def on_call(self, call_id: MessageId, method: str, params: Any) -> None:
        self.calls.append((call_id, method, params))
        self.something.set()
        if self.answers:
            self.connection.reply(call_id, answer_to(method, params))

    def on_call_ahead(self, method: str, params: Any) -> None:
        self.calls_ahead.append((method, params))
        self.something.set()

    def on_call_cancelled(self, call_id: MessageId) -> None:
        self.cancelled_calls.append(call_id)
        self.something.set()

    def on_lost(self, error: PluginError) -> None:
        self._end(error)

    def _end(self, how: Any) -> None:
        assert not self.over.done(), f"a second end: {how!r} after {self.over.result()!r}"
        self.over.set_result(how)

    @property
    def texts(self) -> list[str]:
        """The contents of the messages so far."""
        return [
            msgspec.json.decode(r.data)["message"]["content"]
            for r in self.results
            if r.type.endswith("completed")
        ]


@dataclass
class Wire:
    """A wire plugin in a real process, connected."""

    process: PluginProcess
    connection: PluginConnection
    transport: StdioTransport
    log: PluginLog
    marker: str


def wire_command(start: str = "", containment: str = "auto") -> Command:
    """What executes the wire plugin."""
    environment = {"PATH": os.environ["PATH"], "HOSTLER_PLUGIN_TEST": start}
    return Command([sys.executable, str(WIRE_PLUGIN)], WIRE_PLUGIN.parent, environment, containment)


@contextlib.asynccontextmanager
async def wire(
    folder: Path,
    start: str = "",
    *,
    containment: str = "auto",
    limits: ConnectionLimits = DEFAULT_CONNECTION_LIMITS,
    process_limits: ProcessLimits = DEFAULT_PROCESS_LIMITS,
    wire_limits: Limits | None = None,
    seconds: float = 110,
) -> AsyncIterator[Wire]:
    """A wire plugin that behaves at its start as `start` says; nothing of it is left after the block."""
    marker = secrets.token_hex(16)
    log = PluginLog(folder / "wire.log", process_limits)
    async with asyncio.timeout(seconds):
        command = wire_command(start, containment)
        process = await start_process(command, log, marker=marker, limits=process_limits)
        connection = PluginConnection("test/wire", limits=limits, wire_limits=wire_limits)
        transport = await StdioTransport.open(process, connection)
        try:
            await connection.open(transport)
            yield Wire(process, connection, transport, log, marker)
        finally:
            connection.abort("the test is over")
            await process.wait_gone()
            log.close()
            await until_none_living(marker)


async def begin(
    connection: PluginConnection, text: str, run_id: str | None = None, **options: Any
) -> Recorder:
    """Start a run."""
    params = start_params(text, run_id, key=connection.expected_key)
    recorder = Recorder(connection, params.context.run_id, **options)
    await connection.start_run(params, recorder)
    return recorder


async def run(connection: PluginConnection, text: str, **options: Any) -> Recorder:
    """Start a run and wait for its end."""
    recorder = await begin(connection, text, **options)
    await recorder.over
    connection.end_run(recorder.run_id)
    return recorder


def living(needle: str) -> list[int]:
    """The living processes whose environment or command line holds `needle`, our own process left out."""
    return sorted(_living(needle.encode()))


def _living(needle: bytes) -> Iterator[int]:
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            state = Path(entry.path, "stat").read_text().rpartition(")")[2].split()[0]
            texts = Path(entry.path, "environ").read_bytes() + Path(entry.path, "cmdline").read_bytes()
        except OSError:
            continue
        if state not in "ZX" and needle in texts:
            yield int(entry.name)


async def until_none_living(needle: str, seconds: float = 50.0) -> None:
    """Wait until no process holds `needle`; TimeoutError names those that are left."""
    try:
        async with asyncio.timeout(seconds):
            while living(needle):
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise TimeoutError(f"still living: {living(needle)}") from None
