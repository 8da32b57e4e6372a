"""When a cron expression should fire, found by reading a wall clock minute by minute."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_MINUTE = timedelta(minutes=1)


class Reader:
    """Reads the clock of a zone from one moment to another, both in UTC. Expressions have six fields, the
    seconds 0, and of the rest only numbers, ranges, lists, `*` and steps of `*`.
    """

    def __init__(self, zone: ZoneInfo, begin: datetime, end: datetime) -> None:
        self._begin = begin
        self._shown: list[tuple[datetime, datetime]] = []
        """Each minute that the clock shows, and when."""
        self._first: dict[datetime, datetime] = {}
        """When it first shows a minute, or the end of the gap that skips it."""
        last: datetime | None = None
        for moment in _minutes(begin - timedelta(days=2), end):
            wall = moment.astimezone(zone).replace(tzinfo=None)
            skipped = wall if last is None else last + _MINUTE
            while skipped < wall:
                self._first.setdefault(skipped, moment)
                skipped += _MINUTE
            self._first.setdefault(wall, moment)
            self._shown.append((wall, moment))
            last = wall

    def times(self, cron: str) -> list[int]:
        """Return the times at which it should fire, in UTC epoch milliseconds."""
        pairs = self._shown if cron.split()[2] == "*" else list(self._first.items())
        fields = _fields(cron)
        found = {at for wall, at in pairs if at >= self._begin and _matches(fields, wall)}
        return sorted(int(at.timestamp() * 1000) for at in found)


def _minutes(begin: datetime, end: datetime) -> Iterator[datetime]:
    while begin < end:
        yield begin
        begin += _MINUTE


def _matches(fields: list[set[int]], wall: datetime) -> bool:
    minutes, hours, days, months, weekdays = fields
    return (
        wall.minute in minutes
        and wall.hour in hours
        and wall.day in days
        and wall.month in months
        and wall.isoweekday() % 7 in weekdays
    )


def _fields(cron: str) -> list[set[int]]:
    ranges = [range(60), range(24), range(1, 32), range(1, 13), range(7)]
    return [
        set().union(*(_term(term, among) for term in field.split(",")))
        for field, among in zip(cron.lower().split()[1:], ranges, strict=True)
    ]


def _term(term: str, among: range) -> set[int]:
    if term.startswith("*"):
        return set(among[:: int(term[2:] or 1)])
    low, _, high = (str(_DAYS.index(one)) if one in _DAYS else one for one in (*term.partition("-"),))
    return set(range(int(low), int(high or low) + 1))
