"""Tools: what agents can be given, what each does and who offers it."""

from __future__ import annotations

from typing import Any

from hostler.http.answers import Listing
from hostler.http.ask import Ask
from hostler.http.endpoint import endpoint
from hostler.tools.port import OfferedTool
from hostler_protocol._base import Strict
from hostler_protocol.errors import NotFoundError
from hostler_protocol.grants import ToolApproval
from hostler_protocol.manifest import ToolEffect


class ToolRecord(Strict):
    """A tool as it stands. `parameters` and `output_schema` are JSON Schema, `owner` is who offers it.

    `client`: the client runs it. `approval` is what the tool itself asks for; an agent's policy can only add
    to it. `problem` says why nobody can be given it.
    """

    name: str
    description: str
    effect: ToolEffect
    client: bool
    approval: ToolApproval
    owner: str
    tool_id: str
    schema_digest: str
    parameters: dict[str, Any]
    output_schema: dict[str, Any] | None
    problem: str | None


@endpoint("GET", "/v1/tools", right="plugins:read", tag="tools")
async def list_tools(ask: Ask) -> Listing[ToolRecord]:
    """List the tools by name: those that agents can be given, and those that nobody can be given, and why."""
    return Listing(items=_records(ask))


@endpoint("GET", "/v1/tools/{tool}", right="plugins:read", tag="tools")
async def get_tool(ask: Ask) -> ToolRecord:
    """Get one tool, with the schema of its parameters."""
    name = ask.parameters["tool"]
    for record in _records(ask):
        if record.name == name:
            return record
    raise NotFoundError(f"there is no tool {name!r}: nothing offers it now")


def _records(ask: Ask) -> list[ToolRecord]:
    tools = ask.surface.host.tools
    found = [*tools.offered(ask.workspace_id).values(), *tools.refused(ask.workspace_id)]
    return [_record(tool) for tool in sorted(found, key=lambda tool: (tool.name, tool.pin.owner))]


def _record(tool: OfferedTool) -> ToolRecord:
    return ToolRecord(
        name=tool.name,
        description=tool.resource.description,
        effect=tool.pin.effect,
        client=tool.pin.client,
        approval=tool.resource.approval,
        owner=tool.pin.owner,
        tool_id=tool.pin.tool_id,
        schema_digest=tool.pin.schema_digest,
        parameters=dict(tool.parameters),
        output_schema=None if tool.output_schema is None else dict(tool.output_schema),
        problem=None if tool.problem is None else f"nobody gets it: {tool.problem}",
    )
