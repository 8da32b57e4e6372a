"""Agents as tools: their definitions, and the arguments of a call as a message."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

from hostler.domain.agents import Agent
from hostler.domain.bindings import takes_type
from hostler.domain.type_fit import convert
from hostler.http.auth import require_right
from hostler.http.dialects.files import checked_base64, content_of
from hostler.http.mcp.messages import INVALID_PARAMS, RpcError
from hostler.http.request import ApiRequest
from hostler_protocol._base import Strict
from hostler_protocol.content import (
    ArtifactElement,
    ContentElement,
    FileBase64Element,
    FileUrlElement,
    ImageBase64Element,
    ImageUrl,
    ImageUrlElement,
    TextElement,
)
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.events import Input
from hostler_protocol.ids import digest

MESSAGES = "message.received"
MAX_FILES = 64
"""Files of one call."""
MAX_TOOLS_ON_PAGE = 100
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_DIALECT_2020 = "https://json-schema.org/draft/2020-12/schema"


class File(Strict):
    """A file of a message: one of an artifact of the host, an address, and bytes in base64."""

    artifact_id: str | None = None
    url: str | None = None
    data: str | None = None
    mime_type: str | None = None
    name: str | None = None


class Arguments(Strict):
    """The arguments of a call."""

    message: str
    conversation_id: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    files: Annotated[list[File], msgspec.Meta(max_length=MAX_FILES)] = []


INPUT_SCHEMA: dict[str, Any] = {
    "$schema": _DIALECT_2020,
    "type": "object",
    "$defs": {
        "file": {
            "type": "object",
            "description": "one of artifact_id, url and data",
            "properties": {
                "artifact_id": {"type": "string", "description": "an artifact of the host"},
                "url": {"type": "string", "description": "the address of the file"},
                "data": {"type": "string", "description": "the bytes in base64", "contentEncoding": "base64"},
                "mime_type": {"type": "string"},
                "name": {"type": "string"},
            },
            "additionalProperties": False,
        }
    },
    "properties": {
        "message": {"type": "string", "description": "what to say to the agent"},
        "conversation_id": {
            "type": "string",
            "description": "a conversation to go on with, from an earlier result; left out: a new one",
        },
        "files": {"type": "array", "items": {"$ref": "#/$defs/file"}, "maxItems": MAX_FILES},
    },
    "required": ["message"],
    "additionalProperties": False,
}
OUTPUT_SCHEMA: dict[str, Any] = {
    "$schema": _DIALECT_2020,
    "type": "object",
    "properties": {
        "status": {
            "type": "string",
            "enum": ["completed", "failed", "cancelled", "waiting"],
            "description": "waiting: the run needs a decision before it goes on",
        },
        "messages": {"type": "array", "items": {"type": "string"}, "description": "the agent's messages"},
        "run_id": {"type": "string"},
        "conversation_id": {"type": ["string", "null"]},
        "usage": {"type": "object", "description": "tokens of the run so far"},
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "retryable": {"type": "boolean"},
            },
        },
    },
    "required": ["status", "messages", "run_id"],
}


async def agents_of(request: ApiRequest) -> list[Agent]:
    """Return the agents that take messages and are enabled, by name."""
    require_right(request.caller, "runs:read")
    found = await request.state.host.event_router.agents(request.workspace_id)
    return sorted(
        (agent for agent in found if agent.spec.enabled and takes_type(agent.spec.event_types, MESSAGES)),
        key=lambda agent: agent.name,
    )


async def agent_of(request: ApiRequest, tool: Any) -> Agent:
    """Return the agent that a tool is. RpcError if there is none."""
    for agent in await agents_of(request):
        if tool_name(agent) == tool:
            return agent
    raise RpcError(INVALID_PARAMS, f"there is no tool {tool!r:.200}: tools are agents here, see tools/list")


def tool_name(agent: Agent) -> str:
    """Return an agent's name as a tool; one derived from it if clients might not take it."""
    return agent.name if _TOOL_NAME.fullmatch(agent.name) else f"agent_{digest(agent.name)[:24]}"


def definition(agent: Agent, version: str) -> dict[str, Any]:
    """Return an agent as a tool of a revision of the protocol."""
    described = agent.spec.metadata.get("description")
    text = described if isinstance(described, str) and described else f"Asks the agent {agent.name}."
    tool = {
        "name": tool_name(agent),
        "title": agent.name,
        "description": text,
        "inputSchema": INPUT_SCHEMA,
        "outputSchema": OUTPUT_SCHEMA,
        "annotations": {
            "title": agent.name,
            "readOnlyHint": False,
            "destructiveHint": True,
            "idempotentHint": False,
            "openWorldHint": True,
        },
    }
    return tool | ({"execution": {"taskSupport": "optional"}} if version == "2025-11-25" else {})


async def tool_page(request: ApiRequest, cursor: Any, version: str) -> dict[str, Any]:
    """Return a page of tools. `cursor`: the name after which it begins. RpcError for one of another list."""
    after = "" if cursor is None else cursor
    if not isinstance(after, str):
        raise RpcError(INVALID_PARAMS, "cursor: expected the nextCursor of a page of tools/list")
    rest = [agent for agent in await agents_of(request) if agent.name > after]
    shown = rest[:MAX_TOOLS_ON_PAGE]
    more = {"nextCursor": shown[-1].name} if len(rest) > len(shown) else {}
    return {"tools": [definition(agent, version) for agent in shown], **more}


# -- arguments -------------------------------------------------------------------------------------------


def read_arguments(given: Any) -> Arguments:
    """Return the arguments of a call. InvalidArgumentError says what is wrong and what would be right."""
    return convert({} if given is None else given, Arguments, "arguments")


def input_of(arguments: Arguments) -> Input:
    """Return the arguments of a call as a message. InvalidArgumentError for a file that is none."""
    elements: list[ContentElement] = [TextElement(text=arguments.message)] if arguments.message else []
    elements += [_element(number, file) for number, file in enumerate(arguments.files)]
    if not elements:
        raise InvalidArgumentError("arguments: message is empty, and there are no files: expected a message")
    content = content_of(elements)
    return Input(text=content) if isinstance(content, str) else Input(contents=content)


def _element(number: int, file: File) -> ContentElement:
    where = f"arguments: files[{number}]"
    given = [name for name in ("artifact_id", "url", "data") if getattr(file, name) is not None]
    if len(given) != 1:
        raise InvalidArgumentError(f"{where}: expected exactly one of artifact_id, url and data")
    kind, name = file.mime_type, file.name
    image = (kind or "").startswith("image/")
    if file.artifact_id is not None:
        return ArtifactElement(artifact_id=file.artifact_id, mime_type=kind, file_name=name)
    if file.url is not None:
        if image:
            return ImageUrlElement(image_url=ImageUrl(url=file.url))
        return FileUrlElement(file_url=file.url, file_name=name)
    try:
        data = checked_base64(file.data or "")
    except ValueError as error:
        raise InvalidArgumentError(f"{where}: data: {error}") from None
    if image:
        return ImageBase64Element(image_base64=data, mime_type=kind)
    return FileBase64Element(file_base64=data, file_name=name, mime_type=kind)
