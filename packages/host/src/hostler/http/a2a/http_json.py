"""A2A by HTTP+JSON: the same methods, each at an address of its own; and the card of an agent."""

from __future__ import annotations

from typing import Any

from hostler.http.a2a import methods, push, wire
from hostler.http.a2a.bindings import HTTP_JSON_EVENTS
from hostler.http.a2a.card import extended_card, open_card
from hostler.http.a2a.card_signature import card_key
from hostler.http.a2a.dialect import HTTP_JSON, MethodNotFoundError
from hostler.http.a2a.tasks import list_tasks
from hostler.http.a2a.versions import check_version
from hostler.http.endpoint import Media, endpoint
from hostler.http.event_stream import EventStream
from hostler.http.request import ApiRequest
from hostler.http.responses import Json, RawBody
from hostler.http.sse import EVENT_STREAM

STREAM = Media(EVENT_STREAM, "Events of A2A 1.0: the task, then what changes")


@endpoint("GET", "/a2a/{agent}/.well-known/agent-card.json", right=None, tag="a2a", dialect=HTTP_JSON)
async def get_agent_card(request: ApiRequest) -> Json[Any]:
    """Get the card of an agent: what it is, and where. Anybody may."""
    return Json(await open_card(request, request.parameters["agent"]))


@endpoint("GET", "/.well-known/jwks.json", right=None, tag="a2a", dialect=HTTP_JSON)
async def get_card_keys(request: ApiRequest) -> Json[Any]:
    """Get the public keys that sign the cards of agents. Anybody may."""
    key = await card_key(request)
    return Json({"keys": [] if key is None else [key.public()]})


@endpoint("GET", "/a2a/{agent}/extendedAgentCard", right="events:write", tag="a2a", dialect=HTTP_JSON)
async def get_extended_agent_card(request: ApiRequest) -> Json[Any]:
    """Get the card of an agent with all its skills."""
    check_version(request)
    return Json(await extended_card(request, request.parameters["agent"]))


@endpoint("POST", "/a2a/{agent}/message:send", right="events:write", tag="a2a", dialect=HTTP_JSON)
async def send_a2a_message(request: ApiRequest, body: wire.SendMessage) -> Json[wire.SentTask]:
    """Send a message; answer with its task once it is over or waits."""
    check_version(request)
    return Json(await methods.send(request, request.parameters["agent"], body))


@endpoint(
    "POST",
    "/a2a/{agent}/message:stream",
    right="events:write",
    tag="a2a",
    dialect=HTTP_JSON,
    answers={200: STREAM},
)
async def stream_a2a_message(request: ApiRequest, body: wire.SendMessage) -> EventStream | RawBody:
    """Send a message, and stream its task."""
    check_version(request)
    return await methods.stream(request, request.parameters["agent"], body, HTTP_JSON_EVENTS)


@endpoint("GET", "/a2a/{agent}/tasks", right="runs:read", tag="a2a", dialect=HTTP_JSON)
async def list_a2a_tasks(request: ApiRequest, query: wire.ListTasks) -> Json[wire.TaskPage]:
    """List the tasks of an agent, newest first."""
    check_version(request)
    return Json(await list_tasks(request, request.parameters["agent"], query))


@endpoint(
    "GET",
    "/a2a/{agent}/tasks/{task}",
    right="runs:read",
    tag="a2a",
    dialect=HTTP_JSON,
    answers={200: (wire.Task, STREAM)},
)
async def get_a2a_task(request: ApiRequest, query: wire.TaskQuery) -> EventStream | Json[wire.Task]:
    """Get a task; with `:subscribe` after its id, stream it."""
    check_version(request)
    agent, (task_id, verb) = request.parameters["agent"], _verb_of(request)
    if verb == "subscribe":
        return await methods.subscribe(request, agent, task_id, HTTP_JSON_EVENTS)
    if verb:
        raise MethodNotFoundError(verb)
    wanted = wire.GetTask(id=task_id, history_length=query.history_length)
    return Json(await methods.get(request, agent, wanted))


@endpoint(
    "POST",
    "/a2a/{agent}/tasks/{task}",
    right="runs:read",
    tag="a2a",
    dialect=HTTP_JSON,
    answers={200: (wire.Task, STREAM)},
)
async def change_a2a_task(request: ApiRequest) -> EventStream | Json[wire.Task]:
    """Cancel a task, by `:cancel` after its id, or stream it, by `:subscribe`."""
    check_version(request)
    agent, (task_id, verb) = request.parameters["agent"], _verb_of(request)
    match verb:
        case "cancel":
            return Json(await methods.cancel(request, agent, task_id))
        case "subscribe":
            return await methods.subscribe(request, agent, task_id, HTTP_JSON_EVENTS)
        case _:
            raise MethodNotFoundError(verb or "POST of a task")


@endpoint(
    "POST",
    "/a2a/{agent}/tasks/{task}/pushNotificationConfigs",
    right="events:write",
    tag="a2a",
    dialect=HTTP_JSON,
)
async def add_push_config(request: ApiRequest, body: wire.GivenPushConfig) -> Json[wire.PushConfig]:
    """Have changes of a task sent to an address."""
    check_version(request)
    parameters = request.parameters
    return Json(await push.add_config(request, parameters["agent"], parameters["task"], body))


@endpoint(
    "GET",
    "/a2a/{agent}/tasks/{task}/pushNotificationConfigs",
    right="runs:read",
    tag="a2a",
    dialect=HTTP_JSON,
)
async def list_push_configs(request: ApiRequest, query: wire.PushConfigQuery) -> Json[wire.PushConfigPage]:
    """List where changes of a task are sent to."""
    check_version(request)
    wanted = wire.ListPushConfigs(
        task_id=request.parameters["task"], page_size=query.page_size, page_token=query.page_token
    )
    return Json(await push.list_configs(request, request.parameters["agent"], wanted))


@endpoint(
    "GET",
    "/a2a/{agent}/tasks/{task}/pushNotificationConfigs/{push_config}",
    right="runs:read",
    tag="a2a",
    dialect=HTTP_JSON,
)
async def get_push_config(request: ApiRequest) -> Json[wire.PushConfig]:
    """Get where changes of a task are sent to."""
    check_version(request)
    return Json(await push.get_config(request, request.parameters["agent"], _push_config(request)))


@endpoint(
    "DELETE",
    "/a2a/{agent}/tasks/{task}/pushNotificationConfigs/{push_config}",
    right="events:write",
    tag="a2a",
    dialect=HTTP_JSON,
)
async def delete_push_config(request: ApiRequest) -> Json[dict[str, Any]]:
    """Have changes of a task sent to an address no longer."""
    check_version(request)
    await push.remove_config(request, request.parameters["agent"], _push_config(request))
    return Json({})


def _push_config(request: ApiRequest) -> wire.NamedPushConfig:
    return wire.NamedPushConfig(task_id=request.parameters["task"], id=request.parameters["push_config"])


def _verb_of(request: ApiRequest) -> tuple[str, str]:
    task_id, _, verb = request.parameters["task"].partition(":")
    return task_id, verb
