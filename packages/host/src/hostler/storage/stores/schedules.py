"""Schedules: when each fires next, and its latest firings."""

from __future__ import annotations

import msgspec

from hostler.domain.firing_times import Timing, offset_of
from hostler.domain.misfires import Step
from hostler.domain.record import Record
from hostler.domain.reminders import ReminderContent, content_from, with_content
from hostler.domain.same_fields import from_row
from hostler.domain.schedules import MAX_SCHEDULES, Firing, Schedule
from hostler.domain.type_fit import convert
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import audit, members
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError
from hostler_protocol.ids import canonical_json, new_id

MAX_KEPT_FIRINGS = 50
"""Firings of one schedule whose records are kept; their events stay as long as events do."""
MAX_REASON_CHARS = 500
MAX_DUE = 100
_LAST = 2**62
_q = load(__file__)


class StoredSchedule(Record, kw_only=True):
    """A schedule. Times are UTC epoch milliseconds.

    `text`: its entry as JSON. `next_planned` and `next_at` (when it is due) are None while it is paused, and
    once it has ended. `version`: of the entry and of whether it is paused. `made_by`: its events are sent for
    this subject. `error`: why the last firing reached no agent. `run_id`: the run that made it, if that was
    one; `agent_id` and `conversation_id` are that run's, and `content` is what its entry does not say.
    """

    workspace_id: str
    name: str
    schedule_id: str
    text: str
    version: int
    made_by: str
    created_at: int
    changed_at: int
    anchor: int
    next_planned: int | None
    next_at: int | None
    last_planned: int | None
    firings: int
    error: str | None
    paused_at: int | None
    paused_by: str | None
    agent_id: str | None
    run_id: str | None
    conversation_id: str | None
    content: str | None

    @property
    def spec(self) -> Schedule:
        """Its entry. InvalidArgumentError if that does not fit this version of the host."""
        try:
            found = msgspec.json.decode(self.text)
        except msgspec.DecodeError as error:
            raise InvalidArgumentError(f"schedule {self.name!r}: the stored text is no JSON") from error
        spec, reminder = convert(found, Schedule, self.name), self.reminder
        return spec if reminder is None else with_content(spec, reminder)

    @property
    def reminder(self) -> ReminderContent | None:
        """What a run said when it made it; None if no run did. InvalidArgumentError."""
        return None if self.content is None else content_from(self.content)

    @property
    def timing(self) -> Timing:
        """When it fires. InvalidArgumentError."""
        return self.spec.timing(self.anchor)


class StoredFiring(Record, kw_only=True):
    """A firing and what came of it. Times are UTC epoch milliseconds, `late` is a span."""

    number: int
    event_id: str | None
    planned_at: int
    fired_at: int
    outcome: str
    run_id: str | None
    reason: str | None
    left_out: int
    late: int
    asked_by: str | None


class FailedFiring(Record, kw_only=True):
    """The latest firing of a schedule, which went wrong.

    `made_in`: the run that made the schedule, if one did; `status` and `status_code`: of the run that it
    started.
    """

    name: str
    made_in: str | None
    planned_at: int
    outcome: str
    reason: str | None
    left_out: int
    run_id: str | None
    status: str | None
    status_code: str | None


def put(tx: Tx, workspace_id: str, spec: Schedule, made_by: str) -> bool:
    """Create a schedule or change its entry; return False if it is unchanged.

    A change of its timing counts from now. An unchanged one whose maker was removed is taken over, and
    audited. ConflictError if a runner made the one of this name.
    """
    known = _hold(tx, workspace_id, spec.name)
    text = canonical_json(msgspec.to_builtins(spec)).decode()
    if known is None:
        return create(tx, workspace_id, spec, made_by)
    if known.run_id is not None:
        raise ConflictError(f"a runner made the schedule {spec.name!r}: it can be removed, not changed")
    if known.text == text or _same_entry(known, spec):
        if members.removed(tx, workspace_id, [known.made_by]):
            tx.run(_q.take_over, workspace_id=workspace_id, name=spec.name, made_by=made_by, now=tx.now)
            audit.record(tx, workspace_id, made_by, "schedule.taken_over", spec.name, {"from": known.made_by})
        return False
    moved = not _same_timing(known, spec)
    anchor = tx.now if moved else known.anchor
    planned = known.next_planned
    if moved and known.paused_at is None:
        planned = spec.timing(anchor).next(_since(tx, known))
    tx.run(
        _q.change,
        workspace_id=workspace_id,
        name=spec.name,
        spec=text,
        made_by=made_by,
        anchor=anchor,
        now=tx.now,
        **_due(known.schedule_id, spec, planned),
    )
    return True


class ByRun(Record, kw_only=True):
    """What a schedule has that a run makes. `name`: the one that it is stored under."""

    name: str
    agent_id: str
    run_id: str
    conversation_id: str | None
    content: str


