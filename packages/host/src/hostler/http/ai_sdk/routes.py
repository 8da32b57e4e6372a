"""`/ai-sdk/{agent}`: chats of `useChat`. The chat's id is the conversation's.

A message of the assistant is a run: decisions come back in it, and the run goes on in it. So the whole
message can be read again at any time, from any host (`GET .../stream`).
"""

from __future__ import annotations

from typing import NamedTuple

from hostler.domain.narrow_callers import check_conversation, stored_event_id
from hostler.domain.run_events import Asked
from hostler.http.ai_sdk.chat_request import ChatRequest, Decided, decisions_in, is_sent_again, last_said
from hostler.http.ai_sdk.dialect import AI_SDK, DONE, STREAM_HEADERS, chunk
from hostler.http.ai_sdk.earlier import earlier_messages
from hostler.http.ai_sdk.message_facts import MessageFacts
from hostler.http.ai_sdk.message_fold import MessageFold
from hostler.http.ai_sdk.settled import settled_requests
from hostler.http.auth import require_right
from hostler.http.dialects.answers import (
    answer_id,
    cancel_run,
    read_answer_id,
    send_message,
    stream_answer,
    usage_of,
)
from hostler.http.dialects.fold import Answer
from hostler.http.dialects.paused_calls import ToAction, decide, find_calls, waiting_calls
from hostler.http.dialects.requests import requests_of
from hostler.http.endpoint import endpoint
from hostler.http.event_stream import EventStream
from hostler.http.narrow import find_run
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, RawBody
from hostler.http.sse import EVENT_STREAM
from hostler.storage.port import Tx
from hostler.storage.stores import conversations, events, runs
from hostler.storage.stores.events import StoredEvent
from hostler.storage.stores.run_rows import Run
from hostler_protocol._base import Strict
from hostler_protocol.errors import NotFoundError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.runs import RunStatus

PREFIX = "msg"
TAG = "ai-sdk"
_ACTIVE: list[RunStatus] = ["queued", "claimed", "running", "paused"]
"""Statuses of runs whose message is not over."""


class ResumeQuery(Strict):
    """`message_id`: the assistant's message that the client has a part of."""

    message_id: str | None = None


class _Chat(NamedTuple):
    """A run of a chat, and the names of the tools of its caller."""

    run: Run
    client_tools: frozenset[str]


@endpoint("POST", "/ai-sdk/{agent}", right="events:write", tag=TAG, dialect=AI_SDK, narrow=())
async def send_to_chat(request: ApiRequest, body: ChatRequest) -> EventStream | RawBody:
    """Answer the last message of a chat, or go on after the decisions in it."""
    check_conversation(request.caller, body.id)
    decisions = decisions_in(body)
    if decisions:
        return await _go_on(request, body, decisions)
    if body.trigger == "regenerate-message" and (again := await _again(request, body)) is not None:
        return again
    said = last_said(body, request.addresses)
    envelope = EventEnvelope(
        event_type="message.received",
        event_id=said.event_id,
        agent=request.parameters["agent"],
        conversation_id=body.id,
        input=said.input,
        data=body.data,
    )
    answer = await _answer_to(request, envelope, body)
    return await _message(request, body.id, answer)


@endpoint("GET", "/ai-sdk/{agent}/{chat}/stream", right="runs:read", tag=TAG, dialect=AI_SDK, narrow=())
async def resume_chat(request: ApiRequest, query: ResumeQuery) -> EventStream | Empty:
    """Replay the message that is under way, whole, and follow it; 204 if none is.

    With `message_id` it is that message, also if it was complete long ago.
    """
    chat = request.parameters["chat"]
    if query.message_id is not None:
        run_id = read_answer_id(PREFIX, query.message_id).run_id
    elif active := await _active(request):
        run_id = active[0].run_id
    else:
        return Empty(204)
    return await _message(request, chat, Answer(run_id), through=True)


@endpoint("POST", "/ai-sdk/{agent}/{chat}/stop", right="runs:write", tag=TAG, dialect=AI_SDK, narrow=())
async def stop_chat(request: ApiRequest) -> Empty:
    """Cancel what a chat is doing, since `stop()` of the client only disconnects. 204 in any case."""
    for run in await _active(request):
        await cancel_run(request, run.run_id, "stopped in the chat")
    return Empty(204)


async def _answer_to(request: ApiRequest, envelope: EventEnvelope, body: ChatRequest) -> Answer:
    """Send a message, and return its answer. The first of a conversation brings the messages before it.

    The id of the event is of the message and its content: what was sent before is not sent again, whatever
    the rest of the chat is by now.
    """

    def read(tx: Tx) -> tuple[StoredEvent | None, bool]:
        known = events.find(tx, request.workspace_id, envelope.event_id or "")
        return known, conversations.begun(tx, request.workspace_id, body.id)

    known, begun = await request.state.host.db.read(read)
    if known is not None and known.run_id is not None:
        await _run_of(request, body.id, known.run_id)
        return Answer(known.run_id)
    earlier = () if begun else earlier_messages(body, request.addresses)
    started = await send_message(request, envelope, history=earlier)
    return started.answer


