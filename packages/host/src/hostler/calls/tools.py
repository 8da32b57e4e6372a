"""`tool.detail`: the tools of the run's grant. `tool.call` goes through the ledger (tool_calls.py)."""

from __future__ import annotations

from hostler.calls.scope import CallScope
from hostler_protocol.calls import ToolDetail, ToolDetailParams
from hostler_protocol.errors import NotFoundError


async def detail(scope: CallScope, params: ToolDetailParams) -> ToolDetail:
    """`tool.detail`: name, description and JSON Schema of the parameters."""
    tools = scope.services.tools
    if tools is None:
        raise NotFoundError(f"tool {params.tool_name!r} is gone since this run began")
    return await tools.detail(scope.workspace_id, params.tool_name)
