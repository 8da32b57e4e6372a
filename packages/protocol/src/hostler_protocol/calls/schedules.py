"""Calls for schedules that a run makes for its own conversation: reminders."""

from __future__ import annotations

from typing import Any

from hostler_protocol._base import Strict
from hostler_protocol.calls.params import CallParams


class ScheduleCreateParams(CallParams):
    """`schedule.create`: send an event to this agent, in this conversation and thread, at planned times.

    Exactly one of `at` (a time like `2026-12-01T09:30`), `delay` (seconds from now), `every` (seconds, at
    least 300) and `cron` (five fields). Times without an offset are of `timezone`; `start` and `end` are the
    first and last moment at which it fires. `name` is one of this conversation's, at most 64 letters,
    digits, `_`, `.` and `-`; without one the host gives one. `text` is the input of the event, `data` goes
    with it: 8 KiB each.

    The same call made again by the same run is answered with the schedule that it made. Another one of a
    name that is in use is a `conflict`, as is one too many (reason `limit`); too many in a short time are
    `rate_limited`.
    """

    name: str | None = None
    at: str | None = None
    delay: float | None = None
    every: float | None = None
    cron: str | None = None
    timezone: str = "UTC"
    start: str | None = None
    end: str | None = None
    text: str | None = None
    data: dict[str, Any] = {}


class ScheduleListParams(CallParams):
    """`schedule.list`: the schedules that runs of this agent made for this conversation and thread."""


class ScheduleDeleteParams(CallParams):
    """`schedule.delete`: remove one of them by its name."""

    name: str


class RunSchedule(Strict):
    """A schedule that a run made. `next_at` and `created_at`: UTC epoch seconds.

    `next_at`: when it fires next; null while an operator has paused it, and if it fires no more.
    """

    name: str
    created_at: float
    next_at: float | None = None
    paused: bool = False
    at: str | None = None
    every: float | None = None
    cron: str | None = None
    timezone: str = "UTC"
    start: str | None = None
    end: str | None = None
    text: str | None = None
    data: dict[str, Any] = {}


class RunScheduleList(Strict):
    """Those that fire again or are paused, by name."""

    items: list[RunSchedule]
