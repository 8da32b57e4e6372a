"""Runs on both databases: lanes, claims, fences, pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from hostler.domain.runs import HOLDS_LANE, STATUSES, TRANSITIONS
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import journal, run_families, run_lanes, runs
from hostler.storage.stores import run_claims as claims
from hostler.storage.stores.runs import Appended, Begun, Fenced, Moved, Run
from hostler_protocol.content import Usage
from hostler_protocol.errors import NotFoundError
from hostler_protocol.runs import TERMINAL_STATUSES, RunStatus
from support.databases import read, run, write
from support.run_rows import H1, append, at, claim, delta, move, new, opened, reach, result

pytestmark = pytest.mark.gate("both-databases")


async def test_a_lane_holds_one_run_and_the_rest_wait_in_order(database: SqlDatabase) -> None:
    assert await opened(database, new("r1", lane="l"), new("r2", lane="l"), new("r3", lane="l")) == [
        "claimed",
        "queued",
        "queued",
    ]
    assert await claim(database) == []
    await move(database, "r1", 1, "running")
    await move(database, "r1", 1, "completed")
    assert await opened(database, new("r4", lane="l")) == ["queued"], "it does not overtake those who wait"
    for following in ("r2", "r3", "r4"):
        assert await claim(database) == [following]
        await move(database, following, 1, "failed", status_code="runner.error")
    assert await claim(database) == []


async def test_runs_opened_in_one_moment_keep_their_order(database: SqlDatabase) -> None:
    names = ["zoe", "adam", "mia", "bob"]
    await database.write(lambda tx: [runs.open(tx, new(name, lane="l"), None) for name in names])
    for name in names:
        assert await claim(database) == [name]
        await move(database, name, 1, "cancelled")


async def test_a_paused_run_keeps_its_lane_and_a_parallel_one_needs_none(database: SqlDatabase) -> None:
    await opened(database, new("r1", lane="l"))
    await move(database, "r1", 1, "running")
    await move(database, "r1", 1, "paused")
    assert (await at(database, "r1")).host_id is None
    assert await opened(database, new("r2", lane="l")) == ["queued"]
    assert await opened(database, new("r3", lane="l", parallel=True)) == ["claimed"]
    assert await claim(database) == []
    assert await move(database, "r1", 1, "queued") == Moved("paused", 2, 4, 1)
    assert await claim(database) == ["r1"], "it was there before the one that waits"


async def test_what_opening_a_run_answers_is_what_is_stored(database: SqlDatabase) -> None:
    shapes = [
        new("r1", lane="l", binding={"scope": "bot"}, requester="user:ada", priority=3),
        new("r2", lane="l", conversation_id="c", thread_id="t", bot_id="b", event_id="e"),
        new("r3", lane="l", parallel=True, deadline_at=10, parent_run_id="r1"),
        new("r4", not_before=2**50, gathering="key", gather_until=2**51, gathered_bytes=5),
    ]
    for one in shapes:
        assert await database.write(partial(runs.open, run=one, claim=H1)) == await at(database, one.run_id)


def test_racing_for_a_lane_one_run_gets_it(database: SqlDatabase) -> None:
    async def race() -> list[Run]:
        async def one(number: int) -> Run:
            return await database.write(lambda tx: runs.open(tx, new(f"r{number}", lane="l"), H1))

        return await asyncio.gather(*(one(number) for number in range(50)))

    assert sorted(one.status for one in run(race())) == ["claimed"] + ["queued"] * 49


async def test_every_change_of_status_is_as_the_table_says(database: SqlDatabase) -> None:
    for before in STATUSES:
        for to in STATUSES[:1] + STATUSES[2:]:  # `claimed` is what claiming does
            run_id = f"{before} to {to}"
            await reach(database, run_id, before)
            was = await at(database, run_id)
            outcome = await move(database, run_id, was.attempt, to, status_code="x")
            now = await at(database, run_id)
            if (before, to) not in TRANSITIONS:
                assert outcome == Fenced(before, was.attempt), run_id
                assert now == was, run_id
                continue
            assert isinstance(outcome, Moved), run_id
            assert (now.status, now.status_code) == (to, "x")
            assert now.attempt == was.attempt + (to == "queued")
            assert (now.finished_at is not None) == (to in TERMINAL_STATUSES)
            in_lane = await database.read(partial(run_lanes.active_in_lane, workspace_id="w1", lane=was.lane))
            assert (in_lane is None) == (to not in HOLDS_LANE), run_id


async def test_a_run_that_begins_and_ends_at_once_is_left_as_if_it_had_done_so_in_turn(
    database: SqlDatabase,
) -> None:
    grant, deadline = '{"grant":1}', 2**45
    begun = Begun.of(cause="it began", actor="h1", deadline_at=deadline, grant_json=grant)
    results = [delta(1), result("message.completed")]
    told: list[Any] = []
    for run_id in ("in turn", "at once"):
        await opened(database, new(run_id, lane=run_id))
        if run_id == "in turn":
            await database.write(
                partial(runs.begin, run_id=run_id, attempt=1, begun=begun, entries=[begun.entry])
            )
            outcome = await move(database, run_id, 1, "completed", entries=results)
        else:
            outcome = await move(
                database, run_id, 1, "completed", entries=[begun.entry, *results], begun=begun
            )
        assert isinstance(outcome, Moved)
        assert outcome.before == "running"
        ended = await at(database, run_id)
        assert (ended.status, ended.grant_json, ended.deadline_at) == ("completed", grant, deadline)
        assert ended.started_at is not None
        page = await database.read(partial(journal.page, run_id=run_id))
        told.append(
            (
                [(one.position, one.sequence, one.kind, one.type, one.data) for one in page.items],
                (ended.position, ended.sequence, ended.kept_sequence),
            )
        )
    assert told[0] == told[1]


async def test_a_run_of_another_attempt_does_not_begin(database: SqlDatabase) -> None:
    begun = Begun.of(cause="it began", actor="h1", grant_json="{}")
    await opened(database, new("r1"))
    await move(database, "r1", 1, "running")
    await move(database, "r1", 1, "queued")
    was = await at(database, "r1")
    begin = partial(runs.begin, run_id="r1", attempt=1, begun=begun, entries=[begun.entry])
    assert await database.write(begin) == Fenced("queued", 2)
    ended = await move(database, "r1", 1, "completed", entries=[begun.entry], begun=begun)
    assert ended == Fenced("queued", 2)
    assert await at(database, "r1") == was


async def test_a_run_is_claimed_only_by_claiming(database: SqlDatabase) -> None:
    await opened(database, new("r1"), by=None)
    with pytest.raises(ValueError, match=r"claims\.claim"):
        await move(database, "r1", 1, "claimed")


async def test_every_change_of_status_is_journalled(database: SqlDatabase) -> None:
    await opened(database, new("r1"))
    await move(database, "r1", 1, "running", deadline_at=99, host_id="h1")
    await move(database, "r1", 1, "queued", crashed=True)
    await claim(database)
    ended = await move(
        database, "r1", 2, "timeout", status_code="runner.timeout", entries=[result("run.failed")]
    )
    assert ended == Moved("claimed", 2, 5, 1)
    page = await database.read(lambda tx: journal.page(tx, "r1"))
    assert [(entry.position, entry.kind, entry.type, entry.attempt) for entry in page.items] == [
        (1, "lifecycle", "claimed", 1),
        (2, "lifecycle", "running", 1),
        (3, "lifecycle", "queued", 1),
        (4, "lifecycle", "claimed", 2),
        (5, "result", "run.failed", 2),
        (6, "lifecycle", "timeout", 2),
    ]
    last = page.items[-1].data
    assert last == (
        '{"from":"claimed","to":"timeout","cause":"test","actor":"t","status_code":"runner.timeout"}'
    )
    found = await at(database, "r1")
    assert (found.crashes, found.deadline_at, found.status_code) == (1, 99, "runner.timeout")


async def test_a_superseded_attempt_changes_nothing(database: SqlDatabase) -> None:
    await opened(database, new("r1"))
    await move(database, "r1", 1, "running")
    await append(database, "r1", 1, delta(1))
    await move(database, "r1", None, "queued", crashed=True)
    before = await at(database, "r1")
    assert await append(database, "r1", 1, delta(2)) == Fenced("queued", 2)
    assert await append(database, "r1", 2, delta(2)) == Fenced("queued", 2), "claimed by nobody yet"
    assert await move(database, "r1", 1, "completed") == Fenced("queued", 2)
    assert await move(database, "r1", 1, "running", grant_json="{}") == Fenced("queued", 2)
    assert not await database.write(lambda tx: runs.usage(tx, "r1", 1, Usage(input_tokens=1), None))
    assert await at(database, "r1") == before
    await claim(database)
    assert await append(database, "r1", 2, delta(2)) == Appended(6, 2), "numbers go on across attempts"
    with pytest.raises(NotFoundError):
        await append(database, "no such run", 1, delta(1))


async def test_the_first_ending_wins(database: SqlDatabase) -> None:
    await opened(database, new("r1"))
    await move(database, "r1", 1, "running")

    def end(to: RunStatus) -> Callable[[Tx], Moved | Fenced]:
        entry = result("run.completed" if to == "completed" else "run.failed")
        return lambda tx: runs.transition(tx, "r1", 1, to, cause="race", actor="t", entries=[entry])

    outcomes = await asyncio.gather(*(database.write(end(to)) for to in sorted(TERMINAL_STATUSES) * 5))
    assert sum(isinstance(outcome, Moved) for outcome in outcomes) == 1
    page = await database.read(lambda tx: journal.results(tx, "r1"))
    assert [entry.sequence for entry in page.items] == [1]


async def test_grant_and_usage_stay_with_the_run(database: SqlDatabase) -> None:
    await opened(database, new("r1", binding={"scope": "bot"}))
    await move(database, "r1", 1, "running", grant_json='{"a":1}')
    assert await database.write(lambda tx: runs.usage(tx, "r1", 1, Usage(input_tokens=3), "0.25"))
    await move(database, "r1", 1, "queued")
    await claim(database)
    await move(database, "r1", 2, "running", grant_json='{"b":2}')
    assert (await at(database, "r1")).grant_json == '{"a":1}', "frozen at the first attempt"
    await move(database, "r1", 2, "completed", usage=Usage(input_tokens=7, output_tokens=2))
    found = await at(database, "r1")
    assert (found.grant_json, found.binding) == ('{"a":1}', {"scope": "bot"})
    assert (found.usage, found.cost) == (Usage(input_tokens=7, output_tokens=2), "0.25")


async def next_moment(database: SqlDatabase) -> None:
    """Wait until the database's clock has moved: of what was served in one millisecond, neither is later."""
    now = await database.read(lambda tx: tx.now)
    while await database.read(lambda tx: tx.now) == now:
        await asyncio.sleep(0)


