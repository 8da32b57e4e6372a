"""Crons: schedules of the host, made, found, changed and removed as LangGraph's clients do."""

from __future__ import annotations

import uuid
from typing import Any, Literal

import msgspec

from hostler.domain.schedules import Schedule
from hostler.http import schedule_changes
from hostler.http.auth import require_right
from hostler.http.dialects.answers import keyed_event_id
from hostler.http.langgraph.assistants import slice_of
from hostler.http.langgraph.conditions import Containment, check_conditions
from hostler.http.langgraph.cron_spec import (
    PREFIX,
    CronCreate,
    CronFields,
    blank,
    changed,
    cron_spec,
    metadata_of,
    name_of,
    record_of,
)
from hostler.http.langgraph.messages import wrong
from hostler.http.langgraph.routes import route
from hostler.http.langgraph.threads import check_thread
from hostler.http.problems import KeyReusedError
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Headers, Json
from hostler.storage.port import Tx
from hostler.storage.stores import agents, schedules
from hostler.storage.stores.schedules import StoredSchedule
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.ids import new_id

SortBy = Literal[
    "cron_id", "assistant_id", "thread_id", "created_at", "updated_at", "next_run_date", "end_time"
]
_FIELDS = frozenset(
    {
        *("cron_id", "assistant_id", "thread_id", "on_run_completed", "end_time", "schedule", "timezone"),
        *("created_at", "updated_at", "payload", "user_id", "next_run_date", "metadata", "enabled"),
    }
)


