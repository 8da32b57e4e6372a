"""Runs as clients of LangGraph and of Agent Protocol read them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from hostler.domain.run_events import Completed, Failed
from hostler.http.dialects.answers import answer_id
from hostler.http.dialects.fold import Answer, Folding, Waiting
from hostler.http.langgraph import agent_protocol
from hostler.http.langgraph.fold import RUN, Facts, RunFold
from hostler.http.langgraph.run_request import own_data
from hostler.http.langgraph.threads import metadata_of, moment
from hostler.http.request import ApiRequest
from hostler.storage.port import Tx
from hostler.storage.stores import events, pauses
from hostler.storage.stores.run_rows import Run
from hostler_protocol.runs import TERMINAL_STATUSES, RunStatus

RunStatusName = Literal["pending", "running", "waiting", "error", "success", "timeout", "interrupted"]
_STATUS_NAMES: dict[RunStatus, RunStatusName] = {
    "queued": "pending",
    "claimed": "running",
    "running": "running",
    "paused": "waiting",
    "completed": "success",
    "failed": "error",
    "timeout": "timeout",
    "cancelled": "interrupted",
}
_FAILED_AS: dict[str, RunStatusName] = {"cancelled": "interrupted", "runner.timeout": "timeout"}


async def record_of(
    request: ApiRequest, run: Run, answer: Answer, *, by_protocol: bool = False
) -> dict[str, Any]:
    """Return a run as its clients read it: what is at `answer` of a run of the host's."""
    status = await _status_of(request, run, answer)
    metadata = await request.state.host.db.read(lambda tx: metadata_of_runs(tx, [run]))
    return run_record(run, answer, status, metadata, by_protocol=by_protocol)


async def records_of(
    request: ApiRequest, found: Collection[Run], *, by_protocol: bool = False
) -> list[dict[str, Any]]:
    """Return runs as their clients read them, each as it is now."""
    metadata = await request.state.host.db.read(lambda tx: metadata_of_runs(tx, found))
    names = {run.run_id: _STATUS_NAMES[run.status] for run in found}
    if by_protocol:
        names = await request.state.host.db.read(lambda tx: status_names(tx, found))
    return [
        run_record(run, Answer(run.run_id), names[run.run_id], metadata, by_protocol=by_protocol)
        for run in found
    ]


def status_names(tx: Tx, found: Collection[Run]) -> dict[str, RunStatusName]:
    """Return how runs are; those that wait with their process wait, too."""
    waiting: frozenset[str] = frozenset()
    if active := [run for run in found if run.status not in TERMINAL_STATUSES]:
        ids = [run.run_id for run in active]
        waiting = pauses.waiting_runs(tx, active[0].workspace_id, ids)
    return {run.run_id: "waiting" if run.run_id in waiting else _STATUS_NAMES[run.status] for run in found}


def run_record(
    run: Run,
    answer: Answer,
    status: RunStatusName,
    metadata: Mapping[str, dict[str, Any]],
    *,
    by_protocol: bool = False,
) -> dict[str, Any]:
    """Return a run as its clients read it. LangGraph's says of its thread alone that it waits."""
    record = {
        "run_id": answer_id(RUN, answer),
        "thread_id": run.conversation_id,
        "assistant_id": run.agent_name,
        "created_at": moment(run.created_at),
        "updated_at": moment(run.finished_at or run.started_at or run.created_at),
        "metadata": metadata[run.run_id],
        "status": "success" if status == "waiting" else status,
        "kwargs": {},
        "multitask_strategy": "enqueue",
    }
    return agent_protocol.run_record(record, status) if by_protocol else record


async def _status_of(request: ApiRequest, run: Run, answer: Answer) -> RunStatusName:
    """Return how one answer of a run is: it may be over while the run goes on."""
    if run.status not in TERMINAL_STATUSES and run.status != "paused":
        asked = await request.state.host.runs.requests(request.workspace_id, run.run_id)
        if not any(sequence > answer.after for sequence, _ in asked):
            return _STATUS_NAMES[run.status]
    folding = Folding(RunFold(answer, Facts("", "", modes=())), answer)
    folding.begin()
    async for result in request.state.host.runs.stored(run.run_id):
        folding.take(result)
        if folding.ending is not None:
            break
    match folding.ending:
        case Waiting():
            return "waiting"
        case Completed():
            return "success"
        case Failed(code=code):
            return _FAILED_AS.get(code, "error")
    return "waiting" if folding.waits else _STATUS_NAMES[run.status]


def metadata_of_runs(tx: Tx, found: Collection[Run]) -> dict[str, dict[str, Any]]:
    """Return the metadata of runs: those that their clients gave, and what the host knows."""
    metadata: dict[str, dict[str, Any]] = {}
    for run in found:
        event = None if run.event_id is None else events.find(tx, run.workspace_id, run.event_id)
        metadata[run.run_id] = {
            **metadata_of(run),
            **own_data(event).metadata,
            "hostler_run_id": run.run_id,
        }
    return metadata
