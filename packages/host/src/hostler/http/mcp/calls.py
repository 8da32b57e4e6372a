"""`tools/call`: a message for an agent, or a call that is repeated with what its run waited for."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from hostler.domain.narrow_callers import stored_event_id
from hostler.http.auth import require_right
from hostler.http.dialects.answers import (
    WhenGone,
    cancel_run,
    check_answer,
    keyed_event_id,
    send_message,
    stream_answer,
    whole_answer,
)
from hostler.http.dialects.fold import Answer
from hostler.http.event_stream import EventStream
from hostler.http.mcp.call_fold import CallFacts, CallFold
from hostler.http.mcp.decisions import take_forms
from hostler.http.mcp.messages import (
    INVALID_PARAMS,
    META_PREFIX,
    RequestId,
    RpcError,
    RpcMessage,
    encode_result,
    tool_error,
)
from hostler.http.mcp.offers import MESSAGES, agent_of, input_of, read_arguments
from hostler.http.mcp.sessions import (
    Resumed,
    Round,
    Session,
    can_elicit,
    event_ids,
    level_named,
    open_state,
    progress_of,
    read_event_id,
    seal_state,
)
from hostler.http.mcp.task_records import created_task, has_tasks, task_id_of
from hostler.http.request import ApiRequest
from hostler.http.responses import RawBody
from hostler.http.sse import EVENT_STREAM
from hostler.storage.stores import events
from hostler_protocol.errors import (
    CallerError,
    HostlerError,
    RateLimitedError,
    UnauthorizedError,
    to_fault,
)
from hostler_protocol.events import Delivery, EventEnvelope
from hostler_protocol.ids import digest, new_id

DATA_KEY = "mcp"
"""Where in the event's data it says which call it was."""
TASK_AFTER_SECONDS = 2.0
"""A stateless call that has not ended after this time becomes a task, if its client knows tasks and asked for
no progress, which tasks do not have."""


async def call_tool(
    request: ApiRequest, message: RpcMessage, session: Session | None, level: str | None
) -> EventStream | RawBody:
    """Answer a call of a tool."""
    progress = progress_of(message)
    tool = message.params.get("name")
    agent = await agent_of(request, tool)
    wants_task = session is not None and message.params.get("task") is not None
    elicits = session.elicits if session is not None else can_elicit(message.capabilities.get("elicitation"))
    repeated = session is None and message.params.get("requestState") is not None
    try:
        if repeated:
            answer, number = open_state(request, agent.name, message.params["requestState"])
            responses = message.params.get("inputResponses")
            elicits = await _go_on(request, answer, responses) and elicits
            number += bool(responses)
        else:
            answer, number = await _begin(request, message, session, agent.name), 0
    except (RateLimitedError, UnauthorizedError):
        raise
    except CallerError as error:
        if repeated:
            raise
        return RawBody(_refused(message, error), "application/json")
    run = await check_answer(request, answer)
    if wants_task:
        return RawBody(encode_result(message, {"task": created_task(run, answer)}), "application/json")
    facts = CallFacts(
        answer, agent.name, _id_of(message), run.conversation_id, progress, level=level, elicits=elicits
    )
    if session is None:
        facts = replace(facts, state=seal_state(request, agent.name, Round(answer, number)))
        if has_tasks(message) and progress is None:
            return await _soon_or_task(request, message, facts)
    return await respond(request, facts, stateless=session is None)


async def respond(
    request: ApiRequest, facts: CallFacts, *, stateless: bool, skip: int = 0
) -> EventStream | RawBody:
    """Answer with a stream if the client takes one, else once all is there.

    A stateless client that disconnects cancels the run: that is how its revision says so.
    """
    when_gone: WhenGone = "cancel" if stateless else "continue"
    if not _takes_stream(request):
        facts = replace(facts, elicits=facts.elicits and stateless, progress=None, level=None)
        fold = await whole_answer(request, facts.answer, CallFold(facts), through=True, when_gone=when_gone)
        return RawBody(fold.body(), "application/json")
    if not stateless:
        task = facts.task is not None
        stream = Resumed(
            facts.answer, facts.request_id, facts.progress, facts.level or "", facts.elicits, task, 0
        )
        facts = replace(facts, event_ids=event_ids(request, stream))
    shared = facts.shared()
    return await stream_answer(
        request,
        facts.answer,
        lambda: CallFold(shared),
        ("mcp", shared),
        skip=skip,
        through=True,
        when_gone=when_gone,
        filling=facts.filling(),
    )


