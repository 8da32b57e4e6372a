"""`run.*`: the run itself, its children, and other runs of its agent in its conversation."""

from __future__ import annotations

from typing import cast

import msgspec

from hostler.calls.artifacts import check_references
from hostler.calls.pages import MAX_SCANNED, PAGE_ROOM_BYTES, capped, scan
from hostler.calls.scope import CallScope, Effect
from hostler.domain.child_runs import check_actor
from hostler.domain.place import Place
from hostler.storage.port import Tx
from hostler.storage.stores import journal, runs
from hostler.storage.stores.run_rows import Run
from hostler_protocol.calls import (
    Nothing,
    RunAppendParams,
    RunCancelParams,
    RunCreateParams,
    RunEventsParams,
    RunFinalizeParams,
    RunGetParams,
    RunListParams,
)
from hostler_protocol.errors import HostlerError, InvalidArgumentError, NotFoundError, UnauthorizedError
from hostler_protocol.runs import JournalRecord, Page, RunRecord, RunStatus


async def get(scope: CallScope, params: RunGetParams) -> RunRecord:
    """`run.get`; without a target, the run itself."""
    run = await _target(scope, params.target_run_id)
    return await scope.services.runs.record(scope.workspace_id, run.run_id)


async def list_(scope: CallScope, params: RunListParams) -> Page[RunRecord]:
    """`run.list`: runs of the agent in the run's conversation and thread, newest first.

    Without a conversation there is only the run itself.
    """
    grant, services = scope.grant, scope.services
    where = [grant.workspace_id, grant.agent_id, *Place.of(grant)]
    cursors = services.cursors.scoped("run.list", where)
    before = None
    if params.before_cursor is not None:
        before = _position(cursors.read(params.before_cursor, "before_cursor"))
    statuses = None if params.statuses is None else cast(list[RunStatus], params.statuses)
    found, more = await services.db.read(
        lambda tx: _lane_runs(tx, scope, statuses, before, capped(params.limit))
    )
    records: list[RunRecord] = []
    room = PAGE_ROOM_BYTES
    for run in found:
        record = await services.runs.record(scope.workspace_id, run.run_id)
        room -= len(msgspec.json.encode(record))
        if records and room < 0:
            more = True
            break
        records.append(record)
    last = found[len(records) - 1] if records else None
    return Page(
        items=records,
        next_cursor=cursors.issue([last.created_at, last.run_id]) if more and last is not None else None,
        has_more=more,
    )


def _lane_runs(
    tx: Tx, scope: CallScope, statuses: list[RunStatus] | None, before: tuple[int, str] | None, limit: int
) -> tuple[list[Run], bool]:
    """Runs of the run's own lane, newest first, and whether there may be more."""
    own = runs.get(tx, scope.workspace_id, scope.run_id)
    if own.conversation_id is None:
        asked = before is None and (statuses is None or own.status in statuses)
        return [own] if asked else [], False

    def read(start: tuple[int, str] | None, limit: int) -> list[Run]:
        return runs.page(
            tx,
            scope.workspace_id,
            statuses=statuses,
            agent_name=own.agent_name,
            conversation_id=own.conversation_id,
            before=start,
            limit=limit,
        )

    found: list[Run] = []
    seen = 0
    for run in scan(read, before, lambda run: (run.created_at, run.run_id)):
        seen += 1
        if run.lane == own.lane:
            if len(found) == limit:
                return found, True
            found.append(run)
    return found, seen >= MAX_SCANNED


async def events(scope: CallScope, params: RunEventsParams) -> Page[JournalRecord]:
    """`run.events`: journal entries after a position, oldest first. CursorLostError where retention cut.

    Of a child run of another agent, entries other than what it said are without their data: its agent may
    read what this one may not.
    """
    run = await _target(scope, params.target_run_id)
    stored = await scope.services.db.read(
        lambda tx: journal.page(tx, run.run_id, params.after, capped(params.limit))
    )
    items = [journal_record(entry) for entry in stored.items]
    if run.agent_id != scope.grant.agent_id:
        items = [one if _is_said(one) else msgspec.structs.replace(one, data=_WITHHELD) for one in items]
    return Page(items=items, has_more=stored.more)


_WITHHELD = msgspec.Raw(b'{"withheld": true}')
_SAID = frozenset(
    {
        "message.delta",
        "message.completed",
        "artifact.created",
        "attempt.started",
        "run.completed",
        "run.failed",
    }
)
"""Results by which a run answers whoever created it; others tell what it did and read."""


def _is_said(entry: JournalRecord) -> bool:
    return entry.kind == "lifecycle" or (entry.kind == "result" and entry.type in _SAID)


async def cancel(scope: CallScope, params: RunCancelParams) -> Effect:
    """`run.cancel`: the run itself or one in its reach."""
    run = await _target(scope, params.target_run_id)
    reason = params.reason or f"cancelled by run {scope.run_id}"
    return scope.services.runs.cancel(scope.workspace_id, run.run_id, reason, f"run:{scope.run_id}")


async def create(scope: CallScope, params: RunCreateParams) -> Effect:
    """`run.create`: a child run, in this conversation or in none, for the actor of this run."""
    check_actor(params.actor, scope.event.envelope.actor)
    await check_references(scope, params.input)
    effect: Effect | HostlerError = await scope.services.runs.create(scope, params)
    if isinstance(effect, HostlerError):
        raise effect
    return effect


async def append(scope: CallScope, params: RunAppendParams) -> Nothing:
    """`run.append`: for remote workers; no runner's grant holds it."""
    raise UnauthorizedError("run.append is for remote workers")


async def finalize(scope: CallScope, params: RunFinalizeParams) -> RunRecord:
    """`run.finalize`: for remote workers; no runner's grant holds it."""
    raise UnauthorizedError("run.finalize is for remote workers")


def journal_record(entry: journal.StoredEntry) -> JournalRecord:
    """A journal entry as runners and clients read it."""
    return JournalRecord(
        position=entry.position,
        kind=entry.kind,
        type=entry.type,
        at=entry.at / 1000,
        data=msgspec.Raw(entry.data.encode()),
        attempt=entry.attempt,
        sequence=entry.sequence,
    )


async def _target(scope: CallScope, target_run_id: str | None) -> Run:
    """The run that a call means, if it is in reach; for any other id the same NotFoundError."""
    run_id = target_run_id or scope.run_id

    def work(tx: Tx) -> Run | None:
        own = runs.get(tx, scope.workspace_id, scope.run_id)
        if run_id == own.run_id:
            return own
        other = runs.find(tx, scope.workspace_id, run_id)
        if other is None or not (other.parent_run_id == own.run_id or other.lane == own.lane):
            return None
        return other

    found = await scope.services.db.read(work)
    if found is None:
        raise NotFoundError(f"target_run_id {run_id[:100]!r} is no run that this run may see")
    return found


def _position(position: object) -> tuple[int, str]:
    if isinstance(position, list) and len(position) == 2:
        created_at, run_id = position
        if isinstance(created_at, int) and isinstance(run_id, str):
            return created_at, run_id
    raise InvalidArgumentError("before_cursor does not hold a run's place: begin again without it")