async def _message(
    request: ApiRequest, chat: str, answer: Answer, *, of: Answer | None = None, through: bool = False
) -> EventStream:
    """Stream an answer as a message. `of`: the answer with which the message began, if it goes on."""
    run, client_tools = await _run_of(request, chat, answer.run_id)
    message_id = answer_id(PREFIX, of or answer)
    settled = await settled_requests(request, answer.run_id) if through else ()
    facts = MessageFacts(answer, message_id, run.conversation_id, client_tools, of, settled)
    return await stream_answer(
        request,
        answer,
        lambda: MessageFold(facts),
        ("ai-sdk", facts),
        through=through,
        headers=STREAM_HEADERS,
    )


async def _go_on(request: ApiRequest, body: ChatRequest, decisions: list[Decided]) -> EventStream | RawBody:
    """Take the decisions of the latest pause that the message names, and go on after them."""
    run_id = decisions[-1].run_id
    await _run_of(request, body.id, run_id)
    wanted = await _of_latest_pause(request, run_id, [one for one in decisions if one.run_id == run_id])
    answer, done = await decide(request, run_id, wanted)
    of = _begun_with(body.messages[-1].id, run_id)
    if done.remaining:  # others of its calls still wait: there is nothing to stream
        if is_sent_again(body):
            rest = await _still_asked(request, body, {call_id for call_id, _ in wanted}, of)
        else:
            rest = chunk("start", messageId=answer_id(PREFIX, of))
            rest += chunk("finish", finishReason="tool-calls") + DONE
        return RawBody(rest, EVENT_STREAM, headers=STREAM_HEADERS)
    return await _message(request, body.id, answer, of=of)


async def _of_latest_pause(
    request: ApiRequest, run_id: str, decisions: list[Decided]
) -> list[tuple[str, ToAction]]:
    """Return the decisions of the latest pause, without those taken elsewhere that the message only shows."""
    by_call = {one.call_id: one for one in decisions}
    found = await find_calls(request, run_id, by_call)
    latest = max((pause for pause, _ in found), key=lambda pause: pause.segment)
    calls = [call for pause, call in found if pause.id == latest.id]
    me = request.caller.subject
    own = [
        call
        for call in calls
        if (call.decided_by == me and call.edited_by is None) or not by_call[call.call_id].shows(call)
    ]
    return [(call.call_id, by_call[call.call_id].action) for call in own or calls]


async def _still_asked(request: ApiRequest, body: ChatRequest, decided: set[str], of: Answer) -> bytes:
    """Return a piece of a message that asks for what the pause of `decided` calls still waits for."""
    run = await find_run(request, of.run_id)
    ((pause, _), *_) = await find_calls(request, run.run_id, decided)
    known = await requests_of(request, run.run_id)
    asked: list[Asked] = []
    others: list[Asked] = []
    for call in waiting_calls(pause):
        own = call.may_decide and call.kind != "client_tool" and call.call_id not in decided
        if call.call_id in known:
            (asked if own else others).append(known[call.call_id])
    facts = MessageFacts(Answer(run.run_id), answer_id(PREFIX, of), run.conversation_id)
    shown = {str(part["toolCallId"]) for part in body.messages[-1].parts if "toolCallId" in part}
    usage = await usage_of(request, run.run_id)
    return b"".join(MessageFold(facts).still_asked(asked, others, shown, usage))


def _begun_with(message_id: str, run_id: str) -> Answer:
    """Return the answer with which a message of a run began: the run's first, if its id does not say."""
    try:
        begun = read_answer_id(PREFIX, message_id)
    except NotFoundError:
        return Answer(run_id)
    return begun if begun.run_id == run_id else Answer(run_id)


async def _again(request: ApiRequest, body: ChatRequest) -> EventStream | None:
    """Answer a message again, by a retry of its run; None if there is none."""
    run_id = await _run_to_repeat(request, body)
    if run_id is None:
        return None
    require_right(request.caller, "runs:write")
    host = request.state.host
    again = await host.reruns.retry(
        request.workspace_id, run_id, actor=request.caller.subject, agent_version=None
    )
    return await _message(request, body.id, Answer(again))


async def _run_to_repeat(request: ApiRequest, body: ChatRequest) -> str | None:
    """Return the run of the message that is to be answered again: by its id, else by the user's message."""
    if body.message_id is not None and body.message_id.startswith(f"{PREFIX}_"):
        run_id = read_answer_id(PREFIX, body.message_id).run_id
        await _run_of(request, body.id, run_id)
        return run_id
    event_id = stored_event_id(request.caller, last_said(body, request.addresses).event_id)
    event = await request.state.host.db.read(lambda tx: events.find(tx, request.workspace_id, event_id))
    return None if event is None else event.run_id


async def _run_of(request: ApiRequest, chat: str, run_id: str) -> _Chat:
    """Return a run of a chat with the agent in the path. NotFoundError if it is another's."""
    agent = request.parameters["agent"]
    run = await find_run(request, run_id)

    def read(tx: Tx) -> _Chat:
        if run.agent_name != agent or run.conversation_id != chat:
            raise NotFoundError(f"this chat with the agent {agent!r} has no run {run_id!r}")
        event = None if run.event_id is None else events.find(tx, request.workspace_id, run.event_id)
        tools = [] if event is None or event.envelope is None else event.envelope.input.tools
        return _Chat(run, frozenset(tool.name for tool in tools))

    return await request.state.host.db.read(read)


async def _active(request: ApiRequest) -> list[Run]:
    """Return the runs of a chat that are under way, newest first."""
    parameters = request.parameters
    return await request.state.host.db.read(
        lambda tx: runs.page(
            tx,
            request.workspace_id,
            statuses=_ACTIVE,
            agent_name=parameters["agent"],
            conversation_id=parameters["chat"],
        )
    )
