"""Reminders: schedules that a run makes for its own conversation, within bounds. Pure.

They are stored beside the schedules of people and configuration files, under names that none of those can
have: each name holds the digest of its place, so that conversations neither see nor meet each other's.
"""

from __future__ import annotations

import itertools
import math
import re
from datetime import UTC, datetime
from typing import Any

import msgspec
from cronsim import CronSim

from hostler.domain.events import Event
from hostler.domain.firing_times import cron_of
from hostler.domain.keys import check_depth
from hostler.domain.place import Place
from hostler.domain.schedules import MAX_EVERY_SECONDS, Schedule, check_schedule
from hostler_protocol.calls import ScheduleCreateParams
from hostler_protocol.errors import ConflictError, InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.events import Actor, Delivery, EventEnvelope
from hostler_protocol.ids import canonical_json, digest
from hostler_protocol.limits import KIB

MAX_PER_CONVERSATION = 20
"""Reminders of one agent in one conversation and thread that fire again."""
MAX_PER_AGENT = 1_000
"""Reminders of one agent that fire again: as many as a workspace has schedules."""
MAX_ENDED_PER_AGENT = 100
"""Reminders of one agent that are kept after they have fired for the last time, for their history."""
AT_ONCE = 20
"""Reminders of one conversation that may be made at once."""
PER_SECOND = 12 / 3_600
"""And then: a run that makes a reminder whose run makes the next one goes on at this rate, and no faster."""
MIN_EVERY_SECONDS = 300
"""The shortest interval: a chat that gets a message more often is of no use, and each may cost a model."""
MIN_DELAY_SECONDS = 1
MAX_DELAY_SECONDS = 366 * 86_400
MAX_NAME_CHARS = 64
MAX_TEXT_BYTES = 8 * KIB
MAX_DATA_BYTES = 8 * KIB
PREFIX = "reminder:"
"""Begins the stored names of reminders, and of nothing else: names of schedules have no colon."""
LIMIT = "limit"
"""`details["reason"]` of the refusal where there are too many."""
POLICY = "the agent's policy does not allow its runs to make schedules (allow_schedules)"
NO_CONVERSATION = "the event of this run has no conversation, and a schedule is made for one"
OF_PARENT = "a run that another run created makes no schedules: they would outlast its parent's bounds"
MAKER_REMOVED = "whoever it was made for is no member any more: it does not fire, and can be removed"
"""Why a reminder does not fire that a run made for a person who was removed."""
NOT_ALLOWED = (
    "the agent's policy does not allow schedules any more (allow_schedules): allow them, or remove it"
)
"""Why a reminder does not fire whose agent may make none any more."""
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{MAX_NAME_CHARS - 1}}}")
_DAY_MINUTES = 24 * 60


class ReminderContent(msgspec.Struct, frozen=True, omit_defaults=True):
    """What people and runs said of a reminder, and where it came from: all that is sealed where content is.

    `delivery` and the fields after it are those of the event whose run made it: the answers go to the same
    chat. `request`: the digest of the call that made it.
    """

    request: str
    text: str | None = None
    data: dict[str, Any] = {}
    actor: Actor | None = None
    delivery: Delivery | None = None
    launcher_type: str | None = None
    launcher_id: str | None = None
    sender_id: str | None = None
    session_id: str | None = None


def refused_reason(*, allowed: bool, place: Place, is_child: bool) -> str | None:
    """Return why the runs of a grant make no schedules, or None."""
    if not allowed:
        return POLICY
    if place.conversation_id is None:
        return NO_CONVERSATION
    return OF_PARENT if is_child else None


# -- what is asked for --------------------------------------------------------------------------------------


def check_request(params: ScheduleCreateParams) -> None:
    """Check name and sizes. InvalidArgumentError, PayloadTooLargeError."""
    if params.name is not None:
        check_name(params.name)
    ways = [name for name in ("at", "delay", "every", "cron") if getattr(params, name) is not None]
    if len(ways) != 1:
        found = " and ".join(ways) if ways else "none of them"
        raise InvalidArgumentError(f"it has {found}: expected exactly one of at, delay, every and cron")
    delay = params.delay
    if delay is not None and not MIN_DELAY_SECONDS <= delay <= MAX_DELAY_SECONDS:
        raise InvalidArgumentError(
            f"delay is {delay:g}: expected {MIN_DELAY_SECONDS} to {MAX_DELAY_SECONDS:,} seconds"
        )
    every = params.every
    if every is not None and not MIN_EVERY_SECONDS <= every <= MAX_EVERY_SECONDS:
        raise InvalidArgumentError(
            f"every is {every:g}: expected {MIN_EVERY_SECONDS} to {MAX_EVERY_SECONDS:,.0f} seconds"
        )
    check_depth("data", params.data)
    for name, size, most in (
        ("text", len((params.text or "").encode(errors="replace")), MAX_TEXT_BYTES),
        ("data", len(msgspec.json.encode(params.data)), MAX_DATA_BYTES),
    ):
        if size > most:
            text = f"{name} has {size:,} bytes; at most {most:,} may be"
            raise PayloadTooLargeError(text, limit_bytes=most)


