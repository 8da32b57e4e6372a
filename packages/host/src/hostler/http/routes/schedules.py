"""Schedules: what sends events at planned times, and what came of them."""

from __future__ import annotations

import asyncio
import itertools
from typing import Annotated, Literal

import msgspec

from hostler.domain.config_mistakes import ConfigurationError, Mistake
from hostler.domain.epoch import seconds
from hostler.domain.firing_times import offset_of
from hostler.domain.reminders import MAKER_REMOVED as MADE_FOR_REMOVED
from hostler.domain.same_fields import with_fields_of
from hostler.domain.schedules import MAKER_REMOVED, MAX_UPCOMING, Schedule, schedule_mistakes
from hostler.domain.suggestions import did_you_mean
from hostler.http import schedule_changes
from hostler.http.auth import require_right
from hostler.http.endpoint import endpoint
from hostler.http.pagination import PageQuery, list_cursors, listing
from hostler.http.request import ApiRequest, LenientBody
from hostler.http.responses import Empty, Json, Listing
from hostler.runs.orchestrator import Accepted
from hostler.storage.port import Tx
from hostler.storage.stores import agents, members, schedules
from hostler.storage.stores.schedules import StoredFiring, StoredSchedule
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.ids import digest

DEFAULT_UPCOMING = 10

ScheduleStatus = Literal["active", "paused", "ended"]


class ScheduleRecord(Strict):
    """A schedule. `spec` is its entry in a configuration file, with all fields; null if this version of the
    host cannot read it.

    All times are UTC epoch seconds. `next_planned`: the next planned time; `next_at`: when that is due, later
    by its jitter; both null unless it is `active`. `made_by`: the subject for whom its events are sent.
    `error`: why the last firing reached no agent, or why none happens. `run_id`: the run that made it; null
    for entries.
    """

    name: str
    schedule_id: str
    status: ScheduleStatus
    spec: Schedule | None
    next_planned: float | None
    next_at: float | None
    last_planned: float | None
    firings: int
    error: str | None
    made_by: str
    created_at: float
    changed_at: float
    paused_at: float | None
    paused_by: str | None
    run_id: str | None


class FiringRecord(Strict):
    """A firing. `planned_at` and `fired_at`: UTC epoch seconds; `late`: seconds.

    `outcome`: that of its event, `refused` (no event was stored: `reason` says why) or `left_out` (it was
    missed, and does not happen). `left_out`: how many missed firings before it do not happen. `asked_by`:
    who asked for it; null for planned ones.
    """

    number: int
    planned_at: float
    fired_at: float
    late: float
    outcome: str
    event_id: str | None
    run_id: str | None
    reason: str | None
    left_out: int
    asked_by: str | None


class Upcoming(Strict):
    """A planned firing: its planned time and when it is due, in UTC epoch seconds."""

    planned_at: float
    due_at: float


class UpcomingQuery(Strict):
    """`count`: how many firings, at most 100."""

    count: Annotated[int, msgspec.Meta(ge=1, le=MAX_UPCOMING)] = DEFAULT_UPCOMING


class ResumeQuery(Strict):
    """`from_now`: plan from now, although it has fired for later times."""

    from_now: bool = False


@endpoint("GET", "/v1/schedules", right="agents:read", tag="schedules")
async def list_schedules(request: ApiRequest, query: PageQuery) -> Listing[ScheduleRecord]:
    """List the schedules by name."""
    cursors = list_cursors(request.state.host.cursors, "schedules", request.workspace_id, query)
    after = "" if query.cursor is None else cursors.read_text(query.cursor)
    ws = request.workspace_id

    def read(tx: Tx) -> tuple[list[StoredSchedule], set[str]]:
        rows = schedules.page(tx, ws, after=after, limit=query.size + 1)
        return rows, members.removed(tx, ws, [row.made_by for row in rows])

    rows, removed = await request.state.host.db.read(read)
    return listing(
        rows,
        query.size,
        lambda row: schedule_record(row, orphaned=row.made_by in removed),
        lambda row: row.name,
        cursors,
    )


