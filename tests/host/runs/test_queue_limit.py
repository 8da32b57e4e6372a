"""How many runs may wait."""

from __future__ import annotations

import pytest

from hostler.runs.queue_limit import QueueLimit
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import runs
from hostler_protocol.errors import RateLimitedError
from support.dispatching import NEVER, agent, dispatching, silently


async def test_a_full_queue_says_so(database: SqlDatabase) -> None:
    async with dispatching(database, slots=1, queue=2) as stage:
        full = []
        for number in range(3):
            full.append(await stage.dispatcher.queue.is_full())
            await stage.open(f"r{number}", agent())
        assert full == [False, False, False]
        with pytest.raises(RateLimitedError, match="too many runs"):
            await stage.dispatcher.check_room()


async def test_no_more_wait_than_may_however_many_come_at_once(database: SqlDatabase) -> None:
    async with dispatching(database, slots=1, queue=5, look_seconds=NEVER) as stage:
        await stage.open("r0", agent())
        reserved = [stage.dispatcher.reserve(agent()) for _ in range(20)]
        assert [one.may_wait for one in reserved] == [True] * 5 + [False] * 15
        for one in reserved:
            stage.dispatcher.release(one)
        assert not await stage.dispatcher.queue.is_full()


async def test_the_bound_of_the_queue_goes_by_what_the_database_says(database: SqlDatabase) -> None:
    now = 0.0
    room = QueueLimit(database, 2, clock=lambda: now)
    assert not await room.is_full()
    for number in range(2):
        await database.write(lambda tx, n=number: runs.open(tx, silently(f"r{n}"), None))  # type: ignore[misc]
    now += 6  # another host queued them
    assert await room.is_full()
    await database.write(lambda tx: runs.transition(tx, "r0", 1, "cancelled", cause="t", actor="t"))
    now += 0.2
    assert not await room.is_full(), "it is asked again before anything is refused"
    assert room.enter()
    assert not room.enter()
