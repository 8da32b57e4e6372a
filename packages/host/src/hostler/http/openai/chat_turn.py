"""Send what is new in a request: a message, the results of the client's tools, or both."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from hostler.domain.pause_actions import Action
from hostler.domain.pause_views import CallView
from hostler.http.dialects.answers import check_answer, decide, keyed_event_id, send_message
from hostler.http.dialects.fold import Answer
from hostler.http.openai import chat_types as types
from hostler.http.openai.chat_request import ToolResult, Turn, params_of, tools_of
from hostler.http.request import ApiRequest
from hostler.storage.stores import events
from hostler_protocol.errors import ConflictError, ExpiredError, NotFoundError
from hostler_protocol.events import Actor, CallerTool, Delivery, EventEnvelope, Input
from hostler_protocol.ids import digest, new_id

RETRY_HEADER = "x-stainless-retry-count"
"""OpenAI's clients say by it that they send the same request again, without a key for it."""
RETRY_SECONDS = 1800.0
"""How long after the first request: the clients give up an attempt after 10 minutes, and repeat it twice."""


async def take_turn(
    request: ApiRequest, body: types.ChatRequest, turn: Turn, conversation: str | None
) -> Answer:
    """Send what is new; return where its answer begins.

    Raises as `send_message` and `decide`. Results that come too late raise only if no message follows them:
    it begins a run of its own, with them in its history.
    """
    tools = tools_of(body)
    resumed: Answer | None = None
    if turn.results:
        try:
            resumed = await _resume(request, turn.results)
        except (ExpiredError, ConflictError, NotFoundError):
            if not turn.contents:
                raise
        if resumed is not None and not turn.contents:
            return resumed
    goes_on = None if resumed is None else await check_answer(request, resumed)
    event_id = keyed_event_id(request) or await _unkeyed_event_id(request, conversation)
    if conversation is None and goes_on is not None:
        conversation = goes_on.conversation_id
    started = await send_message(
        request,
        EventEnvelope(
            event_type="message.received",
            input=Input(contents=turn.contents, tools=[_caller_tool(tool) for tool in tools]),
            event_id=event_id,
            agent=body.model,
            conversation_id=conversation or f"chat-{digest(event_id)[:32]}",
            actor=_actor(body, turn),
            delivery=Delivery(surface="openai", supports_streaming=bool(body.stream)),
            data=_data(body),
        ),
    )
    if resumed is not None and started.answer.run_id == resumed.run_id:
        return resumed
    return started.answer


async def _resume(request: ApiRequest, results: list[ToolResult]) -> Answer:
    """Give a run what came of the calls that it waits for; return the answer that goes on after them."""
    decisions = [(result.call_id, _action_of(result)) for result in results]
    answer, _ = await decide(request, results[0].run_id, decisions)
    return answer


def _action_of(result: ToolResult) -> Any:
    def make(call: CallView) -> Action:
        if result.failed:
            return Action(call_id=call.call_id, type="error", args_hash=call.args_hash, error=result.text)
        return Action(
            call_id=call.call_id,
            type="result",
            args_hash=call.args_hash,
            result=_value(result.text, call.result_schema),
        )

    return make


def _value(text: str, schema: dict[str, Any] | None) -> Any:
    """Return a result, which is text in this interface; as JSON where the tool says what it returns."""
    if schema is None:
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


async def _unkeyed_event_id(request: ApiRequest, conversation: str | None) -> str:
    """Return the event id of a request without Idempotency-Key.

    It begins with the digest of caller and body. When a client says that it repeats a request, because it has
    lost the connection, the first one is found by that, and both are one run.
    """
    caller = request.caller
    identity = digest([caller.key_id, caller.subject, conversation, request.body.decode("utf-8", "replace")])
    beginning = f"chat-{identity[:32]}-"
    retries = request.headers.get(RETRY_HEADER, "0")
    if retries.isdecimal() and retries.strip("0"):
        since = int((time.time() - RETRY_SECONDS) * 1000)
        first = await request.state.host.db.read(
            lambda tx: events.latest_beginning(tx, request.workspace_id, beginning, since=since)
        )
        if first is not None:
            return first.event_id
    return beginning + new_id()


def _caller_tool(tool: types.ToolFunction) -> CallerTool:
    return CallerTool(name=tool.name, description=tool.description or "", parameters=tool.parameters or {})


def _actor(body: types.ChatRequest, turn: Turn) -> Actor | None:
    if not (body.user or turn.author):
        return None
    return Actor(actor_id=body.user or None, actor_name=turn.author)


def _data(body: types.ChatRequest) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if params := params_of(body):
        data["params"] = params
    if body.metadata:
        data["metadata"] = body.metadata
    return data
