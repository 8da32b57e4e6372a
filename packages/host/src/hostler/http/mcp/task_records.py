"""Runs as MCP's tasks: ids, and what a task says about its run.

The revision of 2025-11-25 and the extension of 2026-07-28 name the same things differently.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hostler.http.dialects.answers import answer_id, read_answer_id
from hostler.http.dialects.fold import Answer
from hostler.http.mcp.messages import INVALID_PARAMS, MISSING_CAPABILITY, RpcError, RpcMessage
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import NotFoundError
from hostler_protocol.runs import RunStatus

EXTENSION = "io.modelcontextprotocol/tasks"
PREFIX = "task"
POLL_MILLISECONDS = 1_000
_STATUS: dict[RunStatus, str] = {
    "paused": "input_required",
    "completed": "completed",
    "failed": "failed",
    "timeout": "failed",
    "cancelled": "cancelled",
}
"""Status of a run -> status of a task; all others are `working`."""


def has_tasks(message: RpcMessage) -> bool:
    """Whether a stateless client knows tasks."""
    extensions = message.capabilities.get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(EXTENSION), dict)


def require_tasks(message: RpcMessage) -> None:
    """Raise RpcError for a stateless client that does not know tasks."""
    if not has_tasks(message):
        data: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        raise RpcError(MISSING_CAPABILITY, f"this takes the capability {EXTENSION}", data)


def task_id_of(answer: Answer) -> str:
    """Return the id of the task that an answer is."""
    return answer_id(PREFIX, answer)


def task_named(message: RpcMessage) -> Answer:
    """Return the answer that the task of a request is. RpcError if it names none."""
    task_id = message.params.get("taskId")
    if isinstance(task_id, str):
        try:
            return read_answer_id(PREFIX, task_id)
        except NotFoundError:
            pass
    raise no_task(task_id)


def no_task(task_id: Any) -> RpcError:
    """Return the error for a task that is not there."""
    return RpcError(INVALID_PARAMS, f"taskId: there is no task {task_id!r:.200}")


def status_of(run: Run, *, waits: bool = False) -> str:
    """Return the status of a run as a task. `waits`: for people, although it is not parked yet."""
    return _STATUS.get("paused" if waits and run.status == "running" else run.status, "working")


def created_task(run: Run, answer: Answer, *, stateless: bool = False) -> dict[str, Any]:
    """Return a task that has just begun, which is as it is now."""
    return task_of(run, answer, status_of(run) if not stateless else "working", stateless=stateless)


def task_of(
    run: Run, answer: Answer, status: str, *, stateless: bool = False, message: str | None = None
) -> dict[str, Any]:
    """Return a task. `message`: for people."""
    changed = run.finished_at or run.started_at or run.created_at
    task: dict[str, Any] = {
        "taskId": task_id_of(answer),
        "status": status,
        "createdAt": _time(run.created_at),
        "lastUpdatedAt": _time(changed),
        "ttlMs" if stateless else "ttl": None,
        "pollIntervalMs" if stateless else "pollInterval": POLL_MILLISECONDS,
    }
    return task if message is None else task | {"statusMessage": message}


def _time(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
