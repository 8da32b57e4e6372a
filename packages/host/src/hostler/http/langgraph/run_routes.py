"""Runs: create, wait, stream, join, list, get, cancel; in a thread, or each in a thread of its own."""

from __future__ import annotations

from typing import Any

from hostler.http.auth import require_right
from hostler.http.dialects.answers import WhenGone, check_answer
from hostler.http.event_stream import EventStream
from hostler.http.langgraph.assistants import Anything, slice_of
from hostler.http.langgraph.dialect import refused
from hostler.http.langgraph.ending import cancel, delete
from hostler.http.langgraph.fold import RUN
from hostler.http.langgraph.routes import STREAM, route
from hostler.http.langgraph.run_records import record_of, records_of
from hostler.http.langgraph.run_request import RunCreate
from hostler.http.langgraph.running import (
    Begun,
    begin,
    cursor_of,
    find_answer,
    headers_of,
    joined,
    streamed,
    waited,
)
from hostler.http.langgraph.threads import MAX_ACTIVE_RUNS, runs_of, thread_of
from hostler.http.langgraph.waited import Waited
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Json, RawBody
from hostler_protocol._base import Lenient
from hostler_protocol.runs import RunStatus

_STATUSES: dict[str, frozenset[RunStatus]] = {
    "pending": frozenset({"queued"}),
    "running": frozenset({"claimed", "running"}),
    "success": frozenset({"completed", "paused"}),
    "error": frozenset({"failed"}),
    "timeout": frozenset({"timeout"}),
    "interrupted": frozenset({"cancelled"}),
}


class RunsQuery(Lenient):
    """Which runs of a thread are wanted."""

    limit: int = 10
    offset: int = 0
    status: str | None = None


class JoinQuery(Lenient):
    """`stream_mode`: by default those that the run was created with."""

    stream_mode: list[str] = []
    cancel_on_disconnect: bool = False

    @property
    def on_disconnect(self) -> WhenGone:
        """What becomes of the run if the client disconnects."""
        return "cancel" if self.cancel_on_disconnect else "continue"


class CancelQuery(Lenient):
    """`wait`: answer once the run has ended. `action`: `interrupt`, or `rollback`, which deletes the run."""

    wait: bool = False
    action: str = "interrupt"


@route("POST", "/threads/{thread}/runs", "events:write", narrow=True)
async def create_thread_run(request: ApiRequest, body: RunCreate) -> Json[dict[str, Any]]:
    """Begin a run of a thread, and return it without waiting."""
    return await _created(request, body)


@route("POST", "/threads/{thread}/runs/stream", "events:write", narrow=True, answer=STREAM)
async def stream_thread_run(request: ApiRequest, body: RunCreate) -> EventStream | RawBody:
    """Begin a run of a thread, or let one go on by `command.resume`, and stream it."""
    return await streamed(request, await _begun(request, body))


@route("POST", "/threads/{thread}/runs/wait", "events:write", narrow=True, answer=dict[str, Any])
async def wait_for_thread_run(request: ApiRequest, body: RunCreate) -> Waited:
    """Begin a run of a thread, and return the state of the thread at its end."""
    return await waited(request, await _begun(request, body))


@route("POST", "/runs", "events:write")
async def create_stateless_run(request: ApiRequest, body: RunCreate) -> Json[dict[str, Any]]:
    """Begin a run in a thread of its own, and return it without waiting."""
    return await _created(request, body)


@route("POST", "/runs/stream", "events:write", answer=STREAM)
async def stream_stateless_run(request: ApiRequest, body: RunCreate) -> EventStream | RawBody:
    """Begin a run in a thread of its own, and stream it."""
    return await streamed(request, await _begun(request, body))


@route("POST", "/runs/wait", "events:write", answer=dict[str, Any])
async def wait_for_stateless_run(request: ApiRequest, body: RunCreate) -> Waited:
    """Begin a run in a thread of its own, and return the state of that at its end."""
    return await waited(request, await _begun(request, body))


