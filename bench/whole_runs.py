"""Whole runs, from HTTP through the host and a real plugin process, against their bare parts.

A run is 20 results. Bare: one ASGI request, the same frames through an asyncio pipe, two raw SQLite
transactions with the rows such a run leaves behind; and the same run in the plugin process without a host.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from bench.bare import BarePipe, bare_asgi, bare_pipe
from bench.facts import one_run, raw, rows_of_a_run
from bench.served import PLUGIN, RUNNER, Client, Served, client, message, serving
from bench.table import Row, middle

from hostler.plugins.connection import PluginConnection
from hostler.plugins.source import Folder
from hostler.plugins.supervisor import Supervisor
from hostler.storage.sql.connect import open_database
from hostler_protocol.errors import PluginError
from hostler_protocol.events import AgentRunContext
from hostler_protocol.frames import MessageId
from hostler_protocol.ids import new_id
from hostler_protocol.incoming import ResultArrived
from hostler_protocol.methods import RunStartParams

RESULTS = 20
AT_ONCE = 32
_numbers = itertools.count()


# -- through the host -----------------------------------------------------------------------------


async def through_host(connection: Client) -> float:
    """Seconds from sending the event to having the run's end; raises where it is not as it should be."""
    event_id = f"event {next(_numbers)}"
    began = time.perf_counter()
    status, body = await connection.post("/v1/events?wait=60", message(event_id, "talk"))
    took = time.perf_counter() - began
    run = msgspec.json.decode(body)
    if status != 200 or run["status"] != "completed" or not run["output"]["text"].startswith(f"{event_id} "):
        raise RuntimeError(f"a run went wrong: {status} {body[:500]!r}")
    return took


async def many_at_once(host: Served, count: int) -> tuple[float, float]:
    """(runs per second, CPU seconds a run over all processes) with 32 at once."""
    left = iter(range(count))

    async def customer() -> None:
        async with client(host.port) as connection:
            for _ in left:
                await through_host(connection)

    cpu, began = host.cpu_seconds(), time.perf_counter()
    await asyncio.gather(*(customer() for _ in range(AT_ONCE)))
    return count / (time.perf_counter() - began), (host.cpu_seconds() - cpu) / count


async def first_delta(connection: Client) -> float:
    """Seconds from sending the event to the first bytes of the first result."""
    began = time.perf_counter()
    first = 0.0
    async for _ in connection.stream("/v1/events", message(f"event {next(_numbers)}", "talk")):
        first = first or time.perf_counter() - began
    return first


async def flood(host: Served, deltas: int) -> float:
    """Deltas a second from the plugin through the journal to one reader of the stream."""
    seen, event = 0, message(f"event {next(_numbers)}", f"flood {deltas}")
    async with client(host.port) as connection:
        began = time.perf_counter()
        async for chunk in connection.stream("/v1/events", event):
            seen += chunk.count(b"event: message.delta\n")
    if seen != deltas:
        raise RuntimeError(f"{seen} of {deltas} deltas came")
    return deltas / (time.perf_counter() - began)


# -- bare -----------------------------------------------------------------------------------------


@dataclass
class Listening:
    """A RunHandler that only counts, and gives credit at once."""

    connection: PluginConnection
    run_id: str
    over: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def on_results(self, arrived: Sequence[ResultArrived]) -> None:
        self.connection.credit(self.run_id, len(arrived), sum(item.size for item in arrived))

    def on_end(self) -> None:
        self.over.set_result(None)

    def on_broken(self, code: str, reason: str) -> None:
        self.over.set_exception(RuntimeError(f"{code}: {reason}"))

    def on_lost(self, error: PluginError) -> None:
        self.over.set_exception(error)

    def on_warning(self, reason: str) -> None:
        raise RuntimeError(reason)

    def on_call(self, call_id: MessageId, method: str, params: Any) -> None:
        raise RuntimeError(f"the bench's runner makes no calls: {method}")

    def on_call_ahead(self, method: str, params: Any) -> None:
        raise RuntimeError(f"the bench's runner makes no calls: {method}")

    def on_call_cancelled(self, call_id: MessageId) -> None:
        raise RuntimeError("the bench's runner makes no calls")


async def in_plugin_alone(connection: PluginConnection, text: str = "talk") -> float:
    """Seconds of the same run in the plugin process, with nobody who writes it down."""
    run_id = new_id()
    context = {
        "run_id": run_id,
        "trigger": {"type": "message.received", "source": "api"},
        "event": {"event_id": "e", "event_type": "message.received", "source": "api"},
        "conversation": {"conversation_id": "c"},
        "input": {"text": text},
    }
    handler = Listening(connection, run_id)
    params = RunStartParams(
        runner_id=RUNNER, runner_name="default", context=msgspec.convert(context, AgentRunContext), credit=256
    )
    began = time.perf_counter()
    await connection.start_run(params, handler)
    await handler.over
    took = time.perf_counter() - began
    connection.end_run(run_id)
    return took


async def bare_request(connection: Client) -> float:
    began = time.perf_counter()
    await connection.post("/", message("e", "talk"))
    return time.perf_counter() - began


