"""AG-UI: run an agent, answer what it waits for, connect to a thread again, stop it.

The client's ids of thread and run are kept: the thread is the conversation, and the run's id makes the id of
its event. So a request that is sent again is the same run, and its stream continues after `Last-Event-ID`.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from hostler.domain.narrow_callers import check_conversation
from hostler.http.ag_ui.dialect import AG_UI, run_error
from hostler.http.ag_ui.fold import AgUiFold, Facts
from hostler.http.ag_ui.run_input import Message, RunAgentInput, check, envelope_of, history_of, newest
from hostler.http.ag_ui.threads import (
    active_runs,
    brings_history,
    facts_of_run,
    find_event,
    latest_run,
    load_state,
    unsent,
)
from hostler.http.ag_ui.wire import PROTOCOL_VERSION as AG_UI_VERSION
from hostler.http.ag_ui.wire import RunStarted, frame
from hostler.http.dialects.answers import cancel_run, send_message, stream_answer
from hostler.http.dialects.decisions import CallResult, get_run, take_decisions
from hostler.http.dialects.fold import Answer, Waiting
from hostler.http.dialects.pending import check_nothing_waits
from hostler.http.endpoint import Media, endpoint
from hostler.http.event_stream import EventStream
from hostler.http.request import ApiRequest
from hostler.http.responses import RawBody
from hostler.http.sse import EVENT_STREAM, last_event_id
from hostler_protocol._base import Lenient, Strict
from hostler_protocol.errors import (
    CallerError,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    UnauthorizedError,
)
from hostler_protocol.ids import digest

CONNECTED = "c"
"""Before the numbers of frames of a stream that tells the whole run and the messages before it."""
STREAM = Media(EVENT_STREAM, "Events of AG-UI 1.0; `id` is what `Last-Event-ID` continues after")


class Cursor(NamedTuple):
    """What a client has of a stream. `mark`: of which kind of reading; `frames`: the number of its frames."""

    mark: str
    frames: int


class ConnectQuery(Strict):
    """`run_id`: the client's id of the run; default: the newest of the thread. `last_event_id`: for clients
    that cannot send the header.
    """

    run_id: str | None = None
    last_event_id: str | None = None


class StopThread(Lenient, rename="camel"):
    """`run_id`: the client's id of the run to stop; default: all of the thread."""

    run_id: str | None = None


class Stopped(Strict):
    """`runs`: the host's ids of the runs that were stopped."""

    stopped: bool
    runs: list[str]


@endpoint(
    "POST",
    "/ag-ui/{agent}",
    right="events:write",
    tag="ag-ui",
    dialect=AG_UI,
    answers={200: STREAM},
    narrow=(),
)
async def run_agent(request: ApiRequest, body: RunAgentInput) -> EventStream | RawBody:
    """Run an agent, or let a run go on that waits, and stream what it does as events of AG-UI.

    `resume` and tool messages answer what a run of the thread waits for. Else the user's newest messages are
    a new run. The same request again is the same run: what follows `Last-Event-ID`, or all of it.
    """
    check(body)
    check_conversation(request.caller, body.thread_id)
    cursor = _cursor(request.headers.get("last-event-id"))
    results = newest(body.messages, "tool")
    said = newest(body.messages, "user")
    if body.resume or (results and not said):
        try:
            return await _resume(request, body, results, cursor)
        except (ConflictError, NotFoundError, InvalidArgumentError) as error:
            return _refused(body, error)
        except UnauthorizedError as error:
            if "reason" not in error.details:
                raise
            return _refused(body, error)
    return await _run(request, body, said, cursor)


@endpoint(
    "GET",
    "/ag-ui/{agent}/{thread}/connect",
    right="runs:read",
    tag="ag-ui",
    dialect=AG_UI,
    answers={200: STREAM},
    narrow=(),
    checks=("thread",),
)
async def connect_agent(request: ApiRequest, query: ConnectQuery) -> EventStream:
    """Stream a thread to a client that has nothing of it: its messages, then its newest run from its start.

    The stream ends where the run waits or has ended; `Last-Event-ID` continues it.
    """
    agent, thread_id = _thread_of(request)
    if query.run_id is None:
        run_id = (await latest_run(request, agent, thread_id)).run_id
    else:
        run_id = await _run_named(request, agent, thread_id, query.run_id)
    cursor = _cursor(request.headers.get("last-event-id") or query.last_event_id)
    return await _connected(request, run_id, Facts(thread_id, query.run_id or ""), cursor)


@endpoint(
    "POST",
    "/ag-ui/{agent}/{thread}/stop",
    right="runs:write",
    tag="ag-ui",
    dialect=AG_UI,
    narrow=(),
    checks=("thread",),
)
async def stop_thread(request: ApiRequest, body: StopThread) -> Stopped:
    """Stop an agent in a thread: what runs, what waits for its turn, and what waits for people."""
    agent, thread_id = _thread_of(request)
    wanted = [run.run_id for run in await active_runs(request, agent, thread_id)]
    if body.run_id is not None:
        wanted = [await _run_named(request, agent, thread_id, body.run_id)]
    stopped = [
        run_id
        for run_id in wanted
        if await cancel_run(request, run_id, "stopped by its client") == "cancelled"
    ]
    return Stopped(stopped=bool(stopped), runs=stopped)


# -- a new run ----------------------------------------------------------------------------------------------


