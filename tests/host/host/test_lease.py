"""The lease of a host: kept, lost, and taken again once nothing of before goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hostler.host.host import Host
from hostler.host.lease import LeaseHeartbeat
from hostler.host.workers import Workers
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import hosts
from hostler.storage.stores.hosts import Membership
from hostler_protocol.errors import StorageError
from support.http_host import serving
from support.stepping import WORKSPACE, Stage, stage, within

SECONDS = 1.0
HOST_SECONDS = 6.0
"""The lease of a whole host: no loss of it but the one that the test makes, also on a busy machine."""


class Severed:
    """A database that can be out of reach. Its writes hang, or are refused."""

    def __init__(self, database: SqlDatabase) -> None:
        self.real = database
        self.hangs = False
        self.refuses = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    async def write(self, work: Callable[[Any], Any], *, synced: bool = True, late: Any = None) -> Any:
        if self.refuses:
            raise StorageError("the database is away")
        while self.hangs:
            await asyncio.sleep(0.01)
        return await self.real.write(work, synced=synced, late=late)


@dataclass
class Kept:
    """A lease, and what it was seen to do."""

    database: Severed
    lease: LeaseHeartbeat = field(init=False)
    ended: list[str] = field(default_factory=list)
    joined: int = 0
    recovered: int = 0
    fails: int = 0
    """So often the work cannot be ended."""
    members_while_ending: list[Membership | None] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def end_work(self, why: str) -> None:
        self.members_while_ending.append(self.lease.member)
        self.ended.append(why)
        self.changed.set()
        if len(self.ended) <= self.fails:
            raise RuntimeError("a mistake of the host")

    def note_joined(self) -> None:
        self.joined += 1
        self.changed.set()

    async def recover(self) -> None:
        self.recovered += 1
        self.changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self.changed.clear()
            await self.changed.wait()


@asynccontextmanager
async def keeping(database: SqlDatabase, seconds: float = SECONDS, **more: Any) -> AsyncIterator[Kept]:
    kept = Kept(Severed(database), **more)
    lease = kept.lease = LeaseHeartbeat(
        kept.database, "h1", "here", seconds, kept.recover, kept.end_work, kept.note_joined
    )
    await lease.begin()
    workers = Workers(back_off=lambda failures: 0.5)  # long enough to look in between
    workers.start("lease", lease.keep)
    workers.start("recovery", lease.watch_others)
    try:
        yield kept
    finally:
        await workers.stop()
        await lease.end()


async def alive(database: SqlDatabase) -> list[Membership]:
    return [one.member for one in await database.read(hosts.alive)]


async def test_a_lease_is_kept_for_much_longer_than_its_length(database: SqlDatabase) -> None:
    async with keeping(
        database, seconds=4.0
    ) as kept:  # a busy machine stands still for a second now and then
        member = kept.lease.member
        await kept.until(lambda: kept.recovered > 8)
        assert kept.lease.member == member
        assert await alive(database) == [member]
        assert kept.ended == []
    assert await alive(database) == [], "it signed off"


@pytest.mark.parametrize("how", ["hangs", "refuses"])
async def test_a_host_that_cannot_renew_its_lease_stops_before_it_is_over(
    database: SqlDatabase, how: str
) -> None:
    async with keeping(database) as kept:
        before = kept.lease.member
        assert before is not None
        setattr(kept.database, how, True)
        await kept.until(lambda: len(kept.ended) > 0)
        assert kept.members_while_ending == [None], "it claims nothing any more"
        assert "not renewed" in kept.ended[0]
        assert kept.lease.lost_because == kept.ended[0]
        setattr(kept.database, how, False)
        await kept.until(lambda: kept.joined > 0)
        after = kept.lease.member
        assert after is not None
        assert after.epoch > before.epoch
        assert await alive(database) == [after]
        assert kept.lease.lost_because is None


async def test_a_host_whose_renewals_fail_unexpectedly_stops_as_well(
    database: SqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with keeping(database) as kept:
        with monkeypatch.context() as broken:
            broken.setattr(hosts, "renew", _broken)
            await kept.until(lambda: len(kept.ended) > 0)
        assert kept.members_while_ending == [None], "it claims nothing any more"
        assert "not renewed" in kept.ended[0]
        await kept.until(lambda: kept.joined > 0)


def _broken(*args: Any, **given: Any) -> Any:
    raise LookupError("a mistake of the host")


async def test_a_host_that_was_taken_over_from_ends_its_work_before_it_joins(database: SqlDatabase) -> None:
    async with keeping(database, fails=2) as kept:
        before = kept.lease.member
        assert before is not None

        def take_over(tx: Any) -> bool:
            hosts.renew(tx, before, -1)
            return hosts.take_over(tx, before)

        assert await database.write(take_over)
        await kept.until(lambda: len(kept.ended) == 2)
        assert await alive(database) == [], "it stays out as long as its work may go on"
        await kept.until(lambda: kept.joined == 1)
        assert len(kept.ended) == 3
        assert kept.members_while_ending == [None] * 3
        (after,) = await alive(database)
        assert after == kept.lease.member
        assert after.epoch > before.epoch


# -- a whole host -------------------------------------------------------------------------------------


async def lose(host: Host) -> None:
    """Let another host take over from this one, as if its lease had been over."""
    member = host._lease.member
    assert member is not None

    def take_over(tx: Any) -> bool:
        hosts.renew(tx, member, -1)
        return hosts.take_over(tx, member)

    assert await host.db.write(take_over)


@asynccontextmanager
async def clustered(tmp_path: Path, database_url: str) -> AsyncIterator[Stage]:
    async with within(), stage(tmp_path / "data", database=database_url, lease_seconds=HOST_SECONDS) as host:
        yield host


@pytest.fixture
def shared(request: pytest.FixtureRequest) -> Any:
    """A PostgreSQL database."""
    server = request.getfixturevalue("postgres_server")
    url = server.create(request.getfixturevalue("postgres_template"))
    yield url
    server.drop(url)


@pytest.mark.postgres
async def test_the_runs_of_a_host_that_lost_its_lease_go_on_in_the_processes_that_are_free_of_them(
    tmp_path: Path, shared: str
) -> None:
    """The plugin ends the attempt when it is told; the next one runs in the same process."""
    async with clustered(tmp_path, shared) as host:
        await host.agent(runner="resumable")
        steps: dict[str, Any] = {
            "1": [["say", "a"], ["pid"], ["until_cancelled"]],
            "else": [["say", "a"], ["pid"], ["say", "done"]],
        }
        run_id = await host.start(steps)
        await host.seen(run_id, "message.completed", 2)
        await lose(host.host)
        ended = await host.ended(run_id)
        assert (ended.record.status, ended.record.attempt) == ("completed", 2), ended.last
        assert (ended.said[0], ended.said[2]) == ("a", "done")
        assert (await host.run([["say", "next"]])).said == ["next"]


@pytest.mark.postgres
async def test_a_process_that_does_not_end_a_lost_run_is_ended(tmp_path: Path, shared: str) -> None:
    async with clustered(tmp_path, shared) as host:
        await host.agent(recovery={"on_crash": "restart"})
        run_id = await host.start({"1": [["deltas", 1], ["hold"]], "else": [["say", "done"]]})
        await host.seen(run_id, "message.delta")
        (before,) = [one.pid for one in host.host.supervisor.status() if one.pid is not None]
        await lose(host.host)
        ended = await host.ended(run_id)
        assert (ended.record.status, ended.record.attempt) == ("completed", 2), ended.last
        (after,) = [one.pid for one in host.host.supervisor.status() if one.pid is not None]
        assert after != before


@pytest.mark.postgres
async def test_a_host_without_its_lease_is_not_ready_and_takes_events(tmp_path: Path, shared: str) -> None:
    async with within(), serving(tmp_path, database=shared, lease_seconds=HOST_SECONDS) as served:
        gate = asyncio.Event()
        wait_free = served.host.supervisor.wait_free

        async def waits(run_ids: Any) -> None:
            await gate.wait()
            await wait_free(run_ids)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(served.host.supervisor, "wait_free", waits)
            await lose(served.host)
            while (answer := await served.client.get("/readyz")).status_code == 200:
                await asyncio.sleep(0.02)
            assert answer.status_code == 503
            assert answer.json()["details"]["not_ready"] == ["lease"]
            accepted = await served.say("say 1", wait=None, agent="puppet")
            assert accepted["run"]["status"] == "queued"
            gate.set()
        record = await served.host.runs.wait(WORKSPACE, accepted["run"]["run_id"], 60)
        assert record.status == "completed"
        assert (await served.client.get("/readyz")).status_code == 200
