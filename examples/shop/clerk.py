"""A runner that works with tools: each line of the message is one call."""

import json
from typing import Any

from hostler_sdk import HostError, RunContext, Runner, message, tool_completed, tool_started


class Clerk(Runner):
    """A clerk who does what each line says.

    A line is a tool's name and its parameters as JSON, like `shop.book {"kind": "double"}`.
    `help` lists the tools of this run.
    """

    capabilities = {"tool_calling", "resumable"}
    permissions = {"tools": ["detail", "call"]}
    config = [{"name": "tools", "type": "tool-multi-selector", "default": ["shop.*"]}]

    async def run(self, ctx: RunContext):
        """Make one call after the other, then report the result of each."""
        report = []
        for number, line in enumerate(ctx.input.text.splitlines(), 1):
            name, _, rest = line.strip().partition(" ")
            if name == "help":
                report += [f"{one.tool_name}: {one.description}" for one in ctx.resources.tools]
            elif name:
                call_id, parameters = f"line-{number}", json.loads(rest or "{}")
                yield tool_started(call_id, name, parameters)
                answer = await self._call(ctx, name, parameters, call_id)
                yield tool_completed(call_id, name, **answer)
                report.append(f"{name}: {json.dumps(next(iter(answer.values())))}")
        yield message("\n".join(report) or "What may I do? Say help.")

    async def _call(
        self, ctx: RunContext, name: str, parameters: dict[str, Any], call_id: str
    ) -> dict[str, Any]:
        try:
            return {"result": await ctx.tools.call(name, parameters, call_id)}
        except HostError as error:
            return {"error": f"{error.code}: {error.message}"}