@route("GET", "/threads/{thread}/runs", "runs:read", narrow=True)
async def list_thread_runs(request: ApiRequest, query: RunsQuery) -> Json[list[dict[str, Any]]]:
    """List the runs of a thread, newest first. One that waited and went on is listed once."""
    thread_id = await thread_of(request)
    part = slice_of(query.offset, query.limit)
    if query.status is not None and query.status not in _STATUSES:
        raise refused("status", f"{query.status[:40]!r} is no status of a run", f"of {', '.join(_STATUSES)}")
    statuses = None if query.status is None else _STATUSES[query.status]
    if part.stop > MAX_ACTIVE_RUNS:
        raise refused("offset", f"the newest {MAX_ACTIVE_RUNS} runs are listed here; GET /v1/runs has all")
    found = await runs_of(request, thread_id, limit=part.stop, statuses=statuses)
    return Json(await records_of(request, found[part]))


@route("GET", "/threads/{thread}/runs/{answer}", "runs:read", narrow=True)
async def get_thread_run(request: ApiRequest) -> Json[dict[str, Any]]:
    """Get a run of a thread. One that waits for people is a success; its thread is interrupted."""
    run, answer = await find_answer(request)
    return Json(await record_of(request, run, answer))


@route("GET", "/threads/{thread}/runs/{answer}/join", "runs:read", narrow=True, answer=dict[str, Any])
async def join_thread_run(request: ApiRequest, query: JoinQuery) -> Waited:
    """Wait for the end of a run, and return the state of its thread then."""
    return await waited(request, await joined(request, on_disconnect=query.on_disconnect))


@route("GET", "/threads/{thread}/runs/{answer}/stream", "runs:read", narrow=True, answer=STREAM)
async def join_thread_run_stream(request: ApiRequest, query: JoinQuery) -> EventStream | RawBody:
    """Stream a run from its start, or after `Last-Event-ID`, also when it has ended."""
    begun = await joined(request, query.stream_mode, on_disconnect=query.on_disconnect)
    return await streamed(request, begun, skip=cursor_of(request))


@route("POST", "/threads/{thread}/runs/{answer}/cancel", "runs:write", narrow=True, answer=dict[str, Any])
async def cancel_thread_run(request: ApiRequest, query: CancelQuery) -> Json[dict[str, Any]] | Waited:
    """Cancel a run. With `wait` the answer comes once it has ended; with `rollback` it is deleted then."""
    run, _ = await find_answer(request)
    await cancel(request, run, query.action)
    if query.wait and query.action == "interrupt":
        require_right(request.caller, "runs:read")
        return await waited(request, await joined(request))
    return Json({})


@route("DELETE", "/threads/{thread}/runs/{answer}", "conversations:write")
async def delete_thread_run(request: ApiRequest) -> Empty:
    """Delete what a run heard, said and did, with a receipt in the audit. 409 while it is active."""
    return await delete_named(request)


async def delete_named(request: ApiRequest) -> Empty:
    """Delete the run that the path of a request names. InvalidArgumentError for a part of one."""
    run, answer = await find_answer(request)
    if answer.after:
        name = request.parameters["answer"]
        raise refused(
            "run_id", f"{name!r} is what came after a decision: delete the whole, {RUN}_{run.run_id}"
        )
    await delete(request, run)
    return Empty()


@route("POST", "/runs/batch", "events:write")
async def create_run_batch(request: ApiRequest, body: Anything) -> Json[dict[str, Any]]:
    """Refuse to begin several runs at once."""
    raise refused("body", "runs are begun one by one: POST /runs for each")


async def _begun(request: ApiRequest, body: RunCreate) -> Begun:
    return await begin(request, body, request.parameters.get("thread"))


async def _created(request: ApiRequest, body: RunCreate) -> Json[dict[str, Any]]:
    begun = await _begun(request, body)
    run = await check_answer(request, begun.answer)
    record = await record_of(request, run, begun.answer, by_protocol=begun.by_protocol)
    return Json(record, headers=headers_of(request, begun))
