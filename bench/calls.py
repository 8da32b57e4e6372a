"""A Host API call from a real plugin process, against a bare asyncio pipe echo in the same run.

    python -m bench.calls [--calls 2000] [--rounds 7]

Hostler: a runner of the SDK in a plugin process awaits `ctx.states.get` again and again; the host answers at
once (no database: this is the way there and back). Bare: a child that reads a line with asyncio, decodes and
encodes it with msgspec and writes it back, asked by an asyncio parent that does the same. The rounds of both
alternate, so that noise hits both; the medians are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from bench.bare import bare_echo
from bench.table import Row, middle, text_of

from hostler.plugins.connection import PluginConnection
from hostler.plugins.source import SingleFile
from hostler.plugins.supervisor import Supervisor
from hostler_protocol.errors import PluginError
from hostler_protocol.events import AgentRunContext
from hostler_protocol.frames import MessageId
from hostler_protocol.ids import new_id
from hostler_protocol.incoming import ResultArrived
from hostler_protocol.methods import RunStartParams

RUNNER = '''
import asyncio, time
from hostler_sdk import Runner, message

class Caller(Runner):
    """Calls."""

    async def run(self, ctx):
        calls, at_once = map(int, ctx.input.text.split())
        async def work():
            for _ in range(calls // at_once):
                await ctx.states.get("actor", "name")
        start = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(at_once)))
        yield message(str((time.perf_counter() - start) / calls))
'''


@dataclass
class Answering:
    """A RunHandler that answers every call at once."""

    connection: PluginConnection
    over: asyncio.Future[float] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    seconds: float = 0.0

    def on_results(self, arrived: Sequence[ResultArrived]) -> None:
        self.seconds = float(msgspec.json.decode(arrived[-1].result.data)["message"]["content"])

    def on_call(self, call_id: MessageId, method: str, params: Any) -> None:
        self.connection.reply(call_id, {"value": "Ada", "version": 1})

    def on_end(self) -> None:
        self.over.set_result(self.seconds)

    def on_broken(self, code: str, reason: str) -> None:
        self.over.set_exception(RuntimeError(f"{code}: {reason}"))

    def on_lost(self, error: PluginError) -> None:
        self.over.set_exception(error)

    def on_warning(self, reason: str) -> None:
        print(reason, file=sys.stderr)

    def on_call_ahead(self, method: str, params: Any) -> None:
        raise RuntimeError("no answer was sent ahead")

    def on_call_cancelled(self, call_id: MessageId) -> None:
        pass


async def through_plugin(connection: PluginConnection, calls: int, at_once: int) -> float:
    """Seconds of one call, as the runner sees it."""
    context = {
        "run_id": new_id(),
        "trigger": {"type": "message.received", "source": "api"},
        "event": {"event_id": "e", "event_type": "message.received", "source": "api"},
        "input": {"text": f"{calls} {at_once}"},
    }
    handler = Answering(connection)
    params = RunStartParams(
        runner_id=f"plugin:{connection.expected_key}/Caller",
        runner_name="Caller",
        context=msgspec.convert(context, AgentRunContext),
    )
    await connection.start_run(params, handler)
    return await handler.over


async def measure(calls: int, rounds: int) -> dict[str, float]:
    """Medians in microseconds by way."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        path = Path(folder, "caller.py")
        path.write_text(RUNNER)
        supervisor = Supervisor(Path(folder, "data"))
        stack.push_async_callback(supervisor.close, 5)
        connection = await supervisor.connection(supervisor.add(SingleFile(path, "Caller")))
        echo = await stack.enter_async_context(bare_echo())
        ways: dict[str, Callable[[], Awaitable[float]]] = {
            "bare": lambda: echo(calls),
            "call": lambda: through_plugin(connection, calls, 1),
            "call_32_at_once": lambda: through_plugin(connection, calls * 4, 32),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for index in range(rounds + 1):
            for name, way in ways.items():
                seconds = await way()
                if index:  # the first round warms up
                    times[name].append(seconds * 1e6)
    return {name: middle(values) for name, values in times.items()}


def rows(quick: bool) -> list[Row]:
    """Measure."""
    return rows_of(asyncio.run(measure(100, 1) if quick else measure(2000, 7)))


def rows_of(us: dict[str, float]) -> list[Row]:
    """Microseconds by way -> rows."""
    against = f"a bare asyncio pipe echo ({us['bare']:.0f} us)"
    return [
        Row(
            "a host call, one after the other",
            us["call"],
            "us",
            us["call"] / us["bare"],
            against,
            "at most 1.5",
        ),
        Row(
            "a host call, 32 in flight",
            us["call_32_at_once"],
            "us",
            us["call_32_at_once"] / us["bare"],
            against,
        ),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(text_of(rows_of(asyncio.run(measure(options.calls, options.rounds)))))


if __name__ == "__main__":
    main()
