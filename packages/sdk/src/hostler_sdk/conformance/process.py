"""A plugin process under test, and the running of one check."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from hostler_protocol.channels import ChannelManifest
from hostler_protocol.errors import HostlerError
from hostler_protocol.events import AgentRunContext, EventRef, Input, Runtime, Trigger
from hostler_protocol.ids import new_id
from hostler_protocol.limits import INITIAL_RESULT_CREDIT, MAX_MESSAGE_BYTES
from hostler_protocol.manifest import AgentRunnerManifest, ToolManifest, defaults_of
from hostler_protocol.methods import NoParams, RunStartParams
from hostler_protocol.tools import ToolCallContext, ToolInvokeParams
from hostler_sdk.scripted import HostSession, ObservedRun, World

START_SECONDS = 30.0
"""From the start of the process to the answer to `initialize`."""
STEP_SECONDS = 20.0
"""Time for each further message."""
CHECK_SECONDS = 120.0
"""Time for one whole check."""
STDERR_BYTES = 2_000
"""Length of the end of standard error that is shown with a failure."""
READ_BYTES = 256 * 1024
NO_TOOLS = "it offers no tools"
NO_CHANNELS = "it offers no channels"
TOOL_CONTEXT = ToolCallContext(
    run_id="conformance", call_id="conformance", effect_key="conformance", workspace_id="conformance"
)
"""The context of the suite's tool calls. Only tools without effect are called."""
_T = TypeVar("_T")
_CUT_SIZES = (1, 2, 3, 1, 7)


class NotOfferedError(Exception):
    """The check does not apply to this plugin; the text says what the plugin does not offer."""


class ViolationError(Exception):
    """The plugin broke a rule. The text says which, and what would be right."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of one check. `detail` says what was wrong or, if `ok`, what was seen.

    `left_out`: the check does not apply, since the plugin offers no such thing; `ok` is then True.
    """

    name: str
    ok: bool
    detail: str = ""
    left_out: bool = False


class PluginProcess(Protocol):
    """A started plugin: its pipes and its end."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    @property
    def pid(self) -> int:
        """Its number as this process sees it."""

    async def wait(self) -> int:
        """Wait for its end, and return its exit status; negative for a signal."""

    async def kill(self) -> None:
        """Kill it and all processes that it started, and wait until none is left."""


StartPlugin = Callable[[], Awaitable[PluginProcess]]
"""Starts the plugin anew. Raises ViolationError or HostlerError if it cannot be started."""


async def start_command(command: list[str], folder: Path, environment: dict[str, str]) -> PluginProcess:
    """Start a command as an ordinary process of this user."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise ViolationError(f"the command {command[0]!r} cannot be started: {error}") from error
    return _OrdinaryProcess(process)


class _OrdinaryProcess:
    """A process in a session of its own; what leaves the session outlives it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait(self) -> int:
        return await self._process.wait()

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it is gone, and its group with it
            os.killpg(self._process.pid, signal.SIGKILL)
        self.stdin.close()
        await self._process.wait()


@dataclass(slots=True)
class Candidate:
    """The plugin under test, and how to start it."""

    start: StartPlugin
    step_seconds: float = STEP_SECONDS
    offers_tools: bool | None = None
    offers_channels: bool | None = None
    """What its last answer to `initialize` said."""

    @asynccontextmanager
    async def started(
        self,
        *,
        initialize: bool = True,
        cut: bool = False,
        for_tools: bool = False,
        for_channels: bool = False,
    ) -> AsyncIterator[PluginUnderTest]:
        """Start the process. At the end it is killed, with all processes that it started.

        Raises NotOfferedError `for_tools` or `for_channels` that the plugin is known not to offer, without
        starting anything.
        """
        if for_tools and self.offers_tools is False:
            raise NotOfferedError(NO_TOOLS)
        if for_channels and self.offers_channels is False:
            raise NotOfferedError(NO_CHANNELS)
        try:
            process = await self.start()
        except HostlerError as error:
            raise ViolationError(f"it cannot be started: {error.message}") from error
        plugin = PluginUnderTest(process, cut=cut, step_seconds=self.step_seconds)
        try:
            if initialize:
                await plugin.awaited("an answer to initialize", plugin.session.initialize(), START_SECONDS)
                self.offers_tools = plugin.session.offers_tools
                self.offers_channels = plugin.session.offers_channels
            yield plugin
        finally:
            await plugin.kill()


Check = Callable[[Candidate], Awaitable[str]]
"""A check. Returns what was seen, in a few words; raises ViolationError or NotOfferedError."""


async def perform(name: str, check: Check, candidate: Candidate) -> CheckResult:
    """Run one check, for at most CHECK_SECONDS."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return CheckResult(name, True, await check(candidate))
    except NotOfferedError as missing:
        return CheckResult(name, True, str(missing), left_out=True)
    except ViolationError as error:
        return CheckResult(name, False, str(error))
    except TimeoutError:
        return CheckResult(name, False, f"the check was not over after {CHECK_SECONDS:.0f} s")


