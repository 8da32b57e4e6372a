"""When a schedule fires: cron expressions in time zones, intervals and single moments, as UTC milliseconds.

Times of a wall clock that daylight saving skips become the first moment after the gap; times that it repeats
are the first of the two. An expression for every hour (`*` in its hour field) goes by elapsed time instead:
it neither misses nor repeats anything. See docs/decisions/schedules-by-the-wall-clock.md.
"""

from __future__ import annotations

import hashlib
import itertools
import uuid
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from hostler.domain.record import Record
from hostler.domain.suggestions import did_you_mean
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.ids import digest

MAX_CRON_CHARS = 200
LAST_MOMENT = int(datetime(2200, 1, 1, tzinfo=UTC).timestamp() * 1000)
"""No schedule fires later: calendars end somewhere, and expressions that never match have to."""
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  of wall clocks without a zone
_UTC_EPOCH = _EPOCH.replace(tzinfo=UTC)
_LOOK_BACK = 25 * 3_600
"""Seconds. Longer than any gap or repetition: the largest was a whole day (Samoa, 2011)."""
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EXPECTED = {
    "second": "0 to 59",
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, as far as one of the months has that day, L or LW",
    "month": "1 to 12, or jan to dec",
    "day-of-week": "0 to 7, or sun to sat, as in mon-fri, tue#2 or 5L; write a range to Sunday as in 5-7",
}


class Timing(Record):
    """What a schedule fires by: exactly one of `cron` (six fields), `every` and `at`.

    All times and spans are milliseconds; moments are UTC epoch. `anchor`: where an interval is counted from.
    `start` and `end`: the first and the last moment at which it may fire.
    """

    zone: ZoneInfo
    cron: str | None = None
    every: int | None = None
    at: int | None = None
    anchor: int = 0
    start: int | None = None
    end: int | None = None

    def after(self, moment: int) -> Iterator[int]:
        """Yield the planned times later than a moment, in order."""
        if self.start is not None:
            moment = max(moment, self.start - 1)
        end = LAST_MOMENT if self.end is None else min(self.end, LAST_MOMENT)
        return itertools.takewhile(lambda planned: planned <= end, self._after(moment))

    def next(self, moment: int) -> int | None:
        """Return the first planned time later than a moment; None if there is none."""
        return next(self.after(moment), None)

    def between(self, first: int, last: int) -> Iterator[int]:
        """Yield the planned times from `first` to `last`, both included."""
        return itertools.takewhile(lambda planned: planned <= last, self.after(first - 1))

    def latest(self, first: int, last: int, most: int) -> list[int]:
        """Return the last planned times of a span, at most `most` of them, in order.

        It looks from the end of the span, so that a long one costs no more than a short one.
        """
        span = 60_000
        while True:
            begin = max(first, last - span)
            found = deque(self.between(begin, last), maxlen=most)
            if len(found) == most or begin == first:
                return list(found)
            span *= 2

    def _after(self, moment: int) -> Iterator[int]:
        if self.cron is not None:
            return _elapsed(self.cron, self.zone, moment) if _hourly(self.cron) else self._by_wall(moment)
        if self.every is not None:
            passed = (moment - self.anchor) // self.every
            return itertools.count(self.anchor + max(0, passed + 1) * self.every, self.every)
        return iter(() if self.at is None or self.at <= moment else (self.at,))

    def _by_wall(self, moment: int) -> Iterator[int]:
        return _by_wall_clock(self.cron or "", self.zone, moment)


def offset_of(schedule_id: str, planned: int, jitter: int) -> int:
    """Return how much later than planned a firing is due: 0 to `jitter` milliseconds, the same everywhere."""
    if jitter <= 0:
        return 0
    named = digest({"schedule": schedule_id, "planned": planned, "jitter": jitter})
    return int.from_bytes(hashlib.sha256(named.encode()).digest()[:8]) % (jitter + 1)


def firing_id(workspace_id: str, schedule_id: str, planned: int) -> str:
    """Return the event id of a firing: the same for the same schedule and planned time."""
    return f"sch-{digest({'workspace': workspace_id, 'schedule': schedule_id, 'planned': planned})}"


def firing_conversation(event_id: str, planned: int) -> str:
    """Return the id of the conversation that a firing begins: the same on every host.

    It has the form of `new_id`, with the planned time (UTC epoch milliseconds).
    """
    bits = int.from_bytes(hashlib.sha256(event_id.encode()).digest()[:16])
    version, variant = 0x7 << 76, 0b10 << 62
    return str(
        uuid.UUID(int=planned << 80 | version | (bits >> 64 & 0xFFF) << 64 | variant | bits & (1 << 62) - 1)
    )


