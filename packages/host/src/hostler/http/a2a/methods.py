"""The methods of A2A, whatever binding calls them."""

from __future__ import annotations

from hostler.http.a2a.bindings import HTTP_JSON_EVENTS
from hostler.http.a2a.decisions import Taken, answer_in_text, answer_requests, answers_in
from hostler.http.a2a.dialect import (
    TaskNotCancelableError,
    UnsupportedOperationError,
)
from hostler.http.a2a.extensions import REQUESTS, TOOLS
from hostler.http.a2a.fold import Binding, TaskFold
from hostler.http.a2a.messages import check_message, envelope_of, event_id_of, wrong
from hostler.http.a2a.push import add_config, check_config
from hostler.http.a2a.tasks import check_agent_name, facts_of, find_task, state_of, task_now
from hostler.http.a2a.wire import GetTask, SendMessage, SentTask, StreamEvent, Task
from hostler.http.auth import require_right
from hostler.http.dialects.answers import (
    cancel_run,
    send_message,
    stream_answer,
    whole_answer,
)
from hostler.http.dialects.fold import Answer
from hostler.http.dialects.paused_calls import WAITING, waiting_calls
from hostler.http.dialects.placeholders import Filling, filled
from hostler.http.event_stream import EventStream
from hostler.http.narrow import find_run
from hostler.http.request import ApiRequest
from hostler.http.responses import Headers, RawBody
from hostler.http.sse import EVENT_STREAM
from hostler.storage.stores import events
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import DeniedError, InvalidArgumentError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.runs import TERMINAL_STATUSES

EXTENSIONS_HEADER = "a2a-extensions"
CANCEL_SECONDS = 10.0
"""For a cancelled task to end before its state is answered; it ends in any case."""


async def send(request: ApiRequest, agent: str, body: SendMessage) -> SentTask:
    """Send a message; return its task once it is over or waits, or at once if the client asks for that."""
    history = _history(None if body.configuration is None else body.configuration.history_length)
    answer, waits = await _accept(request, agent, body)
    run = await find_run(request, answer.run_id)
    if not (waits or (body.configuration is not None and body.configuration.return_immediately)):
        await whole_answer(request, answer, TaskFold(facts_of(request, run), HTTP_JSON_EVENTS))
        run = await find_run(request, answer.run_id)
    return SentTask(task=await task_now(request, run, history=history))


async def stream(
    request: ApiRequest, agent: str, body: SendMessage, binding: Binding, filling: Filling = ()
) -> EventStream | RawBody:
    """Send a message, and stream its task: as it is where the answer begins, then what changes.

    The stream ends where the task is over or waits. `filling`: of the binding's placeholders.
    """
    history = _history(None if body.configuration is None else body.configuration.history_length)
    answer, waits = await _accept(request, agent, body)
    run = await find_run(request, answer.run_id)
    if waits:
        event = StreamEvent(task=await task_now(request, run, history=history))
        return RawBody(filled(binding.event(event), filling), f"{EVENT_STREAM}; charset=utf-8")
    opening = await task_now(request, run, history=history, until=answer.after, goes_on=True)
    return await _streamed(request, run, answer, opening, binding, filling, stays=False)


async def subscribe(
    request: ApiRequest, agent: str, task_id: str, binding: Binding, filling: Filling = ()
) -> EventStream:
    """Stream a task as it is, then what changes, until it is over.

    UnsupportedOperationError if it is over already.
    """
    run = await find_task(request, agent, task_id)
    if run.status in TERMINAL_STATUSES:
        raise UnsupportedOperationError(f"the task is over ({state_of(run)}): get it instead")
    opening = await task_now(request, run, until=run.sequence)
    answer = Answer(run.run_id, run.sequence)
    return await _streamed(request, run, answer, opening, binding, filling, stays=True)