async def resume(request: ApiRequest, last_event_id: str) -> EventStream | RawBody:
    """Continue the response to a call of a session after one of its events, however late."""
    stream = read_event_id(request, last_event_id)
    run = await check_answer(request, stream.answer)
    facts = CallFacts(
        stream.answer,
        run.agent_name,
        stream.request_id,
        run.conversation_id,
        stream.progress,
        level=stream.level or None,
        elicits=stream.elicits,
        task=task_id_of(stream.answer) if stream.task else None,
    )
    return await respond(request, facts, stateless=False, skip=stream.frames)


async def cancel_call(request: ApiRequest, message: RpcMessage, session: Session) -> None:
    """Cancel the run of a call that its session gave up. A call that is over, or no call, changes nothing."""
    request_id = message.params.get("requestId")
    if isinstance(request_id, bool) or not isinstance(request_id, str | int):
        return
    event_id = stored_event_id(request.caller, _event_id(request, session, request_id))
    found = await request.state.host.db.read(lambda tx: events.find(tx, request.workspace_id, event_id))
    if found is None or found.run_id is None:
        return
    if found.envelope is not None and found.envelope.data.get(DATA_KEY, {}).get("task"):
        return  # a task is cancelled by tasks/cancel alone
    await cancel_run(request, found.run_id, "cancelled by the client")


# -- a new call ------------------------------------------------------------------------------------------


async def _begin(request: ApiRequest, message: RpcMessage, session: Session | None, agent: str) -> Answer:
    """Send the message of a call, and return where its answer begins.

    A call of a session is named by its request, so that it is the same run if it is sent again. ConflictError
    if another call was sent with its id.
    """
    task = message.params.get("task") if session is not None else None
    if task is not None and not isinstance(task, dict):
        raise RpcError(INVALID_PARAMS, "task: expected an object, such as {}")
    require_right(request.caller, "events:write")
    arguments = read_arguments(message.params.get("arguments"))
    given = input_of(arguments)
    event_id = keyed_event_id(request) if session is None else _event_id(request, session, _id_of(message))
    place = arguments.conversation_id or f"mcp_{digest(event_id or new_id())[:32]}"
    envelope = EventEnvelope(
        event_type=MESSAGES,
        event_id=event_id,
        agent=agent,
        conversation_id=place,
        input=given,
        delivery=Delivery(surface="mcp"),
        data={DATA_KEY: {"tool": agent, "client": _client(message), "task": task is not None}},
    )
    return (await send_message(request, envelope)).answer


def _event_id(request: ApiRequest, session: Session, request_id: RequestId) -> str:
    return f"mcp-{digest([request.workspace_id, session.session_id, request_id])}"


def _client(message: RpcMessage) -> str | None:
    """Return the name of the client's software, as it states it."""
    info = message.meta.get(META_PREFIX + "clientInfo")
    name = info.get("name") if isinstance(info, dict) else None
    return name[:200] if isinstance(name, str) else None


def _refused(message: RpcMessage, error: HostlerError) -> bytes:
    """Return what is wrong with a call as its result, for the model to read."""
    fault = to_fault(error)
    return encode_result(message, tool_error(fault.code, fault.message, retryable=fault.retryable))


# -- a call that is repeated -----------------------------------------------------------------------------


async def _go_on(request: ApiRequest, answer: Answer, given: Any) -> bool:
    """Take what a repeated call brings. Return whether its user may be asked again."""
    if given is None:
        return True
    return not await take_forms(request, given, run_id=answer.run_id)


async def _soon_or_task(request: ApiRequest, message: RpcMessage, facts: CallFacts) -> RawBody:
    fold = await whole_answer(
        request,
        facts.answer,
        CallFold(facts),
        seconds=TASK_AFTER_SECONDS,
        through=True,
        when_gone="cancel",
    )
    if fold.result is not None:
        return RawBody(fold.body(), "application/json")
    run = await check_answer(request, facts.answer)
    result = created_task(run, facts.answer, stateless=True) | {"resultType": "task"}
    return RawBody(encode_result(message, result), "application/json")


# -- parameters ------------------------------------------------------------------------------------------


def level_of(message: RpcMessage) -> str | None:
    """Return the log level that a stateless request asks for. RpcError if it is none."""
    level = message.meta.get(META_PREFIX + "logLevel")
    return None if level is None else level_named(level, f"_meta.{META_PREFIX}logLevel")


def _id_of(message: RpcMessage) -> RequestId:
    if message.id is None:
        raise RuntimeError("a call is a request")
    return message.id


def _takes_stream(request: ApiRequest) -> bool:
    return EVENT_STREAM in request.headers.get("accept", "").lower()
