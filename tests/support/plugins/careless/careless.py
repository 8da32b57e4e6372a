"""Runners that call themselves resumable and make one mistake each."""

import asyncio
import random
from typing import Any

from hostler_sdk import RunContext, Runner, message, tool

PATIENCE_SECONDS = 1.0


@tool
def send(to: str) -> str:
    """Sends a postcard, each time it is called.

    to: the address
    """
    return f"sent to {to}"


class Careless(Runner):
    """What the runners have in common."""

    capabilities = {"tool_calling", "resumable"}
    permissions = {"tools": ["detail", "call"]}
    config = [{"name": "tools", "type": "tool-multi-selector", "default": ["careless.*"]}]


class Impatient(Careless):
    """Sends again what is not confirmed at once."""

    async def run(self, ctx: RunContext) -> Any:
        for _ in range(2):
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await ctx.tools.call("careless.send", {"to": "Ada"})
                break
            except TimeoutError:
                continue
        await ctx.emit(message("sent"))


class Silent(Careless):
    """Says nothing about what was late."""

    async def run(self, ctx: RunContext) -> Any:
        await ctx.emit(message("one moment"))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await ctx.states.get("conversation", "name")
        except TimeoutError:
            return
        await ctx.emit(message("there you are"))


class Counting(Careless):
    """Says which attempt it is."""

    async def run(self, ctx: RunContext) -> Any:
        await ctx.states.get("conversation", "name")
        await ctx.emit(message(f"done, in attempt {ctx.attempt}"))


class Forgetful(Careless):
    """Waits in a later attempt for what the first one keeps in memory."""

    async def run(self, ctx: RunContext) -> Any:
        asked = asyncio.Event()
        if ctx.attempt == 1:
            asked.set()
        await ctx.states.get("conversation", "name")
        await asked.wait()
        await ctx.emit(message("done"))


class Gambling(Careless):
    """Sends to whom chance names."""

    async def run(self, ctx: RunContext) -> Any:
        await ctx.tools.call("careless.send", {"to": f"number {random.randrange(10**6)}"})
        await ctx.emit(message("sent"))
