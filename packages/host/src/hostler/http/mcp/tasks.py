"""Tasks: runs that a client asks about, instead of waiting for their calls.

A task has no row of its own. It is there as long as its run, whatever time its client asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hostler.http.auth import require_right
from hostler.http.dialects.answers import answer_so_far, cancel_run, check_answer
from hostler.http.dialects.fold import Answer
from hostler.http.event_stream import EventStream
from hostler.http.mcp.call_fold import CallFacts, CallFold
from hostler.http.mcp.calls import respond
from hostler.http.mcp.decisions import take_forms
from hostler.http.mcp.messages import INVALID_PARAMS, RpcError, RpcMessage, text_block
from hostler.http.mcp.sessions import Session, can_elicit, progress_of
from hostler.http.mcp.task_records import no_task, require_tasks, status_of, task_id_of, task_named, task_of
from hostler.http.request import ApiRequest
from hostler.http.responses import RawBody
from hostler.storage.stores import pauses, runs
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.runs import TERMINAL_STATUSES

MAX_TASKS_ON_PAGE = 50
CANCEL_SECONDS = 10.0
"""How long the answer to a cancellation waits for the run to end."""


async def _find(request: ApiRequest, message: RpcMessage) -> tuple[Run, Answer]:
    answer = task_named(message)
    try:
        return await check_answer(request, answer), answer
    except NotFoundError:
        raise no_task(message.params.get("taskId")) from None


# -- sessions (2025-11-25) -------------------------------------------------------------------------------


async def get_task(request: ApiRequest, message: RpcMessage) -> dict[str, Any]:
    """Return a task as it is."""
    run, answer = await _find(request, message)
    waits = run.run_id in await _waiting(request, [run])
    return task_of(run, answer, status_of(run, waits=waits), message=_said(run, waits))


async def task_result(
    request: ApiRequest, message: RpcMessage, session: Session, level: str | None
) -> EventStream | RawBody:
    """Answer with the result of a task, once it is there; meanwhile its user is asked what it waits for."""
    run, answer = await _find(request, message)
    if message.id is None:
        raise RuntimeError("tasks/result is a request")
    facts = CallFacts(
        answer,
        run.agent_name,
        message.id,
        run.conversation_id,
        progress_of(message),
        level=level,
        elicits=session.elicits,
        task=task_id_of(answer),
    )
    return await respond(request, facts, stateless=False)


async def list_tasks(request: ApiRequest, message: RpcMessage) -> dict[str, Any]:
    """Return a page of the runs of the workspace as tasks, newest first."""
    require_right(request.caller, "runs:read")
    cursors = request.state.host.cursors.scoped("mcp tasks", [request.workspace_id])
    cursor = message.params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise RpcError(INVALID_PARAMS, "cursor: expected the nextCursor of a page of tasks/list")
    before = None if cursor is None else cursors.read_place(cursor)
    found = await request.state.host.db.read(
        lambda tx: runs.page(tx, request.workspace_id, before=before, limit=MAX_TASKS_ON_PAGE + 1)
    )
    shown = found[:MAX_TASKS_ON_PAGE]
    waiting = await _waiting(request, shown)
    tasks = [task_of(run, Answer(run.run_id), status_of(run, waits=run.run_id in waiting)) for run in shown]
    page: dict[str, Any] = {"tasks": tasks}
    if len(found) > len(shown):
        page["nextCursor"] = cursors.issue([shown[-1].created_at, shown[-1].run_id])
    return page


async def cancel_task(request: ApiRequest, message: RpcMessage) -> dict[str, Any]:
    """Cancel a task, and return it. RpcError if it is over."""
    run, answer = await _find(request, message)
    if await cancel_run(request, run.run_id, "cancelled by the client") == "over":
        raise RpcError(INVALID_PARAMS, f"the task {task_id_of(answer)!r} is over: it is {status_of(run)}")
    await request.state.host.runs.wait(request.workspace_id, run.run_id, CANCEL_SECONDS)
    run = await check_answer(request, answer)
    return task_of(run, answer, status_of(run), message=_said(run))


async def _waiting(request: ApiRequest, found: Sequence[Run]) -> frozenset[str]:
    """Return which of these runs wait for people."""
    ids = [run.run_id for run in found if run.status in {"running", "paused"}]
    if not ids:
        return frozenset()
    return await request.state.host.db.read(lambda tx: pauses.waiting_runs(tx, request.workspace_id, ids))


def _said(run: Run, waits: bool = False) -> str | None:
    """Return what people are told about a run's status."""
    return "It waits for a decision." if waits or run.status == "paused" else run.status_code


# -- stateless (the extension) ---------------------------------------------------------------------------


async def detailed_task(request: ApiRequest, message: RpcMessage) -> dict[str, Any]:
    """Return a task with its result, or with what it waits for."""
    require_tasks(message)
    run, answer = await _find(request, message)
    return await details_of(request, run, answer, elicits=can_elicit(message.capabilities.get("elicitation")))


async def details_of(request: ApiRequest, run: Run, answer: Answer, *, elicits: bool) -> dict[str, Any]:
    """Return a run as a task of the extension. `elicits`: its client can ask its user."""
    if run.status == "cancelled":
        return task_of(run, answer, "cancelled", stateless=True)
    waits = run.status == "paused" or run.run_id in await _waiting(request, [run])
    if not waits and run.status not in TERMINAL_STATUSES:
        return task_of(run, answer, "working", stateless=True)
    facts = CallFacts(answer, run.agent_name, 0, run.conversation_id, elicits=elicits, state="")
    fold = await answer_so_far(request, answer, CallFold(facts), through=True)
    result = fold.result
    if result is None:
        return task_of(run, answer, "working", stateless=True)
    if "inputRequests" in result:
        forms = {"inputRequests": result["inputRequests"]}
        return task_of(run, answer, "input_required", stateless=True, message=_said(run, waits)) | forms
    if waits:
        notices = result["content"][-1:] or [text_block("")]
        return task_of(run, answer, "working", stateless=True, message=notices[0].get("text"))
    return task_of(run, answer, "completed", stateless=True) | {"result": result}


async def update_task(request: ApiRequest, message: RpcMessage) -> dict[str, Any]:
    """Take what came of the forms of a task."""
    require_tasks(message)
    run, _ = await _find(request, message)
    given = message.params.get("inputResponses")
    if given == {}:
        raise InvalidArgumentError("inputResponses is empty: expected what came of at least one form")
    await take_forms(request, given, run_id=run.run_id)
    return {}


async def end_task(request: ApiRequest, message: RpcMessage) -> dict[str, Any]:
    """Cancel a task; nothing happens if it is over."""
    require_tasks(message)
    run, _ = await _find(request, message)
    await cancel_run(request, run.run_id, "cancelled by the client")
    return {}
