"""Make, change and remove schedules over HTTP, each with its entry in the audit log."""

from __future__ import annotations

from hostler.domain.schedules import Schedule
from hostler.storage.port import Tx
from hostler.storage.stores import audit, schedules
from hostler.storage.stores.schedules import StoredSchedule
from hostler_protocol.errors import ConflictError, InvalidArgumentError

NEVER = "it would never fire: all its planned times have passed"


def add(tx: Tx, workspace: str, spec: Schedule, actor: str) -> StoredSchedule:
    """Store a new schedule.

    ConflictError if there is one of its name, or there are too many; InvalidArgumentError if it would never
    fire.
    """
    if not schedules.create(tx, workspace, spec, actor):
        raise ConflictError(f"there is a schedule named {spec.name!r} already; PUT changes it")
    made = schedules.get(tx, workspace, spec.name)
    if made.next_planned is None:
        raise InvalidArgumentError(NEVER)
    audit.record(tx, workspace, actor, "schedule.added", spec.name, {})
    return made


def put(tx: Tx, workspace: str, spec: Schedule, actor: str) -> StoredSchedule:
    """Store a schedule, or change the one of its name. ConflictError if a run made that one."""
    known = schedules.find(tx, workspace, spec.name)
    if schedules.put(tx, workspace, spec, actor):
        action = "schedule.added" if known is None else "schedule.changed"
        audit.record(tx, workspace, actor, action, spec.name, {})
    return schedules.get(tx, workspace, spec.name)


def remove(tx: Tx, workspace: str, name: str, actor: str) -> bool:
    """Remove a schedule and the records of its firings; return whether there was one."""
    removed = schedules.delete(tx, workspace, name)
    if removed:
        audit.record(tx, workspace, actor, "schedule.removed", name, {})
    return removed
