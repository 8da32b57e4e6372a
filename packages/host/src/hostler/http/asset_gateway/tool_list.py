"""The MCP tools of a run token, and the call of the Host API behind each.

Seven tools map to calls of the Host API; each is listed if the run's grant holds the call. The run's own
tools follow under their names. Permission is not decided here: each use becomes a call, which the gate
checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hostler.calls.run_tokens import RunAccess
from hostler.domain.grants import Grant
from hostler.domain.record import Record
from hostler.domain.suggestions import did_you_mean
from hostler.http.asset_gateway.limits import MAX_READ_BYTES
from hostler.http.mcp.messages import INVALID_PARAMS, RpcError
from hostler.tools.port import OfferedTool
from hostler_protocol.calls import CALLS, CallParams, ToolCallParams
from hostler_protocol.limits import MAX_PAGE_ITEMS


class HostCallTool(Record):
    """A tool that maps to a call of the Host API and takes the same arguments."""

    name: str
    method: str
    description: str
    properties: dict[str, Any]
    required: tuple[str, ...] = ()
    changes: bool = False
    """Whether it has side effects."""

    def definition(self, grant: Grant) -> dict[str, Any]:
        """Return the definition that MCP lists for a run."""
        properties = self.properties
        if self.method == "knowledge.retrieve":
            properties = properties | {"kb_id": properties["kb_id"] | {"enum": list(grant.knowledge_bases)}}
        schema = {
            "type": "object",
            "properties": properties,
            "required": list(self.required),
            "additionalProperties": False,
        }
        return _definition(self.name, self.description, schema, changes=self.changes)

    def is_open(self, grant: Grant) -> bool:
        """Whether a run with this grant can use the tool."""
        if self.method not in grant.calls:
            return False
        match self.method:
            case "tool.call":
                return bool(grant.tools)
            case "knowledge.retrieve":
                return bool(grant.knowledge_bases)
            case _:
                return True


def _definition(name: str, description: str, schema: dict[str, Any], *, changes: bool) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": {"readOnlyHint": not changes},
    }


def _string(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _count(description: str, least: int = 0, most: int | None = None) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "description": description} | (
        {} if most is None else {"maximum": most}
    )


_SCOPE = _string("conversation, actor, subject or runner")
_STATE_KEY = _string("the key, 1 to 255 characters")
HOST_CALL_TOOLS: dict[str, HostCallTool] = {
    offer.name: offer
    for offer in (
        HostCallTool(
            "history_page",
            "history.page",
            "Reads the conversation before the message that this run answers; backward: newest first.",
            {
                "before_cursor": _string("messages before this cursor"),
                "after_cursor": _string("messages after this cursor"),
                "limit": _count("messages at most", 1, MAX_PAGE_ITEMS),
                "direction": {"type": "string", "enum": ["backward", "forward"]},
                "include_artifacts": {"type": "boolean", "description": "with the files of the messages"},
                "conversation_id": _string("another conversation, if the agent allows it"),
            },
        ),
        HostCallTool(
            "history_search",
            "history.search",
            "Finds messages of the conversation by words, in any script.",
            {
                "query": _string("the words to look for"),
                "top_k": _count("messages at most", 1, MAX_PAGE_ITEMS),
                "filters": {"type": "object", "description": "narrows the search, such as by role"},
            },
            ("query",),
        ),
        HostCallTool(
            "retrieve_knowledge",
            "knowledge.retrieve",
            "Finds what a knowledge base says about a text.",
            {
                "kb_id": _string("the knowledge base"),
                "query_text": _string("what to look for"),
                "top_k": _count("items at most", 1, MAX_PAGE_ITEMS),
                "filters": {"type": "object", "description": "narrows the search"},
            },
            ("kb_id", "query_text"),
        ),
        HostCallTool(
            "call_tool",
            "tool.call",
            "Calls one of the run's tools by its name.",
            {
                "tool_name": _string("the tool's name"),
                "parameters": {"type": "object", "description": "the tool's arguments"},
            },
            ("tool_name",),
            changes=True,
        ),
        HostCallTool(
            "state_get",
            "state.get",
            "Reads a value that the agent stored; version 0 means that there is none.",
            {"scope": _SCOPE, "key": _STATE_KEY},
            ("scope", "key"),
        ),
        HostCallTool(
            "state_set",
            "state.set",
            "Stores a value for the agent.",
            {
                "scope": _SCOPE,
                "key": _STATE_KEY,
                "value": {"description": "any JSON, at most 256 KiB"},
                "if_version": _count("only if the value has this version; 0: only if there is none"),
            },
            ("scope", "key", "value"),
            changes=True,
        ),
        HostCallTool(
            "artifact_read",
            "artifact.read",
            "Reads a file of the conversation in ranges, as base64.",
            {
                "artifact_id": _string("the file"),
                "offset": _count("first byte to read"),
                "limit": _count("bytes at most", 1, MAX_READ_BYTES),
            },
            ("artifact_id",),
        ),
    )
}


def definitions(access: RunAccess, offered: Mapping[str, OfferedTool]) -> Iterator[dict[str, Any]]:
    """Yield the definitions of a run's tools. `offered`: the host's current tools.

    A tool that changed since the grant was made is left out.
    """
    grant = access.grant
    for offer in HOST_CALL_TOOLS.values():
        if offer.is_open(grant):
            yield offer.definition(grant)
    for name, resource in grant.tools.items():
        tool = offered.get(name)
        if tool is None or tool.pin != grant.tool_pins.get(name) or name in HOST_CALL_TOOLS:
            continue
        if "call" in resource.operations:
            schema = {"type": "object"} | dict(tool.parameters)
            yield _definition(name, resource.description, schema, changes=tool.pin.effect != "pure")


def call_of(access: RunAccess, params: Mapping[str, Any]) -> tuple[str, CallParams]:
    """Return method and parameters of the host call that a `tools/call` of this run requests. RpcError."""
    name, arguments = params.get("name"), params.get("arguments")
    arguments = {} if arguments is None else arguments
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, "tools/call takes a name, and arguments as an object")
    offer = HOST_CALL_TOOLS.get(name)
    if offer is None:
        return "tool.call", ToolCallParams(run_id=access.run_id, tool_name=name, parameters=arguments)
    for unknown in arguments.keys() - offer.properties.keys():
        hint = did_you_mean(unknown, set(offer.properties))
        raise RpcError(INVALID_PARAMS, f"{name} takes no {unknown!r:.50}: {hint}")
    if offer.method == "artifact.read":
        arguments = {"limit": MAX_READ_BYTES} | arguments
        if isinstance(arguments["limit"], int):
            arguments["limit"] = min(arguments["limit"], MAX_READ_BYTES)
    try:
        return offer.method, msgspec.convert(
            arguments | {"run_id": access.run_id}, CALLS[offer.method].params
        )
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_PARAMS, f"{name}: {error}") from None
