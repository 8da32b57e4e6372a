"""Begin a run of a thread, or let one go on, and the answers that its clients read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Literal
from urllib.parse import quote, urlencode

import msgspec

from hostler.domain.narrow_callers import check_agent, check_conversation
from hostler.domain.run_events import Completed, Failed
from hostler.http.dialects.answers import (
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
from hostler.http.dialects.fold import Answer, Folding, Waiting
from hostler.http.dialects.pending import check_nothing_waits
from hostler.http.event_stream import EventStream
from hostler.http.langgraph.ending import interrupt_all, roll_back_all
from hostler.http.langgraph.fold import RUN, Facts, RunFold
from hostler.http.langgraph.interrupts import answers_of, run_of
from hostler.http.langgraph.messages import history_of, split, wrong
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
    active_runs,
    check_thread,
    latest_run,
    moment,
    no_thread,
)
from hostler.http.langgraph.waited import Waited
from hostler.http.request import ApiRequest
from hostler.http.responses import Headers, RawBody
from hostler.http.sse import EVENT_STREAM, last_event_id
from hostler.storage.port import Tx
from hostler.storage.stores import conversations, events
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import ConflictError, NotFoundError
from hostler_protocol.runs import TERMINAL_STATUSES

RunStatusName = Literal["pending", "running", "error", "success", "timeout", "interrupted"]
FROM_START = "-1"
"""What a client sends as Last-Event-ID to read a run from its start."""


class Begun(msgspec.Struct, frozen=True):
    """An answer that was begun. `waiting`: frames of a pause that a part of its decisions leaves waiting."""

    thread_id: str
    answer: Answer
    modes: tuple[str, ...]
    agent: str
    waiting: tuple[Any, ...] = ()


async def begin(request: ApiRequest, body: RunCreate, thread_id: str) -> Begun:
    """Begin a run of a thread, or let one go on that waits.

    NotFoundError for no such agent, or a thread that shall be there and is not; ConflictError while the
    thread is busy or waits and the request does not say what then.
    """
    check(body)
    check_conversation(request.caller, thread_id)
    check_agent(request.caller, body.assistant_id)
    if not thread_id or "\x00" in thread_id:
        raise wrong("thread_id", "a text of one character or more, none of them NUL")
    modes = modes_of(body.stream_mode)
    if body.if_not_exists == "reject":
        await check_thread(request, thread_id)
    if body.command is not None and body.command.resume is not msgspec.UNSET:
        return await _resume(request, body, thread_id, modes)
    said = said_of(body.input)
    earlier, new = split(said)
    if not new:
        raise wrong("input.messages", "a message of type human at its end: there is nothing new to answer")
    key = request.idempotency_key()
    if key is None or not await _was_sent(request):
        await _make_way(request, body, thread_id)
    history = []
    if earlier and not await request.state.host.db.read(
        lambda tx: conversations.begun(tx, request.workspace_id, thread_id)
    ):
        history = history_of(earlier)
    envelope = envelope_of(request, body, thread_id, new, modes)
    started = await send_message(request, envelope, history=history)
    return Begun(thread_id, started.answer, modes, body.assistant_id)


async def _was_sent(request: ApiRequest) -> bool:
    """Whether a request with this Idempotency-Key was sent before: its run is not in its own way."""
    name = keyed_event_id(request) or ""
    return (
        await request.state.host.db.read(lambda tx: events.find(tx, request.workspace_id, name)) is not None
    )


async def _make_way(request: ApiRequest, body: RunCreate, thread_id: str) -> None:
    """Do what the request says about runs of its thread that are not over."""
    match body.multitask_strategy:
        case "reject" if await active_runs(request, thread_id):
            raise ConflictError(
                "the thread is busy: wait for its run to end, or choose another multitask_strategy",
                reason="thread_busy",
            )
        case "interrupt":
            await interrupt_all(request, thread_id)
        case "rollback":
            await roll_back_all(request, thread_id)
    await check_nothing_waits(request, body.assistant_id, thread_id)


async def _resume(request: ApiRequest, body: RunCreate, thread_id: str, modes: tuple[str, ...]) -> Begun:
    resume = body.command.resume if body.command is not None else None
    named = run_of(resume)
    if named is not None:
        run = await get_run(request, body.assistant_id, thread_id, named)
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


async def streamed(
    request: ApiRequest, begun: Begun, *, skip: int = 0, on_disconnect: WhenGone | None = None
) -> EventStream | RawBody:
    """Return an answer as a stream. `skip`: the number of the last event that the client has."""
    facts = Facts(begun.thread_id, begun.agent, modes=begun.modes)
    headers = headers_of(begun, "stream")
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
        when_gone=on_disconnect or "continue",
    )


async def waited(request: ApiRequest, begun: Begun, *, on_disconnect: WhenGone | None = None) -> Waited:
    """Return the state of the thread at the end of an answer."""
    await check_answer(request, begun.answer)
    return Waited(partial(_at_its_end, request, begun, on_disconnect), headers_of(begun, "join"))


async def _at_its_end(request: ApiRequest, begun: Begun, on_disconnect: WhenGone | None) -> bytes:
    facts = Facts(begun.thread_id, begun.agent, modes=())
    fold = RunFold(begun.answer, facts)
    if begun.waiting:
        await load_messages(request, begun.answer.run_id, facts)
        fold.begin()
        fold.end(Waiting(begun.waiting), None)
    else:
        await whole_answer(request, begun.answer, fold, when_gone=on_disconnect or "continue")
        await load_messages(request, begun.answer.run_id, facts)
    if fold.error is not None:
        return msgspec.json.encode({"__error__": fold.error})
    return fold.values


def headers_of(begun: Begun, then: str | None = None) -> Headers:
    """Return where the run is, and where its client goes on: paths below the address of this interface."""
    place = f"/threads/{quote(begun.thread_id, safe='')}/runs/{answer_id(RUN, begun.answer)}"
    headers: Headers = [(b"content-location", place.encode())]
    if then is not None:
        query = "?" + urlencode({"stream_mode": begun.modes}, doseq=True) if then == "stream" else ""
        headers.append((b"location", f"{place}/{then}{query}".encode()))
    return headers


async def find_answer(request: ApiRequest) -> tuple[Run, Answer]:
    """Return the run that the path of a request names, and where in it that begins.

    NotFoundError unless it is of the thread in the path.
    """
    thread_id, name = request.parameters["thread"], request.parameters["answer"]
    check_conversation(request.caller, thread_id)
    answer = read_answer_id(RUN, name)
    run = await check_answer(request, answer)
    if run.conversation_id != thread_id:
        raise NotFoundError(f"this thread has no run {name[:100]!r}")
    return run, answer


async def joined(request: ApiRequest, modes: Sequence[str] | None = None) -> Begun:
    """Return the answer that the path of a request names, to read it again."""
    run, answer = await find_answer(request)
    kept = await request.state.host.db.read(lambda tx: _kept(tx, run))
    return Begun(request.parameters["thread"], answer, modes_of(modes, kept), run.agent_name)


def _kept(tx: Tx, run: Run) -> list[str]:
    event = None if run.event_id is None else events.find(tx, run.workspace_id, run.event_id)
    return own_data(event).modes


def cursor_of(request: ApiRequest) -> int:
    """Return the number of the last event that a client has. InvalidArgumentError for what is none."""
    text = request.headers.get("last-event-id")
    return 0 if text == FROM_START else last_event_id(text, None)


# -- runs as their clients read them ------------------------------------------------------------------------


async def record_of(request: ApiRequest, run: Run, answer: Answer) -> dict[str, Any]:
    """Return a run as its clients read it: what is at `answer` of a run of the host's."""
    return run_record(run, answer, await _status_of(request, run, answer), await _metadata(request, [run]))