@endpoint("POST", "/v1/schedules", right="agents:write", tag="schedules", status=201)
async def create_schedule(request: ApiRequest, body: LenientBody[Schedule]) -> Json[ScheduleRecord]:
    """Create a schedule. A name in use is a `conflict`, and one that would never fire is refused.

    It takes the right `events:write`, too: its events start runs.
    """
    require_right(request.caller, "events:write")
    spec = await _checked(request, body)
    ws, actor = request.workspace_id, request.caller.subject
    made = await request.state.host.db.write(lambda tx: schedule_changes.add(tx, ws, spec, actor))
    request.state.host.scheduler.wake()
    return Json(schedule_record(made), 201)


@endpoint("GET", "/v1/schedules/{name}", right="agents:read", tag="schedules")
async def get_schedule(request: ApiRequest) -> ScheduleRecord:
    """Get a schedule."""
    ws, stored = request.workspace_id, await _get(request)
    removed = await request.state.host.db.read(lambda tx: members.removed(tx, ws, [stored.made_by]))
    return schedule_record(stored, orphaned=bool(removed))


@endpoint("PUT", "/v1/schedules/{name}", right="agents:write", tag="schedules")
async def put_schedule(request: ApiRequest, body: LenientBody[Schedule]) -> ScheduleRecord:
    """Create or change a schedule. A change of its times counts from now; a paused one stays paused.

    The name in the body has to match the path. It takes the right `events:write`, too: its events start runs.
    Whoever puts one whose maker was removed takes it over.
    """
    require_right(request.caller, "events:write")
    name = request.parameters["name"]
    if body.get().name != name:
        raise InvalidArgumentError(f"name: the path names {name!r}: both must be the same")
    spec = await _checked(request, body)
    ws, actor = request.workspace_id, request.caller.subject
    made = await request.state.host.db.write(lambda tx: schedule_changes.put(tx, ws, spec, actor))
    request.state.host.scheduler.wake()
    return schedule_record(made)


@endpoint("DELETE", "/v1/schedules/{name}", right="agents:write", tag="schedules")
async def delete_schedule(request: ApiRequest) -> Empty:
    """Remove a schedule and the records of its firings. Its events and their runs stay."""
    ws, actor, name = request.workspace_id, request.caller.subject, request.parameters["name"]
    if not await request.state.host.db.write(lambda tx: schedule_changes.remove(tx, ws, name, actor)):
        raise NotFoundError(f"there is no schedule {name!r}")
    return Empty()


@endpoint("POST", "/v1/schedules/{name}/pause", right="agents:write", tag="schedules")
async def pause_schedule(request: ApiRequest) -> ScheduleRecord:
    """Pause a schedule. What is planned meanwhile does not happen, also not later."""
    ws, actor, name = request.workspace_id, request.caller.subject, request.parameters["name"]
    paused = await request.state.host.db.write(lambda tx: schedules.pause(tx, ws, name, actor))
    return schedule_record(paused)


@endpoint("POST", "/v1/schedules/{name}/resume", right="agents:write", tag="schedules")
async def resume_schedule(request: ApiRequest, query: ResumeQuery) -> ScheduleRecord:
    """Let a paused schedule fire again, at its next planned time from now on.

    With `from_now` also one that has fired for times that are still to come, since the clock was wrong.
    """
    ws, actor, name = request.workspace_id, request.caller.subject, request.parameters["name"]
    resumed = await request.state.host.db.write(
        lambda tx: schedules.resume(tx, ws, name, actor, from_now=query.from_now)
    )
    request.state.host.scheduler.wake()
    return schedule_record(resumed)


@endpoint("POST", "/v1/schedules/{name}/run", right="events:write", tag="schedules", status=202)
async def run_schedule(request: ApiRequest) -> Json[Accepted]:
    """Fire a schedule now, also a paused one, beside its planned times. The event is sent for the caller.

    An `Idempotency-Key` makes a repetition the same firing.
    """
    stored = await _get(request)
    key, asked_id = request.idempotency_key(), None
    if key is not None:  # the event says whether it was sent, also after the host has died before its answer
        asked_id = f"idem-{digest([stored.schedule_id, request.workspace_id, request.caller.key_id, key])}"
    accepted = await request.state.host.scheduler.ask(stored, request.caller, asked_id)
    request.state.metrics.count_event(accepted.outcome, duplicate=accepted.duplicate)
    return Json(accepted, 202)


