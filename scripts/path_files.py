"""Count the files that an event, a host call and a result pass in the host: `path_files.py [--functions]`.

Opens a host in this process (SQLite, the ASGI application without a server, a real plugin process), does one
run to warm up, and profiles further ones. A file of `packages/host` or `packages/protocol` is on a path if a
function of it is entered, on any thread, between the first and the last step of the path (see `PATHS`).
Nothing else is under way meanwhile: client and runner wait QUIET_SECONDS before each thing they do, and of
all runs the one with the fewest calls counts, in which no worker of the host happened to wake up.

Files marked with `>` call a function of another file on the path; the others only answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from hostler.domain.agents import AgentSpec
from hostler.host.config import ConfigFile, PluginEntry, Settings
from hostler.host.host import Host
from hostler.http.app import App, make_app

ROOT = Path(__file__).resolve().parent.parent
SOURCES = tuple(f"{ROOT}/packages/{package}/src/" for package in ("host", "protocol"))
KEY = "the key of this script"
RUNS = 4
"""The first fills caches and starts the plugin process; it does not count."""
QUIET_SECONDS = 0.2
ASIDE = ("RunParts._offer", "SessionTx._look_around")
"""Prepare early what comes after the path: an attempt, whose facts are read with its claim."""
TIMEOUT_SECONDS = 60.0
MANIFEST = """
plugin: {author: paths, name: paths, version: 1.0.0, label: {en: Paths}}
runners: [{name: default, entry: "worker:Worker"}]
"""
RUNNER = f"""
import asyncio
from hostler_sdk import Runner, delta, message

class Worker(Runner):
    capabilities = {{"streaming"}}

    async def run(self, ctx):
        await asyncio.sleep({QUIET_SECONDS})
        await ctx.states.get("conversation", "step")
        await asyncio.sleep({QUIET_SECONDS})
        yield delta("a part")
        await asyncio.sleep({QUIET_SECONDS})
        yield message("a part and the rest")
