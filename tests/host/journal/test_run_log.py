"""A run's way into its journal: one order, all or nothing, told after the commit, patient with a database."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import pytest

from hostler.domain.scopes import StateArea
from hostler.journal import run_log
from hostler.journal.feed import Feed, Seen, StoredResult
from hostler.journal.run_log import FencedError, Item, RunLog
from hostler.storage.port import Query, Row, Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.session import CommitUnknownError, ConstraintError, SessionTx
from hostler.storage.stores import hosts, journal, runs
from hostler.storage.stores import state_values as states
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.journal import NewEntry
from hostler.storage.stores.runs import Begun
from hostler_protocol.errors import CancelledCallError, HostlerError, StorageError
from support.run_rows import new
from support.shaky_database import Shaky

WORKSPACE, RUN = "w1", "r1"
H1 = Membership("h1")


@dataclass
class Attempt:
    """A claimed run with its log being pumped."""

    log: RunLog
    database: SqlDatabase
    feed: Feed
    fences: list[FencedError] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)

    def note(self, name: str) -> Callable[[Any, HostlerError | None], None]:
        return lambda answer, error: self.answers.append((name, answer if error is None else type(error)))

    def delta(self, number: int, **more: Any) -> Item:
        body = b'{"data":{"n":%d}}' % number
        published = StoredResult.of(RUN, number, "message.delta", body)
        entry = NewEntry("result", "message.delta", body)
        return Item(entry=entry, published=[published], synced=False, size=10, **more)

    async def numbers(self) -> list[int]:
        page = await self.database.read(lambda tx: journal.results(tx, RUN, 0, max_items=10_000))
        return [entry.sequence or 0 for entry in page.items]


async def attempt(database: SqlDatabase, shaky: Shaky | None = None, *, member: Membership = H1) -> Attempt:
    await database.write(lambda tx: runs.open(tx, new(RUN, workspace=WORKSPACE), member))

    async def nothing(run_id: str, after: int, at_most: int) -> Seen:
        return Seen([], is_over=False)

    feed = Feed(nothing)
    feed.open(RUN, 0)
    log = RunLog(shaky or database, feed, RUN, 1, member)
    return Attempt(log, database, feed)


def move(to: Any, attempt: int = 1) -> Callable[..., Any]:
    def moved(tx: Tx, entries: Sequence[NewEntry] = (), begun: Begun | None = None) -> Any:
        return runs.transition(tx, RUN, attempt, to, cause="test", actor="t", entries=entries, begun=begun)

    return moved


def remember(tx: Tx) -> tuple[NewEntry, str]:
    """An effect, and the entry of the call that had it."""
    area = StateArea(scope="conversation", scope_key="k", agent_id="a1", conversation_id="c")
    states.set(tx, WORKSPACE, area, "step", "1")
    return NewEntry("call", "state.set", b"{}"), "done"


async def remembered(database: SqlDatabase) -> dict[str, Any]:
    found = await database.read(
        lambda tx: states.snapshot(tx, WORKSPACE, {"conversation": "k"}, conversation_id="c")
    )
    return {key: value for key, value in found.values["conversation"].items() if key == "step"}


async def test_everything_stands_in_the_order_it_was_added_and_is_told_after_the_commit(
    database: SqlDatabase,
) -> None:
    made = await attempt(database)
    made.log.add(Item(move=move("running"), synced=False, done=made.note("running")))
    for number in range(1, 101):
        made.log.add(made.delta(number))
    made.log.add(Item(work=remember, done=made.note("call")))
    for number in range(101, 1501):
        made.log.add(made.delta(number))
    watching = asyncio.create_task(_collect(made.feed, 1500))
    pumping = asyncio.create_task(made.log.pump(made.fences.append))
    await made.log.settled()
    assert await made.numbers() == list(range(1, 1501))
    assert made.answers == [("running", None), ("call", "done")]
    assert await watching == list(range(1, 1501))
    kinds = [e.kind for e in (await database.read(lambda tx: journal.page(tx, RUN, 0, 500))).items]
    assert kinds.index("call") > kinds.index("lifecycle")
    made.log.close()
    await pumping


async def _collect(feed: Feed, count: int) -> list[int]:
    seen: list[int] = []
    async for batch in feed.watch(RUN, 0):
        seen += [result.sequence for result in batch]
        if len(seen) >= count:
            break
    return seen


async def test_what_is_added_while_a_batch_is_written_is_the_next_batch(database: SqlDatabase) -> None:
    shaky = Shaky(database)
    made = await attempt(database, shaky)
    pumping = asyncio.create_task(made.log.pump(made.fences.append))
    for number in range(1, 201):
        made.log.add(made.delta(number))
    await made.log.settled()
    assert len(shaky.writes) == 1, "one turn of the loop is one batch"
    assert shaky.writes == [False], "deltas alone need no disk sync"
    made.log.add(made.delta(201))
    assert await made.log.write(remember) == "done"
    assert shaky.writes[1:] == [True], "an effect is synced, and takes what waits along"
    made.log.close()
    await pumping


async def test_a_fenced_attempt_leaves_nothing_not_even_its_effects(database: SqlDatabase) -> None:
    made = await attempt(database)
    await database.write(move("running"))
    await database.write(move("queued"))  # somebody settled it: attempt 2 is the right one now
    made.log.add(made.delta(1, done=made.note("delta")))
    made.log.add(Item(work=remember, done=made.note("call")))
    await made.log.pump(made.fences.append)
    assert ["attempt 2" in error.message for error in made.fences] == [True]
    assert made.answers == [("delta", FencedError), ("call", FencedError)]
    assert await made.numbers() == []
    assert await remembered(database) == {}
    with pytest.raises(FencedError):
        await made.log.write(remember)
    await made.log.settled()


async def test_an_attempt_whose_host_lost_its_lease_writes_nothing(database: SqlDatabase) -> None:
    """Nobody has taken the run yet: it is the lease alone that says so."""
    member = await database.write(lambda tx: hosts.join(tx, "h1", "here", 60_000))
    made = await attempt(database, member=member)
    await database.write(move("running"))
    await database.write(lambda tx: hosts.renew(tx, member, -1))
    made.log.add(made.delta(1, done=made.note("delta")))
    made.log.add(Item(move=move("completed"), last=True, done=made.note("end")))
    await made.log.pump(made.fences.append)
    assert made.answers == [("delta", FencedError), ("end", FencedError)]
    assert ["lease" in error.message for error in made.fences] == [True]
    assert await made.numbers() == []
    found = await database.read(lambda tx: runs.by_id(tx, RUN))
    assert found is not None
    assert (found.status, found.attempt) == ("running", 1)


async def test_the_first_ending_wins_and_undoes_what_came_with_a_second(database: SqlDatabase) -> None:
    made = await attempt(database)
    await database.write(move("running"))
    await database.write(move("cancelled"))
    made.log.add(Item(work=remember, done=made.note("call")))
    made.log.add(Item(move=move("completed"), last=True, done=made.note("end")))
    await made.log.pump(made.fences.append)
    assert made.answers == [("call", FencedError), ("end", FencedError)]
    assert await remembered(database) == {}
    found = await database.read(lambda tx: runs.by_id(tx, RUN))
    assert found is not None
    assert found.status == "cancelled"


async def test_nothing_is_taken_after_the_last_item(database: SqlDatabase) -> None:
    made = await attempt(database)
    made.log.add(Item(move=move("running"), synced=False))
    made.log.add(Item(move=move("completed"), last=True, done=made.note("end")))
    made.log.add(made.delta(1, done=made.note("late")))
    assert made.answers == [("late", CancelledCallError)]
    made.log.close()
    await made.log.pump(made.fences.append)
    assert made.answers == [("late", CancelledCallError), ("end", None)]


async def test_a_database_that_takes_nothing_is_waited_for(
    database: SqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "FIRST_RETRY_SECONDS", 0.001)
    shaky = Shaky(database, refusals=3)
    made = await attempt(database, shaky)
    pumping = asyncio.create_task(made.log.pump(made.fences.append))
    made.log.add(made.delta(1))
    assert await made.log.write(remember) == "done"
    assert len(shaky.writes) == 4
    assert await made.numbers() == [1]
    made.log.close()
    await pumping


async def test_an_error_that_stays_is_told_to_everybody(database: SqlDatabase) -> None:
    made = await attempt(database, Shaky(database, refusals=1, retryable=False))
    made.log.add(made.delta(1, done=made.note("delta")))
    waiting = asyncio.create_task(made.log.write(remember))
    await asyncio.sleep(0)
    with pytest.raises(StorageError, match="disk is full"):
        await made.log.pump(made.fences.append)
    with pytest.raises(StorageError):
        await waiting
    assert made.answers == [("delta", ConstraintError)]
    assert await made.numbers() == []
    await made.log.settled()


async def test_what_may_have_been_committed_is_not_written_again(database: SqlDatabase) -> None:
    made = await attempt(database, Shaky(database, unheard=1))
    made.log.add(made.delta(1, done=made.note("delta")))
    with pytest.raises(CommitUnknownError):
        await made.log.pump(made.fences.append)
    assert made.answers == [("delta", FencedError)]
    assert [str(fence) for fence in made.fences] == ["this attempt was superseded: nobody knows"]
    assert await made.numbers() == [1]


class Pinned:
    """What an item has with it, for example bytes that nobody may remove."""


@pytest.mark.parametrize("unheard", [True, False], ids=["commit unknown", "refused"])
async def test_what_items_have_with_them_is_let_go_at_once_if_they_fail(
    database: SqlDatabase, unheard: bool
) -> None:
    """Without the garbage collector, and while the errors still exist."""
    shaky = Shaky(database, unheard=1) if unheard else Shaky(database, refusals=1, retryable=False)
    made = await attempt(database, shaky)
    held: list[weakref.ref[Pinned]] = []

    async def effect() -> None:
        pinned = Pinned()
        held.append(weakref.ref(pinned))

        def work(tx: Tx) -> tuple[NewEntry, Any]:
            return remember(tx)[0], pinned

        await made.log.write(work)

    gc.disable()
    try:
        calls = [asyncio.create_task(effect()) for _ in range(3)]
        await asyncio.sleep(0)
        pumping = asyncio.create_task(made.log.pump(made.fences.append))
        await asyncio.wait([pumping, *calls])
        assert isinstance(pumping.exception(), StorageError)
        assert {type(call.exception()) for call in calls} == {FencedError if unheard else ConstraintError}
        calls.clear()
        await asyncio.sleep(0)
        assert [ref() for ref in held] == [None] * 3
    finally:
        gc.enable()


async def test_what_must_be_on_disk_first_is_and_what_depends_on_the_entry_comes_with_it(
    database: SqlDatabase,
) -> None:
    made = await attempt(database)
    order: list[str] = []

    async def put() -> None:
        order.append("before")

    def work(tx: Tx) -> tuple[NewEntry, str]:
        order.append("work")
        return remember(tx)

    made.log.add(Item(before=put, work=work, after=lambda tx: order.append("after")))
    made.log.close()
    await made.log.pump(made.fences.append)
    assert order == ["before", "work", "after"]


async def test_a_wait_for_what_was_added_does_not_wait_for_what_comes_later(database: SqlDatabase) -> None:
    made = await attempt(database)
    await made.log.settled()  # nothing was added
    made.log.add(made.delta(1))
    waiting = asyncio.create_task(made.log.settled())
    pumping = asyncio.create_task(made.log.pump(made.fences.append))
    await waiting
    assert await made.numbers() == [1]
    made.log.close()
    await pumping


async def test_an_entry_that_no_call_sees_is_written_with_what_comes_next(database: SqlDatabase) -> None:
    shaky = Shaky(database)
    made = await attempt(database, shaky)
    pumping = asyncio.create_task(made.log.pump(made.fences.append))
    entry = Item(entry=NewEntry("call", "state.get", b"{}"), synced=False)
    made.log.add(entry, hurry=False)
    await made.log.seen()
    assert not shaky.writes
    made.log.add(made.delta(1))
    await made.log.seen()
    assert shaky.writes == [False]  # both
    written = asyncio.Event()  # nothing comes next: it is written nevertheless
    made.log.add(replace(entry, done=lambda *_: written.set()), hurry=False)
    await written.wait()
    assert len(shaky.writes) == 2
    made.log.close()
    await pumping


async def test_what_follows_from_a_result_precedes_what_comes_after_it(database: SqlDatabase) -> None:
    done: list[str] = []

    def note(name: str) -> Callable[[Tx], None]:
        return lambda _: done.append(name)

    def call(tx: Tx) -> tuple[NewEntry, None]:
        done.append("call")
        return NewEntry("call", "steering.pull", b"{}"), None

    def end(tx: Tx, entries: Any, begun: Begun | None) -> Any:
        done.append("end")
        return move("failed")(tx, entries, begun)

    one = await attempt(database)
    await database.write(move("running"))
    for item in (
        Item(entry=NewEntry("result", "message.completed", b'{"data":{}}'), after=note("first message")),
        Item(work=call),
        Item(entry=NewEntry("result", "message.completed", b'{"data":{}}'), after=note("last message")),
        Item(move=end, after=note("message of the end"), last=True),
    ):
        one.log.add(item)
    one.log.close()
    await one.log.pump(one.fences.append)
    assert done == ["first message", "call", "last message", "message of the end", "end"]


async def test_a_run_that_begins_and_ends_in_one_batch_is_updated_once(database: SqlDatabase) -> None:
    one = await attempt(database)
    begun = Begun.of(cause="test", actor="t", deadline_at=7, grant_json='{"grant":1}')
    one.log.add(Item(entry=NewEntry("context", "attempt", b"{}"), begun=begun, synced=False))
    one.log.add(one.delta(1))
    one.log.add(Item(move=move("completed"), last=True, done=one.note("end")))
    one.log.close()
    changes: list[str] = []
    real = SessionTx.one

    def noted(tx: SessionTx, query: Query, **params: Any) -> Row | None:
        changes.extend([query.name] if query.name in {"runs.move", "runs.append"} else [])
        return real(tx, query, **params)

    with mock.patch.object(SessionTx, "one", noted):
        await one.log.pump(one.fences.append)
    assert changes == ["runs.move"]
    assert await told(database) == [
        ("lifecycle", "claimed"),
        ("context", "attempt"),
        ("lifecycle", "running"),
        ("result", "message.delta"),
        ("lifecycle", "completed"),
    ]
    ended = await database.read(lambda tx: runs.get(tx, WORKSPACE, RUN))
    assert (ended.status, ended.deadline_at, ended.grant_json) == ("completed", 7, '{"grant":1}')
    assert ended.started_at == ended.finished_at


async def test_a_call_finds_its_run_running_with_its_grant(database: SqlDatabase) -> None:
    one = await attempt(database)
    seen: list[tuple[str, str | None]] = []

    def call(tx: Tx) -> tuple[NewEntry, None]:
        run = runs.get(tx, WORKSPACE, RUN)
        seen.append((run.status, run.grant_json))
        return NewEntry("call", "run.create", b"{}"), None

    one.log.add(Item(begun=Begun.of(cause="test", actor="t", grant_json="{}"), synced=False))
    one.log.add(Item(work=call))
    one.log.add(one.delta(1))
    one.log.add(Item(move=move("completed"), last=True))
    one.log.close()
    await one.log.pump(one.fences.append)
    assert seen == [("running", "{}")]
    kinds = [kind for kind, _ in await told(database)]
    assert kinds == ["lifecycle", "lifecycle", "call", "result", "lifecycle"]


async def test_what_a_result_has_the_journal_say_follows_it_and_the_start_of_its_run(
    database: SqlDatabase,
) -> None:
    one = await attempt(database)
    one.log.add(Item(begun=Begun.of(cause="test", actor="t"), synced=False))
    left_out = [NewEntry("warning", "dropped", b"{}")]
    one.log.add(Item(entry=NewEntry("result", "state.updated", b'{"data":{}}'), after=lambda _: left_out))
    one.log.close()
    await one.log.pump(one.fences.append)
    assert [kind for kind, _ in await told(database)] == ["lifecycle", "lifecycle", "result", "warning"]


@pytest.mark.parametrize("ends", [True, False])
async def test_an_attempt_that_was_superseded_does_not_begin(database: SqlDatabase, ends: bool) -> None:
    one = await attempt(database)
    await database.write(move("running"))
    await database.write(move("queued"))
    before = await told(database)
    one.log.add(Item(begun=Begun.of(cause="test", actor="t", grant_json="{}"), synced=False))
    if ends:
        one.log.add(Item(move=move("completed"), last=True))
    one.log.close()
    await one.log.pump(one.fences.append)
    assert len(one.fences) == 1
    assert await told(database) == before


async def told(database: SqlDatabase) -> list[tuple[str, str]]:
    """What the journal has, in order."""
    page = await database.read(lambda tx: journal.page(tx, RUN))
    return [(entry.kind, entry.type) for entry in page.items]
