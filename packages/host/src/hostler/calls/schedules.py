"""`schedule.*`: schedules that a run makes for its own conversation. Each commits with its journal entry."""

from __future__ import annotations

from hostler.calls.scope import CallScope, Effect
from hostler.storage.port import Tx
from hostler.storage.stores import reminders
from hostler.tools.schedules import run_schedule, run_schedules
from hostler_protocol.calls import (
    DeletedReply,
    RunSchedule,
    RunScheduleList,
    ScheduleCreateParams,
    ScheduleDeleteParams,
    ScheduleListParams,
)
from hostler_protocol.errors import HostlerError, NotFoundError


async def create(scope: CallScope, params: ScheduleCreateParams) -> Effect:
    """`schedule.create`: it fires for the actor of this run, and its answers go where this run's go."""
    service = scope.services.schedules
    if service is None:
        raise NotFoundError("this host fires no schedules")
    made = await service.prepare(scope.workspace_id, scope.run_id, params)

    def work(tx: Tx) -> RunSchedule | HostlerError:
        stored = made(tx)
        return stored if isinstance(stored, HostlerError) else run_schedule(stored)

    def settled(_reply: object, error: HostlerError | None) -> None:
        if error is None:
            service.on_changed()

    return Effect(work, settled=settled)


async def list_(scope: CallScope, params: ScheduleListParams) -> RunScheduleList:
    """`schedule.list`: those of this agent in this conversation and thread, by name."""
    found = await scope.services.db.read(lambda tx: reminders.of_run(tx, scope.workspace_id, scope.run_id))
    return run_schedules(found)


async def delete(scope: CallScope, params: ScheduleDeleteParams) -> Effect:
    """`schedule.delete`: whether there was one that would have fired."""

    def work(tx: Tx) -> DeletedReply:
        return DeletedReply(deleted=reminders.delete(tx, scope.workspace_id, scope.run_id, params.name))

    return Effect(work)