"""
EVENT = {
    "event_type": "message.received",
    "agent": "worker",
    "conversation_id": "conversation",
    "input": {"text": "go"},
}


@dataclass(frozen=True, slots=True)
class PathSpec:
    """One path, by the names of three functions. It begins with the last `first` before `through`."""

    title: str
    first: str
    through: str
    last: str


PATHS = (
    PathSpec(
        "an event, from HTTP to the claim of its run",
        "App.__call__",
        "Dispatcher.opened",
        "Attempt.execute",
    ),
    PathSpec(
        "a host call, from its frame to the frame of its answer",
        "_Stdout.data_received",
        "RunningAttempt.on_call",
        "StdioTransport.send",
    ),
    PathSpec(
        "a result, from its frame to the reader of its event stream",
        "_Stdout.data_received",
        "RunningAttempt.on_results",
        "Reader.send",
    ),
)


@dataclass(slots=True)
class Trace:
    """The functions entered on a path, by file in the order of the first; and the files that call others."""

    functions: dict[str, list[str]] = field(default_factory=dict)
    callers: set[str] = field(default_factory=set)
    calls: int = 0
    """How often a function was entered, or a coroutine resumed."""
    is_through: bool = False
    first: FrameType | None = None
    """The frame that it began with: a coroutine that is resumed does not begin anew."""

    def add(self, frame: FrameType) -> None:
        """Note a function that was entered, unless it is of another package."""
        file = source_of(frame)
        if file is None:
            return
        self.calls += 1
        names = self.functions.setdefault(file, [])
        name = frame.f_code.co_qualname
        if name not in names:
            names.append(name)
        caller = None if frame.f_back is None else source_of(frame.f_back)
        if caller is not None and caller != file:
            self.callers.add(caller)


@dataclass(slots=True)
class Recorder:
    """A profile function for all threads. It records the paths one after the other."""

    traces: list[Trace] = field(default_factory=list)
    _trace: Trace | None = None
    _looking: FrameType | None = None

    def __call__(self, frame: FrameType, what: str, _argument: Any) -> None:
        """Take a profile event. For `sys.setprofile`."""
        if frame is self._looking and what == "return":
            self._looking = None
        if what != "call" or self._looking is not None or len(self.traces) == len(PATHS):
            return
        path, name = PATHS[len(self.traces)], frame.f_code.co_qualname
        if name == path.first and (
            self._trace is None or not (self._trace.is_through or self._trace.first is frame)
        ):
            self._trace = Trace(first=frame)
        trace = self._trace
        if trace is None:
            return
        if name in ASIDE:
            self._looking = frame
            return
        trace.is_through |= name == path.through
        trace.add(frame)
        if name == path.last and trace.is_through:
            self.traces.append(trace)
            self._trace = None


@dataclass
class Reader:
    """The client of one request that streams its run."""

    body: bytes
    received: bytearray = field(default_factory=bytearray)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self) -> dict[str, Any]:
        """Send the body, then stay connected until the response is over."""
        if self.body:
            body, self.body = self.body, b""
            return {"type": "http.request", "body": body, "more_body": False}
        await self.over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        """Receive a part of the response."""
        self.received += message.get("body", b"")
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.over.set()


def source_of(frame: FrameType) -> str | None:
    """Return a frame's file below its package's `src`, or None for code of other packages."""
    name = frame.f_code.co_filename
    return next((name.removeprefix(source) for source in SOURCES if name.startswith(source)), None)


async def post_event(app: App) -> None:
    """Send an event and read the stream of its run to the end. RuntimeError if the run does not complete."""
    reader = Reader(json.dumps(EVENT).encode())
    headers = {
        "authorization": f"Bearer {KEY}",
        "content-type": "application/json",
        "content-length": str(len(reader.body)),
        "accept": "text/event-stream",
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/events",
        "raw_path": b"/v1/events",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
    }
    await app(scope, reader.receive, reader.send)
    if b"run.completed" not in reader.received:
        raise RuntimeError(f"the run did not complete: {bytes(reader.received)!r}")


async def record(folder: Path) -> list[Trace]:
    """Do RUNS runs and return the trace of each path. RuntimeError if a path was not seen."""
    plugin = folder / "plugin"
    plugin.mkdir()
    (plugin / "hostler.yaml").write_text(MANIFEST)
    (plugin / "worker.py").write_text(RUNNER)
    agent = AgentSpec(name="worker", runner="plugin:paths/paths/default")
    config = ConfigFile(plugins=[PluginEntry(path=str(plugin))], agents=[agent])
    recorder, runs = Recorder(), []
    # before the host starts its threads
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    try:
        settings = Settings(data_dir=folder / "data", admin_key=KEY)
        async with asyncio.timeout(TIMEOUT_SECONDS), Host.open(settings) as host:
            await host.apply(config, actor="paths")
            app = make_app(host)
            for _ in range(RUNS):
                await asyncio.sleep(QUIET_SECONDS)
                recorder.traces = []
                await post_event(app)
                runs.append(recorder.traces)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    missing = PATHS[min(map(len, runs)) :]
    if missing:
        names = ", ".join((missing[0].first, missing[0].through, missing[0].last))
        raise RuntimeError(f"{missing[0].title}: not seen; was one of {names} renamed?")
    return [min(traces, key=lambda trace: trace.calls) for traces in zip(*runs[1:], strict=True)]


def lines_of(traces: list[Trace], *, functions: bool) -> Iterator[str]:
    """Yield each path with its files."""
    for path, trace in zip(PATHS, traces, strict=True):
        files = trace.functions
        yield f"{len(files)} files ({len(trace.callers)} call others), {trace.calls} calls: {path.title}"
        for file, names in files.items():
            mark = ">" if file in trace.callers else " "
            yield f"  {mark} {file} {', '.join(names)}" if functions else f"  {mark} {file}"


def main() -> None:
    """Print the three paths."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--functions", action="store_true", help="with the functions entered in each file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        traces = asyncio.run(record(Path(folder)))
    sys.stdout.writelines(f"{line}\n" for line in lines_of(traces, functions=arguments.functions))


if __name__ == "__main__":
    main()
