"""A2A by JSON-RPC: one address for each agent."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from hostler.http.a2a import methods, push, wire
from hostler.http.a2a.bindings import RPC_EVENTS, filling_for
from hostler.http.a2a.card import extended_card
from hostler.http.a2a.dialect import (
    JSON_RPC,
    MethodNotFoundError,
    rpc_error,
    rpc_status,
)
from hostler.http.a2a.messages import MAX_ID_CHARS, wrong
from hostler.http.a2a.tasks import list_tasks
from hostler.http.a2a.versions import check_version
from hostler.http.endpoint import ANY_KEY, Media, endpoint
from hostler.http.event_stream import EventStream
from hostler.http.problems import caller_blamed, headers_of, problem_of
from hostler.http.request import ApiRequest, decode_json
from hostler.http.responses import Json, RawBody
from hostler.http.sse import EVENT_STREAM
from hostler_protocol._base import Lenient
from hostler_protocol.errors import HostlerError

log = logging.getLogger("hostler.http")


RequestId = (
    Annotated[str, msgspec.Meta(max_length=MAX_ID_CHARS)]
    | Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
)
"""It is repeated in every frame of a stream, so it has a bound."""


class RpcRequest(Lenient):
    """A request of JSON-RPC 2.0."""

    jsonrpc: Literal["2.0"]
    method: str
    id: RequestId
    params: msgspec.Raw = msgspec.Raw(b"{}")


class Nothing(Lenient):
    """Parameters of a method that needs none."""


class Call(NamedTuple):
    """A request on its way to a method."""

    request: ApiRequest
    agent: str
    request_id: str | int


class Method(NamedTuple):
    """A method of A2A, and the type of its parameters."""

    params: Any
    function: Callable[[Call, Any], Awaitable[Any]]


async def _send(call: Call, params: wire.SendMessage) -> Any:
    return await methods.send(call.request, call.agent, params)


async def _stream(call: Call, params: wire.SendMessage) -> EventStream | RawBody:
    return await methods.stream(call.request, call.agent, params, RPC_EVENTS, filling_for(call.request_id))


async def _subscribe(call: Call, params: wire.NamedTask) -> EventStream:
    filling = filling_for(call.request_id)
    return await methods.subscribe(call.request, call.agent, params.id, RPC_EVENTS, filling)


async def _get(call: Call, params: wire.GetTask) -> Any:
    return await methods.get(call.request, call.agent, params)


async def _list(call: Call, params: wire.ListTasks) -> Any:
    return await list_tasks(call.request, call.agent, params)


async def _cancel(call: Call, params: wire.NamedTask) -> Any:
    return await methods.cancel(call.request, call.agent, params.id)


async def _extended_card(call: Call, _: Nothing) -> Any:
    return await extended_card(call.request, call.agent)


async def _add_push(call: Call, params: wire.GivenPushConfig) -> Any:
    if not params.task_id:
        raise wrong("taskId", "the id of a task")
    return await push.add_config(call.request, call.agent, params.task_id, params)


async def _get_push(call: Call, params: wire.NamedPushConfig) -> Any:
    return await push.get_config(call.request, call.agent, params)


async def _list_push(call: Call, params: wire.ListPushConfigs) -> Any:
    return await push.list_configs(call.request, call.agent, params)


async def _remove_push(call: Call, params: wire.NamedPushConfig) -> Any:
    await push.remove_config(call.request, call.agent, params)
    return {}


METHODS: Mapping[str, Method] = {
    "SendMessage": Method(wire.SendMessage, _send),
    "SendStreamingMessage": Method(wire.SendMessage, _stream),
    "SubscribeToTask": Method(wire.NamedTask, _subscribe),
    "GetTask": Method(wire.GetTask, _get),
    "ListTasks": Method(wire.ListTasks, _list),
    "CancelTask": Method(wire.NamedTask, _cancel),
    "GetExtendedAgentCard": Method(Nothing, _extended_card),
    "CreateTaskPushNotificationConfig": Method(wire.GivenPushConfig, _add_push),
    "GetTaskPushNotificationConfig": Method(wire.NamedPushConfig, _get_push),
    "ListTaskPushNotificationConfigs": Method(wire.ListPushConfigs, _list_push),
    "DeleteTaskPushNotificationConfig": Method(wire.NamedPushConfig, _remove_push),
}


@endpoint(
    "POST",
    "/a2a/{agent}",
    right=ANY_KEY,
    tag="a2a",
    dialect=JSON_RPC,
    answers={200: Media(EVENT_STREAM, "Responses of JSON-RPC, of the methods that stream")},
)
async def call_a2a(request: ApiRequest, body: RpcRequest) -> EventStream | RawBody | Json[Any]:
    """Call a method of A2A by JSON-RPC."""
    try:
        check_version(request)
        if (method := METHODS.get(body.method)) is None:
            raise MethodNotFoundError(body.method)
        params = decode_json(bytes(body.params), method.params)
        result = await method.function(Call(request, request.parameters["agent"], body.id), params)
    except HostlerError as error:
        if not caller_blamed(error):
            log.warning("%s %s: %s", request.method, request.path, error.message)
        problem = problem_of(error)
        return Json(
            msgspec.to_builtins(rpc_error(problem, body.id), enc_hook=str, str_keys=True),
            rpc_status(problem),
            headers_of(error, rpc_status(problem)),
        )
    if isinstance(result, EventStream | RawBody):
        return result
    answer = {"jsonrpc": "2.0", "id": body.id, "result": result}
    return Json(answer, 200, methods.extension_headers(request))
