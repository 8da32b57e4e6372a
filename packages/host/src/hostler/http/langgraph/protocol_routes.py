"""What Agent Protocol has and LangGraph has not: agents, runs by their ids alone, and their resumption."""

from __future__ import annotations

from typing import Any

from hostler.http.dialects.answers import check_answer
from hostler.http.event_stream import EventStream
from hostler.http.langgraph import agent_protocol
from hostler.http.langgraph.agent_protocol import ProtocolStatus, RunResume
from hostler.http.langgraph.assistants import (
    Found,
    Schemas,
    find_assistants,
    get_record,
    schemas_of,
    slice_of,
)
from hostler.http.langgraph.conditions import Containment, check_conditions
from hostler.http.langgraph.ending import cancel, ended
from hostler.http.langgraph.messages import wrong
from hostler.http.langgraph.routes import STREAM, route
from hostler.http.langgraph.run_records import metadata_of_runs, record_of, records_of, status_names
from hostler.http.langgraph.run_routes import CancelQuery, JoinQuery, delete_named
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
from hostler.http.langgraph.waited import Waited
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Json, RawBody
from hostler.storage.port import Tx
from hostler.storage.stores import runs
from hostler.storage.stores.run_rows import Run
from hostler_protocol._base import Lenient, Strict
from hostler_protocol.runs import RunStatus

MAX_SEARCHED = 1_000
"""Runs that one search looks at, newest first."""
STEP = 100
"""Runs that are read at once."""
_STATUSES: dict[ProtocolStatus, frozenset[RunStatus]] = {
    "pending": frozenset({"queued", "claimed", "running"}),
    "success": frozenset({"completed"}),
    "error": frozenset({"failed"}),
    "timeout": frozenset({"timeout"}),
    "interrupted": frozenset({"claimed", "running", "paused", "cancelled"}),
}
"""What runs may be in the database that are in a status here: some wait with their process."""


class AgentsWanted(Lenient):
    """Which agents are wanted."""

    name: str | None = None
    metadata: dict[str, Any] | None = None
    limit: int = 10
    offset: int = 0


class RunsWanted(Lenient):
    """Which runs are wanted. `metadata`: what theirs contain."""

    metadata: dict[str, Any] | None = None
    status: ProtocolStatus | None = None
    thread_id: str | None = None
    agent_id: str | None = None
    limit: int = 10
    offset: int = 0


class AgentSchemas(Strict):
    """What an agent takes and gives, as JSON Schema."""

    agent_id: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    state_schema: dict[str, Any]
    config_schema: dict[str, Any]


# -- agents -------------------------------------------------------------------------------------------------


@route("POST", "/agents/search", "agents:read")
async def search_protocol_agents(request: ApiRequest, body: AgentsWanted) -> Json[list[dict[str, Any]]]:
    """List the agents that can be run."""
    part = slice_of(body.offset, body.limit)
    found = await find_assistants(request, Found(metadata=body.metadata, name=body.name))
    return Json([agent_protocol.agent_record(one) for one in found[part]])


@route("GET", "/agents/{agent}", "agents:read")
async def get_protocol_agent(request: ApiRequest) -> Json[dict[str, Any]]:
    """Get an agent."""
    return Json(agent_protocol.agent_record(await get_record(request, request.parameters["agent"])))


@route("GET", "/agents/{agent}/schemas", "agents:read")
async def get_protocol_agent_schemas(request: ApiRequest) -> Json[AgentSchemas]:
    """Get what an agent takes and gives: messages."""
    found: Schemas = schemas_of(await get_record(request, request.parameters["agent"]))
    return Json(
        AgentSchemas(
            agent_id=found.graph_id,
            input_schema=found.input_schema,
            output_schema=found.output_schema,
            state_schema=found.state_schema,
            config_schema=found.config_schema,
        )
    )


# -- runs ---------------------------------------------------------------------------------------------------


@route("POST", "/runs/search", "runs:read")
async def search_protocol_runs(request: ApiRequest, body: RunsWanted) -> Json[list[dict[str, Any]]]:
    """List runs of the workspace, newest first, of the newest 1,000."""
    part = slice_of(body.offset, body.limit)
    found = await _search(request, body, part.stop)
    return Json(await records_of(request, found[part], by_protocol=True))


@route("GET", "/runs/{answer}", "runs:read")
async def get_protocol_run(request: ApiRequest) -> Json[dict[str, Any]]:
    """Get a run. One that waits for people is interrupted."""
    return Json(await record_of(request, *await find_answer(request), by_protocol=True))


