"""`tool.*`: the tools of the run's grant."""

from __future__ import annotations

from hostler.calls.scope import CallScope
from hostler.tools.port import ToolInvocation, ToolService
from hostler_protocol.calls import ToolCallParams, ToolCallReply, ToolDetail, ToolDetailParams
from hostler_protocol.errors import NotFoundError, UnauthorizedError
from hostler_protocol.ids import digest, new_id


async def detail(scope: CallScope, params: ToolDetailParams) -> ToolDetail:
    """`tool.detail`: name, description and JSON Schema of the parameters."""
    return await _service(scope, params.tool_name).detail(scope.workspace_id, params.tool_name)


async def call(scope: CallScope, params: ToolCallParams) -> ToolCallReply:
    """`tool.call`. A tool that needs a person's approval, or the client, is refused here."""
    name = params.tool_name
    if scope.grant.tools[name].approval != "never":
        raise UnauthorizedError(f"tool {name!r} needs a person's approval, and this host cannot ask people")
    tools = _service(scope, name)
    pin = scope.grant.tool_pins.get(name) or tools.pin(scope.workspace_id, name)
    if pin is None:
        raise NotFoundError(f"tool {name!r} is gone since this run began")
    if pin.client:
        raise UnauthorizedError(f"tool {name!r} runs on the client, and this host cannot ask clients")
    await tools.check(scope.workspace_id, name, params.parameters)
    call_id = new_id()
    result = await tools.call(
        ToolInvocation(
            tool_name=name,
            parameters=params.parameters,
            run_id=scope.run_id,
            call_id=call_id,
            effect_key=digest([scope.run_id, call_id, params.parameters]),
            workspace_id=scope.workspace_id,
            pin=pin,
            actor=scope.event.envelope.actor,
            deadline=scope.deadline_at,
        )
    )
    return ToolCallReply(result=result)


def _service(scope: CallScope, tool_name: str) -> ToolService:
    tools = scope.services.tools
    if tools is None:
        raise NotFoundError(f"tool {tool_name!r} is gone since this run began")
    return tools
