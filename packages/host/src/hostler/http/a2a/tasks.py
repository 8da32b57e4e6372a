"""Tasks are runs of an agent: found, shown as they are now, and listed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from functools import partial

from hostler.http.a2a.bindings import HTTP_JSON_EVENTS
from hostler.http.a2a.dialect import AgentNotFoundError, TaskNotFoundError
from hostler.http.a2a.fold import TaskFacts, TaskFold
from hostler.http.a2a.messages import message_of, wrong
from hostler.http.a2a.wire import ListTasks, Message, Task, TaskPage, TaskState, TaskStatus
from hostler.http.auth import require_right
from hostler.http.dialects.answers import usage_of
from hostler.http.dialects.fold import Answer, Folding
from hostler.http.dialects.paused_calls import decided_calls
from hostler.http.narrow import find_run
from hostler.http.request import ApiRequest
from hostler.journal.feed import StoredResult
from hostler.storage.port import Tx
from hostler.storage.stores import agents, events, runs
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import NotFoundError
from hostler_protocol.runs import TERMINAL_STATUSES, RunStatus

DEFAULT_PAGE_TASKS = 50
MAX_PAGE_TASKS = 100
"""Of one page of a list, as the protocol has it."""
MAX_WHOLE_TASKS = 20
"""Of one page with artifacts, each of which is folded from its results."""
MAX_HISTORY = 100
"""Messages of a client in the history of a task, the first ones and those that steered it."""
MAX_LOOKED_AT = 1_000
"""Events of a conversation, newest first, in which the messages of a task are looked for."""
_STATES: Mapping[RunStatus, TaskState] = {
    "queued": "TASK_STATE_SUBMITTED",
    "claimed": "TASK_STATE_SUBMITTED",
    "running": "TASK_STATE_WORKING",
    "paused": "TASK_STATE_INPUT_REQUIRED",
    "completed": "TASK_STATE_COMPLETED",
    "cancelled": "TASK_STATE_CANCELED",
}
"""Every other status is a failure."""
_TOKEN = re.compile(r"(\d{1,15})\.([A-Za-z0-9_-]{1,100})")


async def check_agent_name(request: ApiRequest, agent: str) -> None:
    """Raise AgentNotFoundError if the caller's workspace has no such agent."""
    if "\x00" in agent or not await request.state.host.db.read(
        lambda tx: agents.current_version(tx, request.workspace_id, agent)
    ):
        raise AgentNotFoundError(agent)


async def find_task(request: ApiRequest, agent: str, task_id: str) -> Run:
    """Return the run of a task. TaskNotFoundError unless it is one of this agent that the caller sees."""
    require_right(request.caller, "runs:read")
    await check_agent_name(request, agent)
    try:
        if "\x00" in task_id:
            raise TaskNotFoundError(task_id)
        run = await find_run(request, task_id)
    except NotFoundError:
        raise TaskNotFoundError(task_id) from None
    if run.agent_name != agent:
        raise TaskNotFoundError(task_id)
    return run


def state_of(run: Run) -> TaskState:
    """Return the state of a task as its run's row has it."""
    return _STATES.get(run.status, "TASK_STATE_FAILED")


def facts_of(request: ApiRequest, run: Run, *, tools: bool = False) -> TaskFacts:
    """Return what a run's task is folded with, for the caller of a request."""
    return TaskFacts(run.run_id, run.conversation_id, request.base, changed_at(run), tools)


def changed_at(run: Run) -> str:
    """Return when a run reached its status, as far as its row says it."""
    return moment(run.finished_at or run.started_at or run.created_at)


