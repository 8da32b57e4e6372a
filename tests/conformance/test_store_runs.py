"""Runs and their journal on both databases: lanes, claims, fences, pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from hostler.domain.runs import STATUSES, TRANSITIONS, holds_lane, is_terminal
from hostler.domain.slots import Slots
from hostler.storage.port import Tx
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import Query
from hostler.storage.stores import hosts, journal, runs
from hostler.storage.stores import run_claims as claims
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.journal import Deltas, Entry
from hostler.storage.stores.runs import Appended, Fenced, Moved, NewRun, Run
from hostler_protocol.content import Usage
from hostler_protocol.errors import ExpiredError, NotFoundError
from hostler_protocol.runs import TERMINAL_STATUSES, RunStatus
from support.databases import read, run, write

DROP_DELTAS = Query("t.drop", *["DELETE FROM journal WHERE type = 'message.delta'"] * 2)
ROWS = Query("t.rows", *["SELECT count FROM journal ORDER BY last_position"] * 2)


H1 = Membership("h1")


def new(run_id: str, *, lane: str | None = None, workspace: str = "w1", **fields: Any) -> NewRun:
    return NewRun(
        workspace_id=workspace,
        run_id=run_id,
        agent_id=fields.pop("agent_id", "a1"),
        agent_name=fields.pop("agent_name", "echo"),
        agent_version=1,
        runner_id="plugin:acme/echo/default",
        lane=lane or f"lane of {run_id}",
        **fields,
    )


def opened(database: SqlDatabase, *news: NewRun, claim: Membership | None = H1) -> list[str]:
    return [write(database, lambda tx, n=n: runs.open(tx, n, claim)).status for n in news]  # type: ignore[misc]


def move(
    database: SqlDatabase, run_id: str, attempt: int | None, to: RunStatus, **more: Any
) -> Moved | Fenced:
    return write(
        database, lambda tx: runs.transition(tx, run_id, attempt, to, cause="test", actor="t", **more)
    )


def claim(database: SqlDatabase, limit: int = 10, member: Membership = H1, **more: Any) -> list[str]:
    claimed = write(database, lambda tx: claims.claim(tx, member, Slots(limit, **more), []))
    return [one.run_id for one in claimed.runs]


def delta(number: int) -> Entry:
    return Entry("result", "message.delta", f'{{"data":{{"n":{number}}}}}')


def result(result_type: str, text: str = "{}") -> Entry:
    return Entry("result", result_type, f'{{"data":{text}}}'.encode())


def append(database: SqlDatabase, run_id: str, attempt: int, *entries: Entry | Deltas) -> Appended | Fenced:
    return write(database, lambda tx: runs.append(tx, run_id, attempt, entries))


def at(database: SqlDatabase, run_id: str) -> runs.Run:
    return read(database, lambda tx: runs.get(tx, "w1", run_id))


def reach(database: SqlDatabase, run_id: str, status: RunStatus) -> None:
    """Open a run and bring it to `status`."""
    opened(database, new(run_id), claim=None if status == "queued" else H1)
    if status not in {"queued", "claimed"}:
        move(database, run_id, None, "running")
        if status != "running":
            move(database, run_id, None, status)


def test_a_lane_holds_one_run_and_the_rest_wait_in_order(database: SqlDatabase) -> None:
    assert opened(database, new("r1", lane="l"), new("r2", lane="l"), new("r3", lane="l")) == [
        "claimed",
        "queued",
        "queued",
    ]
    assert claim(database) == []
    move(database, "r1", 1, "running")
    move(database, "r1", 1, "completed")
    assert opened(database, new("r4", lane="l")) == ["queued"], "it does not overtake those who wait"
    for following in ("r2", "r3", "r4"):
        assert claim(database) == [following]
        move(database, following, 1, "failed", status_code="runner.error")
    assert claim(database) == []


def test_runs_opened_in_one_moment_keep_their_order(database: SqlDatabase) -> None:
    names = ["zoe", "adam", "mia", "bob"]
    write(database, lambda tx: [runs.open(tx, new(name, lane="l"), None) for name in names])
    for name in names:
        assert claim(database) == [name]
        move(database, name, 1, "cancelled")


def test_a_paused_run_keeps_its_lane_and_a_parallel_one_needs_none(database: SqlDatabase) -> None:
    opened(database, new("r1", lane="l"))
    move(database, "r1", 1, "running")
    move(database, "r1", 1, "paused")
    assert at(database, "r1").host_id is None
    assert opened(database, new("r2", lane="l")) == ["queued"]
    assert opened(database, new("r3", lane="l", parallel=True)) == ["claimed"]
    assert claim(database) == []
    assert move(database, "r1", 1, "queued") == Moved("paused", 2, 4, 1)
    assert claim(database) == ["r1"], "it was there before the one that waits"


def test_what_opening_a_run_answers_is_what_is_stored(database: SqlDatabase) -> None:
    shapes = [
        new("r1", lane="l", binding={"scope": "bot"}, requester="user:ada", priority=3),
        new("r2", lane="l", conversation_id="c", thread_id="t", bot_id="b", event_id="e"),
        new("r3", lane="l", parallel=True, deadline_at=10, parent_run_id="r1"),
        new("r4", not_before=2**50, gathering="key", gather_until=2**51, gathered_bytes=5),
    ]
    for one in shapes:
        assert write(database, partial(runs.open, run=one, claim=H1)) == at(database, one.run_id)


def test_racing_for_a_lane_one_run_gets_it(database: SqlDatabase) -> None:
    async def race() -> list[Run]:
        async def one(number: int) -> Run:
            return await database.write(lambda tx: runs.open(tx, new(f"r{number}", lane="l"), H1))

        return await asyncio.gather(*(one(number) for number in range(50)))

    assert sorted(one.status for one in run(race())) == ["claimed"] + ["queued"] * 49


def test_every_change_of_status_is_as_the_table_says(database: SqlDatabase) -> None:
    for before in STATUSES:
        for to in STATUSES[:1] + STATUSES[2:]:  # `claimed` is what claiming does
            run_id = f"{before} to {to}"
            reach(database, run_id, before)
            was = at(database, run_id)
            outcome = move(database, run_id, was.attempt, to, status_code="x")
            now = at(database, run_id)
            if (before, to) not in TRANSITIONS:
                assert outcome == Fenced(before, was.attempt), run_id
                assert now == was, run_id
                continue
            assert isinstance(outcome, Moved), run_id
            assert (now.status, now.status_code) == (to, "x")
            assert now.attempt == was.attempt + (to == "queued")
            assert (now.finished_at is not None) == is_terminal(to)
            lane_is_free = read(database, lambda tx, w=was: runs.active_in_lane(tx, "w1", w.lane)) is None  # type: ignore[misc]
            assert lane_is_free != holds_lane(to), run_id


def test_a_run_is_claimed_only_by_claiming(database: SqlDatabase) -> None:
    opened(database, new("r1"), claim=None)
    with pytest.raises(ValueError, match=r"claims\.claim"):
        move(database, "r1", 1, "claimed")


def test_every_change_of_status_is_journalled(database: SqlDatabase) -> None:
    opened(database, new("r1"))
    move(database, "r1", 1, "running", deadline_at=99, host_id="h1")
    move(database, "r1", 1, "queued", crashed=True)
    claim(database)
    ended = move(database, "r1", 2, "timeout", status_code="runner.timeout", entries=[result("run.failed")])
    assert ended == Moved("claimed", 2, 5, 1)
    page = read(database, lambda tx: journal.page(tx, "r1"))
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
    found = at(database, "r1")
    assert (found.crashes, found.deadline_at, found.status_code) == (1, 99, "runner.timeout")


def test_a_superseded_attempt_changes_nothing(database: SqlDatabase) -> None:
    opened(database, new("r1"))
    move(database, "r1", 1, "running")
    append(database, "r1", 1, delta(1))
    move(database, "r1", None, "queued", crashed=True)
    before = at(database, "r1")
    assert append(database, "r1", 1, delta(2)) == Fenced("queued", 2)
    assert append(database, "r1", 2, delta(2)) == Fenced("queued", 2), "claimed by nobody yet"
    assert move(database, "r1", 1, "completed") == Fenced("queued", 2)
    assert move(database, "r1", 1, "running", grant_json="{}") == Fenced("queued", 2)
    assert not write(database, lambda tx: runs.usage(tx, "r1", 1, Usage(input_tokens=1), None))
    assert at(database, "r1") == before
    claim(database)
    assert append(database, "r1", 2, delta(2)) == Appended(6, 2), "numbers go on across attempts"
    with pytest.raises(NotFoundError):
        append(database, "no such run", 1, delta(1))


def test_the_first_ending_wins(database: SqlDatabase) -> None:
    opened(database, new("r1"))
    move(database, "r1", 1, "running")

    async def race() -> list[Moved | Fenced]:
        def end(to: RunStatus) -> Callable[[Tx], Moved | Fenced]:
            entry = result("run.completed" if to == "completed" else "run.failed")
            return lambda tx: runs.transition(tx, "r1", 1, to, cause="race", actor="t", entries=[entry])

        return await asyncio.gather(*(database.write(end(to)) for to in sorted(TERMINAL_STATUSES) * 5))

    outcomes = run(race())
    assert sum(isinstance(outcome, Moved) for outcome in outcomes) == 1
    page = read(database, lambda tx: journal.results(tx, "r1"))
    assert [entry.sequence for entry in page.items] == [1]


def test_grant_and_usage_stay_with_the_run(database: SqlDatabase) -> None:
    opened(database, new("r1", binding={"scope": "bot"}))
    move(database, "r1", 1, "running", grant_json='{"a":1}')
    assert write(database, lambda tx: runs.usage(tx, "r1", 1, Usage(input_tokens=3), "0.25"))
    move(database, "r1", 1, "queued")
    claim(database)
    move(database, "r1", 2, "running", grant_json='{"b":2}')
    assert at(database, "r1").grant_json == '{"a":1}', "frozen at the first attempt"
    move(database, "r1", 2, "completed", usage=Usage(input_tokens=7, output_tokens=2))
    found = at(database, "r1")
    assert (found.grant_json, found.binding) == ('{"a":1}', {"scope": "bot"})
    assert (found.usage, found.cost) == (Usage(input_tokens=7, output_tokens=2), "0.25")


def test_workspaces_take_turns(database: SqlDatabase) -> None:
    opened(database, *[new(f"a{n}", workspace="wa") for n in range(6)], claim=None)
    opened(database, *[new(f"b{n}", workspace="wb") for n in range(3)], claim=None)
    opened(database, new("c0", workspace="wc"), claim=None)
    turns = [claim(database, 1)[0][0] for _ in range(7)]
    assert turns == ["a", "b", "c", "a", "b", "a", "b"]
    assert [run_id[0] for run_id in claim(database, 10)] == ["a", "a", "a"]


def test_within_a_workspace_priority_then_age(database: SqlDatabase) -> None:
    opened(database, new("old"), new("urgent", priority=5), new("young"), claim=None)
    opened(database, new("first", lane="l"), new("urgent too", lane="l", priority=9), claim=None)
    assert claim(database) == ["urgent", "old", "young", "first"], "but order within a lane stays"


def test_a_run_that_is_held_back_waits_for_its_time(database: SqlDatabase) -> None:
    now = write(database, lambda tx: tx.now)
    opened(database, new("later", lane="l", not_before=now + 3_600_000), new("due", not_before=now - 1))
    assert at(database, "later").status == "queued"
    assert at(database, "due").status == "claimed"
    assert claim(database) == []
    assert read(database, claims.look).due == now + 3_600_000
    assert read(database, lambda tx: runs.count_waiting(tx, "l", 10)) == 0, "it stands in nobody's way"


def test_what_became_due_since_it_was_looked_is_still_told(database: SqlDatabase) -> None:
    """Else a host that looked in the moment before would sleep for ever."""
    now = write(database, lambda tx: tx.now)
    opened(database, new("soon", not_before=now - 1), claim=None)
    assert read(database, lambda tx: claims.look(tx, now - 2)).due == now - 1
    assert read(database, lambda tx: claims.look(tx, now)).due is None, "it was seen, and something holds it"


def test_a_look_tells_whether_a_run_waits_and_whether_one_may_start(database: SqlDatabase) -> None:
    def look() -> tuple[bool, bool]:
        found = read(database, claims.look)
        return found.waiting, found.ready

    assert look() == (False, False)
    opened(database, new("holds", lane="l"), new("behind", lane="l"), claim=None)
    assert look() == (True, True)
    assert claim(database) == ["holds"]
    assert look() == (True, False), "its lane is taken"
    now = write(database, lambda tx: tx.now)
    opened(database, new("later", not_before=now + 3_600_000), claim=None)
    assert look() == (True, False), "it is not due"
    opened(database, new("beside", lane="l", parallel=True), claim=None)
    assert look() == (True, True)


def test_agents_at_their_limit_are_passed_over(database: SqlDatabase) -> None:
    opened(database, new("r1", agent_id="full"), new("r2", agent_id="free"), claim=None)
    assert claim(database, per_agent={"full": 0, "a%": 0}) == ["r2"]
    assert claim(database) == ["r1"]


def test_a_long_queue_of_busy_lanes_hides_nobody(database: SqlDatabase) -> None:
    opened(database, new("holder", lane="busy"))
    write(
        database,
        lambda tx: [runs.open(tx, new(f"w{n}", lane="busy", workspace="w0"), None) for n in range(500)],
    )
    opened(database, new("free", workspace="w9"), claim=None)
    assert claim(database, 1) == ["free"]


def test_cancelling_is_noted_once_and_only_while_it_matters(database: SqlDatabase) -> None:
    opened(database, new("r1"), new("child", parent_run_id="r1"))
    asked = write(database, lambda tx: runs.request_cancel(tx, "w1", "r1", "user asked", by="ada"))
    assert asked is not None
    assert asked.cancel_reason == "user asked"
    again = write(database, lambda tx: runs.request_cancel(tx, "w1", "r1", "other", by="bob"))
    assert again is not None
    assert (again.cancel_reason, again.cancel_requested_by) == ("user asked", "ada")
    assert again.cancel_requested_at == asked.cancel_requested_at is not None
    assert [one.run_id for one in read(database, lambda tx: runs.children(tx, "w1", "r1"))] == ["child"]
    assert write(database, lambda tx: runs.request_cancel(tx, "w2", "r1", "stranger", by="ada")) is None
    move(database, "r1", 1, "cancelled", status_code="cancelled")
    assert write(database, lambda tx: runs.request_cancel(tx, "w1", "r1", "late", by="ada")) is None


def test_runs_are_found_in_their_workspace_only(database: SqlDatabase) -> None:
    opened(database, new("r1"))
    assert read(database, lambda tx: runs.find(tx, "w2", "r1")) is None
    with pytest.raises(NotFoundError):
        read(database, lambda tx: runs.get(tx, "w2", "r1"))
    assert read(database, lambda tx: runs.page(tx, "w2")) == []


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


def joined(database: SqlDatabase, host_id: str, lease_ms: int = 60_000) -> Membership:
    return write(database, lambda tx: hosts.join(tx, host_id, "here", lease_ms))


def test_the_runs_of_a_dead_host_are_found(database: SqlDatabase) -> None:
    one, two = joined(database, "h1"), joined(database, "h2")
    opened(database, new("r1"), new("r2"), claim=two)
    opened(database, new("r3"), claim=one)
    move(database, "r2", 1, "running")
    lapse(database, two)
    assert [found.member for found in read(database, hosts.dead)] == [two]
    assert [found.member for found in read(database, hosts.alive)] == [one]
    assert write(database, lambda tx: hosts.renew(tx, two, 60_000)) is None, "too late"
    assert write(database, lambda tx: hosts.renew(tx, one, 60_000)) is not None
    assert [found.run_id for found in read(database, lambda tx: runs.active_of(tx, two))] == ["r1", "r2"]
    assert read(database, hosts.lost) == []
    assert not write(database, lambda tx: hosts.take_over(tx, one))
    assert [write(database, lambda tx: hosts.take_over(tx, two)) for _ in range(2)] == [True, False]
    assert read(database, hosts.lost) == [two]
    assert [found.run_id for found in read(database, lambda tx: runs.active(tx, after="r1"))] == ["r2", "r3"]
    for run_id in ("r1", "r2"):
        move(database, run_id, None, "queued", crashed=True)
    assert read(database, hosts.lost) == []
    write(database, lambda tx: hosts.leave(tx, one))
    assert read(database, hosts.alive) == []


def lapse(database: SqlDatabase, member: Membership) -> None:
    """Let a lease be over."""
    write(database, lambda tx: hosts.renew(tx, member, -1))


def test_a_host_whose_lease_is_over_claims_nothing(database: SqlDatabase) -> None:
    member = joined(database, "h1")
    assert opened(database, new("r1"), new("r2", lane="l"), claim=member) == ["claimed", "claimed"]
    lapse(database, member)
    assert opened(database, new("r3"), claim=member) == ["queued"], "the event is taken, the run waits"
    assert claim(database, member=member) == []
    assert claim(database, member=joined(database, "h2")) == ["r3"]


def test_each_time_a_host_joins_it_is_another_member(database: SqlDatabase) -> None:
    members = [joined(database, "h1") for _ in range(5)]
    assert [one.epoch for one in members] == sorted({one.epoch for one in members})
    *before, now = members
    assert [write(database, lambda tx, m=m: hosts.holds(tx, m)) for m in before] == [False] * 4  # type: ignore[misc]
    assert write(database, lambda tx: hosts.holds(tx, now))
    assert write(database, lambda tx: hosts.renew(tx, before[-1], 60_000)) is None
    write(database, lambda tx: hosts.leave(tx, before[-1]))
    lapse(database, now)
    assert not write(database, lambda tx: hosts.take_over(tx, before[-1]))
    assert [found.member for found in read(database, hosts.dead)] == [now]


def test_what_a_host_claimed_before_it_joined_again_is_lost(database: SqlDatabase) -> None:
    """Whoever settles it must not take the runs that the host claims since."""
    before = joined(database, "h1")
    opened(database, new("r1"), claim=before)
    now = joined(database, "h1")
    opened(database, new("r2"), claim=now)
    assert read(database, hosts.lost) == [before]
    assert [one.run_id for one in read(database, lambda tx: runs.active_of(tx, before))] == ["r1"]
    assert read(database, lambda tx: runs.attempts_of(tx, now)) == {("r2", 1)}


def test_nobody_takes_over_from_a_host_within_its_transaction(database: SqlDatabase) -> None:
    """On one database with several hosts; the other one passes over it and tries again later."""
    if database.dialect != "postgres":
        return
    member = joined(database, "h1", 300)
    other = open_database(database._driver._url)  # type: ignore[attr-defined]

    def held(tx: Any) -> bool:
        assert hosts.holds(tx, member)
        while True:  # its lease ends while its transaction goes on
            gone = run(other.read(hosts.dead))
            if gone:
                return run(other.write(lambda tx: hosts.take_over(tx, member)))

    assert write(database, held) is False
    assert run(other.write(lambda tx: hosts.take_over(tx, member))) is True
    run(other.close())


def test_deltas_share_rows_and_come_back_one_by_one(database: SqlDatabase) -> None:
    opened(database, new("r1"))
    outcome = append(
        database,
        "r1",
        1,
        *[delta(n) for n in range(300)],
        result("message.completed", '{"pretty":\n1}'),
        Entry("call", "state.get", "{}"),
        delta(300),
    )
    assert outcome == Appended(2, 1)
    assert [row["count"] for row in read(database, lambda tx: tx.all(ROWS))] == [1, 256, 44, 1, 1, 1]
    found = read(database, lambda tx: journal.results(tx, "r1"))
    assert [entry.sequence for entry in found.items] == list(range(1, 303))
    assert found.items[299].data == '{"data":{"n":299}}'
    assert found.items[300].data == '{"data":{"pretty": 1}}'
    assert [entry.position for entry in found.items[-2:]] == [302, 304]
    assert at(database, "r1").kept_sequence == 301
    completed = read(database, lambda tx: journal.of_type(tx, "r1", "message.completed"))
    assert [entry.sequence for entry in completed.items] == [301]


def test_deltas_written_many_at_once_stand_as_those_written_one_by_one(database: SqlDatabase) -> None:
    many = [b'{"data":{"n":%d}}' % n for n in range(700)]
    long = b'{"data":"%b"}' % (b"x" * 30_000)
    last = [result("log"), delta(7)]
    together: list[Any] = [delta(0), Deltas(many[1:300]), Deltas(many[300:]), Deltas([long] * 5), *last]
    alone: list[Any] = [*map(delta, range(700)), *[Entry("result", "message.delta", long)] * 5, *last]
    opened(database, new("r1"))
    assert append(database, "r1", 1, *together) == Appended(2, 1)
    assert [row["count"] for row in read(database, lambda tx: tx.all(ROWS))] == [1, 256, 256, 190, 2, 1, 1, 1]
    opened(database, new("r2"))
    assert append(database, "r2", 1, *alone) == Appended(2, 1)
    assert at(database, "r1").sequence == at(database, "r2").sequence == 707
    pages = [read(database, partial(journal.results, run_id=run_id)).items for run_id in ("r1", "r2")]
    first, second = ([(entry.sequence, entry.position, entry.data) for entry in page] for page in pages)
    assert first == second
    assert [sequence for sequence, _, _ in first] == list(range(1, 708))


@pytest.mark.parametrize("limit", [1, 7, 100, 1000])
def test_pages_of_the_journal_are_whole_from_any_point(database: SqlDatabase, limit: int) -> None:
    opened(database, new("r1"))
    for _ in range(6):
        append(database, "r1", 1, *[delta(n) for n in range(40)], Entry("warning", "w", "{}"))
    total = 1 + 6 * 41
    for start in (0, 1, 41, 42, 100, total, total + 5):
        seen: list[int] = []
        after, more = start, True
        while more:
            page = read(database, lambda tx, a=after: journal.page(tx, "r1", a, limit))  # type: ignore[misc]
            assert len(page.items) <= limit
            seen += [entry.position for entry in page.items]
            after, more = (page.items[-1].position if page.items else after), page.more
        assert seen == list(range(start + 1, total + 1))
    before, backward = total + 1, list[int]()
    while page := read(database, lambda tx, b=before: journal.page_backward(tx, "r1", b, limit)):  # type: ignore[misc]
        backward += [entry.position for entry in page.items]
        if not page.more:
            break
        before = page.items[-1].position
    assert backward == list(range(total, 0, -1))


def test_a_page_is_bounded_by_its_bytes(database: SqlDatabase) -> None:
    opened(database, new("r1"))
    for _ in range(10):
        append(database, "r1", 1, result("log", '"' + "x" * 10_000 + '"'))
    page = read(database, lambda tx: journal.results(tx, "r1", max_bytes=35_000))
    assert [entry.sequence for entry in page.items] == [1, 2, 3]
    assert page.more
    one = read(database, lambda tx: journal.results(tx, "r1", 3, max_bytes=1))
    assert [entry.sequence for entry in one.items] == [4], "never nothing, or a reader would stand still"


def test_a_cursor_into_what_was_dropped_is_expired(database: SqlDatabase) -> None:
    opened(database, new("r1"))
    append(database, "r1", 1, *[delta(n) for n in range(5)], result("message.completed"))
    append(database, "r1", 1, *[delta(n) for n in range(5)], result("message.completed"))
    write(database, lambda tx: tx.run(DROP_DELTAS))
    for sequence in (1, 3, 5, 7, 11):
        with pytest.raises(ExpiredError, match=f"sequence {sequence} "):
            read(database, lambda tx, s=sequence: journal.results(tx, "r1", s))  # type: ignore[misc]
    with pytest.raises(ExpiredError, match="position 4 "):
        read(database, lambda tx: journal.page(tx, "r1", 4))
    kept = read(database, lambda tx: journal.results(tx, "r1"))
    assert [entry.sequence for entry in kept.items] == [6, 12], "from the beginning it reads what is left"
    after = read(database, lambda tx: journal.results(tx, "r1", 6))
    assert [entry.sequence for entry in after.items] == [12], "after a message that was kept, nothing is lost"
    assert read(database, lambda tx: journal.results(tx, "r1", 12)).items == []