@route("DELETE", "/runs/{answer}", "conversations:write")
async def delete_protocol_run(request: ApiRequest) -> Empty:
    """Delete what a run heard, said and did, with a receipt in the audit. 409 while it is active."""
    return await delete_named(request)


@route("GET", "/runs/{answer}/wait", "runs:read", answer=dict[str, Any])
async def wait_for_protocol_run(request: ApiRequest) -> Waited:
    """Wait for the end of a run, and return it with the state of its thread then."""
    return await waited(request, await joined(request, by_protocol=True))


@route("GET", "/threads/{thread}/runs/{answer}/wait", "runs:read", narrow=True, answer=dict[str, Any])
async def wait_for_run_of_thread(request: ApiRequest) -> Waited:
    """Wait for the end of a run of a thread, and return it with the state of its thread then."""
    return await waited(request, await joined(request, by_protocol=True))


@route("GET", "/runs/{answer}/stream", "runs:read", answer=STREAM)
async def stream_protocol_run(request: ApiRequest, query: JoinQuery) -> EventStream | RawBody:
    """Stream a run from its start, or after `Last-Event-ID`, also when it has ended."""
    begun = await joined(request, query.stream_mode, by_protocol=True)
    return await streamed(request, begun, skip=cursor_of(request))


@route("POST", "/runs/{answer}/cancel", "runs:write", status=204)
async def cancel_protocol_run(request: ApiRequest, query: CancelQuery) -> Empty:
    """Cancel a run. `wait`: answer once it has ended; `rollback` deletes it then."""
    run, _ = await find_answer(request)
    await cancel(request, run, query.action)
    if query.wait and query.action == "interrupt":
        await ended(request, run)
    return Empty()


@route("PATCH", "/runs/resume", "events:write")
async def resume_protocol_run(request: ApiRequest, body: RunResume) -> Json[dict[str, Any]]:
    """Answer what a thread waits for, and return the run that goes on without waiting."""
    begun = await _resumed(request, body)
    run = await check_answer(request, begun.answer)
    record = await record_of(request, run, begun.answer, by_protocol=True)
    return Json(record, headers=headers_of(request, begun))


@route("PATCH", "/runs/resume/wait", "events:write", answer=dict[str, Any])
async def wait_for_resumed_run(request: ApiRequest, body: RunResume) -> Waited:
    """Answer what a thread waits for, and return its run with the state of the thread at the end."""
    return await waited(request, await _resumed(request, body))


@route("PATCH", "/runs/resume/stream", "events:write", answer=STREAM)
async def stream_resumed_run(request: ApiRequest, body: RunResume) -> EventStream | RawBody:
    """Answer what a thread waits for, and stream the run that goes on."""
    return await streamed(request, await _resumed(request, body))


async def _resumed(request: ApiRequest, body: RunResume) -> Begun:
    return await begin(request, body.as_create, body.thread_id)


async def _search(request: ApiRequest, wanted: RunsWanted, limit: int) -> list[Run]:
    """Return the newest runs that are wanted, as many as `limit` and perhaps some more."""
    condition = Containment(check_conditions("metadata", wanted.metadata))
    if any("\x00" in (one or "") for one in (wanted.thread_id, wanted.agent_id)):
        raise wrong("thread_id", "like agent_id, a text without NUL")
    found: list[Run] = []
    before: tuple[int, str] | None = None
    for _ in range(MAX_SEARCHED // STEP):
        page, fitting = await request.state.host.db.read(
            lambda tx, before=before: _step(tx, request.workspace_id, wanted, before, condition)  # type: ignore[misc]
        )
        found += fitting
        if len(page) < STEP or len(found) >= limit:
            break
        before = (page[-1].created_at, page[-1].run_id)
    return found


def _step(
    tx: Tx, ws: str, wanted: RunsWanted, before: tuple[int, str] | None, condition: Containment
) -> tuple[list[Run], list[Run]]:
    """Return the next runs, and those of them that fit and are of a thread: what is deleted is of none.

    They are compared here, in a thread of the database, not on the loop.
    """
    page = runs.page(
        tx,
        ws,
        statuses=None if wanted.status is None else _STATUSES[wanted.status],
        agent_name=wanted.agent_id,
        conversation_id=wanted.thread_id,
        before=before,
        limit=STEP,
    )
    names = {} if wanted.status is None else status_names(tx, page)
    metadata = metadata_of_runs(tx, page) if wanted.metadata else {}
    fitting = [
        run
        for run in page
        if run.conversation_id is not None
        and (wanted.status is None or agent_protocol.status_of(names[run.run_id]) == wanted.status)
        and condition.fits(metadata.get(run.run_id, {}))
    ]
    return page, fitting