class CronsWanted(Strict):
    """Which crons are wanted. `metadata`: what theirs contain."""

    assistant_id: str | None = None
    thread_id: str | None = None
    enabled: bool | None = None
    metadata: dict[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    sort_by: SortBy | None = None
    sort_order: Literal["asc", "desc", "ASC", "DESC"] | None = None
    select: list[str] | None = None


@route("POST", "/runs/crons", "agents:write")
async def create_cron(request: ApiRequest, body: CronCreate) -> Json[dict[str, Any]]:
    """Make a cron each of whose runs has a thread of its own. It takes the right `events:write`, too."""
    return await _create(request, body)


@route("POST", "/threads/{thread}/runs/crons", "agents:write")
async def create_thread_cron(request: ApiRequest, body: CronCreate) -> Json[dict[str, Any]]:
    """Make a cron whose runs are of one thread. It takes the right `events:write`, too."""
    return await _create(request, body)


@route("POST", "/runs/crons/search", "agents:read")
async def search_crons(request: ApiRequest, body: CronsWanted) -> Json[list[dict[str, Any]]]:
    """List crons, newest first."""
    part = slice_of(body.offset, body.limit)
    if body.select is not None and not set(body.select) <= _FIELDS:
        raise wrong("select", f"names of fields, of {', '.join(sorted(_FIELDS))}")
    records = await _search(request, body)
    headers: Headers = [(b"x-pagination-total", b"%d" % len(records))]
    if len(records) > part.stop:
        headers.append((b"x-pagination-next", b"%d" % part.stop))
    is_down = (body.sort_order or "desc").lower() == "desc"
    records.sort(key=lambda record: record[body.sort_by or "created_at"] or "", reverse=is_down)
    records = records[part]
    if body.select is not None:
        records = [{name: record[name] for name in body.select} for record in records]
    return Json(records, headers=headers)


@route("POST", "/runs/crons/count", "agents:read")
async def count_crons(request: ApiRequest, body: CronsWanted) -> Json[int]:
    """Count crons."""
    return Json(len(await _search(request, body)))


@route("GET", "/runs/crons/{cron}", "agents:read")
async def get_cron(request: ApiRequest) -> Json[dict[str, Any]]:
    """Get a cron."""
    ws, name = request.workspace_id, _name(request)
    return Json(record_of(*await request.state.host.db.read(lambda tx: _get(tx, ws, name))))


@route("PATCH", "/runs/crons/{cron}", "agents:write")
async def update_cron(request: ApiRequest, body: CronFields) -> Json[dict[str, Any]]:
    """Change a cron: what is named is replaced, of `metadata` each member; the rest stays.

    It takes the right `events:write`, too, unless only `enabled` changes.
    """
    if body == CronFields():
        raise wrong("body", "a field that changes, like schedule or enabled")
    ws, actor, name = request.workspace_id, request.caller.subject, _name(request)
    is_entry = msgspec.structs.replace(body, enabled=None) != CronFields()
    if is_entry:
        require_right(request.caller, "events:write")

    def change(tx: Tx) -> dict[str, Any]:
        stored, spec = _get(tx, ws, name)
        if is_entry:
            wanted = changed(spec, body)
            stored = schedule_changes.put(tx, ws, wanted, actor)
            moved = wanted.timing_fields != spec.timing_fields
            if moved and stored.next_planned is None and stored.paused_at is None:
                raise InvalidArgumentError(schedule_changes.NEVER)
        if body.enabled is not None:
            _enable(tx, ws, name, actor, body.enabled)
        return record_of(*_get(tx, ws, name))

    record = await request.state.host.db.write(change)
    request.state.host.scheduler.wake()
    return Json(record)


@route("DELETE", "/runs/crons/{cron}", "agents:write")
async def delete_cron(request: ApiRequest) -> Empty:
    """Remove a cron. Its runs and their threads stay."""
    ws, actor, name = request.workspace_id, request.caller.subject, _name(request)

    def delete(tx: Tx) -> None:
        _get(tx, ws, name)
        schedule_changes.remove(tx, ws, name, actor)

    await request.state.host.db.write(delete)
    return Empty()


async def _create(request: ApiRequest, body: CronCreate) -> Json[dict[str, Any]]:
    thread_id = request.parameters.get("thread")
    require_right(request.caller, "events:write")
    for field in ("schedule", "input"):
        if getattr(body, field) is None:
            raise wrong(field, "to be given")
    keyed = keyed_event_id(request)
    name = PREFIX + (new_id() if keyed is None else str(uuid.uuid5(uuid.NAMESPACE_OID, keyed)))
    spec = changed(blank(name, body.assistant_id, thread_id), body)
    if thread_id is not None:
        await check_thread(request, thread_id)
    ws, actor = request.workspace_id, request.caller.subject

    def create(tx: Tx) -> dict[str, Any]:
        known = schedules.find(tx, ws, name)
        if known is None:
            if agents.current_version(tx, ws, body.assistant_id) is None:
                raise NotFoundError(
                    f"there is no assistant {body.assistant_id[:200]!r}: assistants are agents here"
                )
            schedule_changes.add(tx, ws, spec, actor)
            if body.enabled is False:
                _enable(tx, ws, name, actor, enabled=False)
        elif cron_spec(known) != spec:
            raise KeyReusedError("this Idempotency-Key was used for another request: use a new one")
        return record_of(*_get(tx, ws, name))

    record = await request.state.host.db.write(create)
    request.state.host.scheduler.wake()
    return Json(record)


def _enable(tx: Tx, ws: str, name: str, actor: str, enabled: bool) -> None:
    (schedules.resume if enabled else schedules.pause)(tx, ws, name, actor)


async def _search(request: ApiRequest, wanted: CronsWanted) -> list[dict[str, Any]]:
    """Return the crons that are wanted. They are compared in a thread of the database, not on the loop."""
    condition = Containment(check_conditions("metadata", wanted.metadata))

    def fits(stored: StoredSchedule, spec: Schedule) -> bool:
        return (
            wanted.assistant_id in (None, spec.agent)
            and wanted.thread_id in (None, spec.conversation_id)
            and wanted.enabled in (None, stored.paused_at is None)
            and condition.fits(metadata_of(spec))
        )

    def read(tx: Tx) -> list[dict[str, Any]]:
        rows = schedules.entries(tx, request.workspace_id)
        found = [(stored, spec) for stored in rows if (spec := cron_spec(stored)) is not None]
        return [record_of(*one) for one in found if fits(*one)]

    return await request.state.host.db.read(read)


def _name(request: ApiRequest) -> str:
    name = name_of(request.parameters["cron"])
    if name is None:
        raise _no_cron(request.parameters["cron"])
    return name


def _get(tx: Tx, ws: str, name: str) -> tuple[StoredSchedule, Schedule]:
    stored = schedules.find(tx, ws, name)
    spec = None if stored is None else cron_spec(stored)
    if stored is None or spec is None:
        raise _no_cron(name.removeprefix(PREFIX))
    return stored, spec


def _no_cron(cron_id: str) -> NotFoundError:
    return NotFoundError(f"there is no cron {cron_id[:200]!r}")
