"""One call of one tool."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from hostler_sdk import Result, RunContext, Runner, failed, message

MAX_CHARS = 100_000
"""Of a result in the message. The whole one is in the call, which the run's journal has."""


class ToolTrial(Runner):
    """Test of a tool

    Calls the one tool that it is granted, with the arguments that the event has in its data.
    """

    capabilities = {"tool_calling", "resumable"}
    permissions = {"tools": ["detail", "call"]}

    async def run(self, ctx: RunContext) -> AsyncIterator[Result]:
        """Call the tool, and say what it returned."""
        name, arguments = ctx.event.data.get("tool"), ctx.event.data.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict):
            yield failed("trial.no_tool", "the event names no tool: its data needs a tool and arguments")
            return
        found = await ctx.tools.call(name, arguments)
        text = found if isinstance(found, str) else json.dumps(found, indent=2, ensure_ascii=False)
        yield message(text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]} ...")
