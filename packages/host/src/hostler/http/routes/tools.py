"""Tools that agents can use, and the MCP servers of some of them."""

from __future__ import annotations

from typing import Any, Literal

from hostler.domain.same_fields import with_fields_of
from hostler.domain.trials import tool_trial
from hostler.http.auth import require_right
from hostler.http.endpoint import endpoint
from hostler.http.request import ApiRequest
from hostler.http.responses import Json, Listing
from hostler.storage.stores import audit
from hostler.tools.mcp.definitions import Definition
from hostler.tools.mcp.server import McpServerStatus
from hostler.tools.mcp.source import ToolWaiting
from hostler.tools.port import OfferedTool
from hostler_protocol._base import Strict
from hostler_protocol.errors import ConflictError, NotFoundError
from hostler_protocol.grants import ToolApproval
from hostler_protocol.manifest import ToolEffect
from hostler_protocol.runs import RunRecord

ToolState = Literal["ok", "down", "waiting", "refused"]


class ToolDefinition(Strict):
    """A tool as its server defines it."""

    description: str
    parameters: dict[str, Any]
    output_schema: dict[str, Any] | None


class WaitingTool(Strict):
    """A tool that waits for approval by the operator. `approved`: its approved definition; null: there is
    none.

    `digest` is of the current definition; an approval names it.
    """

    digest: str
    approved: ToolDefinition | None
    now: ToolDefinition


class ToolRecord(Strict):
    """A tool. `parameters` and `output_schema` are JSON Schema; `owner` is the source that offers it.

    `client`: the client runs it. `approval` is what the tool itself requires; an agent's policy can only add
    to it. `state`: `ok`; `down`: its server cannot be reached now; `waiting`: it is new or changed, and the
    operator has not approved that; `refused`. `problem` says why it is not `ok`. Agents can use tools that
    are `ok` or `down`.
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
    state: ToolState
    problem: str | None
    waiting: WaitingTool | None


class ToolApproved(Strict):
    """`digest`: of the definition that was reviewed; another one is not approved."""

    digest: str


class ToolTest(Strict):
    """`arguments`: of the call; they are checked against the tool's schema."""

    arguments: dict[str, Any] = {}


class McpServerRecord(Strict):
    """An MCP server. `state`: connecting, ready, down (the next try is soon), failed (the next try is later).

    `reason` says why it is not ready, `last_fault` why it failed last. `warnings` are about its tools.
    """

    name: str
    state: str
    reason: str | None
    last_fault: str | None
    retry_in_seconds: float | None
    server: str
    warnings: list[str]
    restarts: int


@endpoint("GET", "/v1/tools", right="plugins:read", tag="tools")
async def list_tools(request: ApiRequest) -> Listing[ToolRecord]:
    """List the tools by name, including those that cannot be used, and why."""
    return Listing(items=_records(request))


@endpoint("GET", "/v1/tools/{tool}", right="plugins:read", tag="tools")
async def get_tool(request: ApiRequest) -> ToolRecord:
    """Get one tool, with the schema of its parameters."""
    return _find(request, request.parameters["tool"])


@endpoint("POST", "/v1/tools/{tool}/approve", right="installation", tag="tools")
async def approve_tool(request: ApiRequest, body: ToolApproved) -> ToolRecord:
    """Approve the current definition of an MCP server's tool that is new or changed."""
    name = request.parameters["tool"]
    await request.state.host.mcp.approve(request.workspace_id, name, body.digest, request.caller.subject)
    return _find(request, name)


@endpoint("POST", "/v1/tools/{tool}/test", right="agents:write", tag="tools", status=201)
async def try_tool(request: ApiRequest, body: ToolTest) -> Json[RunRecord]:
    """Test a tool: open a run that calls it once, with these arguments.

    It needs `events:write`, too: who may write an agent and send it a message can have the same call made.
    The run is one as any other: it is recorded, bounded by the budgets of the workspace, and asks for the
    approval that the tool requires. The call is real: what the tool changes, is changed.
    """
    require_right(request.caller, "events:write")
    host, ws, name = request.state.host, request.workspace_id, request.parameters["tool"]
    tool = next((one for one in host.tools.offered(ws).values() if one.name == name), None)
    if tool is None or tool.problem is not None:
        record = _find(request, name)
        raise ConflictError(f"tool {name!r} cannot be called: {record.problem or record.state}")
    run_id = await host.trials.open(tool_trial(ws, tool.resource, body.arguments), request.caller)
    return Json(await host.runs.record(ws, run_id), 201, [(b"location", f"/v1/runs/{run_id}".encode())])


@endpoint("POST", "/v1/mcp-servers/{server}/reconnect", right="installation", tag="tools")
async def reconnect_mcp_server(request: ApiRequest) -> McpServerRecord:
    """Connect an MCP server anew, at once. Calls that are at work end first; new ones wait for it."""
    host, ws, name = request.state.host, request.workspace_id, request.parameters["server"]
    actor = request.caller.subject
    host.mcp.reconnect(ws, name)
    await host.db.write(lambda tx: audit.record(tx, ws, actor, "mcp_server.reconnected", name, {}))
    return next(_server(status) for status in host.mcp.servers(ws) if status.name == name)


@endpoint("GET", "/v1/mcp-servers", right="plugins:read", tag="tools")
async def list_mcp_servers(request: ApiRequest) -> Listing[McpServerRecord]:
    """List the MCP servers by name, with their status."""
    return Listing(items=[_server(status) for status in request.state.host.mcp.servers(request.workspace_id)])


def _server(status: McpServerStatus) -> McpServerRecord:
    return with_fields_of(status, McpServerRecord, warnings=list(status.warnings))


def _find(request: ApiRequest, name: str) -> ToolRecord:
    for record in _records(request):
        if record.name == name:
            return record
    raise NotFoundError(f"there is no tool {name!r}: nothing offers it now")


def _records(request: ApiRequest) -> list[ToolRecord]:
    host, ws = request.state.host, request.workspace_id
    tools = [*host.tools.offered(ws).values(), *host.tools.refused(ws)]
    servers = {f"mcp:{status.name}": status for status in host.mcp.servers(ws)}
    down = {
        owner: f"its server is {status.state}: {status.reason or 'not connected yet'}"
        for owner, status in servers.items()
        if status.state != "ready"
    }
    return [
        _record(
            tool,
            down.get(tool.pin.owner),
            host.mcp.waiting(ws, tool.name)
            if tool.problem is not None and tool.pin.owner in servers
            else None,
        )
        for tool in sorted(tools, key=lambda tool: (tool.name, tool.pin.owner))
    ]


def _record(tool: OfferedTool, down: str | None, waiting: ToolWaiting | None) -> ToolRecord:
    state: ToolState = "ok" if down is None else "down"
    problem = down
    if tool.problem is not None:
        state, problem = "refused" if waiting is None else "waiting", f"nobody gets it: {tool.problem}"
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
        state=state,
        problem=problem,
        waiting=None if waiting is None else _waiting(waiting),
    )


def _waiting(tool: ToolWaiting) -> WaitingTool:
    approved = None if tool.approved is None else _definition(tool.approved)
    return WaitingTool(digest=tool.digest, approved=approved, now=_definition(tool.now))


def _definition(definition: Definition) -> ToolDefinition:
    return ToolDefinition(
        description=definition.description,
        parameters=definition.parameters,
        output_schema=definition.output_schema,
    )
