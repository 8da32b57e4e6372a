"""`/mcp` with an API key: messages of MCP's streamable HTTP, and how its clients authenticate.

Two generations of the protocol are served, which `messages` tells apart: with sessions, and stateless.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from hostler.http.auth import RIGHTS
from hostler.http.endpoint import ANY_KEY, Media, endpoint
from hostler.http.event_stream import EventStream
from hostler.http.mcp import prompts, resources, tasks
from hostler.http.mcp.calls import call_tool, cancel_call, level_of, resume
from hostler.http.mcp.decisions import take_forms
from hostler.http.mcp.dialect import MCP, METADATA_PATH, answer_error
from hostler.http.mcp.messages import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    SESSION_HEADER,
    RpcError,
    RpcMessage,
    RpcReply,
    encode_error,
    encode_result,
    initialize_result,
    read_message,
    server_info,
)
from hostler.http.mcp.offers import tool_page
from hostler.http.mcp.origins import check_origin
from hostler.http.mcp.sessions import Session, begin_session, find_session, level_named
from hostler.http.mcp.task_records import EXTENSION
from hostler.http.problems import MethodNotAllowedError
from hostler.http.request import ApiRequest, check_json_type
from hostler.http.responses import Empty, Json, RawBody
from hostler.http.sse import EVENT_STREAM
from hostler_protocol._base import Strict
from hostler_protocol.errors import HostlerError

INSTRUCTIONS = (
    "Each tool is an agent: it takes a message, and its result has the agent's messages. A result names its "
    "conversation; give that to the next call to go on with it. A prompt AGENT.NAME is a message for the "
    "tool AGENT."
)
MESSAGE = Media("application/json", "A message of MCP", schema={})
STREAM = Media(EVENT_STREAM, "Messages of MCP; `id` is what `Last-Event-ID` continues after")


class ResourceMetadata(Strict):
    """What a client has to know to authenticate (RFC 9728). Keys are made by an administrator: there is no
    authorization server that gives them out.
    """

    resource: str
    resource_name: str
    bearer_methods_supported: list[str]
    scopes_supported: list[str]
    resource_documentation: str


@endpoint("POST", "/mcp", right=ANY_KEY, tag="mcp", dialect=MCP, answers={200: (MESSAGE, STREAM)})
async def post_message(request: ApiRequest) -> RawBody | EventStream | Empty:
    """Take a message of a client: a request, a notification, or the response to a request of this server."""
    await check_origin(request)
    check_json_type(request.headers.get("content-type"))
    try:
        message = read_message(request.body, request.headers)
    except RpcError as error:
        return RawBody(encode_error(error), "application/json", error.status)
    if isinstance(message, RpcReply):
        return await _take_reply(request, message)
    if message.id is None:
        return await _take_notification(request, message)
    try:
        return await _answer(request, message)
    except (RpcError, HostlerError) as error:
        return answer_error(message, error)


@endpoint("GET", "/mcp", right=ANY_KEY, tag="mcp", dialect=MCP, answers={200: STREAM})
async def resume_stream(request: ApiRequest) -> EventStream | RawBody:
    """Continue the stream of a call after `Last-Event-ID`. There is no stream of its own for a session."""
    await check_origin(request)
    last = request.headers.get("last-event-id")
    if last is None:
        raise MethodNotAllowedError("GET without Last-Event-ID", ["OPTIONS", "POST"])
    try:
        find_session(request)
    except RpcError as error:
        return RawBody(encode_error(error), "application/json", error.status)
    return await resume(request, last)


@endpoint("GET", METADATA_PATH, right=None, tag="mcp", dialect=MCP)
async def get_resource_metadata(request: ApiRequest) -> Json[ResourceMetadata]:
    """Tell a client how to authenticate."""
    return _metadata(request)


@endpoint("GET", f"{METADATA_PATH}/mcp", right=None, tag="mcp", dialect=MCP)
async def get_mcp_metadata(request: ApiRequest) -> Json[ResourceMetadata]:
    """Tell a client how to authenticate at `/mcp`."""
    return _metadata(request)


def _metadata(request: ApiRequest) -> Json[ResourceMetadata]:
    base = request.base
    return Json(
        ResourceMetadata(
            resource=f"{base}/mcp",
            resource_name="Hostler",
            bearer_methods_supported=["header"],
            scopes_supported=sorted(RIGHTS),
            resource_documentation=f"{base}/docs",
        )
    )


# -- messages that are no requests -----------------------------------------------------------------------


async def _take_reply(request: ApiRequest, reply: RpcReply) -> Empty | RawBody:
    """Take the response to `elicitation/create`, whose id names what was asked."""
    try:
        find_session(request)
        if reply.result is None:
            return Empty(202)  # its client cannot ask: the run waits on
        await take_forms(request, {reply.id: reply.result})
    except RpcError as error:
        return RawBody(encode_error(error), "application/json", error.status)
    return Empty(202)


async def _take_notification(request: ApiRequest, message: RpcMessage) -> Empty | RawBody:
    if message.stateless:
        return Empty(202)  # it has none for servers
    try:
        session = find_session(request)
    except RpcError as error:
        return RawBody(encode_error(error), "application/json", error.status)
    if message.method == "notifications/cancelled":
        await cancel_call(request, message, session)
    return Empty(202)


# -- requests --------------------------------------------------------------------------------------------

Method = Callable[[ApiRequest, RpcMessage], Awaitable[dict[str, Any]]]


async def _answer(request: ApiRequest, message: RpcMessage) -> RawBody | EventStream:
    if message.stateless:
        return await _answer_stateless(request, message)
    if message.method == "initialize":
        return _initialize(request, message)
    session = find_session(request)
    levels = request.state.mcp_levels
    match message.method:
        case "tools/call":
            return await call_tool(request, message, session, levels.get(session.session_id))
        case "tasks/result":
            return await tasks.task_result(request, message, session, levels.get(session.session_id))
        case "logging/setLevel":
            levels.set(session.session_id, level_named(message.params.get("level"), "level"))
            result: dict[str, Any] = {}
        case "ping":
            result = {}
        case "tools/list":
            result = await tool_page(request, message.params.get("cursor"), session.version)
        case name:
            result = await _method(SESSION_METHODS, name)(request, message)
    return RawBody(encode_result(message, result), "application/json")


async def _answer_stateless(request: ApiRequest, message: RpcMessage) -> RawBody | EventStream:
    match message.method:
        case "tools/call":
            return await call_tool(request, message, None, level_of(message))
        case "server/discover":
            result, is_list = server_info(_about(stateless=True)), True
        case "tools/list":
            result, is_list = await tool_page(request, message.params.get("cursor"), ""), True
        case name:
            result = await _method(STATELESS_METHODS, name)(request, message)
            is_list = name in CACHED
    return RawBody(encode_result(message, result, is_list=is_list), "application/json")


def _method(known: dict[str, Method], name: str) -> Method:
    if name not in known:
        raise RpcError(METHOD_NOT_FOUND, f"there is no method {name!r:.100} in this revision of the protocol")
    return known[name]


def _initialize(request: ApiRequest, message: RpcMessage) -> RawBody:
    if not isinstance(message.params.get("protocolVersion"), str):
        raise RpcError(INVALID_PARAMS, "protocolVersion: expected the revision that the client speaks")
    session: Session = begin_session(request, message)
    body = encode_result(message, initialize_result(message, _about(stateless=False)))
    headers = [(SESSION_HEADER.encode(), session.session_id.encode())]
    return RawBody(body, "application/json", headers=headers)


def _about(*, stateless: bool) -> dict[str, Any]:
    served = ("tools", "resources", "prompts", "completions", "logging")
    capabilities: dict[str, Any] = {name: {} for name in served}
    if stateless:
        capabilities["extensions"] = {EXTENSION: {}}
    else:
        capabilities["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    return {"capabilities": capabilities, "instructions": INSTRUCTIONS}


_SHARED_METHODS: dict[str, Method] = {
    "resources/list": resources.list_resources,
    "resources/templates/list": resources.list_templates,
    "resources/read": resources.read_resource,
    "prompts/list": prompts.list_prompts,
    "prompts/get": prompts.get_prompt,
    "completion/complete": resources.complete,
}
SESSION_METHODS: dict[str, Method] = _SHARED_METHODS | {
    "tasks/get": tasks.get_task,
    "tasks/list": tasks.list_tasks,
    "tasks/cancel": tasks.cancel_task,
}
STATELESS_METHODS: dict[str, Method] = _SHARED_METHODS | {
    "tasks/get": tasks.detailed_task,
    "tasks/update": tasks.update_task,
    "tasks/cancel": tasks.end_task,
}
CACHED = frozenset({"prompts/list", "resources/list", "resources/templates/list", "resources/read"})
"""Methods whose results say that they are not to be cached."""
