"""Send what is new in a request: a message, the results of the client's tools, or both."""

from __future__ import annotations

from typing import Any

from hostler.domain.pause_actions import Action
from hostler.domain.pause_views import CallView
from hostler.http.dialects.answers import check_answer, send_message
from hostler.http.dialects.fold import Answer
from hostler.http.dialects.paused_calls import decide
from hostler.http.openai import chat_types as types
from hostler.http.openai.chat_request import ToolResult, Turn, history_of, params_of, tools_of
from hostler.http.openai.responses_items import result_of
from hostler.http.openai.retries import event_id_of
from hostler.http.request import ApiRequest
from hostler_protocol.errors import ConflictError, ExpiredError, NotFoundError
from hostler_protocol.events import Actor, CallerTool, Delivery, EventEnvelope, Input
from hostler_protocol.ids import digest


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
            resumed = await _resume(request, body.model, conversation, turn.results)
        except (ExpiredError, ConflictError, NotFoundError):
            if not turn.contents:
                raise
        if resumed is not None and not turn.contents:
            return resumed
    event_id = await event_id_of(request, "chat", conversation)
    history = history_of(turn.before)
    if resumed is not None and conversation is None:  # the host has what came before
        conversation, history = (await check_answer(request, resumed)).conversation_id, []
    started = await send_message(
        request,
        EventEnvelope(
            event_type="message.received",
            input=Input(contents=turn.contents, tools=[_caller_tool(tool) for tool in tools]),
            event_id=event_id,
            agent=body.model,
            conversation_id=conversation or f"chat-{digest(event_id)[:32]}",
            actor=_actor(body, turn),
            delivery=Delivery(surface="openai"),
            data=_data(body),
        ),
        history=history,
    )
    if resumed is not None and started.answer.run_id == resumed.run_id:
        return resumed
    return started.answer


async def _resume(
    request: ApiRequest, model: str, conversation: str | None, results: list[ToolResult]
) -> Answer:
    """Give a run what came of the calls that it waits for; return the answer that goes on after them."""
    decisions = [(result.call_id, _action_of(result)) for result in results]
    answer, _ = await decide(request, results[0].run_id, decisions, model=model, conversation=conversation)
    return answer


def _action_of(result: ToolResult) -> Any:
    def make(call: CallView) -> Action:
        if result.failed:
            return Action(call_id=call.call_id, type="error", args_hash=call.args_hash, error=result.text)
        return Action(
            call_id=call.call_id,
            type="result",
            args_hash=call.args_hash,
            result=result_of(result.text, call),
        )

    return make


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
