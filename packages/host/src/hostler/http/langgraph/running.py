"""Begin a run of a thread, or let one go on, and the answers that its clients read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from hostler.domain.narrow_callers import check_agent, check_conversation, stored_event_id
from hostler.http.dialects.answers import (
    Started,
    WhenGone,
    answer_id,
    check_answer,
    keyed_event_id,
    read_answer_id,
    send_message,
    stream_answer,
    whole_answer,
)
from hostler.http.dialects.decisions import get_run, take_decisions
from hostler.http.dialects.fold import Answer, Waiting
from hostler.http.dialects.pending import check_nothing_waits
from hostler.http.event_stream import EventStream
from hostler.http.langgraph import agent_protocol
from hostler.http.langgraph.dialect import refused
from hostler.http.langgraph.ending import interrupt_all, roll_back_all
from hostler.http.langgraph.fold import RUN, Facts, RunFold
from hostler.http.langgraph.interrupts import answers_of, run_of
from hostler.http.langgraph.messages import history_of, split, wrong
from hostler.http.langgraph.run_records import record_of
from hostler.http.langgraph.run_request import (
    RunCreate,
    check,
    envelope_of,
    modes_of,
    own_data,
    said_of,
)
from hostler.http.langgraph.thread_state import load_messages, waiting_of
from hostler.http.langgraph.threads import (
    NOT_OVER,
    active_runs,
    check_thread,
    latest_run,
    new_thread_id,
    no_thread,
    own_event_id,
    runs_in,
)
from hostler.http.langgraph.waited import Waited
from hostler.http.request import ApiRequest
from hostler.http.responses import Headers, RawBody
from hostler.http.sse import EVENT_STREAM, last_event_id
from hostler.storage.port import Tx
from hostler.storage.stores import conversations, events
from hostler.storage.stores.run_rows import Run
from hostler_protocol.content import HistoryMessage
from hostler_protocol.errors import ConflictError, NotFoundError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.ids import new_id

FROM_START = "-1"
"""What a client sends as Last-Event-ID to read a run from its start."""


class Begun(msgspec.Struct, frozen=True):
    """An answer that was begun. `waiting`: requests of a pause that a part of its decisions leaves waiting.

    `by_protocol`: its client speaks Agent Protocol.
    """

    thread_id: str
    answer: Answer
    modes: tuple[str, ...]
    agent: str
    waiting: tuple[Any, ...] = ()
    on_disconnect: WhenGone = "continue"
    by_protocol: bool = False


async def begin(request: ApiRequest, body: RunCreate, thread_id: str | None) -> Begun:
    """Begin a run of a thread, or of one of its own, or let one go on that waits.

    NotFoundError for no such agent, or a thread that shall be there and is not; ConflictError while the
    thread is busy or waits and the request does not say what then.
    """
    check(body)
    by_protocol = agent_protocol.is_spoken(body)
    if by_protocol:
        thread_id = body.thread_id if thread_id is None else thread_id
        known = thread_id is not None and request.caller.scope is None
        body = agent_protocol.as_langgraph(body, is_thread_known=known)
    is_resume = body.command is not None and body.command.resume is not msgspec.UNSET
    if thread_id is None:
        if is_resume:
            raise refused("command", "a run goes on in its thread: name the thread")
        thread_id = new_thread_id(request)
    check_conversation(request.caller, thread_id)
    if not thread_id or "\x00" in thread_id:
        raise wrong("thread_id", "a text of one character or more, none of them NUL")
    if body.if_not_exists == "reject":
        await check_thread(request, thread_id)
    agent = body.assistant_id
    if agent is None:
        answered = run_of(body.command.resume) if is_resume and body.command is not None else None
        agent = await agent_protocol.agent_of(request, body.agent_id, thread_id, answered)
    check_agent(request.caller, agent)
    modes = modes_of(body.stream_mode)
    begin_one = _resume if is_resume else _begin
    begun = await begin_one(request, body, agent, thread_id, modes)
    return msgspec.structs.replace(
        begun, on_disconnect=body.on_disconnect or "continue", by_protocol=by_protocol
    )


async def _begin(
    request: ApiRequest, body: RunCreate, agent: str, thread_id: str, modes: tuple[str, ...]
) -> Begun:
    said = said_of(body.input)
    earlier, new = split(said)
    if not new:
        raise wrong("input.messages", "a message of type human at its end: there is nothing new to answer")
    if not await _was_sent(request):
        await _make_way(request, body, agent, thread_id)
    history = []
    if earlier and not await request.state.host.db.read(
        lambda tx: conversations.begun(tx, request.workspace_id, thread_id)
    ):
        history = history_of(earlier)
    envelope = envelope_of(body, agent, thread_id, new, modes)
    if body.multitask_strategy == "reject":
        started = await _send_alone(request, envelope, thread_id, history)
    else:
        started = await send_message(request, envelope, history=history)
    return Begun(thread_id, started.answer, modes, agent)


async def _send_alone(
    request: ApiRequest, envelope: EventEnvelope, thread_id: str, history: Sequence[HistoryMessage]
) -> Started:
    """Send a message unless a run of its thread is not over: looked for in the transaction that stores it."""
    event_id = keyed_event_id(request) or new_id()
    own = stored_event_id(request.caller, event_id)

    def check_idle(tx: Tx) -> None:
        conversations.hold(tx, request.workspace_id, thread_id)
        if any(run.event_id != own for run in runs_in(tx, request, thread_id, limit=2, statuses=NOT_OVER)):
            raise _busy()

    named = msgspec.structs.replace(envelope, event_id=event_id)
    return await send_message(request, named, history=history, with_it=check_idle)


def _busy() -> ConflictError:
    return ConflictError(
        "the thread is busy: wait for its run to end, or choose another multitask_strategy",
        reason="thread_busy",
    )


async def _was_sent(request: ApiRequest) -> bool:
    """Whether a request with this Idempotency-Key was sent before: its run is not in its own way."""
    name = own_event_id(request)
    if name is None:
        return False
    return (
        await request.state.host.db.read(lambda tx: events.find(tx, request.workspace_id, name)) is not None
    )


async def _make_way(request: ApiRequest, body: RunCreate, agent: str, thread_id: str) -> None:
    """Do what the request says about runs of its thread that are not over."""
    match body.multitask_strategy:
        # looked for here, too: a transaction that fails is begun anew without it, with all others in it
        case "reject" if await active_runs(request, thread_id):
            raise _busy()
        case "interrupt":
            await interrupt_all(request, thread_id)
        case "rollback":
            await roll_back_all(request, thread_id)
    await check_nothing_waits(request, agent, thread_id)


async def _resume(
    request: ApiRequest, body: RunCreate, agent: str, thread_id: str, modes: tuple[str, ...]
) -> Begun:
    resume = body.command.resume if body.command is not None else None
    named = run_of(resume)
    if named is not None:
        run = await get_run(request, agent, thread_id, named)
    else:
        newest = await latest_run(request, thread_id)
        if newest is None:
            raise no_thread(thread_id)
        run = newest
    waiting = await waiting_of(request, run)
    entries, results = answers_of(run.run_id, resume, waiting)
    decided = await take_decisions(request, run.agent_name, thread_id, entries, results)
    return Begun(thread_id, decided.answer, modes, run.agent_name, decided.waiting)


# -- answers ----------------------------------------------------------------------------------------------


async def streamed(request: ApiRequest, begun: Begun, *, skip: int = 0) -> EventStream | RawBody:
    """Return an answer as a stream. `skip`: the number of the last event that the client has."""
    facts = Facts(begun.thread_id, begun.agent, modes=begun.modes)
    headers = headers_of(request, begun, "stream")
    if begun.waiting:
        await load_messages(request, begun.answer.run_id, facts)
        fold = RunFold(begun.answer, facts)
        frames = [*fold.begin(), *fold.end(Waiting(begun.waiting), None)]
        return RawBody(b"".join(frames), f"{EVENT_STREAM}; charset=utf-8", headers=headers)
    return await stream_answer(
        request,
        begun.answer,
        lambda: RunFold(begun.answer, facts),
        ("langgraph", begun.thread_id, begun.modes),
        skip=skip,
        prepare=partial(load_messages, request, begun.answer.run_id, facts),
        headers=headers,
        when_gone=begun.on_disconnect,
    )


async def waited(request: ApiRequest, begun: Begun) -> Waited:
    """Return the state of the thread at the end of an answer."""
    await check_answer(request, begun.answer)
    then = "wait" if begun.by_protocol else "join"
    return Waited(partial(_at_its_end, request, begun), headers_of(request, begun, then))


async def _at_its_end(request: ApiRequest, begun: Begun) -> bytes:
    facts = Facts(begun.thread_id, begun.agent, modes=())
    fold = RunFold(begun.answer, facts)
    if begun.waiting:
        await load_messages(request, begun.answer.run_id, facts)
        fold.begin()
        fold.end(Waiting(begun.waiting), None)
    else:
        await whole_answer(request, begun.answer, fold, when_gone=begun.on_disconnect)
        await load_messages(request, begun.answer.run_id, facts)
    if begun.by_protocol:
        run = await check_answer(request, begun.answer)
        record = await record_of(request, run, begun.answer, by_protocol=True)
        return msgspec.json.encode(agent_protocol.wait_record(record, fold.values, fold.error))
    if fold.error is not None:
        return msgspec.json.encode({"__error__": fold.error})
    return fold.values


def headers_of(request: ApiRequest, begun: Begun, then: str | None = None) -> Headers:
    """Return where the run is, and where its client goes on: paths below the address of this interface.

    A front-end token reaches runs below their thread alone.
    """
    place = f"/runs/{answer_id(RUN, begun.answer)}"
    if not begun.by_protocol or request.caller.scope is not None:
        place = f"/threads/{quote(begun.thread_id, safe='')}{place}"
    headers: Headers = [(b"content-location", place.encode())]
    if then is not None:
        query = "?" + urlencode({"stream_mode": begun.modes}, doseq=True) if then == "stream" else ""
        headers.append((b"location", f"{place}/{then}{query}".encode()))
    return headers


async def find_answer(request: ApiRequest) -> tuple[Run, Answer]:
    """Return the run that the path of a request names, and where in it that begins.

    NotFoundError unless it is of the thread in the path, if that names one: what is deleted is of none.
    """
    thread_id, name = request.parameters.get("thread"), request.parameters["answer"]
    if thread_id is not None:
        check_conversation(request.caller, thread_id)
    answer = read_answer_id(RUN, name)
    run = await check_answer(request, answer)
    if run.conversation_id is None or thread_id not in (None, run.conversation_id):
        has = "no thread has a run" if thread_id is None else "this thread has no run"
        raise NotFoundError(f"{has} {name[:100]!r}")
    return run, answer


async def joined(
    request: ApiRequest,
    modes: Sequence[str] | None = None,
    *,
    on_disconnect: WhenGone = "continue",
    by_protocol: bool = False,
) -> Begun:
    """Return the answer that the path of a request names, to read it again."""
    run, answer = await find_answer(request)
    kept = await request.state.host.db.read(lambda tx: _kept(tx, run))
    return Begun(
        run.conversation_id or "",
        answer,
        modes_of(modes, kept),
        run.agent_name,
        on_disconnect=on_disconnect,
        by_protocol=by_protocol,
    )


def _kept(tx: Tx, run: Run) -> list[str]:
    event = None if run.event_id is None else events.find(tx, run.workspace_id, run.event_id)
    return own_data(event).modes


def cursor_of(request: ApiRequest) -> int:
    """Return the number of the last event that a client has. InvalidArgumentError for what is none."""
    text = request.headers.get("last-event-id")
    return 0 if text == FROM_START else last_event_id(text, None)
