"""Schedules: the entries of `schedules`, their timing, and the events that they send. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

import msgspec

from hostler.domain.config_mistakes import Mistake
from hostler.domain.firing_times import (
    Timing,
    cron_of,
    firing_conversation,
    firing_id,
    moment_of,
    zone_of,
)
from hostler.domain.ingest import MAX_ID_CHARS
from hostler.domain.keys import check_depth
from hostler.domain.misfires import Misfire, MisfirePolicy
from hostler.domain.record import Record
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.events import Actor, EventEnvelope, Input
from hostler_protocol.limits import KIB

EVENT_TYPE: Final = "schedule.triggered"
MESSAGE: Final = "message.received"
SOURCE = "scheduler"
MAX_SCHEDULES = 1_000
"""Schedules of one workspace."""
MAX_TEXT_BYTES = 32 * KIB
MAX_DATA_BYTES = 32 * KIB
MIN_EVERY_SECONDS = 1.0
"""The shortest interval, which is also that of a cron expression with seconds."""
MAX_EVERY_SECONDS = 366.0 * 86_400
MAX_SPAN_SECONDS = 86_400.0
"""Jitter and grace."""
DETAILS = "schedule"
"""The key of `data` under which an event names its schedule."""
MAKER_REMOVED = "whoever made it is no member any more: nothing fires until somebody else applies it again"
"""Why a schedule of a removed person does not fire."""
MAX_UPCOMING = 100
"""Firings that are shown ahead."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class Schedule(Strict):
    """An entry of `schedules`: what it fires by (one of `cron`, `every` and `at`), and the event that it
    sends.

    `cron`: minute, hour, day of month, month and day of week, with seconds before them if wanted; `every`:
    seconds; `at`: a single time. Times without an offset are of `timezone`; `start` and `end` are the first
    and last moment at which it fires. `jitter`: seconds that a firing may come later than planned, the same
    for the same time. A firing that is over `grace` seconds late was missed: `misfire` says whether such ones
    are left out, become one, or all happen. `agent`: null for the one whose bindings match.
    `new_conversation`: each firing begins a conversation of its own. `event_type`: `message.received` if its
    text is to be kept in the conversation, as a message of its user.
    """

    name: str
    cron: str | None = None
    every: Annotated[float, msgspec.Meta(ge=MIN_EVERY_SECONDS, le=MAX_EVERY_SECONDS)] | None = None
    at: str | None = None
    timezone: str = "UTC"
    start: str | None = None
    end: str | None = None
    jitter: Annotated[float, msgspec.Meta(ge=0, le=MAX_SPAN_SECONDS)] = 0.0
    misfire: Misfire = "once"
    grace: Annotated[float, msgspec.Meta(ge=1, le=MAX_SPAN_SECONDS)] = 60.0
    agent: str | None = None
    event_type: Literal["schedule.triggered", "message.received"] = EVENT_TYPE
    text: str | None = None
    data: dict[str, Any] = {}
    bot_id: str | None = None
    conversation_id: str | None = None
    thread_id: str | None = None
    new_conversation: bool = False
    actor: Actor | None = None

    @property
    def timing_fields(self) -> tuple[object, ...]:
        """What its planned times depend on."""
        return (self.cron, self.every, self.at, self.timezone, self.start, self.end)

    @property
    def policy(self) -> MisfirePolicy:
        """What becomes of late firings."""
        return MisfirePolicy(self.misfire, int(self.grace * 1000), int(self.jitter * 1000))

    def timing(self, created_at: int) -> Timing:
        """Return its timing; an interval without a start counts from `created_at` (UTC epoch milliseconds).

        InvalidArgumentError.
        """
        zone = zone_of(self.timezone)
        start = None if self.start is None else moment_of(self.start, zone)
        return Timing(
            zone,
            cron=None if self.cron is None else cron_of(self.cron),
            every=None if self.every is None else int(self.every * 1000),
            at=None if self.at is None else moment_of(self.at, zone),
            anchor=created_at if start is None else start,
            start=start,
            end=None if self.end is None else moment_of(self.end, zone),
        )


class Firing(Record):
    """One firing: of which schedule, for which planned time, and how late (milliseconds).

    `asked_id`: the event id of one that a person asked for, which happens beside the planned ones.
    """

    workspace_id: str
    schedule_id: str
    planned: int
    late: int = 0
    left_out: int = 0
    asked_id: str | None = None

    @property
    def event_id(self) -> str:
        """The id of its event."""
        return self.asked_id or firing_id(self.workspace_id, self.schedule_id, self.planned)


