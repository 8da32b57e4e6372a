"""Tools of every effect class that do what they do at a counter outside (tests/support/counting.py).

Each stands at the point `called` before its effect, and at `done` after it.
"""

import asyncio
import json
import os
from typing import Any

from hostler_sdk import ToolContext, tool


async def say(**message: Any) -> Any:
    reader, writer = await asyncio.open_unix_connection(os.environ["HOSTLER_PLUGIN_COUNTER"])
    try:
        writer.write(json.dumps(message).encode() + b"\n")
        return json.loads(await reader.readline())
    finally:
        writer.close()


async def deed(name: str, ctx: ToolContext, *, once: bool = False, **arguments: Any) -> Any:
    await say(op="at", point="called", run=ctx.run_id)
    outcome = await say(
        op="effect",
        tool=name,
        key=ctx.effect_key,
        run=ctx.run_id,
        call=ctx.call_id,
        arguments=arguments,
        once=once,
    )
    await say(op="at", point="done", run=ctx.run_id)
    return outcome


@tool
async def note(text: str, *, ctx: ToolContext) -> Any:
    """Cannot be called back, nor looked up."""
    return await deed("note", ctx, text=text)


@tool(effect="idempotent")
async def book(text: str, *, ctx: ToolContext) -> Any:
    """Once per key."""
    return await deed("book", ctx, once=True, text=text)


@tool(effect="reconcilable")
async def pay(text: str, *, ctx: ToolContext) -> Any:
    """Can be looked up, and must not be called again before that."""
    return await deed("pay", ctx, text=text)


@pay.lookup
async def paid(effect_key: str) -> Any:
    """What came of it."""
    return await say(op="look", key=effect_key)


@tool(effect="pure")
async def price(text: str, *, ctx: ToolContext) -> Any:
    """Has no effect, but is counted."""
    return await deed("price", ctx, text=text)


@tool(approval="required")
async def refund(text: str, *, ctx: ToolContext) -> Any:
    """The same as `note`, once somebody has approved it."""
    return await deed("refund", ctx, text=text)


@tool(client=True)
def pick(text: str) -> Any:
    """Runs in the client."""