class PluginUnderTest:
    """A running plugin, and the host's side of its connection."""

    def __init__(self, process: PluginProcess, *, cut: bool, step_seconds: float) -> None:
        # model calls get a fixed answer; there are no other resources
        self.session = HostSession(self.write, World(models="A fixed answer of the conformance suite."))
        self.frames: list[dict[str, Any]] = []
        """Every JSON-RPC message that the plugin wrote, in order."""
        self.junk: str | None = None
        """The first line of standard output that is not a JSON-RPC message."""
        self._process = process
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._stderr_tail = b""
        self._line = bytearray()
        self._cut = cut
        self._step_seconds = step_seconds
        self._to_cut = bytearray()
        self._news = asyncio.Event()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._read_stderr())]
        if cut:
            self._tasks.append(asyncio.create_task(self._write_in_pieces()))

    # -- for checks ------------------------------------------------------------------------------

    async def runners(self) -> list[AgentRunnerManifest]:
        """Return the checked manifests of `runners/list`. Raises NotOfferedError if there are only others."""
        listed = await self.awaited(
            "an answer to runners/list", self.session.request("runners/list", NoParams())
        )
        try:
            manifests = [msgspec.json.decode(entry, type=AgentRunnerManifest) for entry in listed.runners]
        except msgspec.DecodeError as error:
            raise ViolationError(f"runners/list: a manifest is invalid: {error}") from error
        if not manifests and (self.session.offers_tools or self.session.offers_channels):
            others = "tools" if self.session.offers_tools else "channels"
            raise NotOfferedError(f"it offers {others} and no runner")
        if not manifests:
            raise ViolationError("runners/list: no runner is offered, no tool and no channel")
        return manifests

    async def tools(self) -> list[ToolManifest]:
        """Return the checked manifests of `tools/list`. Raises NotOfferedError if there are no tools."""
        if not self.session.offers_tools:
            raise NotOfferedError(NO_TOOLS)
        listed = await self.awaited("an answer to tools/list", self.session.request("tools/list", NoParams()))
        try:
            return [msgspec.json.decode(entry, type=ToolManifest) for entry in listed.tools]
        except msgspec.DecodeError as error:
            raise ViolationError(f"tools/list: a manifest is invalid: {error}") from error

    async def channels(self) -> list[ChannelManifest]:
        """Return the checked manifests of `channels/list`. Raises NotOfferedError if there are none."""
        if not self.session.offers_channels:
            raise NotOfferedError(NO_CHANNELS)
        listing = self.session.request("channels/list", NoParams())
        listed = await self.awaited("an answer to channels/list", listing)
        try:
            return [msgspec.json.decode(entry, type=ChannelManifest) for entry in listed.channels]
        except msgspec.DecodeError as error:
            raise ViolationError(f"channels/list: a manifest is invalid: {error}") from error

    async def call_tool(self, name: str, parameters: dict[str, Any]) -> Any:
        """Call a tool and return its result. Raises HostlerError if it refuses."""
        params = ToolInvokeParams(tool_name=name, parameters=parameters, context=TOOL_CONTEXT)
        return (await self.session.request("tool/call", params)).result

    async def start_run(
        self, manifest: AgentRunnerManifest, *, credit: int = INITIAL_RESULT_CREDIT, **context: Any
    ) -> ObservedRun:
        """Start a run, and wait for the answer. With less credit than usual, no credit follows by itself."""
        params = start_params(manifest, credit, **context)
        grants = credit >= INITIAL_RESULT_CREDIT
        return await self.awaited(
            f"an answer to run/start of {manifest.name}", self.session.start(params, grants_credit=grants)
        )

    async def ended(self, run: ObservedRun) -> None:
        """Wait for `run/end`. Raises ViolationError if the run broke the protocol."""
        await self.awaited("run/end", self.session.until(lambda: run.over))
        if run.broken is not None:
            raise ViolationError(f"{run.broken[0]}: {run.broken[1]}")

    async def ping(self) -> None:
        """Send `ping`, and wait for the answer."""
        await self.awaited("an answer to ping", self.session.request("ping", NoParams()))

    async def raw_request(self, method: str, params: Any) -> dict[str, Any]:
        """Send a request that the link would refuse to send, and return its answer undecoded."""
        id_ = f"raw-{len(self.frames)}-{method}"
        self.write(
            msgspec.json.encode({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}) + b"\n"
        )

        def answer() -> dict[str, Any] | None:
            return next((one for one in self.frames if one.get("id") == id_ and "method" not in one), None)

        await self.awaited(f"an answer to {method}", self._until(lambda: answer() is not None))
        return answer() or {}

    def close_input(self) -> None:
        """Close the plugin's standard input."""
        self._stdin.close()

    def signal(self, number: int) -> None:
        """Send a signal to the process, not to its children."""
        os.kill(self._process.pid, number)

    async def exit_status(self) -> int:
        """Wait for the process to exit, and return its status; negative for a signal."""
        return await self.awaited("the end of the process", self._process.wait())

    async def awaited(self, what: str, waiting: Awaitable[_T], seconds: float | None = None) -> _T:
        """Wait for an answer or message. Raises ViolationError, with `what`, if it is refused or missing."""
        seconds = self._step_seconds if seconds is None else seconds
        try:
            async with asyncio.timeout(seconds):
                return await waiting
        except TimeoutError as error:
            raise ViolationError(f"{what}: nothing within {seconds:g} s{self._said()}") from error
        except HostlerError as error:
            raise ViolationError(f"{what}: {error.message}{self._said()}") from error

    # -- bytes -----------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes; with `cut`, in small pieces."""
        if self._cut:
            self._to_cut += data
            self._news.set()
        elif not self._stdin.is_closing():
            self._stdin.write(data)

    async def _write_in_pieces(self) -> None:
        number = 0
        while True:
            await self._news.wait()
            self._news.clear()
            while self._to_cut:
                size = _CUT_SIZES[number % len(_CUT_SIZES)]
                number += 1
                piece, self._to_cut = bytes(self._to_cut[:size]), self._to_cut[size:]
                self._stdin.write(piece)
                with contextlib.suppress(ConnectionError):  # the reader reports how the process ended
                    await self._stdin.drain()
                await asyncio.sleep(0.001)  # so that the pieces do arrive as pieces

    async def _read(self) -> None:
        while data := await self._stdout.read(READ_BYTES):
            self._record(data)
            self.session.received(data)
        status = await self._process.wait()
        self.session.lost(f"the process ended with status {status}")

    def _record(self, data: bytes) -> None:
        self._line += data
        if len(self._line) > 2 * MAX_MESSAGE_BYTES:
            self.junk = self.junk or "a line of over 16 MiB"
            self._line.clear()
        *lines, rest = self._line.split(b"\n")
        self._line = rest
        for line in lines:
            try:
                frame = msgspec.json.decode(line) if line.strip() else None
            except (msgspec.DecodeError, UnicodeDecodeError):
                frame = ...
            if isinstance(frame, dict) and frame.get("jsonrpc") == "2.0":
                self.frames.append(frame)
            elif frame is not None and self.junk is None:
                self.junk = repr(line[:100].decode(errors="replace"))

    async def _until(self, reached: Callable[[], bool]) -> None:
        await self.session.until(reached)

    async def _read_stderr(self) -> None:
        while data := await self._stderr.read(READ_BYTES):
            self._stderr_tail = (self._stderr_tail + data)[-STDERR_BYTES:]

    def _said(self) -> str:
        junk = f"; standard output held {self.junk}" if self.junk else ""
        tail = self._stderr_tail.decode(errors="replace").strip()
        return f"{junk}; standard error ended with: {tail}" if tail else junk

    async def kill(self) -> None:
        """Kill the process and all processes that it started."""
        await self._process.kill()
        await self.session.aclose()
        for task in self._tasks[2:]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def start_params(manifest: AgentRunnerManifest, credit: int, **context: Any) -> RunStartParams:
    """Build the parameters of a run of this runner, with its default configuration."""
    text = "Conformance suite: please say a few words. 漢字, é, \N{SLIGHTLY SMILING FACE}"
    given = AgentRunContext(
        run_id=new_id(),
        trigger=Trigger(type="message.received"),
        event=EventRef(event_id=new_id(), event_type="message.received"),
        input=Input(text=text),
        runtime=Runtime(host_version="conformance", trace_id="0" * 31 + "1"),
        config=defaults_of(manifest.config_schema),
        **context,
    )
    return RunStartParams(runner_id=manifest.id, runner_name=manifest.name, context=given, credit=credit)