def envelope_of(schedule: Schedule, firing: Firing) -> EventEnvelope:
    """Return the event of a firing."""
    begun = firing_conversation(firing.event_id, firing.planned) if schedule.new_conversation else None
    details = {
        "name": schedule.name,
        "id": firing.schedule_id,
        "planned_at": firing.planned / 1000,
        "late_by": firing.late / 1000,
        "left_out": firing.left_out,
        "asked": firing.asked_id is not None,
    }
    return EventEnvelope(
        event_type=schedule.event_type,
        input=Input(text=schedule.text),
        event_id=firing.event_id,
        agent=schedule.agent,
        event_time=firing.planned / 1000,
        source=SOURCE,
        bot_id=schedule.bot_id,
        conversation_id=begun or schedule.conversation_id,
        thread_id=schedule.thread_id,
        actor=schedule.actor,
        data={**schedule.data, DETAILS: details},
    )


def check_schedule(schedule: Schedule) -> None:
    """Check a schedule. InvalidArgumentError with its first mistake."""
    for mistake in schedule_mistakes(schedule):
        raise InvalidArgumentError(mistake.within(f"schedule {schedule.name!r:.80}").sentence)


def schedule_mistakes(schedule: Schedule) -> Iterator[Mistake]:
    """Yield the mistakes of a schedule that its entry shows."""
    if not _NAME.fullmatch(schedule.name):
        yield Mistake("name", f"{schedule.name!r:.80} is no name: 1 to 100 letters, digits, '_', '.', '-'")
    ways = [name for name in ("cron", "every", "at") if getattr(schedule, name) is not None]
    if len(ways) != 1:
        found = " and ".join(ways) if ways else "none of them"
        yield Mistake("", f"it has {found}: expected exactly one of cron, every and at")
    yield from _timing_mistakes(schedule)
    for place in ("agent", "bot_id", "conversation_id", "thread_id"):
        value = getattr(schedule, place)
        if value is not None and (not value or len(value) > MAX_ID_CHARS or "\x00" in value):
            yield Mistake(place, f"expected 1 to {MAX_ID_CHARS} characters and no NUL")
    if schedule.new_conversation and schedule.conversation_id is not None:
        yield Mistake("new_conversation", "its events go to conversation_id: leave one of the two out")
    if schedule.thread_id is not None and schedule.conversation_id is None:
        yield Mistake("thread_id", "a thread is one of a conversation: set conversation_id too")
    yield from _content_mistakes(schedule)


def _timing_mistakes(schedule: Schedule) -> Iterator[Mistake]:
    try:
        zone = zone_of(schedule.timezone)
    except InvalidArgumentError as error:
        yield Mistake("timezone", error.message)
        return
    found: dict[str, int] = {}
    for place in ("at", "start", "end"):
        text = getattr(schedule, place)
        try:
            if text is not None:
                found[place] = moment_of(text, zone)
        except InvalidArgumentError as error:
            yield Mistake(place, error.message)
    if schedule.cron is not None:
        try:
            cron_of(schedule.cron)
        except InvalidArgumentError as error:
            yield Mistake("cron", error.message)
    if "start" in found and "end" in found and found["end"] < found["start"]:
        yield Mistake("end", "it ends before it starts")
    if schedule.at is not None and (schedule.start is not None or schedule.end is not None):
        yield Mistake("at", "a single time has no start and no end")


def _content_mistakes(schedule: Schedule) -> Iterator[Mistake]:
    text = schedule.text
    if text is not None and ("\x00" in text or len(text.encode(errors="replace")) > MAX_TEXT_BYTES):
        yield Mistake("text", f"expected at most {MAX_TEXT_BYTES:,} bytes and no NUL")
    if schedule.event_type == MESSAGE and not text:
        yield Mistake("text", f"a {MESSAGE} event needs text")
    if DETAILS in schedule.data:
        yield Mistake("data", f"{DETAILS!r} is the host's own key: there it names the schedule")
    try:
        check_depth("data", schedule.data)
    except InvalidArgumentError as error:
        yield Mistake("data", error.message.removeprefix("data: "))
    if len(msgspec.json.encode([schedule.data, schedule.actor])) > MAX_DATA_BYTES:
        yield Mistake("data", f"data and actor have more than {MAX_DATA_BYTES:,} bytes together as JSON")