async def test_workspaces_take_turns(database: SqlDatabase) -> None:
    await opened(database, *[new(f"a{n}", workspace="wa") for n in range(6)], by=None)
    await opened(database, *[new(f"b{n}", workspace="wb") for n in range(3)], by=None)
    await opened(database, new("c0", workspace="wc"), by=None)
    turns = []
    for _ in range(7):
        turns.append((await claim(database, 1))[0][0])
        await next_moment(database)
    assert turns == ["a", "b", "c", "a", "b", "a", "b"]
    assert [run_id[0] for run_id in await claim(database, 10)] == ["a", "a", "a"]


async def test_within_a_workspace_priority_then_age(database: SqlDatabase) -> None:
    await opened(database, new("old"), new("urgent", priority=5), new("young"), by=None)
    await opened(database, new("first", lane="l"), new("urgent too", lane="l", priority=9), by=None)
    assert await claim(database) == ["urgent", "old", "young", "first"], "but order within a lane stays"


async def test_a_run_that_is_held_back_waits_for_its_time(database: SqlDatabase) -> None:
    now = await database.write(lambda tx: tx.now)
    await opened(database, new("later", lane="l", not_before=now + 3_600_000), new("due", not_before=now - 1))
    assert (await at(database, "later")).status == "queued"
    assert (await at(database, "due")).status == "claimed"
    assert await claim(database) == []
    assert (await database.read(claims.look)).due == now + 3_600_000
    assert await database.read(lambda tx: run_lanes.count_waiting(tx, "l", 10)) == 0, (
        "it stands in nobody's way"
    )


