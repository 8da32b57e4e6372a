"""`tool.*`: the tools of the run's grant."""

from __future__ import annotations

from hostler.calls.scope import CallScope
from hostler.tools.port import ToolService
from hostler_protocol.calls import ToolCallParams, ToolCallReply, ToolDetail, ToolDetailParams
from hostler_protocol.errors import NotFoundError, UnauthorizedError


async def detail(scope: CallScope, params: ToolDetailParams) -> ToolDetail:
    """`tool.detail`: name, description and JSON Schema of the parameters."""
    return await _service(scope, params.tool_name).detail(scope.workspace_id, params.tool_name)


async def call(scope: CallScope, params: ToolCallParams) -> ToolCallReply:
    """`tool.call`. A tool that needs a person's approval is refused: nobody can be asked here."""
    if scope.grant.tools[params.tool_name].approval != "never":
        raise UnauthorizedError(
            f"tool {params.tool_name!r} needs a person's approval, and this host cannot ask people"
        )
    result = await _service(scope, params.tool_name).call(
        scope.workspace_id,
        params.tool_name,
        params.parameters,
        run_id=scope.run_id,
        deadline=scope.deadline_at,
    )
    return ToolCallReply(result=result)


def _service(scope: CallScope, tool_name: str) -> ToolService:
    tools = scope.services.tools
    if tools is None:
        raise NotFoundError(f"tool {tool_name!r} is gone since this run began")
    return tools
