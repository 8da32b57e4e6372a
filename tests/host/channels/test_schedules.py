"""Schedules of a real host: runs that they start, what reaches no agent, kills, and two hosts at once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.channels.schedules import RETRY_SECONDS, Scheduler
from hostler.domain.firing_times import Timing
from hostler.domain.members import subject_of
from hostler.domain.misfires import MisfirePolicy, Step, next_step
from hostler.domain.schedules import Schedule
from hostler.domain.sign_in import Person
from hostler.host.config import ConfigFile
from hostler.storage.port import Query, Tx
from hostler.storage.stores import events, members, schedules
from hostler.storage.stores.members import Member
from hostler.storage.stores.schedules import StoredFiring, StoredSchedule
from hostler_protocol.errors import ConflictError, NotFoundError, StorageError
from support import due_schedules
from support.stepping import CALLER, WORKSPACE, Latch, Stage, stage, within

pytestmark = pytest.mark.gate("schedules")
SAY = json.dumps([["say", "on time"]])
WAIT_SECONDS = 60.0


@contextlib.asynccontextmanager
async def at_work(tmp_path: Path, database_url: str, **settings: Any) -> AsyncIterator[Stage]:
    """A host on the database under test."""
    database = database_url if database_url.startswith("postgres") else None
    async with within(), stage(tmp_path / "data", database=database, **settings) as made:
        yield made


async def put(host: Stage, name: str = "s", **fields: Any) -> StoredSchedule:
    """Store a schedule of long ago, so that it fires only when a test makes it due."""
    wanted: dict[str, Any] = {"every": 86_400.0, "agent": "main", "text": SAY, "grace": 86_400.0} | fields

    def work(tx: Tx) -> StoredSchedule:
        schedules.put(tx, WORKSPACE, Schedule(name=name, **wanted), "ada")
        return schedules.get(tx, WORKSPACE, name)

    return await host.host.db.write(work)


async def make_due(host: Stage, name: str = "s", ago: int = 0) -> None:
    """Let a schedule be due, planned `ago` milliseconds in the past."""
    await due_schedules.make_due(host.host, name, ago)


async def fired(host: Stage, name: str = "s", count: int = 1) -> list[StoredFiring]:
    """Wait until a schedule has so many firings; the newest first."""

    def look(tx: Tx) -> list[StoredFiring]:
        return schedules.firings(tx, schedules.get(tx, WORKSPACE, name))

    async with asyncio.timeout(WAIT_SECONDS):
        while len(found := await host.host.db.read(look)) < count:
            await asyncio.sleep(0.01)
    return found


async def test_a_firing_starts_a_run_and_plans_the_next(tmp_path: Path, database_url: str) -> None:
    async with at_work(tmp_path, database_url) as host:
        one = await put(host, conversation_id="c", data={"to": "Ada"})
        await make_due(host, ago=250)
        (firing,) = await fired(host)
        assert (firing.outcome, firing.left_out) == ("started", 0)
        assert firing.late >= 250
        assert firing.run_id is not None
        ended = await host.ended(firing.run_id)
        assert ended.said == ["on time"]
        event = await host.host.db.read(lambda tx: events.find(tx, WORKSPACE, firing.event_id or ""))
        assert event is not None
        envelope = event.event()
        assert envelope is not None
        assert (event.event_type, event.requester, event.conversation_id) == (
            "schedule.triggered",
            "ada",
            "c",
        )
        assert envelope.envelope.data["to"] == "Ada"
        assert envelope.envelope.data["schedule"]["id"] == one.schedule_id
        assert envelope.envelope.data["schedule"]["planned_at"] == firing.planned_at / 1000
        after = await host.host.db.read(lambda tx: schedules.get(tx, WORKSPACE, "s"))
        assert after.next_planned == firing.planned_at + 86_400_000


async def test_what_comes_due_wakes_the_worker_by_itself(tmp_path: Path, database_url: str) -> None:
    async with at_work(tmp_path, database_url) as host:
        await put(host, every=1.0)
        host.host.scheduler.wake()
        found = await fired(host, count=3)
        planned = [one.planned_at for one in found]
        assert [first - second for first, second in itertools.pairwise(planned)] == [1_000, 1_000]
        assert len({one.event_id for one in found}) == 3


async def test_an_event_that_reaches_no_agent_says_why_and_the_next_go_on(
    tmp_path: Path, database_url: str
) -> None:
    async with at_work(tmp_path, database_url) as host:
        await put(host, agent="nobody")
        await make_due(host)
        (firing,) = await fired(host)
        assert (firing.outcome, firing.event_id, firing.run_id) == ("refused", None, None)
        assert "nobody" in (firing.reason or "")
        await host.agent("nobody", enabled=False)
        await make_due(host)
        assert "disabled" in ((await fired(host, count=2))[0].reason or "")
        one = await host.host.db.read(lambda tx: schedules.get(tx, WORKSPACE, "s"))
        assert "disabled" in (one.error or "")
        await host.agent("nobody")
        await make_due(host)
        assert (await fired(host, count=3))[0].outcome == "started"
        one = await host.host.db.read(lambda tx: schedules.get(tx, WORKSPACE, "s"))
        assert one.error is None


async def test_bindings_decide_where_no_agent_is_named(tmp_path: Path, database_url: str) -> None:
    async with at_work(tmp_path, database_url) as host:
        await put(host, agent=None)
        await make_due(host)
        assert (await fired(host))[0].outcome == "unrouted"
        one = await host.host.db.read(lambda tx: schedules.get(tx, WORKSPACE, "s"))
        assert "no agent takes its event" in (one.error or "")
        await host.agent("timed", event_types=["schedule.triggered"])
        await make_due(host)
        found = (await fired(host, count=2))[0]
        assert found.outcome == "started"
        assert found.run_id is not None
        assert (await host.host.runs.record(WORKSPACE, found.run_id)).agent == "timed"


@pytest.mark.parametrize(
    ("on_busy", "outcome"), [("queue", "queued"), ("steer", "queued"), ("reject", "rejected")]
)
async def test_what_overlaps_is_admitted_like_any_event(
    tmp_path: Path, database_url: str, on_busy: str, outcome: str
) -> None:
    async with at_work(tmp_path, database_url) as host, Latch(tmp_path) as latch:
        await host.agent(concurrency={"on_busy": on_busy})
        gate = json.dumps([["gate", latch.path], ["say", "done"]])
        await put(host, conversation_id="c", text=gate)
        await make_due(host)
        await fired(host)
        await latch.reached()
        await make_due(host)
        second = (await fired(host, count=2))[0]
        assert second.outcome == outcome
        latch.open()


@pytest.mark.parametrize(
    ("misfire", "outcomes"), [("skip", ["left_out"]), ("once", ["started"]), ("all", ["started"] * 3)]
)
async def test_what_was_missed_follows_the_policy(
    tmp_path: Path, database_url: str, misfire: str, outcomes: list[str]
) -> None:
    async with at_work(tmp_path, database_url) as host:
        await put(host, every=3600.0, misfire=misfire, grace=1.0)
        await make_due(host, ago=3 * 3_600_000 - 5_000)
        found = await fired(host, count=len(outcomes))
        assert [one.outcome for one in found] == outcomes
        assert sum(one.left_out for one in found) == {"skip": 3, "once": 2, "all": 0}[misfire]
        after = await host.host.db.read(lambda tx: (tx.now, schedules.get(tx, WORKSPACE, "s").next_planned))
        assert after[1] is not None
        assert after[1] > after[0]


async def test_one_that_is_asked_for_is_an_event_of_its_own(tmp_path: Path, database_url: str) -> None:
    async with at_work(tmp_path, database_url) as host:
        one = await put(host)
        accepted = await host.host.scheduler.ask(one, CALLER)
        assert accepted.outcome == "started"
        assert accepted.run is not None
        assert (await host.ended(accepted.run.run_id)).said == ["on time"]
        (firing,) = await fired(host)
        assert (firing.asked_by, firing.event_id) == ("tester", accepted.event_id)
        after = await host.host.db.read(lambda tx: schedules.get(tx, WORKSPACE, "s"))
        assert after.next_planned == one.next_planned, "the planned ones go on as they were"
        gone = await put(host, agent="nobody")
        with pytest.raises(NotFoundError, match="nobody"):
            await host.host.scheduler.ask(gone, CALLER)


async def test_one_that_is_asked_for_again_under_the_same_id_is_the_same_firing(
    tmp_path: Path, database_url: str
) -> None:
    async with at_work(tmp_path, database_url) as host:
        one = await put(host)
        first = await host.host.scheduler.ask(one, CALLER, "asked-1")
        again = await host.host.scheduler.ask(one, CALLER, "asked-1")
        assert first.run is not None
        assert again.run is not None
        assert (again.duplicate, again.run.run_id) == (True, first.run.run_id)
        assert len(await fired(host)) == 1
        at_once = [host.host.scheduler.ask(one, CALLER, "asked-2") for _ in range(5)]
        await asyncio.gather(*at_once, return_exceptions=True)
        assert len(await fired(host)) == 2


async def test_asking_stores_nothing_where_two_agents_match(tmp_path: Path, database_url: str) -> None:
    async with at_work(tmp_path, database_url) as host:
        for name in ("one", "two"):
            await host.agent(name, event_types=["schedule.triggered"])
        one = await put(host, agent=None)
        for _ in range(2):
            with pytest.raises(ConflictError, match="several agents match"):
                await host.host.scheduler.ask(one, CALLER)
        assert await host.host.db.read(lambda tx: events.page(tx, WORKSPACE, limit=100)) == []
        after = await host.host.db.read(lambda tx: schedules.get(tx, WORKSPACE, "s"))
        assert after.firings == 0


async def test_the_schedule_of_a_removed_person_starts_nothing_until_somebody_takes_it_over(
    tmp_path: Path, database_url: str
) -> None:
    async with at_work(tmp_path, database_url) as host:
        ada = subject_of("https://id.example", "ada")
        person = Person("https://id.example", ada, email=None, name="Ada", groups=frozenset())
        spec = Schedule(name="s", every=86_400.0, agent="main", text=SAY, grace=86_400.0)

        def make(tx: Tx) -> Member:
            (member,) = members.admit(tx, person, {WORKSPACE: "operator"}).members
            schedules.put(tx, WORKSPACE, spec, ada)
            return member

        member = await host.host.db.write(make)
        await make_due(host)
        assert (await fired(host))[0].outcome == "started"
        await host.host.db.write(lambda tx: members.remove(tx, member, by="bob"))
        (problem,) = [one for one in await host.host.problems() if one.kind == "schedule"]
        assert (problem.name, problem.place) == ("s", "made_by")
        await make_due(host)
        refused = (await fired(host, count=2))[0]
        assert (refused.outcome, refused.event_id) == ("refused", None)
        assert "no member any more" in (refused.reason or "")
        await host.host.apply(ConfigFile(schedules=[spec]), actor="bob", prune=False)
        await make_due(host)
        taken = (await fired(host, count=3))[0]
        assert taken.outcome == "started"
        event = await host.host.db.read(lambda tx: events.find(tx, WORKSPACE, taken.event_id or ""))
        assert event is not None
        assert event.requester == "bob"
        assert [one for one in await host.host.problems() if one.kind == "schedule"] == []


async def test_one_that_waits_for_times_it_has_fired_already_is_a_problem(tmp_path: Path) -> None:
    """Its host's clock was years ahead for a while."""
    async with at_work(tmp_path, "sqlite:") as host:
        await put(host)
        await host.host.workers.end("schedules")
        text = "UPDATE schedules SET last_planned = {0}, next_planned = {0}, next_at = {0}"
        ahead = Query("test", *[text.format(4_000_000_000_000)] * 2)
        await host.host.db.write(lambda tx: tx.run(ahead))
        (problem,) = [one for one in await host.host.problems() if one.kind == "schedule"]
        assert "hostler schedules resume s --from-now" in problem.problem
        await host.host.db.write(lambda tx: schedules.resume(tx, WORKSPACE, "s", "ada", from_now=True))
        assert [one for one in await host.host.problems() if one.kind == "schedule"] == []


