"""End runs of a thread: cancel them, roll them back, delete them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from hostler.host import maintenance
from hostler.http.auth import require_right
from hostler.http.dialects.answers import cancel_run
from hostler.http.langgraph.dialect import refused
from hostler.http.langgraph.fold import RUN
from hostler.http.langgraph.threads import MAX_ACTIVE_RUNS, active_runs, runs_of
from hostler.http.request import ApiRequest
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import ConflictError
from hostler_protocol.runs import TERMINAL_STATUSES

END_SECONDS = 60.0
"""A runner that is cancelled has a few seconds to end by itself; then its process is killed."""
MAX_ROUNDS = 10
"""What a run had not read when it ended begins the next run, which is rolled back as well."""
ROLLED_BACK = "rolled back by its client"
"""Why a run was cancelled that is to be deleted: a rollback that broke off goes on by it."""


async def cancel(request: ApiRequest, run: Run, action: str) -> None:
    """Cancel a run; with `rollback` also wait until it has ended, and delete it.

    InvalidArgumentError for another action. Rolling back raises as `delete`.
    """
    if action == "interrupt":
        await cancel_run(request, run.run_id, "cancelled by its client")
    elif action == "rollback":
        await roll_back(request, [run])
    else:
        raise refused("action", f"{action[:40]!r} is no action", "interrupt or rollback")


async def interrupt_all(request: ApiRequest, thread_id: str) -> None:
    """Cancel all runs of a thread that work or wait for their turn."""
    for run in await active_runs(request, thread_id):
        await cancel_run(request, run.run_id, "interrupted by a new run of its thread")


async def roll_back_all(request: ApiRequest, thread_id: str) -> None:
    """Roll back all runs of a thread that work or wait for their turn, and those of a rollback that broke
    off.
    """
    _check_rights(request)
    cancelled = await runs_of(request, thread_id, limit=MAX_ACTIVE_RUNS, statuses=frozenset({"cancelled"}))
    found = [run for run in cancelled if run.cancel_reason == ROLLED_BACK]
    for _ in range(MAX_ROUNDS):
        found += await active_runs(request, thread_id)
        if not found:
            return
        await roll_back(request, found)
        found = []
    raise ConflictError("other messages come into the thread all the time: ask again", reason="thread_busy")


async def roll_back(request: ApiRequest, found: Iterable[Run]) -> None:
    """Cancel runs, newest first, wait until they have ended, and delete them. Raises as `delete`."""
    _check_rights(request)
    rolled = list(found)
    for run in rolled:
        await cancel_run(request, run.run_id, ROLLED_BACK)
    for run in rolled:
        await ended(request, run)
        await delete(request, run)


async def delete(request: ApiRequest, run: Run) -> None:
    """Delete what a run heard, said and did.

    ConflictError while it is active, UnavailableError while a backup is made, StorageError if files cannot be
    removed: asking again goes on with the rest.
    """
    require_right(request.caller, "conversations:write")
    now = await request.state.host.runs.record(request.workspace_id, run.run_id)
    if now.status not in TERMINAL_STATUSES:
        raise ConflictError(
            f"the run {RUN}_{run.run_id} is {now.status}: cancel it first", reason="thread_busy"
        )
    await maintenance.delete_run(
        request.state.host.data,
        request.workspace_id,
        run.run_id,
        conversation_id=run.conversation_id,
        by=request.caller.subject,
    )


def _check_rights(request: ApiRequest) -> None:
    """Raise UnauthorizedError unless the caller may cancel runs, and delete of conversations."""
    require_right(request.caller, "runs:write")
    require_right(request.caller, "conversations:write")


async def ended(request: ApiRequest, run: Run) -> None:
    """Wait for the end of a run that was cancelled. ConflictError if that takes longer than a minute."""
    host = request.state.host
    try:
        async with asyncio.timeout(END_SECONDS), request.while_key_is_valid():
            while True:
                record = await host.runs.wait(request.workspace_id, run.run_id, END_SECONDS)
                if record.status in TERMINAL_STATUSES:
                    return
    except TimeoutError:
        raise ConflictError(
            f"the run {RUN}_{run.run_id} was cancelled and has not ended yet: ask again", reason="thread_busy"
        ) from None
