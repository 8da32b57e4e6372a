"""Use over time, of runs and of calls of models, on both databases."""

from __future__ import annotations

import random
import time
from decimal import Decimal
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import model_calls, runs, usage_series
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.model_calls import ModelCall
from hostler.storage.stores.usage_series import Figures, Period, Series
from hostler_protocol.content import Usage
from hostler_protocol.limits import MAX_INTEGER
from support.databases import read, write
from support.run_rows import new

DAY = 86_400_000
H1 = Membership("host")


def around_now(step: int = DAY, shift: int = 0) -> Period:
    now = int(time.time() * 1000)
    return Period(now - DAY, now + DAY, step, shift)


def series(database: SqlDatabase, ws: str = "w", period: Period | None = None, **more: Any) -> Series:
    wanted = {"by": "agent", "most": 10, **more}
    return read(database, lambda tx: usage_series.read(tx, ws, period or around_now(), **wanted))


def run(database: SqlDatabase, run_id: str, agent: str = "a", to: Any = "completed", **more: Any) -> None:
    ws, requester = more.pop("ws", "w"), more.pop("requester", None)
    opened = new(run_id, workspace=ws, agent_id=agent, agent_name=agent, requester=requester)

    def work(tx: Any) -> None:
        runs.open(tx, opened, H1)
        runs.transition(tx, run_id, 1, "running", cause="t", actor="t")
        if to is not None:
            runs.transition(tx, run_id, 1, to, cause="t", actor="t", **more)

    write(database, work)


def runs_of(found: Series) -> dict[str | None, int]:
    return {name: group.total.whole("runs") or 0 for name, group in found.groups.items()}


def test_runs_are_summed_up_by_name_and_all_others_are_one(database: SqlDatabase) -> None:
    for number, agent in enumerate("aaabbc"):
        more = {"usage": Usage(input_tokens=10), "cost": "0.25"} if agent == "a" else {}
        run(database, f"r{number}", agent, "failed" if number == 0 else "completed", **more)
    run(database, "open", "a", None)
    run(database, "foreign", "a", usage=Usage(input_tokens=1000), ws="v")
    found = series(database)
    assert runs_of(found) == {"a": 4, "b": 2, "c": 1}
    assert found.complete
    a = found.groups["a"].total
    assert (a.whole("completed"), a.whole("failed"), a.whole("input_tokens")) == (2, 1, 30)
    assert (a.whole("output_tokens"), a.sums["cost"]) == (None, 0.75)
    (point,) = found.groups["a"].points.values()
    assert point.sums == a.sums
    assert runs_of(series(database, most=1)) == {"a": 4, None: 3}
    assert runs_of(series(database, agent_name="b")) == {"b": 2}
    assert runs_of(series(database, by="none")) == {"": 7}
    assert runs_of(series(database, "nobody")) == {}


def test_people_are_named_by_their_subject_and_nobody_by_nothing(database: SqlDatabase) -> None:
    for number, person in enumerate(("oidc:x#1", "oidc:x#1", None)):
        run(database, f"r{number}", requester=person)
    assert runs_of(series(database, by="person")) == {"oidc:x#1": 2, "": 1}


def test_calls_of_models_are_summed_up_with_the_runs_that_made_them(database: SqlDatabase) -> None:
    for number in range(2):
        run(database, f"r{number}", "a")
    run(database, "foreign", "a", ws="v")

    def call(run_id: str, model: str, outcome: Any, ms: int, *, used: bool = True) -> None:
        usage = Usage(input_tokens=3, output_tokens=2) if used else None
        made = ModelCall(model, outcome, ms, usage, Decimal("0.5") if used else None)
        write(database, lambda tx: model_calls.add(tx, run_id, made))

    call("r0", "large", "completed", 10)
    call("r0", "large", "completed", 30)
    call("r1", "large", "failed", 9_000, used=False)
    call("r1", "small", "given_up", 5, used=False)
    call("foreign", "large", "completed", 1)
    found = series(database, by="model")
    large, small = found.groups["large"].total, found.groups["small"].total
    assert [large.whole(name) for name in ("runs", "calls", "completed", "failed")] == [2, 3, 2, 1]
    assert (large.whole("input_tokens"), large.sums["cost"]) == (6, 1.0)
    assert (large.percentile(50), large.percentile(95)) == (0.01, 0.03)  # what failed took no time
    assert (small.whole("calls"), small.whole("input_tokens"), small.percentile(50)) == (1, None, None)
    assert list(series(database, by="model", agent_name="b").groups) == []