def check_name(name: str) -> None:
    """Check the name of a reminder. InvalidArgumentError."""
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"name is {name!r:.80}: expected at most {MAX_NAME_CHARS} letters, digits, '_', '.' and '-', "
            "beginning with a letter or digit"
        )


def request_digest(run_id: str, params: ScheduleCreateParams) -> str:
    """Return the digest by which a run's call is known when it is made again."""
    asked = {name: getattr(params, name) for name in params.__struct_fields__ if name not in _NOT_ASKED}
    return digest({"run": run_id, **asked})


_NOT_ASKED = frozenset({"run_id", "alone"})


def schedule_of(params: ScheduleCreateParams, agent: str, place: Place, request: str, now: int) -> Schedule:
    """Return the entry of a reminder, without its content. `now`: UTC epoch milliseconds.

    InvalidArgumentError if its times are wrong, or closer to each other than they may be.
    """
    at = params.at
    if params.delay is not None:
        at = datetime.fromtimestamp(math.ceil(now / 1000 + params.delay), UTC).isoformat()
    schedule = Schedule(
        name=params.name or f"r-{request[:12]}",
        cron=params.cron,
        every=params.every,
        at=at,
        timezone=params.timezone,
        start=params.start,
        end=params.end,
        agent=agent,
        bot_id=place.bot_id,
        conversation_id=place.conversation_id,
        thread_id=place.thread_id,
    )
    check_schedule(msgspec.structs.replace(schedule, text=params.text, data=params.data))
    if schedule.cron is not None and (gap := shortest_gap(schedule.cron)) < MIN_EVERY_SECONDS:
        raise InvalidArgumentError(
            f"cron {schedule.cron!r:.60} fires {gap} seconds apart: expected at least {MIN_EVERY_SECONDS}"
        )
    return schedule


def shortest_gap(cron: str) -> int:
    """Return the shortest time between two firings in seconds, as if every day were one of them."""
    fields = CronSim(cron_of(cron), datetime(2024, 1, 1))  # noqa: DTZ001  a wall clock without a zone
    seconds = sorted(fields.seconds)
    if len(seconds) > 1:
        return min(later - one for one, later in itertools.pairwise([*seconds, seconds[0] + 60]))
    minutes = sorted(hour * 60 + minute for hour in fields.hours for minute in fields.minutes)
    gaps = (later - one for one, later in itertools.pairwise([*minutes, minutes[0] + _DAY_MINUTES]))
    return min(gaps) * 60


def content_of(params: ScheduleCreateParams, event: Event, request: str) -> str:
    """Return the content of a reminder as JSON. `event`: that of the run which makes it."""
    envelope = event.envelope
    content = ReminderContent(
        request=request,
        text=params.text,
        data=params.data,
        actor=envelope.actor,
        delivery=None if envelope.delivery is None else _later(envelope.delivery),
        launcher_type=envelope.launcher_type,
        launcher_id=envelope.launcher_id,
        sender_id=envelope.sender_id,
        session_id=envelope.session_id,
    )
    return canonical_json(msgspec.to_builtins(content)).decode()


def _later(delivery: Delivery) -> Delivery:
    """Return where answers go that reply to no message: the one of then may be gone."""
    target = delivery.reply_target
    if isinstance(target, dict) and "reply_to" in target:
        target = {**target, "reply_to": None}
    return msgspec.structs.replace(delivery, reply_target=target)


# -- what is stored -----------------------------------------------------------------------------------------


def names_of_place(agent_id: str, place: Place) -> str:
    """Return what the stored names of the reminders of a place begin with."""
    whole = {"agent": agent_id, "bot": place.bot_id, "conversation": place.conversation_id}
    return f"{PREFIX}{digest({**whole, 'thread': place.thread_id})[:24]}:"


def content_from(text: str) -> ReminderContent:
    """Read the content of a reminder. InvalidArgumentError if another version of the host wrote it."""
    try:
        return msgspec.json.decode(text, type=ReminderContent)
    except msgspec.DecodeError as error:
        raise InvalidArgumentError(f"the content of a reminder cannot be read: {error}") from error


def with_content(schedule: Schedule, content: ReminderContent) -> Schedule:
    """Return the whole entry of a reminder."""
    return msgspec.structs.replace(schedule, text=content.text, data=content.data, actor=content.actor)


def delivered(envelope: EventEnvelope, content: ReminderContent) -> EventEnvelope:
    """Return the event of a firing with where its answers go."""
    return msgspec.structs.replace(
        envelope,
        delivery=content.delivery,
        launcher_type=content.launcher_type,
        launcher_id=content.launcher_id,
        sender_id=content.sender_id,
        session_id=content.session_id,
    )


def too_many(of_conversation: int, of_agent: int) -> ConflictError | None:
    """Return the refusal of one more reminder, or None."""
    for where, there, most in (
        ("conversation", of_conversation, MAX_PER_CONVERSATION),
        ("agent", of_agent, MAX_PER_AGENT),
    ):
        if there >= most:
            text = f"there are {there:,} schedules of this {where}, as many as may be: delete some first"
            return ConflictError(text, reason=LIMIT, limit=most, of=where)
    return None