async def _streamed(  # noqa: PLR0917
    request: ApiRequest,
    run: Run,
    answer: Answer,
    opening: Task,
    binding: Binding,
    filling: Filling,
    *,
    stays: bool,
) -> EventStream:
    facts = facts_of(request, run, tools=TOOLS in request.headers.get(EXTENSIONS_HEADER, ""))
    return await stream_answer(
        request,
        answer,
        lambda: TaskFold(facts, binding, opening=opening, stays=stays),
        ("a2a", binding.name, stays, facts.tools, facts.base),
        anywhere=stays,
        headers=extension_headers(request),
        filling=filling,
    )


async def get(request: ApiRequest, agent: str, wanted: GetTask) -> Task:
    """Return a task as it is."""
    history = _history(wanted.history_length)
    return await task_now(request, await find_task(request, agent, wanted.id), history=history)


async def cancel(request: ApiRequest, agent: str, task_id: str) -> Task:
    """Cancel a task; return it once it is over, or after a while as it is.

    TaskNotCancelableError if it was over.
    """
    run = await find_task(request, agent, task_id)
    if await cancel_run(request, run.run_id, "cancelled by its client") == "over":
        raise TaskNotCancelableError(state_of(await find_run(request, task_id)))
    await request.state.host.runs.wait(request.workspace_id, run.run_id, CANCEL_SECONDS)
    return await task_now(request, await find_run(request, task_id))


def extension_headers(request: ApiRequest) -> Headers:
    """Return the header that says which of the extensions that a client wants are active."""
    wanted = request.headers.get(EXTENSIONS_HEADER, "")
    active = [uri for uri in (REQUESTS, TOOLS) if uri in wanted]
    return [(b"a2a-extensions", ", ".join(active).encode("ascii"))] if active else []


def _history(length: int | None) -> int | None:
    if length is not None and length < 0:
        raise wrong("historyLength", "a number, 0 or more")
    return length


# -- a message ---------------------------------------------------------------------------------------------


async def _accept(request: ApiRequest, agent: str, body: SendMessage) -> Taken:
    """Take a message: as the answer to what its task waits for, as more for a task at work, or as a new task.

    An agent that takes nothing while it works has a message for a task as a task of its own, in its context.
    The same message again is the same. Raises as `decide` and `send_message`.
    """
    message = body.message
    check_message(message)
    require_right(request.caller, "events:write")
    await check_agent_name(request, agent)
    push = None if body.configuration is None else body.configuration.task_push_notification_config
    if push is not None:
        check_config(push)
    if message.task_id:
        taken = await _continue(request, agent, body)
    elif answers_in(message):
        raise wrong("message.taskId", "the task that waits for these answers")
    else:
        taken = await _send(request, envelope_of(request, agent, message))
    if push is not None:
        await add_config(request, agent, taken.answer.run_id, push)
    return taken


async def _continue(request: ApiRequest, agent: str, body: SendMessage) -> Taken:
    message = body.message
    run = await find_task(request, agent, message.task_id or "")
    if message.context_id and message.context_id != run.conversation_id:
        raise wrong("message.contextId", "that of the task, or none")
    if given := answers_in(message):
        return await answer_requests(request, run.run_id, given)
    event_id = event_id_of(request, agent, message)
    known = await request.state.host.db.read(lambda tx: events.find(tx, request.workspace_id, event_id))
    if known is None:
        if (taken := await answer_in_text(request, run.run_id, message)) is not None:
            return taken
        await _check_takes_more(request, run)
    return await _send(request, envelope_of(request, agent, message, run.conversation_id))


async def _check_takes_more(request: ApiRequest, run: Run) -> None:
    """Raise if a task takes no further message."""
    if run.status in TERMINAL_STATUSES:
        raise UnsupportedOperationError(
            f"the task is over ({state_of(run)}): send a message of its contextId without a taskId"
        )
    waiting = await request.state.host.pauses.page(
        request.caller, run_id=run.run_id, statuses=WAITING, limit=1
    )
    if run.status == "paused" or any(waiting_calls(pause) for pause in waiting.items):
        raise InvalidArgumentError(
            "the task waits: answer what its status asks, with a data part that has the id of the request"
        )


async def _send(request: ApiRequest, envelope: EventEnvelope) -> Taken:
    try:
        return Taken((await send_message(request, envelope)).answer)
    except DeniedError as error:
        raise UnsupportedOperationError(error.message) from None
