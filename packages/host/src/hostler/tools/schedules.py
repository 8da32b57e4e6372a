"""Schedules that runs make for their own conversations: behind the calls and the tools `schedule.*`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from hostler.domain.clock import monotonic_clock
from hostler.domain.firing_times import zone_of
from hostler.domain.place import Place
from hostler.domain.reminders import (
    AT_ONCE,
    MAX_NAME_CHARS,
    MAX_TEXT_BYTES,
    MIN_DELAY_SECONDS,
    MIN_EVERY_SECONDS,
    PER_SECOND,
    check_name,
    check_request,
    names_of_place,
    request_digest,
    schedule_of,
)
from hostler.domain.token_bucket import TokenBuckets
from hostler.domain.tool_pins import ToolPin
from hostler.storage.port import Database, Tx
from hostler.storage.stores import reminders, runs
from hostler.storage.stores.run_rows import Run
from hostler.storage.stores.schedules import StoredSchedule
from hostler.tools.errors import ToolFailedError
from hostler.tools.port import Found, OfferedTool, ToolInvocation
from hostler_protocol.calls import RunSchedule, RunScheduleList, ScheduleCreateParams
from hostler_protocol.errors import HostlerError, InvalidArgumentError, RateLimitedError
from hostler_protocol.grants import ToolResource
from hostler_protocol.ids import digest
from hostler_protocol.manifest import ToolEffect

MAX_RATED = 10_000
"""Conversations whose rates are remembered."""
Made = Callable[[Tx], StoredSchedule | HostlerError]


class RunSchedules:
    """Makes, lists and removes them. `on_changed`: called after one was made."""

    def __init__(self, db: Database, *, clock: Callable[[], float] = monotonic_clock) -> None:
        self._db = db
        self._rates = TokenBuckets(PER_SECOND, AT_ONCE, clock=clock, max_buckets=MAX_RATED)
        self.on_changed: Callable[[], None] = lambda: None

    async def prepare(self, workspace_id: str, run_id: str, params: ScheduleCreateParams) -> Made:
        """Check what is asked for, and return what makes it in a transaction.

        InvalidArgumentError, PayloadTooLargeError; RateLimitedError if the conversation has made too many.
        """
        check_request(params)

        def read(tx: Tx) -> tuple[Run, int]:
            return runs.get(tx, workspace_id, run_id), tx.now

        run, now = await self._db.read(read, brief=True)
        place = Place.of(run)
        request = request_digest(run_id, params)
        # in a thread: rare dates take a search of many years
        await asyncio.to_thread(_check_times, params, run.agent_name, place, request, now)
        wait = self._rates.take(f"{workspace_id}/{names_of_place(run.agent_id, place)}")
        if wait:
            text = f"this conversation makes {AT_ONCE} schedules at once, and 12 an hour: try again later"
            raise RateLimitedError(text, round(wait, 3))
        return lambda tx: reminders.create(tx, workspace_id, run_id, params)


def _check_times(params: ScheduleCreateParams, agent: str, place: Place, request: str, now: int) -> None:
    schedule = schedule_of(params, agent, place, request, now)
    if schedule.timing(now).next(now) is None:
        raise InvalidArgumentError("it would never fire: all its planned times have passed")


def run_schedule(stored: StoredSchedule) -> RunSchedule:
    """Return a schedule as its run sees it."""
    spec = stored.spec
    return RunSchedule(
        name=spec.name,
        created_at=stored.created_at / 1000,
        next_at=None if stored.next_at is None else stored.next_at / 1000,
        paused=stored.paused_at is not None,
        at=spec.at,
        every=spec.every,
        cron=spec.cron,
        timezone=spec.timezone,
        start=spec.start,
        end=spec.end,
        text=spec.text,
        data=spec.data,
    )


def run_schedules(found: list[StoredSchedule]) -> RunScheduleList:
    """Return the schedules of a conversation as its runs see them."""
    return RunScheduleList(items=[run_schedule(one) for one in found])


# -- tools --------------------------------------------------------------------------------------------------


class ScheduleTools:
    """The source of the tools `schedule.create`, `.list` and `.delete`."""

    id_prefix = "schedule:"
    revision = 0

    def __init__(self, db: Database, schedules: RunSchedules) -> None:
        self._db = db
        self._schedules = schedules

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        """See `ToolSource`."""
        return _OFFERED

    async def call(self, invocation: ToolInvocation) -> Any:
        """See `ToolSource`. What was made is found again when the same call is repeated."""
        ws, run_id = invocation.workspace_id, invocation.run_id
        given = invocation.parameters
        if invocation.confirm is not None:
            await invocation.confirm()
        try:
            if invocation.tool_name == CREATE:
                return _for_models(run_schedule(await self._create(ws, run_id, given)))
            if invocation.tool_name == DELETE:
                check_name(given["name"])
                deleted = await self._db.write(lambda tx: reminders.delete(tx, ws, run_id, given["name"]))
                return {"deleted": deleted}
        except HostlerError as error:
            if error.retryable:
                raise
            raise ToolFailedError.of(error) from error
        found = await self._db.read(lambda tx: reminders.of_run(tx, ws, run_id))
        return {"items": [_for_models(run_schedule(one)) for one in found]}

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """See `ToolSource`. None of these is reconcilable."""
        return None

    async def _create(self, ws: str, run_id: str, given: dict[str, Any]) -> StoredSchedule:
        params = ScheduleCreateParams(run_id=run_id, **given)
        made = await self._db.write(await self._schedules.prepare(ws, run_id, params))
        if isinstance(made, HostlerError):
            raise made
        self._schedules.on_changed()
        return made


def _for_models(found: RunSchedule) -> dict[str, Any]:
    """Return what a model needs to know of a schedule, with times that it can read."""
    told: dict[str, Any] = {"name": found.name, "text": found.text, "paused": found.paused or None}
    told |= {way: getattr(found, way) for way in ("every", "cron", "end")}
    if found.next_at is not None:
        told["next_at"] = datetime.fromtimestamp(found.next_at, zone_of(found.timezone)).isoformat()
    return {name: value for name, value in told.items() if value is not None}


CREATE, LIST, DELETE = "schedule.create", "schedule.list", "schedule.delete"
SCHEDULE_TOOLS = frozenset({CREATE, LIST, DELETE})
_ANY = {"additionalProperties": False, "type": "object"}


def _text(description: str, most: int = 100) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most, "description": description}


_NAME = _text("Its name in this conversation.", MAX_NAME_CHARS)
_TOOLS: Mapping[str, tuple[str, ToolEffect, dict[str, Any]]] = {
    CREATE: (
        "Make a reminder or a repeated task for this conversation: at its time you get `text` as a message, "
        "and your answer goes here. Give exactly one of at, delay, every and cron.",
        "idempotent",
        {
            "name": _NAME,
            "text": _text("What you are told then: all that you need to know of it.", MAX_TEXT_BYTES),
            "at": _text("One time, like 2026-12-01T09:30."),
            "delay": {
                "type": "number",
                "minimum": MIN_DELAY_SECONDS,
                "description": "One time: so many seconds from now.",
            },
            "every": {
                "type": "number",
                "minimum": MIN_EVERY_SECONDS,
                "description": "Again and again: the seconds in between.",
            },
            "cron": _text("Again and again: minute, hour, day of month, month, day of week.", 200),
            "timezone": _text("The zone of these times, like Europe/Berlin; UTC, if left out."),
            "end": _text("The last moment of a repeated one."),
        },
    ),
    LIST: ("List the reminders and repeated tasks of this conversation.", "pure", {}),
    DELETE: ("Remove a reminder or repeated task of this conversation.", "idempotent", {"name": _NAME}),
}
_REQUIRED: Mapping[str, list[str]] = {CREATE: ["text"], LIST: [], DELETE: ["name"]}


def _offered(name: str) -> OfferedTool:
    description, effect, properties = _TOOLS[name]
    schema = {**_ANY, "properties": properties, "required": _REQUIRED[name]}
    resource = ToolResource(
        tool_name=name,
        tool_type="schedule",
        description=description,
        operations=["detail", "call"],
    )
    pin = ToolPin(
        tool_id=f"{ScheduleTools.id_prefix}{name}",
        owner="host",
        schema_digest=digest(schema),
        effect=effect,
    )
    return OfferedTool(resource, pin, schema)


_OFFERED: Mapping[str, OfferedTool] = {name: _offered(name) for name in _TOOLS}
