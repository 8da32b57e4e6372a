"""A later version of a tool: it has another schema."""

from typing import Any

from hostler_sdk import ToolContext, tool
from simulation.outside import outside
from simulation.plugin.actor import deed


@tool(approval="required")
async def refund(text: str, reason: str = "", *, ctx: ToolContext) -> Any:
    """The same, with a reason."""
    outside().note("later version", run=ctx.run_id, call=ctx.call_id)
    return await deed("refund", ctx, text)