def moment(at: int) -> str:
    """Return UTC epoch milliseconds in RFC 3339."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def task_now(
    request: ApiRequest,
    run: Run,
    *,
    history: int | None = None,
    artifacts: bool = True,
    until: int | None = None,
    goes_on: bool = False,
) -> Task:
    """Return a task as it is, or as it was after the result `until`; `goes_on`: it waited no longer.

    `history`: the number of its client's messages, newest ones; None: all.
    """
    decided = await decided_calls(request, run.run_id)
    fold = TaskFold(facts_of(request, run), HTTP_JSON_EVENTS, decided=decided)
    folding = Folding(fold, Answer(run.run_id), through=True, decided=decided)
    folding.begin()
    async for result in _up_to(request, run.run_id, until):
        folding.take(result)
    if not goes_on:
        folding.cut()
        folding.finish(await usage_of(request, run.run_id) if folding.ending is not None else None)
    messages = [] if history == 0 else await messages_of(request, run)
    return fold.task(artifacts=artifacts, history=messages if history is None else messages[-history:])


async def _up_to(request: ApiRequest, run_id: str, until: int | None) -> AsyncIterator[StoredResult]:
    if until == 0:
        return
    async for result in request.state.host.runs.stored(run_id):
        yield result
        if until is not None and result.sequence >= until:
            return


async def messages_of(request: ApiRequest, run: Run) -> list[Message]:
    """Return the messages of a client that a run has taken, in order."""
    base, workspace = request.base, request.workspace_id

    def read(tx: Tx) -> list[Message]:
        found: dict[str, Message] = {}
        first = None if run.event_id is None else events.find(tx, workspace, run.event_id)
        recent = []
        if run.conversation_id is not None:
            recent = events.page(tx, workspace, conversation_id=run.conversation_id, limit=MAX_LOOKED_AT)
        for event in [first, *reversed([one for one in recent if one.run_id == run.run_id])]:
            if event is None or event.envelope is None or event.event_type != "message.received":
                continue
            found.setdefault(
                event.event_id,
                message_of(event.envelope, event.event_id, run.run_id, run.conversation_id, base),
            )
        return list(found.values())[-MAX_HISTORY:]

    return await request.state.host.db.read(read)


# -- lists -------------------------------------------------------------------------------------------------


async def list_tasks(request: ApiRequest, agent: str, wanted: ListTasks) -> TaskPage:
    """Return tasks of an agent, newest first. InvalidArgumentError for a wrong page."""
    require_right(request.caller, "runs:read")
    await check_agent_name(request, agent)
    size = DEFAULT_PAGE_TASKS if wanted.page_size is None else wanted.page_size
    if not 1 <= size <= MAX_PAGE_TASKS:
        raise wrong("pageSize", f"a number from 1 to {MAX_PAGE_TASKS}")
    if wanted.history_length is not None and wanted.history_length < 0:
        raise wrong("historyLength", "a number, 0 or more")
    if wanted.include_artifacts:
        size = min(size, MAX_WHOLE_TASKS)
    before = _before(wanted.page_token)
    query = partial(
        runs.of_agent,
        workspace_id=request.workspace_id,
        agent_name=agent,
        conversation_id=wanted.context_id or None,
        statuses=_statuses(wanted.status),
        changed_after=_after(wanted.status_timestamp_after),
    )
    found, total = await request.state.host.db.read(lambda tx: query(tx, before=before, limit=size + 1))
    shown = found[:size]
    tasks = [await _listed(request, run, wanted) for run in shown]
    token = f"{shown[-1].created_at}.{shown[-1].run_id}" if len(found) > size else ""
    return TaskPage(tasks=tasks, next_page_token=token, page_size=size, total_size=total)


async def _listed(request: ApiRequest, run: Run, wanted: ListTasks) -> Task:
    history = wanted.history_length or 0
    if wanted.include_artifacts or run.status not in TERMINAL_STATUSES:
        return await task_now(request, run, history=history, artifacts=bool(wanted.include_artifacts))
    status = TaskStatus(state=state_of(run), timestamp=changed_at(run))
    messages = (await messages_of(request, run))[-history:] if history else []
    return Task(id=run.run_id, context_id=run.conversation_id, status=status, history=messages)


def _statuses(state: TaskState | None) -> list[RunStatus] | None:
    if state is None or state == "TASK_STATE_UNSPECIFIED":
        return None
    if state == "TASK_STATE_FAILED":
        return [status for status in TERMINAL_STATUSES if status not in _STATES]
    return [status for status, known in _STATES.items() if known == state]


def _before(token: str | None) -> tuple[int, str] | None:
    if not token:
        return None
    if (found := _TOKEN.fullmatch(token)) is None:
        raise wrong("pageToken", "the nextPageToken of the page before")
    return int(found[1]), found[2]


def _after(text: str | None) -> int:
    if not text:
        return 0
    try:
        at = datetime.fromisoformat(text)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise wrong("statusTimestampAfter", "a time like 2026-11-28T12:00:00Z") from None
