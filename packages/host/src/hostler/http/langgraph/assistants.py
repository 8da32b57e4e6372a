"""Assistants are the agents of the host: each is a graph of its own name, and configured on the host."""

from __future__ import annotations

from typing import Any

from hostler.domain.agents import Agent
from hostler.domain.narrow_callers import check_agent
from hostler.http.endpoint import ANY_KEY
from hostler.http.langgraph.conditions import check_conditions
from hostler.http.langgraph.dialect import refused
from hostler.http.langgraph.fold import AGENT_NODE, TOOLS_NODE
from hostler.http.langgraph.routes import route
from hostler.http.langgraph.threads import moment
from hostler.http.request import ApiRequest
from hostler.http.responses import Headers, Json
from hostler.storage.port import Tx
from hostler.storage.stores import agents
from hostler.version import VERSION
from hostler_protocol._base import Lenient, Strict
from hostler_protocol.errors import NotFoundError
from hostler_protocol.limits import MAX_PAGE_ITEMS

MESSAGES_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "messages": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "type": {"enum": ["human", "ai", "system", "tool"]},
                    "content": {
                        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]
                    },
                    "id": {"type": "string"},
                },
                "required": ["content"],
            },
        }
    },
    "required": ["messages"],
}
_INPUT_SCHEMA: dict[str, Any] = {
    **MESSAGES_SCHEMA,
    "properties": {
        **MESSAGES_SCHEMA["properties"],
        "tools": {"type": "array", "items": {"type": "object"}},
    },
}


class Found(Lenient):
    """Which assistants are wanted."""

    metadata: dict[str, Any] | None = None
    graph_id: str | None = None
    name: str | None = None
    limit: int = 10
    offset: int = 0


class Anything(Lenient):
    """A body that is not looked at."""


class GraphQuery(Lenient):
    """`xray` is not looked at: an agent has no subgraphs."""

    xray: str | None = None


class Schemas(Strict):
    """What an assistant takes and gives, as JSON Schema."""

    graph_id: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    state_schema: dict[str, Any]
    config_schema: dict[str, Any]
    context_schema: dict[str, Any]


def slice_of(offset: int, limit: int) -> slice:
    """Return the part of a list that a request wants. InvalidArgumentError for one that cannot be."""
    if not 0 <= offset <= 1_000_000:
        raise refused("offset", f"{offset} is no position", "0 to 1000000")
    if not 1 <= limit <= 1_000:
        raise refused("limit", f"{limit} is no size of a page", "1 to 1000")
    return slice(offset, offset + min(limit, MAX_PAGE_ITEMS))


@route("POST", "/assistants/search", "agents:read")
async def search_assistants(request: ApiRequest, body: Found) -> Json[list[dict[str, Any]]]:
    """List the agents that can be run, as assistants."""
    part = slice_of(body.offset, body.limit)
    found = await find_assistants(request, body)
    more: Headers = [(b"x-pagination-total", b"%d" % len(found))]
    if len(found) > part.stop:
        more.append((b"x-pagination-next", b"%d" % part.stop))
    return Json(found[part], headers=more)


@route("POST", "/assistants/count", "agents:read")
async def count_assistants(request: ApiRequest, body: Found) -> Json[int]:
    """Count the agents that can be run."""
    return Json(len(await find_assistants(request, body)))


@route("GET", "/assistants/{assistant}", "agents:read")
async def get_assistant(request: ApiRequest) -> Json[dict[str, Any]]:
    """Get an agent as an assistant."""
    return Json(await _get(request))


@route("GET", "/assistants/{assistant}/graph", "agents:read")
async def get_assistant_graph(request: ApiRequest, query: GraphQuery) -> Json[dict[str, Any]]:
    """Get the graph of an agent: a loop of itself and its tools."""
    await _get(request)
    nodes = [
        {"id": "__start__", "type": "runnable", "data": {"name": "__start__"}},
        *({"id": name, "type": "runnable", "data": {"name": name}} for name in (AGENT_NODE, TOOLS_NODE)),
        {"id": "__end__"},
    ]
    edges = [
        {"source": "__start__", "target": AGENT_NODE},
        {"source": AGENT_NODE, "target": TOOLS_NODE, "conditional": True},
        {"source": TOOLS_NODE, "target": AGENT_NODE},
        {"source": AGENT_NODE, "target": "__end__", "conditional": True},
    ]
    return Json({"nodes": nodes, "edges": edges})


