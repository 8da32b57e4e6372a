"""Planned times against a clock that is read minute by minute, over the changes of daylight saving."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from hostler.domain import firing_times
from hostler.domain.firing_times import Timing, cron_of, firing_id, moment_of, offset_of, zone_of
from hostler_protocol.errors import InvalidArgumentError
from support.wall_clock import Reader

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def shown(planned: int, zone: ZoneInfo) -> str:
    return datetime.fromtimestamp(planned / 1000, zone).strftime("%m-%d %H:%M:%S%z")


def first(cron: str, zone: ZoneInfo, after: str, count: int) -> list[str]:
    timing = Timing(zone, cron=cron_of(cron))
    return [shown(planned, zone) for planned in itertools.islice(timing.after(ms(after)), count)]


def test_a_time_that_is_skipped_fires_once_after_the_gap() -> None:
    assert first("30 2 * * *", BERLIN, "2026-03-28T00:00Z", 3) == [
        "03-28 02:30:00+0100",
        "03-29 03:00:00+0200",
        "03-30 02:30:00+0200",
    ]


@pytest.mark.parametrize("cron", ["*/15 2 * * *", "0,20,40 2 * * *", "*/10 * 2 * * *"])
def test_several_times_of_one_gap_are_one_firing(cron: str) -> None:
    timing = Timing(BERLIN, cron=cron_of(cron))
    day = list(timing.between(ms("2026-03-29T00:00+01:00"), ms("2026-03-29T23:59+02:00")))
    assert [shown(one, BERLIN) for one in day] == ["03-29 03:00:00+0200"]


def test_a_time_that_comes_twice_fires_at_its_first() -> None:
    assert first("30 2 * * *", BERLIN, "2026-10-24T12:00Z", 2) == [
        "10-25 02:30:00+0200",
        "10-26 02:30:00+0100",
    ]
    assert first("30 15 1 * * *", NEW_YORK, "2026-11-01T05:15:30Z", 1) == ["11-02 01:15:30-0500"]


def test_every_hour_goes_by_elapsed_time() -> None:
    assert first("0 * * * *", BERLIN, "2026-03-29T00:30+01:00", 3) == [
        "03-29 01:00:00+0100",
        "03-29 03:00:00+0200",
        "03-29 04:00:00+0200",
    ]
    assert first("0 * * * *", BERLIN, "2026-10-25T01:30+02:00", 3) == [
        "10-25 02:00:00+0200",
        "10-25 02:00:00+0100",
        "10-25 03:00:00+0100",
    ]


def test_a_day_that_a_zone_left_out_fires_after_it() -> None:
    apia = ZoneInfo("Pacific/Apia")
    assert first("0 10 * * *", apia, "2011-12-29T12:00-10:00", 3) == [
        "12-31 00:00:00+1400",
        "12-31 10:00:00+1400",
        "01-01 10:00:00+1400",
    ]


CHANGES = [
    ("Europe/Berlin", "2026-03-29T01:00Z"),
    ("Europe/Berlin", "2026-10-25T01:00Z"),
    ("America/New_York", "2026-03-08T07:00Z"),
    ("America/New_York", "2026-11-01T06:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T15:30Z"),
    ("America/Sao_Paulo", "2018-11-04T03:00Z"),
    ("America/Sao_Paulo", "2018-02-18T02:00Z"),
    ("America/Havana", "2026-11-01T05:00Z"),
    ("Asia/Kathmandu", "2026-06-01T00:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00Z"),
    ("UTC", "2026-06-01T00:00Z"),
]


@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_planned_times_are_those_that_a_reader_of_the_clock_finds(name: str, change: str) -> None:
    chance, zone, at = random.Random(f"{name} {change}"), ZoneInfo(name), datetime.fromisoformat(change)
    begin, end = at - timedelta(hours=30), at + timedelta(hours=30)
    reader = Reader(zone, begin, end)
    for _ in range(40):
        minute = chance.choice([str(chance.randrange(60)), "*/15", "*/7", "0", "30", "*"])
        hour = chance.choice(["*", "*", "0", "1", "2", "3", "23", "*/2", "*/5"])
        day = chance.choice(["*", "*", "*/2", str((at + timedelta(hours=chance.randrange(-24, 24))).day)])
        cron = f"0 {minute} {hour} {day} * *"
        timing = Timing(zone, cron=cron)
        expected = reader.times(cron)
        first_ms, last_ms = int(begin.timestamp() * 1000), int(end.timestamp() * 1000) - 1
        assert list(timing.between(first_ms, last_ms)) == expected, cron
        for since in [first_ms - 1, *expected[:50]]:  # the next one does not depend on where one begins
            later = next((one for one in expected if one > since), None)
            if later is not None:
                assert timing.next(since) == later, (cron, since)
        assert timing.latest(first_ms, last_ms, 3) == expected[-3:]


def test_intervals_count_from_their_anchor_and_keep_to_their_bounds() -> None:
    timing = Timing(UTC_ZONE, every=1500, anchor=10_000)
    assert list(itertools.islice(timing.after(10_000), 3)) == [11_500, 13_000, 14_500]
    assert timing.next(13_000) == 14_500
    started = Timing(UTC_ZONE, every=1500, anchor=20_000, start=20_000, end=23_000)
    assert list(started.after(0)) == [20_000, 21_500, 23_000]
    assert started.latest(0, 10**12, 2) == [21_500, 23_000]
    once = Timing(UTC_ZONE, at=5_000)
    assert (once.next(4_999), once.next(5_000)) == (5_000, None)


UTC_ZONE = ZoneInfo("UTC")


@pytest.mark.parametrize(
    ("cron", "wrong"),
    [
        ("* * * *", "has 4 fields"),
        ("* * * * * * *", "has 7 fields"),
        ("61 * * * *", "its minute is not valid: expected 0 to 59"),
        ("0 0 30 2 *", "its day-of-month is not valid: expected 1 to 31, as far as one of the months has"),
        ("0 0 * * fri-mon", "sun to sat, as in mon-fri, tue#2 or 5L; write a range to Sunday as in 5-7"),
        ("0 0 * * sun#6", "its day-of-week"),
        ("@never", "has 1 fields"),
        ("*/0 * * * *", "its minute"),
        ("０ 0 * * *", "all of ASCII"),
        ("1," * 200 + "1 * * * *", "at most 200"),
        ("0 0 L-3 * *", "its day-of-month"),
        ("-1 * * * *", "its minute"),
        ("0 0 * * ²L", "all of ASCII"),
    ],
)
def test_a_wrong_expression_is_refused_with_what_is_wrong(cron: str, wrong: str) -> None:
    with pytest.raises(InvalidArgumentError, match=wrong.replace("(", r"\(")):
        cron_of(cron)


@pytest.mark.parametrize(
    "cron", ["@daily", "@Hourly", "0 0 29 2 *", "0 0 L * fri", "*/5 * * * * *", "0 12 * * mon#1"]
)
def test_expressions_that_come_are_taken(cron: str) -> None:
    assert next(Timing(BERLIN, cron=cron_of(cron)).after(ms("2026-01-01T00:00Z"))) > 0


def test_an_unknown_zone_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidArgumentError, match="did you mean 'Europe/Berlin'"):
        zone_of("Europe/Berlim")
    for hostile in ("../../etc/passwd", "/etc/localtime", "", "Europe", "a\x00b", "x" * 5000):
        with pytest.raises(InvalidArgumentError, match="no time zone"):
            zone_of(hostile)


def test_moments_are_read_in_their_zone() -> None:
    assert moment_of("2026-07-01T09:30", BERLIN) == ms("2026-07-01T07:30Z")
    assert moment_of("2026-07-01T09:30+05:45", BERLIN) == ms("2026-07-01T03:45Z")
    assert moment_of("2026-07-01", BERLIN) == ms("2026-06-30T22:00Z")
    assert moment_of("2026-03-29T02:30", BERLIN) == ms("2026-03-29T01:00Z"), "the end of the gap"
    assert moment_of("2026-10-25T02:30", BERLIN) == ms("2026-10-25T00:30Z"), "the first of two"
    for wrong in ("tomorrow", "2026-13-01", "9999-12-31T23:59", "1900-01-01", ""):
        with pytest.raises(InvalidArgumentError, match=r"time|years"):
            moment_of(wrong, BERLIN)


def test_jitter_is_the_same_for_the_same_time_and_spreads() -> None:
    found = [offset_of("s", planned, 60_000) for planned in range(0, 100_000_000, 1_000_000)]
    assert found == [offset_of("s", planned, 60_000) for planned in range(0, 100_000_000, 1_000_000)]
    assert all(0 <= one <= 60_000 for one in found)
    assert len({one // 6_000 for one in found}) == 10, "each tenth of the span is hit"
    assert offset_of("s", 5, 0) == 0


def test_a_firing_is_named_by_its_schedule_and_time() -> None:
    names = {firing_id(ws, one, at) for ws in ("w", "v") for one in ("a", "b") for at in (1, 2)}
    assert len(names) == 8
    assert firing_id("w", "a", 1) == firing_id("w", "a", 1)


def test_the_first_look_needs_no_time_of_the_machine() -> None:
    assert Timing(UTC_ZONE, cron=cron_of("0 0 1 1 *")).next(ms("2199-06-01T00:00Z")) == ms(
        "2200-01-01T00:00Z"
    )
    assert Timing(UTC_ZONE, cron=cron_of("0 0 1 1 *")).next(ms("2200-01-01T00:00Z")) is None
    assert datetime.fromtimestamp(0, UTC).year == 1970


@pytest.mark.parametrize(
    ("zone", "change"),
    [
        ("Europe/Berlin", "2026-10-25T01:00Z"),
        ("Europe/Berlin", "2026-03-29T01:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T15:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T15:30Z"),
        ("Pacific/Apia", "2011-12-30T10:00Z"),
    ],
)
@pytest.mark.parametrize("cron", ["* * 0-23 * * *", "* 0-23 * * *"])
def test_a_change_of_the_clock_costs_no_more_steps_than_a_day_without(
    zone: str, change: str, cron: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time of the day before or of the gap would be up to 90,000 steps, at each firing for a day."""
    steps = 0

    class Counted(CronSim):
        def __next__(self) -> datetime:
            nonlocal steps
            steps += 1
            return super().__next__()

    timing = Timing(ZoneInfo(zone), cron=cron_of(cron))
    monkeypatch.setattr(firing_times, "CronSim", Counted)
    at, hour = ms(change), 3_600_000
    for after in range(at - 2 * hour, at + 26 * hour, 1_799_000):
        before = steps
        planned = timing.next(after)
        assert planned is not None
        assert after < planned <= after + 25 * hour
        assert steps - before <= 3, shown(after, timing.zone)
    before = steps
    found = list(itertools.islice(timing.after(at - 5_000), 20))
    assert found == sorted(set(found))
    assert steps - before <= 25
