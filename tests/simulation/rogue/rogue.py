"""A runner that keeps to no rule: it writes to the host past the SDK. Its input is a JSON list of deeds."""

import asyncio
import json
from typing import Any

from hostler.simulation.loop import current_process
from hostler_sdk import RunContext, Runner
from simulation.outside import outside

FLOOD = 300
BIG_CHARS = 2_000_000


class Rogue(Runner):
    """Does what it must not."""

    permissions = {"runs": ["get"]}

    async def run(self, ctx: RunContext) -> None:
        """Do the deeds one after the other."""
        for deed in json.loads(ctx.input.text or "[]"):
            outside().note("misdeed", run=ctx.run_id, attempt=ctx.attempt, what=deed)
            await getattr(self, deed.replace(" ", "_"))(ctx)

    async def late(self, ctx: RunContext) -> None:
        """Send results after the end."""

        async def after() -> None:
            for number in range(3):
                await asyncio.sleep(0.2)
                _result(ctx, 90 + number, _said("too late"))

        task = asyncio.create_task(after())
        task.add_done_callback(lambda _: None)

    async def flood(self, ctx: RunContext) -> None:
        """Send many results without credit."""
        for number in range(FLOOD):
            _result(ctx, number + 1, {"chunk": {"role": "assistant", "content": "d"}}, "message.delta")

    async def never(self, ctx: RunContext) -> None:
        """Never end, and ignore that it is cancelled."""
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                outside().note("ignored a cancellation", run=ctx.run_id)

    async def wrong_calls(self, ctx: RunContext) -> None:
        """Make calls that no host has, without what they need, and with too much."""
        for number, params in enumerate([{}, {"run_id": ctx.run_id, "key": 7}, {"run_id": "x"}, [1], None]):
            for method in ("state.get", "no.such", "tool.call"):
                _frame(ctx, {"jsonrpc": "2.0", "id": 900 + number, "method": method, "params": params})

    async def two_ends(self, ctx: RunContext) -> None:
        """End twice, and go on."""
        for number in (1, 2):
            _result(ctx, number, {"finish_reason": "stop"}, "run.completed")
            _frame(ctx, {"jsonrpc": "2.0", "method": "run/end", "params": {"run_id": ctx.run_id}})

    async def for_another(self, ctx: RunContext) -> None:
        """Send results of runs that are not its own."""
        _frame(
            ctx,
            _message("01a0c450-0000-7000-8000-000000000000", 1, _said("I am another"), "message.completed"),
        )

    async def noise(self, ctx: RunContext) -> None:
        """Write what is no message."""
        _bytes(ctx, b"\x00\xff not JSON at all\n")

    async def broken_frame(self, ctx: RunContext) -> None:
        """Stop in the middle of a message, and begin another."""
        _bytes(ctx, b'{"jsonrpc": "2.0", "method": "run/res\n{"jsonrpc": 7}\n')

    async def exit(self, _: RunContext) -> None:
        """End its process."""
        process = current_process()
        if process is not None:
            process.kill()

    async def big(self, ctx: RunContext) -> None:
        """Send a result that is larger than any may be."""
        _result(ctx, 1, _said("x" * BIG_CHARS))


def _said(text: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text}}


def _message(run_id: str, sequence: int, data: Any, kind: str) -> dict[str, Any]:
    params = {"run_id": run_id, "type": kind, "sequence": sequence, "data": data}
    return {"jsonrpc": "2.0", "method": "run/result", "params": params}


def _result(ctx: RunContext, sequence: int, data: Any, kind: str = "message.completed") -> None:
    _frame(ctx, _message(ctx.run_id, sequence, data, kind))


def _frame(ctx: RunContext, message: dict[str, Any]) -> None:
    _bytes(ctx, json.dumps(message).encode() + b"\n")


def _bytes(ctx: RunContext, data: bytes) -> None:
    connection: Any = ctx._host
    connection._connection.write(data)