@route("GET", "/assistants/{assistant}/schemas", "agents:read")
async def get_assistant_schemas(request: ApiRequest) -> Json[Schemas]:
    """Get what an agent takes and gives: messages."""
    return Json(schemas_of(await _get(request)))


def schemas_of(assistant: dict[str, Any]) -> Schemas:
    """Return what an assistant takes and gives."""
    params = {"type": "object", "properties": {}, "additionalProperties": True}
    return Schemas(
        graph_id=assistant["graph_id"],
        input_schema=_INPUT_SCHEMA,
        output_schema=MESSAGES_SCHEMA,
        state_schema=MESSAGES_SCHEMA,
        config_schema=params,
        context_schema=params,
    )


@route("GET", "/assistants/{assistant}/subgraphs", "agents:read")
async def get_assistant_subgraphs(request: ApiRequest, query: GraphQuery) -> Json[dict[str, Any]]:
    """List the subgraphs of an agent: it has none."""
    await _get(request)
    return Json({})


@route("POST", "/assistants/{assistant}/versions", "agents:read")
async def list_assistant_versions(request: ApiRequest, body: Found) -> Json[list[dict[str, Any]]]:
    """List the versions of an agent: the one that runs. `/v1/agents/{name}/versions` has the others."""
    part = slice_of(body.offset, body.limit)
    return Json([await _get(request)][part])


@route("POST", "/assistants", "agents:write")
async def create_assistant(request: ApiRequest, body: Anything) -> Json[dict[str, Any]]:
    """Refuse to make an assistant: agents are configured on the host."""
    raise refused("graph_id", "agents are configured on the host: PUT /v1/agents/{name}, or `hostler apply`")


@route("PATCH", "/assistants/{assistant}", "agents:write")
async def update_assistant(request: ApiRequest, body: Anything) -> Json[dict[str, Any]]:
    """Refuse to change an assistant: agents are configured on the host."""
    await _get(request)
    raise refused("config", "agents are configured on the host: PUT /v1/agents/{name}, or `hostler apply`")


@route("GET", "/ok", ANY_KEY)
async def get_langgraph_ok(request: ApiRequest) -> Json[dict[str, bool]]:
    """Say that the server answers."""
    return Json({"ok": True})


@route("GET", "/info", ANY_KEY)
async def get_langgraph_info(request: ApiRequest) -> Json[dict[str, Any]]:
    """Say what this server has of a LangGraph server's features."""
    flags = {"assistants": True, "crons": True, "store": True, "langsmith": False}
    return Json({"version": VERSION, "flags": flags, "host": {"kind": "hostler"}})


async def find_assistants(request: ApiRequest, wanted: Found) -> list[dict[str, Any]]:
    """Return the agents that are wanted and can be run, as assistants."""
    host, workspace = request.state.host, request.workspace_id
    metadata = check_conditions("metadata", wanted.metadata)
    created = await host.db.read(lambda tx: agents.created(tx, workspace))
    found = [
        _assistant(agent, created.get(agent.name, 0))
        for agent in await host.event_router.agents(workspace)
        if agent.spec.enabled
        and (wanted.graph_id is None or agent.name == wanted.graph_id)
        and (wanted.name is None or wanted.name.lower() in agent.name.lower())
    ]
    for name, value in metadata.items():
        found = [one for one in found if one["metadata"].get(name) == value]
    return found


async def _get(request: ApiRequest) -> dict[str, Any]:
    return await get_record(request, request.parameters["assistant"])


async def get_record(request: ApiRequest, name: str) -> dict[str, Any]:
    """Return an agent as an assistant. NotFoundError."""
    check_agent(request.caller, name)

    def read(tx: Tx) -> dict[str, Any] | None:
        agent = agents.find(tx, request.workspace_id, name)
        created = agents.created(tx, request.workspace_id)
        return None if agent is None else _assistant(agent, created.get(name, 0))

    found = await request.state.host.db.read(read)
    if found is None:
        raise NotFoundError(f"there is no assistant {name[:200]!r}: assistants are agents here")
    return found


def _assistant(agent: Agent, created: int) -> dict[str, Any]:
    return {
        "assistant_id": agent.name,
        "graph_id": agent.name,
        "name": agent.name,
        "description": None,
        "config": {},
        "context": {},
        "metadata": {"created_by": "system"},
        "version": agent.version,
        "created_at": moment(created),
        "updated_at": moment(created),
    }