async def bare_stream(connection: Client) -> float:
    began = time.perf_counter()
    first = 0.0
    async for _ in connection.stream("/", message("e", "talk")):
        first = first or time.perf_counter() - began
    return first


async def bare_frames(pipe: BarePipe) -> float:
    began = time.perf_counter()
    await pipe.frames(RESULTS + 1)
    return time.perf_counter() - began


async def raw_transactions(write: Callable[[], None]) -> float:
    began = time.perf_counter()
    write()
    return time.perf_counter() - began


# -- all of it ------------------------------------------------------------------------------------


async def measure(quick: bool) -> list[Row]:
    """One host, one plugin process alone, and the bare parts, in turns."""
    rounds = 30 if quick else 400
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        host = stack.enter_context(serving())
        bare_port = stack.enter_context(bare_asgi())
        supervisor = Supervisor(folder / "plugin")
        stack.push_async_callback(supervisor.close, 5)
        alone = await supervisor.connection(supervisor.add(Folder(PLUGIN)))
        pipe = await stack.enter_async_context(bare_pipe())
        served = await stack.enter_async_context(client(host.port))
        bare = await stack.enter_async_context(client(bare_port))
        write = await _raw(folder / "facts.db")
        ways: dict[str, Callable[[], Awaitable[float]]] = {
            "host": lambda: through_host(served),
            "plugin": lambda: in_plugin_alone(alone),
            "request": lambda: bare_request(bare),
            "frames": lambda: bare_frames(pipe),
            "raw": lambda: raw_transactions(write),
            "first delta": lambda: first_delta(served),
            "bare stream": lambda: bare_stream(bare),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for index in range(rounds + 10):
            for name, way in ways.items():
                seconds = await way()
                if index >= 10:  # what comes first warms up
                    times[name].append(seconds)
        ms = {name: middle(values) * 1e3 for name, values in times.items()}
        rate, cpu = await _at_once(host, quick)
        plugin_rate = await _plugin_at_once(alone, quick)
        deltas = 2_000 if quick else 100_000
        floods = [await flood(host, deltas) for _ in range(1 if quick else 3)]
        alone_rate = deltas / await in_plugin_alone(alone, f"flood {deltas}")
    return _rows(ms, rate, cpu, plugin_rate, middle(floods), alone_rate)


async def _raw(path: Path) -> Callable[[], None]:
    """A function that writes the rows of a run in two transactions, as a host does."""
    database = open_database(path)
    await one_run(database)
    await database.close()
    return raw(path, rows_of_a_run(path), points=2)


async def _at_once(host: Served, quick: bool) -> tuple[float, float]:
    await many_at_once(host, AT_ONCE)
    found = [await many_at_once(host, 100 if quick else 2000) for _ in range(1 if quick else 3)]
    return middle([rate for rate, _ in found]), middle([cpu for _, cpu in found])


async def _plugin_at_once(alone: PluginConnection, quick: bool) -> float:
    count = 100 if quick else 2000
    left = iter(range(count))

    async def customer() -> None:
        for _ in left:
            await in_plugin_alone(alone)

    began = time.perf_counter()
    await asyncio.gather(*(customer() for _ in range(AT_ONCE)))
    return count / (time.perf_counter() - began)


def _rows(
    ms: dict[str, float], rate: float, cpu: float, plugin_rate: float, deltas: float, alone: float
) -> list[Row]:
    bare = ms["request"] + ms["frames"] + ms["raw"]
    return [
        Row(
            "a whole run of 20 results, HTTP to its end",
            ms["host"],
            "ms",
            ms["host"] / bare,
            f"its bare parts ({bare:.2f} ms)",
            "at most 2.5",
        ),
        Row("&nbsp; a bare ASGI request", ms["request"], "ms"),
        Row("&nbsp; its frames through a bare pipe", ms["frames"], "ms"),
        Row("&nbsp; its rows in two raw SQLite transactions", ms["raw"], "ms"),
        Row(
            "the same, host and plugin against the plugin alone",
            ms["host"],
            "ms",
            ms["host"] / ms["plugin"],
            f"the same run in the plugin process alone ({ms['plugin']:.2f} ms)",
        ),
        Row(
            "whole runs, 32 at once",
            rate,
            "runs/s",
            rate / plugin_rate,
            f"the plugin process alone ({plugin_rate:,.0f} runs/s)",
        ),
        Row("CPU of a whole run over all processes, 32 at once", cpu * 1e3, "ms", goal="at most 2.5 ms"),
        Row(
            "first result, HTTP to the first bytes of the stream",
            ms["first delta"],
            "ms",
            ms["first delta"] / ms["bare stream"],
            f"a bare ASGI stream ({ms['bare stream']:.2f} ms)",
        ),
        Row(
            "deltas from plugin through journal to one reader",
            deltas,
            "deltas/s",
            deltas / alone,
            f"the plugin process alone ({alone:,.0f} a second)",
            "at least 20,000 a second",
        ),
    ]


def rows(quick: bool) -> list[Row]:
    """Measure."""
    return asyncio.run(measure(quick))