def create(tx: Tx, workspace_id: str, spec: Schedule, made_by: str, *, by_run: ByRun | None = None) -> bool:
    """Store a new schedule; return False if there is one of this name. ConflictError if there are too many.

    `by_run`: of one that a run makes, whose number `storage.stores.reminders` bounds.
    """
    if by_run is None:
        row = tx.one(_q.count, workspace_id=workspace_id)
        if row is not None and row["schedules"] >= MAX_SCHEDULES:
            raise ConflictError(f"there are {MAX_SCHEDULES:,} schedules already: remove some")
    schedule_id = new_id()
    done = tx.run(
        _q.insert,
        workspace_id=workspace_id,
        name=spec.name if by_run is None else by_run.name,
        schedule_id=schedule_id,
        spec=canonical_json(msgspec.to_builtins(spec)).decode(),
        made_by=made_by,
        now=tx.now,
        agent_id=None if by_run is None else by_run.agent_id,
        run_id=None if by_run is None else by_run.run_id,
        conversation_id=None if by_run is None else by_run.conversation_id,
        content=None if by_run is None else by_run.content,
        **_due(schedule_id, spec, spec.timing(tx.now).next(tx.now)),
    )
    return done == 1


def find(tx: Tx, workspace_id: str, name: str) -> StoredSchedule | None:
    """Return the schedule of this name, or None."""
    row = tx.one(_q.find, workspace_id=workspace_id, name=name)
    return None if row is None else read_row(row)


def get(tx: Tx, workspace_id: str, name: str) -> StoredSchedule:
    """Return the schedule of this name. NotFoundError."""
    found = find(tx, workspace_id, name)
    if found is None:
        raise NotFoundError(f"there is no schedule {name!r}")
    return found


def page(tx: Tx, workspace_id: str, *, after: str, limit: int) -> list[StoredSchedule]:
    """Return schedules by name, after a name."""
    return [read_row(row) for row in tx.all(_q.page, workspace_id=workspace_id, after=after, limit=limit)]


def entries(tx: Tx, workspace_id: str) -> list[StoredSchedule]:
    """Return the schedules that people or the configuration made, by name."""
    rows = tx.all(_q.entries, workspace_id=workspace_id, limit=MAX_SCHEDULES)
    return [read_row(row) for row in rows]


def due(tx: Tx, after: StoredSchedule | None = None) -> tuple[int, list[StoredSchedule]]:
    """Return the time, and the schedules of all workspaces that are due by it, at most MAX_DUE, after
    another one of them.
    """
    rows = tx.all(
        _q.due,
        now=tx.now,
        after_at=-1 if after is None else after.next_at,
        after_workspace="" if after is None else after.workspace_id,
        after_name="" if after is None else after.name,
        limit=MAX_DUE,
    )
    return tx.now, [read_row(row) for row in rows]


def seconds_to_next(tx: Tx, after: int) -> float | None:
    """Return the seconds until the next schedule becomes due after a moment; None if none will."""
    row = tx.one(_q.next_due, after=after)
    return None if row is None or row["due"] is None else (row["due"] - tx.now) / 1000


def advance(tx: Tx, schedule: StoredSchedule, step: Step, error: str | None = None) -> int | None:
    """Move a schedule on as a step says; return the number of its firing, or None if another host has moved
    it, or it was changed, since it was read.
    """
    planned = None if step.fire is None else step.fire
    row = tx.all(
        _q.advance,
        workspace_id=schedule.workspace_id,
        schedule_id=schedule.schedule_id,
        version=schedule.version,
        before=schedule.next_planned,
        planned=schedule.next_planned if planned is None else planned,
        error=None if error is None else error[:MAX_REASON_CHARS],
        **_due(schedule.schedule_id, schedule.spec, step.next),
    )
    return row[0]["firings"] if row else None


def note_error(tx: Tx, schedule: StoredSchedule, error: str) -> None:
    """Note why the last firing reached no agent."""
    tx.run(
        _q.note_error,
        workspace_id=schedule.workspace_id,
        schedule_id=schedule.schedule_id,
        error=error[:MAX_REASON_CHARS],
    )


def count_asked(tx: Tx, schedule: StoredSchedule) -> int | None:
    """Return the number of a firing that was asked for; None if the schedule is gone."""
    row = tx.all(_q.number, workspace_id=schedule.workspace_id, schedule_id=schedule.schedule_id)
    return row[0]["firings"] if row else None


