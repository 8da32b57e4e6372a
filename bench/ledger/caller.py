"""The bench's resumable runner: `read N`, `touch N`, `write N`, `crash N FILE`, `ask`.

It says how long it took.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from hostler_sdk import RunContext, Runner


class Caller(Runner):
    """Makes calls, one after the other."""

    capabilities = {"tool_calling", "resumable"}
    permissions = {"tools": ["detail", "call"]}
    config = [{"name": "tools", "type": "tool-multi-selector", "default": ["ledger.*"]}]

    async def run(self, ctx: RunContext) -> Any:
        """Do one of the five."""
        command, count, file = [*ctx.input.text.split(" ", 2), "0", ""][:3]
        began = time.perf_counter()
        for number in range(int(count)):
            if command == "read":
                await ctx.states.get("conversation", "number")
            elif command == "touch":
                await ctx.tools.call("ledger.touch", {"number": number})
            else:
                await ctx.states.set("conversation", "number", number)
        if command == "crash" and ctx.attempt == 1:
            Path(file).write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        if command == "ask":
            await ctx.states.set("conversation", "asked", True)  # the journal says when that was
            await ctx.ask("May it go on?")
        return str(time.perf_counter() - began)
