"""Runs of hosts that died, left or joined again, on both databases."""

from __future__ import annotations

from typing import Any

from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import hosts, run_hosts
from hostler.storage.stores.hosts import Membership
from support.databases import run
from support.run_rows import claim, move, new, opened


async def joined(database: SqlDatabase, host_id: str, lease_ms: int = 60_000) -> Membership:
    return await database.write(lambda tx: hosts.join(tx, host_id, "here", lease_ms))


async def test_the_runs_of_a_dead_host_are_found(database: SqlDatabase) -> None:
    one, two = await joined(database, "h1"), await joined(database, "h2")
    await opened(database, new("r1"), new("r2"), by=two)
    await opened(database, new("r3"), by=one)
    await move(database, "r2", 1, "running")
    await lapse(database, two)
    assert [found.member for found in await database.read(hosts.dead)] == [two]
    assert [found.member for found in await database.read(hosts.alive)] == [one]
    assert await database.write(lambda tx: hosts.renew(tx, two, 60_000)) is None, "too late"
    assert await database.write(lambda tx: hosts.renew(tx, one, 60_000)) is not None
    assert [found.run_id for found in await database.read(lambda tx: run_hosts.active_of(tx, two))] == [
        "r1",
        "r2",
    ]
    assert await database.read(hosts.lost) == []
    assert not await database.write(lambda tx: hosts.take_over(tx, one))
    assert [await database.write(lambda tx: hosts.take_over(tx, two)) for _ in range(2)] == [True, False]
    assert await database.read(hosts.lost) == [two]
    assert [found.run_id for found in await database.read(lambda tx: run_hosts.active(tx, after="r1"))] == [
        "r2",
        "r3",
    ]
    for run_id in ("r1", "r2"):
        await move(database, run_id, None, "queued", crashed=True)
    assert await database.read(hosts.lost) == []
    await database.write(lambda tx: hosts.leave(tx, one))
    assert await database.read(hosts.alive) == []


async def lapse(database: SqlDatabase, member: Membership) -> None:
    """Let a lease be over."""
    await database.write(lambda tx: hosts.renew(tx, member, -1))


async def test_a_host_whose_lease_is_over_claims_nothing(database: SqlDatabase) -> None:
    member = await joined(database, "h1")
    assert await opened(database, new("r1"), new("r2", lane="l"), by=member) == ["claimed", "claimed"]
    await lapse(database, member)
    assert await opened(database, new("r3"), by=member) == ["queued"], "the event is taken, the run waits"
    assert await claim(database, member=member) == []
    assert await claim(database, member=await joined(database, "h2")) == ["r3"]


async def test_each_time_a_host_joins_it_is_another_member(database: SqlDatabase) -> None:
    members = [await joined(database, "h1") for _ in range(5)]
    assert [one.epoch for one in members] == sorted({one.epoch for one in members})
    *before, now = members
    assert [await database.write(lambda tx, m=m: hosts.holds(tx, m)) for m in before] == [False] * 4  # type: ignore[misc]
    assert await database.write(lambda tx: hosts.holds(tx, now))
    assert await database.write(lambda tx: hosts.renew(tx, before[-1], 60_000)) is None
    await database.write(lambda tx: hosts.leave(tx, before[-1]))
    await lapse(database, now)
    assert not await database.write(lambda tx: hosts.take_over(tx, before[-1]))
    assert [found.member for found in await database.read(hosts.dead)] == [now]


async def test_what_a_host_claimed_before_it_joined_again_is_lost(database: SqlDatabase) -> None:
    """Whoever settles it must not take the runs that the host claims since."""
    before = await joined(database, "h1")
    await opened(database, new("r1"), by=before)
    now = await joined(database, "h1")
    await opened(database, new("r2"), by=now)
    assert await database.read(hosts.lost) == [before]
    assert [one.run_id for one in await database.read(lambda tx: run_hosts.active_of(tx, before))] == ["r1"]
    assert await database.read(lambda tx: run_hosts.attempts_of(tx, now)) == {("r2", 1)}


async def test_nobody_takes_over_from_a_host_within_its_transaction(database: SqlDatabase) -> None:
    """On one database with several hosts; the other one passes over it and tries again later."""
    if database.dialect != "postgres":
        return
    member = await joined(database, "h1", 300)
    other = open_database(database._driver._url)  # type: ignore[attr-defined]

    def held(tx: Any) -> bool:
        assert hosts.holds(tx, member)
        while True:  # its lease ends while its transaction goes on
            gone = run(other.read(hosts.dead))
            if gone:
                return run(other.write(lambda tx: hosts.take_over(tx, member)))

    assert await database.write(held) is False
    assert await other.write(lambda tx: hosts.take_over(tx, member)) is True
    await other.close()