def record(
    tx: Tx,
    firing: Firing,
    number: int,
    outcome: str,
    *,
    event_id: str | None = None,
    run_id: str | None = None,
    reason: str | None = None,
    asked_by: str | None = None,
) -> None:
    """Record what came of a firing, and forget the oldest ones of its schedule."""
    names = {"workspace_id": firing.workspace_id, "schedule_id": firing.schedule_id}
    tx.run(
        _q.record,
        **names,
        number=number,
        event_id=event_id,
        planned_at=firing.planned,
        now=tx.now,
        outcome=outcome,
        run_id=run_id,
        reason=None if reason is None else reason[:MAX_REASON_CHARS],
        left_out=firing.left_out,
        late=firing.late,
        asked_by=asked_by,
    )
    tx.run(_q.forget, **names, until=number - MAX_KEPT_FIRINGS)


def firings(
    tx: Tx, schedule: StoredSchedule, *, before: int | None = None, limit: int = MAX_KEPT_FIRINGS
) -> list[StoredFiring]:
    """Return the latest firings before a number, newest first."""
    rows = tx.all(
        _q.firings,
        workspace_id=schedule.workspace_id,
        schedule_id=schedule.schedule_id,
        before=_LAST if before is None else before,
        limit=limit,
    )
    return [from_row(row, StoredFiring) for row in rows]


def failing(tx: Tx, workspace_id: str, *, since: int, limit: int) -> list[FailedFiring]:
    """Return the schedules whose latest firing went wrong, the latest first: what is paused, or was changed
    after it, is left out, and what has ended before `since`.
    """
    rows = tx.all(_q.failing, workspace_id=workspace_id, since=since, limit=limit)
    return [from_row(row, FailedFiring) for row in rows]


def pause(tx: Tx, workspace_id: str, name: str, actor: str) -> StoredSchedule:
    """Pause a schedule; what is planned meanwhile does not happen. NotFoundError."""
    known = _held(tx, workspace_id, name)
    if known.paused_at is None:
        where = {"workspace_id": workspace_id, "name": name}
        tx.run(_q.pause, **where, now=tx.now, paused_by=actor)
        audit.record(tx, workspace_id, actor, "schedule.paused", name, {})
    return get(tx, workspace_id, name)


def resume(tx: Tx, workspace_id: str, name: str, actor: str, *, from_now: bool = False) -> StoredSchedule:
    """Let a paused schedule fire again, from now on. NotFoundError; InvalidArgumentError.

    `from_now`: also one that is not paused and has fired for later times than now, since the clock was wrong.
    """
    known = _held(tx, workspace_id, name)
    ahead = from_now and (known.last_planned or 0) > tx.now
    if known.paused_at is not None or ahead:
        planned = known.timing.next(tx.now if from_now else _since(tx, known))
        where = {"workspace_id": workspace_id, "name": name}
        last = None if ahead else known.last_planned
        tx.run(_q.resume, **where, last_planned=last, **_due(known.schedule_id, known.spec, planned))
        audit.record(tx, workspace_id, actor, "schedule.resumed", name, {})
    return get(tx, workspace_id, name)


def delete(tx: Tx, workspace_id: str, name: str) -> bool:
    """Remove a schedule and the records of its firings; return whether there was one."""
    rows = tx.all(_q.delete, workspace_id=workspace_id, name=name)
    for row in rows:
        tx.run(_q.forget, workspace_id=workspace_id, schedule_id=row["schedule_id"], until=_LAST)
    return bool(rows)


def _hold(tx: Tx, workspace_id: str, name: str) -> StoredSchedule | None:
    """Return the schedule of this name, which no other host fires or changes until the end of `tx`."""
    row = tx.one(_q.hold, workspace_id=workspace_id, name=name)
    return None if row is None else read_row(row)


def _held(tx: Tx, workspace_id: str, name: str) -> StoredSchedule:
    held = _hold(tx, workspace_id, name)
    if held is None:
        raise NotFoundError(f"there is no schedule {name!r}")
    return held


def _since(tx: Tx, known: StoredSchedule) -> int:
    """Return the moment after which the next firing is planned: no time fires twice, whatever the clock."""
    return max(tx.now, known.last_planned or 0)


def _same_entry(known: StoredSchedule, spec: Schedule) -> bool:
    """Whether an entry is unchanged, also if an earlier version wrote it, which had fewer fields."""
    try:
        return known.spec == spec
    except InvalidArgumentError:
        return False


def _same_timing(known: StoredSchedule, spec: Schedule) -> bool:
    try:
        return known.spec.timing_fields == spec.timing_fields
    except InvalidArgumentError:  # written by another version
        return False


def _due(schedule_id: str, spec: Schedule, planned: int | None) -> dict[str, int | None]:
    """Return the next planned time as it is stored, and when it is due."""
    if planned is None:
        return {"next_planned": None, "next_at": None}
    return {
        "next_planned": planned,
        "next_at": planned + offset_of(schedule_id, planned, spec.policy.jitter),
    }


def read_row(row: Row) -> StoredSchedule:
    """Return a row of the table."""
    return from_row(row, StoredSchedule, text=row["spec"])