async def _run(
    request: ApiRequest, body: RunAgentInput, said: list[Message], cursor: Cursor
) -> EventStream | RawBody:
    agent = request.parameters["agent"]
    known = await find_event(request, agent, body.thread_id, body.run_id)
    if not said:
        if known is None or known.run_id is None:
            raise InvalidArgumentError(
                "messages: expected a message of the user, or of a tool, after the agent's last one: there is"
                " nothing new to answer",
                errors=[{"field": "messages", "expected": "a new message of the user at its end"}],
            )
        return await _again(request, body, Answer(known.run_id), cursor)
    if known is None:
        try:
            await check_nothing_waits(request, agent, body.thread_id)
        except CallerError as error:
            return _refused(body, error)
    fresh = await unsent(request, body.thread_id, said, known)
    history = []
    if request.caller.scope is None and await brings_history(request, body.thread_id, known):
        history = history_of(body.messages, fresh)
    envelope = envelope_of(agent, body, fresh, history=len(history))
    started = await send_message(request, envelope, history=history)
    if started.duplicate or started.answer.after:
        return await _again(request, body, started.answer, cursor)
    return await _answer(request, body, started.answer, cursor)


async def _again(request: ApiRequest, body: RunAgentInput, answer: Answer, cursor: Cursor) -> EventStream:
    """Stream a run to a client that has sent its request before.

    With a cursor of the first stream this is its rest. Else the client is told all, since it may have a part.
    """
    if cursor.frames and not cursor.mark and not answer.after:
        return await _answer(request, body, answer, cursor)
    return await _connected(request, answer.run_id, _facts(body), cursor)


async def _answer(request: ApiRequest, body: RunAgentInput, answer: Answer, cursor: Cursor) -> EventStream:
    if cursor.mark:
        return await _connected(request, answer.run_id, _facts(body), cursor)
    facts = _facts(body)
    return await stream_answer(
        request,
        answer,
        lambda: AgUiFold(answer, facts),
        ("ag-ui", digest([body.thread_id, body.run_id, body.parent_run_id, facts.sent]), facts.current),
        skip=cursor.frames,
        prepare=partial(load_state, request, answer.run_id, facts),
    )


async def _connected(request: ApiRequest, run_id: str, facts: Facts, cursor: Cursor) -> EventStream:
    """Stream a whole run, up to where it waits now, after the messages of its thread."""
    facts.mark = CONNECTED
    await facts_of_run(request, run_id, facts)
    answer = Answer(run_id)
    return await stream_answer(
        request,
        answer,
        lambda: AgUiFold(answer, facts),
        ("ag-ui", CONNECTED, facts.run_id, facts.current),
        skip=cursor.frames if cursor.mark else 0,
        through=True,
        prepare=partial(load_state, request, run_id, facts),
    )


# -- a run that waits -------------------------------------------------------------------------------------


async def _resume(
    request: ApiRequest, body: RunAgentInput, results: list[Message], cursor: Cursor
) -> EventStream | RawBody:
    agent = request.parameters["agent"]
    given = [CallResult(one.tool_call_id or "", one.content, one.error) for one in results]
    decided = await take_decisions(request, agent, body.thread_id, body.resume or [], given)
    if decided.waiting:
        facts = _facts(body)
        await load_state(request, decided.answer.run_id, facts)
        fold = AgUiFold(decided.answer, facts)
        return _stream_of([*fold.begin(), *fold.end(Waiting(decided.waiting), None)])
    if decided.repeated and not cursor.frames:
        return await _connected(request, decided.answer.run_id, _facts(body), cursor)
    return await _answer(request, body, decided.answer, cursor)


def _refused(body: RunAgentInput, error: CallerError) -> RawBody:
    """Say in a stream why what was sent decides nothing: clients keep what they wait with, and may go on."""
    started = RunStarted(thread_id=body.thread_id, run_id=body.run_id, protocol_version=AG_UI_VERSION)
    return _stream_of([frame(started, "1"), frame(run_error(error), "2")])


def _stream_of(frames: list[bytes]) -> RawBody:
    return RawBody(b"".join(frames), f"{EVENT_STREAM}; charset=utf-8")


# -- ids and facts -----------------------------------------------------------------------------------------


def _thread_of(request: ApiRequest) -> tuple[str, str]:
    """Return agent and thread of a path. NotFoundError for a thread that the caller does not reach."""
    agent, thread_id = request.parameters["agent"], request.parameters["thread"]
    check_conversation(request.caller, thread_id)
    return agent, thread_id


async def _run_named(request: ApiRequest, agent: str, thread_id: str, name: str) -> str:
    event = await find_event(request, agent, thread_id, name)
    if event is None or event.run_id is None:
        raise NotFoundError(f"this thread of the agent {agent!r} has no run {name[:200]!r}")
    return (await get_run(request, agent, thread_id, event.run_id)).run_id


def _facts(body: RunAgentInput) -> Facts:
    return Facts(
        body.thread_id,
        body.run_id,
        parent_run_id=body.parent_run_id,
        current=body.protocol_version is not None,
        sent=body.state or {},
    )


def _cursor(text: str | None) -> Cursor:
    mark = CONNECTED if text is not None and text.startswith(CONNECTED) else ""
    return Cursor(mark, last_event_id(None if text is None else text.removeprefix(mark), None))