async def records_of(request: ApiRequest, found: Collection[Run]) -> list[dict[str, Any]]:
    """Return runs as their clients read them, each as it is now."""
    metadata = await _metadata(request, found)
    return [run_record(run, Answer(run.run_id), status_name(run), metadata) for run in found]


def run_record(
    run: Run, answer: Answer, status: RunStatusName, metadata: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return a run as its clients read it."""
    return {
        "run_id": answer_id(RUN, answer),
        "thread_id": run.conversation_id,
        "assistant_id": run.agent_name,
        "created_at": moment(run.created_at),
        "updated_at": moment(run.finished_at or run.started_at or run.created_at),
        "metadata": {
            "graph_id": run.agent_name,
            "assistant_id": run.agent_name,
            **metadata.get(run.run_id, {}),
            "hostler_run_id": run.run_id,
        },
        "status": status,
        "kwargs": {},
        "multitask_strategy": "enqueue",
    }


def status_name(run: Run) -> RunStatusName:
    """Return how a run is. One that waits for people is a success: its thread says that it is interrupted."""
    match run.status:
        case "queued":
            return "pending"
        case "claimed" | "running":
            return "running"
        case "paused" | "completed":
            return "success"
        case "cancelled":
            return "interrupted"
        case "timeout":
            return "timeout"
        case _:
            return "error"


async def _status_of(request: ApiRequest, run: Run, answer: Answer) -> RunStatusName:
    """Return how one answer of a run is: it may be over while the run goes on."""
    if run.status not in TERMINAL_STATUSES and run.status != "paused":
        asked = await request.state.host.runs.requests(request.workspace_id, run.run_id)
        if not any(sequence > answer.after for sequence, _ in asked):
            return status_name(run)
    folding = Folding(RunFold(answer, Facts("", "", modes=())), answer)
    folding.begin()
    async for result in request.state.host.runs.stored(run.run_id):
        folding.take(result)
        if folding.ending is not None:
            break
    match folding.ending:
        case Waiting() | Completed():
            return "success"
        case Failed(code="cancelled"):
            return "interrupted"
        case Failed(code="runner.timeout"):
            return "timeout"
        case Failed():
            return "error"
    return "success" if folding.waits else status_name(run)


async def _metadata(request: ApiRequest, found: Collection[Run]) -> dict[str, dict[str, Any]]:
    def read(tx: Tx) -> dict[str, dict[str, Any]]:
        return {
            run.run_id: own_data(events.find(tx, run.workspace_id, run.event_id)).metadata
            for run in found
            if run.event_id is not None
        }

    return await request.state.host.db.read(read)