def cron_of(text: str) -> str:
    """Return an expression of five or six fields, or a macro like `@daily`, as six fields.

    InvalidArgumentError says what is wrong.
    """
    expression = _MACROS.get(text.strip().lower(), text)
    fields = expression.upper().split()
    if not text.isascii() or len(text) > MAX_CRON_CHARS:
        raise InvalidArgumentError(f"an expression has at most {MAX_CRON_CHARS} characters, all of ASCII")
    if len(fields) not in {5, 6}:
        known = ", ".join(_MACROS)
        raise InvalidArgumentError(
            f"{text!r:.60} has {len(fields)} fields: expected minute, hour, day of month, month and day of "
            f"week, as in '30 7 * * mon-fri', with seconds before them if wanted; or one of {known}"
        )
    six = " ".join(["0", *fields] if len(fields) == 5 else fields)
    try:
        first = next(CronSim(six, datetime(2024, 1, 1)), None)  # noqa: DTZ001  a wall clock without a zone
    except CronSimError as error:
        what = str(error).removeprefix("Bad ") or "field"
        right = f": expected {_EXPECTED[what]}" if what in _EXPECTED else ""
        raise InvalidArgumentError(f"{text!r:.60}: its {what} is not valid{right}") from None
    if first is None:
        raise InvalidArgumentError(f"{text!r:.60} never comes: no date of 50 years matches it")
    return six


@cache
def zone_of(name: str) -> ZoneInfo:
    """Return an IANA time zone. InvalidArgumentError suggests the nearest."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        hint = did_you_mean(name, available_timezones())
        raise InvalidArgumentError(f"{name!r:.80} is no time zone of the IANA database: {hint}") from None


def moment_of(text: str, zone: ZoneInfo) -> int:
    """Return a time like `2026-12-01T09:30`, which is in the zone unless it has an offset, in UTC epoch
    milliseconds. InvalidArgumentError.
    """
    expected = "expected a time like 2026-12-01T09:30, 2026-12-01T09:30:00+01:00 or 2026-12-01T08:30Z"
    try:
        found = datetime.fromisoformat(text)
        moment = int(found.timestamp() * 1000) if found.tzinfo is not None else _instant(found, zone)
    except (ValueError, OverflowError):
        raise InvalidArgumentError(f"{text!r:.60} is no time: {expected}") from None
    if not 0 <= moment <= LAST_MOMENT:
        raise InvalidArgumentError(f"{text!r:.60} is not between the years 1970 and 2200")
    return moment


def _hourly(cron: str) -> bool:
    return cron.split()[2] == "*"


def _elapsed(cron: str, zone: ZoneInfo, moment: int) -> Iterator[int]:
    """Yield the matching moments after a moment, as time passes: a wall clock from one change of its offset
    to the next.
    """
    base = moment // 1000 + 1
    while True:
        offset = _offset(base, zone)
        begin = _EPOCH + timedelta(seconds=base + offset - 1)
        for found in CronSim(cron, begin):
            at = int((found - _EPOCH).total_seconds()) - offset
            if at - base > _LOOK_BACK:  # changes may be in between that this offset does not show
                base = at - _LOOK_BACK
                break
            if _offset(at, zone) != offset:
                base = _change(base, at, zone)
                break
            yield at * 1000
            base = at + 1
        else:
            return


def _by_wall_clock(cron: str, zone: ZoneInfo, moment: int) -> Iterator[int]:
    """Yield the moments at which a wall clock first shows a matching time, or would have shown it."""
    last, begin = moment, _latest_shown(moment // 1000, zone)
    while True:
        for found in CronSim(cron, begin):
            planned = _instant(found, zone)
            if planned > last:
                yield planned
                last = planned
            elif (shown := _latest_shown(last // 1000, zone)) > found:
                begin = shown  # several times of one gap are one moment: go on after the gap
                break
        else:
            return


def _latest_shown(at: int, zone: ZoneInfo) -> datetime:
    """Return the latest time that a wall clock has shown by a moment: what it shows then, or before it was
    set back within _LOOK_BACK.
    """
    shown, earlier = at + _offset(at, zone), at - _LOOK_BACK
    if (before := _offset(earlier, zone)) > _offset(at, zone):
        shown = max(shown, _change(earlier, at, zone) - 1 + before)
    return _EPOCH + timedelta(seconds=shown)


def _instant(wall: datetime, zone: ZoneInfo) -> int:
    """Return when a wall clock first shows a time, or the end of the gap that skips it."""
    shown = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if shown.astimezone(zone).replace(tzinfo=None, fold=0) == wall:
        return int(shown.timestamp() * 1000)
    before = int(wall.replace(tzinfo=zone, fold=1).timestamp())
    return _change(before, int(shown.timestamp()), zone) * 1000


def _offset(at: int, zone: ZoneInfo) -> int:
    """Return the seconds by which a zone is ahead of UTC."""
    offset = (_UTC_EPOCH + timedelta(seconds=at)).astimezone(zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def _change(low: int, high: int, zone: ZoneInfo) -> int:
    """Return the first second, after `low` and up to `high`, with another offset than at `low`."""
    before = _offset(low, zone)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(middle, zone) == before:
            low = middle
        else:
            high = middle
    return high