async def test_a_full_queue_makes_it_late_and_not_lost(tmp_path: Path, database_url: str) -> None:
    async with at_work(tmp_path, database_url, max_active_runs=1, max_queued_runs=1) as host:
        async with Latch(tmp_path) as latch:
            gate = [["gate", latch.path]]
            held = [await host.send(gate), await host.send(gate)]
            await latch.reached()
            await put(host)
            await put(host, "other", agent="nobody")
            await make_due(host)
            await make_due(host, "other")
            assert (await fired(host, "other"))[0].outcome == "refused", "others are not kept waiting"
            one = await host.host.db.read(lambda tx: schedules.get(tx, WORKSPACE, "s"))
            assert (one.firings, one.last_planned) == (0, None)
        assert all(accepted.run is not None for accepted in held)
        assert (await fired(host))[0].outcome in {"started", "queued"}


async def test_two_hosts_fire_each_time_once(tmp_path: Path, database_url: str) -> None:
    """Both read the same schedules and try them at the same moments."""
    async with at_work(tmp_path, database_url) as host:
        await host.host.workers.end("schedules")
        for number in range(20):
            await put(host, f"s{number}", agent=None)
            await make_due(host, f"s{number}")
        workers = [Scheduler(host.host.db, host.host.orchestrator) for _ in range(4)]
        tasks = [asyncio.create_task(one.work()) for one in workers]
        for number in range(20):
            assert len(await fired(host, f"s{number}")) == 1
        rows = await host.host.db.read(lambda tx: events.page(tx, WORKSPACE, limit=100))
        assert len(rows) == len({row.event_id for row in rows}) == 20
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_transaction_that_fails_has_neither_fired_nor_moved_on(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event is stored and then the host dies, before the commit: it fires at the next try, once."""
    async with at_work(tmp_path, database_url) as host:
        before: list[str] = []
        record = schedules.record

        def dying(tx: Tx, *args: Any, **more: Any) -> None:
            before.append("tried")
            if len(before) == 1:
                raise StorageError("the disk is gone")
            record(tx, *args, **more)

        monkeypatch.setattr(schedules, "record", dying)
        await put(host)
        await make_due(host)
        (firing,) = await fired(host)
        assert firing.number == 1
        assert len(before) == 2
        rows = await host.host.db.read(lambda tx: events.page(tx, WORKSPACE, limit=100))
        assert [row.event_id for row in rows] == [firing.event_id]


async def test_an_entry_of_another_version_keeps_no_other_from_firing(
    tmp_path: Path, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with at_work(tmp_path, database_url) as host:
        await put(host, "newer")
        spoil = Query(
            "test",
            "UPDATE schedules SET spec = '{\"moon\": 1}' WHERE workspace_id = 'default' AND name = 'newer'",
            "UPDATE schedules SET spec = '{\"moon\": 1}' WHERE workspace_id = 'default' AND name = 'newer'",
            values=lambda _: [],
        )
        await host.host.db.write(lambda tx: tx.run(spoil))
        await put(host)
        await make_due(host, "newer", ago=10)
        await make_due(host)
        assert (await fired(host))[0].outcome == "started"
        assert "schedule newer does not fire here" in caplog.text
        await make_due(host)
        await fired(host, count=2)
        assert caplog.text.count("schedule newer does not fire here") == 1


async def test_a_workspace_fires_within_its_rate(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_work(tmp_path, database_url) as host:
        await host.host.workers.end("schedules")
        monkeypatch.setattr("hostler.channels.schedules.FIRINGS_AT_ONCE", 2)
        time = 0.0
        computed: list[str] = []

        def counted(timing: Timing, policy: MisfirePolicy, name: str, planned: int, now: int) -> Step | None:
            computed.append(name)
            return next_step(timing, policy, name, planned, now)

        monkeypatch.setattr("hostler.channels.schedules.next_step", counted)
        scheduler = Scheduler(host.host.db, host.host.orchestrator, clock=lambda: time)
        for number in range(5):
            await put(host, f"s{number}", agent=None)
            await make_due(host, f"s{number}")

        async def count() -> int:
            await scheduler._fire_due()
            return len(await host.host.db.read(lambda tx: events.page(tx, WORKSPACE, limit=100)))

        assert await count() == 2
        assert await count() == 2
        assert await scheduler._fire_due() >= RETRY_SECONDS, "the next look is for more than one firing"
        assert len(computed) == 2, "what is over the rate is not computed at each look"
        time = 0.05
        assert await count() == 3
        time = 10.0
        assert await count() == 5
