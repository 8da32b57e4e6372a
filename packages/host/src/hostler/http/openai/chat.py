"""Chat Completions: a request is a message to an agent, and its answer the completion."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from hostler.domain.narrow_callers import check_conversation
from hostler.http.dialects.answers import (
    check_answer,
    read_answer_id,
    stream_answer,
    whole_answer,
)
from hostler.http.dialects.fold import Answer
from hostler.http.endpoint import endpoint
from hostler.http.event_stream import EventStream
from hostler.http.openai import chat_types as types
from hostler.http.openai.chat_fold import PREFIX, ChatFacts, ChatStream, ChatWhole, failure_of
from hostler.http.openai.chat_request import check_options, turn_of, wrong
from hostler.http.openai.chat_turn import take_turn
from hostler.http.openai.dialect import OPENAI, ErrorAnswer
from hostler.http.openai.models import check_model
from hostler.http.request import ApiRequest
from hostler.http.responses import Headers, Json
from hostler.http.sse import EVENT_STREAM, last_event_id
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError, UnavailableError

CONVERSATION_HEADER = "hostler-conversation"
"""The id of a conversation that the host keeps: only what is new in a request is taken."""
ON_PAUSE_HEADER = "hostler-on-pause"
"""While people decide: `wait` keeps the answer open, `answer` ends it. Default: a stream waits."""
FAILED_STATUS = 424
"""Of a run that has failed: no client repeats the request, which would be another run."""


class CompletionQuery(Strict):
    """`stream`: as a stream, as with `Accept: text/event-stream`. `include_usage`: with what was used."""

    stream: bool = False
    include_usage: bool = False


@endpoint("POST", "/v1/chat/completions", right="events:write", tag="openai", dialect=OPENAI, narrow=())
async def create_chat_completion(
    request: ApiRequest, body: types.ChatRequest
) -> EventStream | Json[types.Completion] | Json[ErrorAnswer]:
    """Answer the last message."""
    check_options(body)
    conversation = _conversation(request, body)
    turn = turn_of(body.messages, in_conversation=conversation is not None)
    await check_model(request, body.model)
    usage = bool(body.stream_options and body.stream_options.include_usage)
    form = _form(request, streamed=bool(body.stream), usage=usage, waits=bool(body.stream))
    answer = await take_turn(request, body, turn, conversation)
    return await _respond(request, answer, form)


@endpoint(
    "GET",
    "/v1/chat/completions/{completion_id}",
    right="runs:read",
    tag="openai",
    dialect=OPENAI,
    narrow=(),
    checks=("completion_id",),
)
async def get_chat_completion(
    request: ApiRequest, query: CompletionQuery
) -> EventStream | Json[types.Completion] | Json[ErrorAnswer]:
    """Get an answer again, however late, or the rest of it; one that is not complete yet is waited for."""
    answer = read_answer_id(PREFIX, request.parameters["completion_id"])
    streamed = query.stream or EVENT_STREAM in request.headers.get("accept", "")
    return await _respond(
        request, answer, _form(request, streamed=streamed, usage=query.include_usage, waits=True)
    )


class _Form(NamedTuple):
    """How an answer is wanted. `skip`: the number of events of its stream that the client has."""

    streamed: bool
    usage: bool
    waits: bool
    skip: int


def _form(request: ApiRequest, *, streamed: bool, usage: bool, waits: bool) -> _Form:
    """Return the form that a request asks for; `waits` unless it says otherwise. InvalidArgumentError."""
    skip = last_event_id(request.headers.get("last-event-id"), None) if streamed else 0
    return _Form(streamed, usage, _waits(request, default=waits), skip)


async def _respond(
    request: ApiRequest, answer: Answer, form: _Form
) -> EventStream | Json[types.Completion] | Json[ErrorAnswer]:
    streamed, usage, waits, skip = form
    stored = await check_answer(request, answer)
    facts = ChatFacts(
        answer,
        stored.agent_name,
        stored.created_at // 1000,
        request.base,
    )
    run = answer.run_id.encode()
    headers: Headers = [(b"hostler-run", run), (b"x-request-id", run)]
    if streamed:
        make = partial(ChatStream, facts, usage=usage, waits=waits)
        kind = ("openai chat", usage, waits, facts.base)
        return await stream_answer(request, answer, make, kind, skip=skip, headers=headers)
    fold = await whole_answer(request, answer, ChatWhole(facts, waits=waits))
    if fold.failed is not None:
        return Json(failure_of(fold.failed), FAILED_STATUS, [*headers, (b"x-should-retry", b"false")])
    if fold.completion is None:
        raise UnavailableError("the host stops before the answer is complete: ask for it again")
    return Json(fold.completion, 200, headers)


def _conversation(request: ApiRequest, body: types.ChatRequest) -> str | None:
    """Return the conversation that the request names; for a narrow caller its own.

    InvalidArgumentError if it names two; NotFoundError for one that a narrow caller does not reach.
    """
    header = request.headers.get(CONVERSATION_HEADER)
    named = (body.metadata or {}).get("conversation_id")
    if named is not None and not isinstance(named, str):
        raise wrong("metadata.conversation_id", "expected a text")
    if header is not None and named is not None and header != named:
        raise wrong(
            "metadata.conversation_id", f"the header {CONVERSATION_HEADER} names another conversation"
        )
    conversation = header if header is not None else named
    if conversation == "":
        raise wrong("metadata.conversation_id", "the conversation_id is empty: leave it out, or name one")
    if (scope := request.caller.scope) is not None:
        check_conversation(request.caller, conversation or scope.conversation_id)
        return scope.conversation_id
    return conversation


def _waits(request: ApiRequest, *, default: bool) -> bool:
    wish = request.headers.get(ON_PAUSE_HEADER)
    if wish is None:
        return default
    if wish not in ("wait", "answer"):
        raise InvalidArgumentError(f"{ON_PAUSE_HEADER}: expected wait or answer, not {wish[:40]!r}")
    return wish == "wait"