async def test_what_became_due_since_it_was_looked_is_still_told(database: SqlDatabase) -> None:
    """Else a host that looked in the moment before would sleep for ever."""
    now = await database.write(lambda tx: tx.now)
    await opened(database, new("soon", not_before=now - 1), by=None)
    assert (await database.read(lambda tx: claims.look(tx, now - 2))).due == now - 1
    assert (await database.read(lambda tx: claims.look(tx, now))).due is None, (
        "it was seen, and something holds it"
    )


async def test_a_look_tells_whether_a_run_waits_and_whether_one_may_start(database: SqlDatabase) -> None:
    async def look() -> tuple[bool, bool]:
        found = await database.read(claims.look)
        return found.waiting, found.ready

    assert await look() == (False, False)
    await opened(database, new("holds", lane="l"), new("behind", lane="l"), by=None)
    assert await look() == (True, True)
    assert await claim(database) == ["holds"]
    assert await look() == (True, False), "its lane is taken"
    now = await database.write(lambda tx: tx.now)
    await opened(database, new("later", not_before=now + 3_600_000), by=None)
    assert await look() == (True, False), "it is not due"
    await opened(database, new("beside", lane="l", parallel=True), by=None)
    assert await look() == (True, True)


async def test_agents_at_their_limit_are_passed_over(database: SqlDatabase) -> None:
    await opened(database, new("r1", agent_id="full"), new("r2", agent_id="free"), by=None)
    assert await claim(database, per_agent={"full": 0, "a%": 0}) == ["r2"]
    assert await claim(database) == ["r1"]