def test_a_step_begins_where_it_is_said_to(database: SqlDatabase) -> None:
    run(database, "r")
    week = 7 * DAY
    period = around_now(week, 3 * DAY)
    (place,) = series(database, period=period).groups["a"].points
    begin = period.begin_of(place)
    assert begin <= int(time.time() * 1000) < begin + week
    assert time.gmtime(begin / 1000)[3:7] == (0, 0, 0, 0)  # midnight of a Monday


def test_of_too_many_runs_the_newest_are_counted(database: SqlDatabase, monkeypatch: Any) -> None:
    for number in range(5):
        run(database, f"r{number}")
        time.sleep(0.002)  # another millisecond
    monkeypatch.setattr(usage_series, "MAX_COUNTED", 3)
    found = series(database)
    assert not found.complete
    assert runs_of(found) == {"a": 3}
    monkeypatch.setattr(usage_series, "MAX_COUNTED", 5)
    assert series(database).complete


def test_of_too_many_runs_of_several_workspaces_the_newest_are_counted(
    database: SqlDatabase, monkeypatch: Any
) -> None:
    names = ["w", "v", "idle"]
    for number in range(12):
        run(database, f"r{number}", ws=names[number % 4 == 3])
        time.sleep(0.002)  # another millisecond

    def begin(period: Period, *workspaces: str) -> int:
        return read(database, lambda tx: usage_series.begin_of_runs(tx, workspaces, period))

    first = read(database, partial(runs.get, workspace_id="w", run_id="r0")).created_at
    period = Period(first - 1_000, first + DAY, DAY, 0)
    for bound in range(1, 12):
        monkeypatch.setattr(usage_series, "MAX_COUNTED", bound)
        since = begin(period, *names)
        counted = replace(period, since=since)
        found = [series(database, name, counted) for name in names]
        assert all(one.complete for one in found)
        assert bound // len(names) <= sum(sum(runs_of(one).values()) for one in found) <= bound
        assert since > period.since
    monkeypatch.setattr(usage_series, "MAX_COUNTED", 12)
    assert begin(period, *names) == begin(period) == period.since


def test_a_sum_of_the_largest_numbers_is_capped(database: SqlDatabase) -> None:
    for number in range(3):
        run(database, f"r{number}", usage=Usage(total_tokens=MAX_INTEGER))
    assert series(database).groups["a"].total.whole("total_tokens") == MAX_INTEGER


def test_times_are_counted_to_three_per_cent(database: SqlDatabase) -> None:
    run(database, "r")
    exact = [int(random.Random(2).lognormvariate(8, 2)) for _ in range(1)]
    exact += [0, 1, 63, 64, 127, 128, 511, 512, 2_047, 8_191, 40_000, 600_000, 3_000_000, 20_000_000]
    for ms in exact:
        made = ModelCall("m", "completed", ms, None, None)
        write(database, lambda tx, made=made: model_calls.add(tx, "r", made))  # type: ignore[misc]
    times = series(database, by="model").groups["m"].total.times
    assert sum(times.values()) == len(exact)
    about = sorted(at for at, many in times.items() for _ in range(many))
    for found, ms in zip(about, sorted(exact), strict=True):
        assert abs(found - ms) <= ms * 0.035, ms


@given(st.dictionaries(st.integers(0, 1000), st.integers(1, 9), min_size=1), st.sampled_from([50, 95]))
def test_a_percentile_is_one_of_the_times(times: dict[int, int], percent: int) -> None:
    alone = sorted(ms for ms, many in times.items() for _ in range(many))
    place = -(-len(alone) * percent // 100) - 1
    assert Figures(times=times).percentile(percent) == alone[place] / 1000
