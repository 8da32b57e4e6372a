"""Reminders: the schedules that runs made for their own conversations, each within its place.

A place is an agent with a bot, a conversation and a thread. Nothing here reaches beyond the place of the run
that asks.
"""

from __future__ import annotations

from hostler.domain.events import Event
from hostler.domain.place import Place
from hostler.domain.reminders import (
    MAX_ENDED_PER_AGENT,
    MAX_PER_CONVERSATION,
    content_of,
    names_of_place,
    request_digest,
    schedule_of,
    too_many,
)
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import audit, events, runs, schedules
from hostler.storage.stores.run_rows import Run
from hostler.storage.stores.schedules import ByRun, StoredSchedule, read_row
from hostler_protocol.calls import ScheduleCreateParams
from hostler_protocol.errors import (
    ConflictError,
    HostlerError,
    NotFoundError,
)

_q = load(__file__)
_FOLLOWS = ";"
"""The character after the colon that ends the beginning of a place's names."""
MAX_PRUNED = 100
"""Ended reminders that a new one removes at most; more would be there only after a change of the bound."""


def create(
    tx: Tx, workspace_id: str, run_id: str, params: ScheduleCreateParams
) -> StoredSchedule | HostlerError:
    """Make a reminder for the conversation of a run, or return the one that this call of the run has made.

    A refusal is returned, and then nothing was written. The times of `params` were checked before.
    """
    run = runs.get(tx, workspace_id, run_id)
    happened = _event_of(tx, run)
    if tx.one(_q.hold_agent, workspace_id=workspace_id, agent_id=run.agent_id) is None or happened is None:
        return NotFoundError("the agent or the event of this run was removed: it makes no schedules any more")
    request, place = request_digest(run_id, params), Place.of(run)
    spec = schedule_of(params, run.agent_name, place, request, tx.now)
    name = names_of_place(run.agent_id, place) + spec.name
    known = schedules.find(tx, workspace_id, name)
    if known is not None and known.run_id == run_id and _request_of(known) == request:
        return known
    if (refused := _refused(tx, run, place, known)) is not None:
        return refused
    schedules.delete(tx, workspace_id, name)
    by_run = ByRun(
        name=name,
        agent_id=run.agent_id,
        run_id=run_id,
        conversation_id=run.conversation_id,
        content=content_of(params, happened, request),
    )
    schedules.create(tx, workspace_id, spec, happened.requester or "", by_run=by_run)
    made = schedules.get(tx, workspace_id, name)
    audit.record(tx, workspace_id, f"run:{run_id}", "schedule.added", name, {"agent": run.agent_name})
    _prune(tx, run)
    return made


def _event_of(tx: Tx, run: Run) -> Event | None:
    event = None if run.event_id is None else events.find(tx, run.workspace_id, run.event_id)
    return None if event is None else event.event()


def _refused(tx: Tx, run: Run, place: Place, known: StoredSchedule | None) -> ConflictError | None:
    """Return why a run makes no further reminder. `known`: the one of the same name."""
    if known is not None and is_active(known):
        name = known.spec.name
        return ConflictError(f"there is a schedule {name!r} in this conversation: delete it first")
    row = tx.one(_q.active, workspace_id=run.workspace_id, agent_id=run.agent_id)
    return too_many(len(_active(tx, run, place)), 0 if row is None else row["reminders"])


def _prune(tx: Tx, run: Run) -> None:
    """Remove the ended reminders of an agent but for the newest."""
    ws, kept = run.workspace_id, MAX_ENDED_PER_AGENT
    for row in tx.all(_q.ended, workspace_id=ws, agent_id=run.agent_id, kept=kept, limit=MAX_PRUNED):
        schedules.delete(tx, ws, row["name"])


def of_run(tx: Tx, workspace_id: str, run_id: str) -> list[StoredSchedule]:
    """Return the reminders of a run's conversation that fire again or are paused, by name."""
    run = runs.get(tx, workspace_id, run_id)
    return _active(tx, run, Place.of(run))


def delete(tx: Tx, workspace_id: str, run_id: str, name: str) -> bool:
    """Remove a reminder of a run's conversation by its name; return whether there was one that fires again.

    One that has ended is removed as well.
    """
    run = runs.get(tx, workspace_id, run_id)
    stored = names_of_place(run.agent_id, Place.of(run)) + name
    known = schedules.find(tx, workspace_id, stored)
    if known is None:
        return False
    schedules.delete(tx, workspace_id, stored)
    audit.record(tx, workspace_id, f"run:{run_id}", "schedule.removed", stored, {"agent": run.agent_name})
    return is_active(known)


def names_of_agent(tx: Tx, workspace_id: str, agent_id: str) -> list[str]:
    """Return the stored names of the reminders that runs of an agent made."""
    return [row["name"] for row in tx.all(_q.names, workspace_id=workspace_id, agent_id=agent_id)]


def is_active(stored: StoredSchedule) -> bool:
    """Whether a reminder fires again, or may once it is resumed."""
    return stored.next_planned is not None or stored.paused_at is not None


def _active(tx: Tx, run: Run, place: Place) -> list[StoredSchedule]:
    first = names_of_place(run.agent_id, place)
    rows = tx.all(
        _q.active_of_place,
        workspace_id=run.workspace_id,
        first=first,
        last=first[:-1] + _FOLLOWS,
        limit=MAX_PER_CONVERSATION,
    )
    return [read_row(row) for row in rows]


def _request_of(stored: StoredSchedule) -> str | None:
    reminder = stored.reminder
    return None if reminder is None else reminder.request