async def test_a_long_queue_of_busy_lanes_hides_nobody(database: SqlDatabase) -> None:
    await opened(database, new("holder", lane="busy"))
    await database.write(
        lambda tx: [runs.open(tx, new(f"w{n}", lane="busy", workspace="w0"), None) for n in range(500)],
    )
    await opened(database, new("free", workspace="w9"), by=None)
    assert await claim(database, 1) == ["free"]


async def test_cancelling_is_noted_once_and_only_while_it_matters(database: SqlDatabase) -> None:
    await opened(database, new("r1"), new("child", parent_run_id="r1"))
    asked = await database.write(lambda tx: runs.request_cancel(tx, "w1", "r1", "user asked", by="ada"))
    assert asked is not None
    assert asked.cancel_reason == "user asked"
    again = await database.write(lambda tx: runs.request_cancel(tx, "w1", "r1", "other", by="bob"))
    assert again is not None
    assert (again.cancel_reason, again.cancel_requested_by) == ("user asked", "ada")
    assert again.cancel_requested_at == asked.cancel_requested_at is not None
    assert [one.run_id for one in await database.read(lambda tx: run_families.children(tx, "w1", "r1"))] == [
        "child"
    ]
    assert await database.write(lambda tx: runs.request_cancel(tx, "w2", "r1", "stranger", by="ada")) is None
    await move(database, "r1", 1, "cancelled", status_code="cancelled")
    assert await database.write(lambda tx: runs.request_cancel(tx, "w1", "r1", "late", by="ada")) is None


async def test_a_family_is_counted_through_runs_that_have_ended(database: SqlDatabase) -> None:
    async def family(run_id: str, limit: int = 100, ws: str = "w1") -> tuple[int, int]:
        return await database.read(lambda tx: run_families.family(tx, ws, run_id, limit))

    await opened(database, new("top"))
    assert await family("top") == (0, 0)
    for name, parent in (("a", "top"), ("b", "top"), ("a1", "a"), ("a2", "a"), ("a11", "a1")):
        await opened(database, new(name, lane=name, parent_run_id=parent))
    await opened(database, new("other", lane="other"))
    assert await family("top") == (5, 5)
    for name in ("a", "a1"):
        await move(database, name, 1, "cancelled", status_code="cancelled")
    assert await family("top") == (5, 3)
    assert await family("a") == (3, 2)
    assert await family("a11") == (0, 0)
    assert (await family("top", limit=4))[0] == 4
    assert await family("top", ws="w2") == (0, 0)


async def test_runs_are_found_in_their_workspace_only(database: SqlDatabase) -> None:
    await opened(database, new("r1"))
    assert await database.read(lambda tx: runs.find(tx, "w2", "r1")) is None
    with pytest.raises(NotFoundError):
        await database.read(lambda tx: runs.get(tx, "w2", "r1"))
    assert await database.read(lambda tx: runs.page(tx, "w2")) == []


def test_pages_of_runs_are_whole_in_any_size(database: SqlDatabase) -> None:
    def fill(tx: Tx) -> None:
        for number in range(25):
            runs.open(tx, new(f"r{number:02}", conversation_id=f"c{number % 2}"), H1)
        runs.open(tx, new("other", agent_name="other"), None)

    write(database, fill)

    def walk(limit: int, **filters: Any) -> list[str]:
        found: list[str] = []
        before: tuple[int, str] | None = None
        while page := read(
            database, partial(runs.page, workspace_id="w1", limit=limit, before=before, **filters)
        ):
            assert len(page) <= limit
            found += [one.run_id for one in page]
            before = (page[-1].created_at, page[-1].run_id)
        return found

    everything = [f"r{number:02}" for number in range(24, -1, -1)]
    for limit in (1, 7, 100):
        assert walk(limit, statuses=["claimed", "running"]) == everything
        assert walk(limit, conversation_id="c1") == everything[1::2]
        assert walk(limit, agent_name="other") == ["other"]
        assert walk(limit, statuses=["completed"]) == []
