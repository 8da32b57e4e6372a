"""What becomes of firings that come late: in time, missed once, missed often, and over and over."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from hostler.domain.firing_times import Timing, cron_of, offset_of
from hostler.domain.misfires import MAX_CATCH_UP, MAX_COUNTED, Misfire, MisfirePolicy, Step, next_step

SECOND, MINUTE = 1_000, 60_000
EACH_MINUTE = Timing(ZoneInfo("UTC"), every=MINUTE)
GRACE = 10 * SECOND


def step(misfire: Misfire, planned: int, now: int, timing: Timing = EACH_MINUTE) -> Step | None:
    return next_step(timing, MisfirePolicy(misfire, GRACE), "s", planned, now)


@pytest.mark.parametrize("misfire", ["skip", "once", "all"])
def test_a_firing_in_time_happens_under_each_policy(misfire: Misfire) -> None:
    assert step(misfire, 5 * MINUTE, 5 * MINUTE - 1) is None
    assert step(misfire, 5 * MINUTE, 5 * MINUTE) == Step(5 * MINUTE, 6 * MINUTE)
    assert step(misfire, 5 * MINUTE, 5 * MINUTE + GRACE) == Step(5 * MINUTE, 6 * MINUTE, late=GRACE)


def test_missed_firings_are_left_out_become_one_or_all_happen() -> None:
    now = 10 * MINUTE + 30 * SECOND  # those of 5 to 10 minutes were missed
    assert step("skip", 5 * MINUTE, now) == Step(None, 11 * MINUTE, left_out=6)
    assert step("once", 5 * MINUTE, now) == Step(10 * MINUTE, 11 * MINUTE, left_out=5, late=30 * SECOND)
    planned, fired = 5 * MINUTE, []
    while (one := step("all", planned, now)) is not None:
        assert one.fire is not None
        assert one.next is not None
        fired.append(one.fire)
        planned = one.next
    assert fired == [minute * MINUTE for minute in range(5, 11)]


def test_what_is_still_in_time_is_not_missed_with_the_rest() -> None:
    now = 10 * MINUTE + 5 * SECOND
    missed = step("once", 5 * MINUTE, now)
    assert missed == Step(9 * MINUTE, 10 * MINUTE, left_out=4, late=MINUTE + 5 * SECOND)
    assert step("once", 10 * MINUTE, now) == Step(10 * MINUTE, 11 * MINUTE, late=5 * SECOND)
    assert step("skip", 5 * MINUTE, now) == Step(None, 10 * MINUTE, left_out=5)


def test_a_year_that_was_missed_is_caught_up_with_within_bounds() -> None:
    each_second = Timing(ZoneInfo("Europe/Berlin"), cron=cron_of("* * * * * *"))
    now = 1_800_000_000_000 + 365 * 86_400 * SECOND
    found = next_step(each_second, MisfirePolicy("all", GRACE), "s", 1_800_000_000_000, now)
    assert found is not None
    assert found.fire is not None
    assert (now - found.fire) // SECOND in range(MAX_CATCH_UP + 9, MAX_CATCH_UP + 12), "the latest ones"
    assert found.left_out == MAX_COUNTED
    once = next_step(each_second, MisfirePolicy("once", GRACE), "s", 1_800_000_000_000, now)
    assert once is not None
    assert once.fire is not None
    assert now - once.fire > GRACE


def test_a_single_time_that_was_missed_ends_its_schedule() -> None:
    once = Timing(ZoneInfo("UTC"), at=5 * MINUTE)
    assert step("skip", 5 * MINUTE, 60 * MINUTE, once) == Step(None, None, left_out=1)
    assert step("once", 5 * MINUTE, 60 * MINUTE, once) == Step(5 * MINUTE, None, late=55 * MINUTE)


def test_jitter_is_no_lateness() -> None:
    policy, jitter = MisfirePolicy("skip", GRACE, 30 * SECOND), 30 * SECOND
    for minute in range(1, 50):
        planned = minute * MINUTE
        due = planned + offset_of("s", planned, jitter)
        assert next_step(EACH_MINUTE, policy, "s", planned, due - 1) is None
        found = next_step(EACH_MINUTE, policy, "s", planned, due)
        assert found == Step(planned, planned + MINUTE)
        late = next_step(EACH_MINUTE, policy, "s", planned, due + GRACE + 1)
        assert late is not None
        assert late.fire is None
        assert late.next == planned + MINUTE, "the next one may still be in time"


def test_a_time_that_the_timing_has_no_more_still_fires_and_then_the_new_ones() -> None:
    changed = Timing(ZoneInfo("UTC"), every=MINUTE, anchor=90 * MINUTE, start=90 * MINUTE)
    assert step("once", 5 * MINUTE, 60 * MINUTE, changed) == Step(5 * MINUTE, 90 * MINUTE, late=55 * MINUTE)