@endpoint("GET", "/v1/schedules/{name}/next", right="agents:read", tag="schedules")
async def list_upcoming(request: ApiRequest, query: UpcomingQuery) -> Listing[Upcoming]:
    """List the next firings. A paused or ended schedule has none."""
    stored = await _get(request)
    if stored.next_planned is None:
        return Listing(items=[])
    spec, timing = stored.spec, stored.timing
    times = itertools.chain([stored.next_planned], timing.after(stored.next_planned))
    jitter = spec.policy.jitter
    # in a thread: rare dates take a search of many years
    found = await asyncio.to_thread(lambda: list(itertools.islice(times, query.count)))
    return Listing(
        items=[
            Upcoming(
                planned_at=planned / 1000,
                due_at=(planned + offset_of(stored.schedule_id, planned, jitter)) / 1000,
            )
            for planned in found
        ]
    )


@endpoint("GET", "/v1/schedules/{name}/firings", right="events:read", tag="schedules")
async def list_firings(request: ApiRequest, query: PageQuery) -> Listing[FiringRecord]:
    """List the latest firings, newest first. The last 50 are kept; their events stay as long as events do."""
    stored = await _get(request)
    cursors = request.state.host.cursors.scoped("http firings", [request.workspace_id, stored.schedule_id])
    before = None if query.cursor is None else cursors.read_sequence(query.cursor)
    rows = await request.state.host.db.read(
        lambda tx: schedules.firings(tx, stored, before=before, limit=query.size + 1)
    )
    return listing(rows, query.size, firing_record, lambda row: row.number, cursors)


async def _get(request: ApiRequest) -> StoredSchedule:
    name = request.parameters["name"]
    return await request.state.host.db.read(lambda tx: schedules.get(tx, request.workspace_id, name))


async def _checked(request: ApiRequest, body: LenientBody[Schedule]) -> Schedule:
    """Return a schedule without mistakes. ConfigurationError has all of them."""
    spec = body.get()
    timed = {one.place for one in body.mistakes} & {"cron", "every", "at"}
    # a time that could not be read is none of the entry any more: that there is none is no second mistake
    further = (one for one in schedule_mistakes(spec) if one.place or not timed)
    mistakes = [*body.mistakes, *further]
    if spec.agent is not None:
        wanted = spec.agent
        known = await request.state.host.db.read(
            lambda tx: agents.current_version(tx, request.workspace_id, wanted)
        )
        if known is None:
            names = [
                agent.name for agent in await request.state.host.event_router.agents(request.workspace_id)
            ]
            hint = did_you_mean(wanted, names) if names else "there are none"
            mistakes.append(Mistake("agent", f"there is no agent {wanted!r}: {hint}"))
    if mistakes:
        raise ConfigurationError(mistakes)
    return spec


def schedule_record(stored: StoredSchedule, *, orphaned: bool = False) -> ScheduleRecord:
    """Return a schedule as the API shows it. `orphaned`: whoever made it was removed."""
    try:
        removed = MAKER_REMOVED if stored.run_id is None else MADE_FOR_REMOVED
        spec, error = stored.spec, removed if orphaned else stored.error
    except InvalidArgumentError as unreadable:
        spec, error = None, unreadable.message
    status: ScheduleStatus = "active" if stored.next_planned is not None else "ended"
    return with_fields_of(
        stored,
        ScheduleRecord,
        status=status if stored.paused_at is None else "paused",
        spec=spec,
        error=error,
        next_planned=seconds(stored.next_planned),
        next_at=seconds(stored.next_at),
        last_planned=seconds(stored.last_planned),
        created_at=stored.created_at / 1000,
        changed_at=stored.changed_at / 1000,
        paused_at=seconds(stored.paused_at),
    )


def firing_record(firing: StoredFiring) -> FiringRecord:
    """Return a firing as the API shows it."""
    return with_fields_of(
        firing,
        FiringRecord,
        planned_at=firing.planned_at / 1000,
        fired_at=firing.fired_at / 1000,
        late=firing.late / 1000,
    )
