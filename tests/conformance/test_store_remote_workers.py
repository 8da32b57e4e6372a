"""Remote workers in the database, on both: who has an id, what a lost session may say, how much is kept."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hostler.storage.port import Database, Tx
from hostler.storage.stores import remote_workers as stored
from hostler.storage.stores.remote_workers import HOUR_MS, KEPT_HOURS, Joining, WorkerHour
from hostler_protocol.errors import ConflictError, NotFoundError, RateLimitedError

STALE_MS = 45_000
ONE = Joining(
    workspace_id="w",
    worker_id="one",
    process="p1",
    session="s1",
    host_id="h1",
    labels=("gpu", "eu"),
    slots=8,
    version="1",
    machine={"system": "Linux"},
    key_id="k",
)


def _join(tx: Tx, one: Joining, *, here: bool = False, stale_ms: int = STALE_MS) -> str:
    return stored.join(tx, one, stale_ms=stale_ms, connected_here=here)


async def test_a_worker_is_found_as_it_joined(database: Database) -> None:
    await database.write(lambda tx: _join(tx, ONE))
    found = await database.read(lambda tx: stored.get(tx, "w", "one"))
    assert (found.labels, found.slots, found.state, found.host_id) == (("eu", "gpu"), 8, "active", "h1")
    assert found.is_connected(found.seen_at + STALE_MS, STALE_MS)
    assert not found.is_connected(found.seen_at + STALE_MS + 1, STALE_MS)
    assert await database.read(lambda tx: stored.find(tx, "other", "one")) is None
    assert await database.read(lambda tx: stored.page(tx, "other")) == []
    with pytest.raises(NotFoundError, match="there is no worker 'one'"):
        await database.write(lambda tx: stored.set_state(tx, "other", "one", "cordoned"))


async def test_an_id_is_its_process_while_that_is_connected(database: Database) -> None:
    await database.write(lambda tx: _join(tx, ONE))
    other = replace(ONE, process="p2", session="s2")
    for one, here in ((replace(other, host_id="h2"), False), (other, True)):
        with pytest.raises(ConflictError, match="connected from another process"):
            await database.write(lambda tx, one=one, here=here: _join(tx, one, here=here))  # type: ignore[misc]
    # the host knows better than its row what is connected to it; and silence ends every claim
    await database.write(lambda tx: _join(tx, other))
    await database.write(lambda tx: _join(tx, replace(ONE, host_id="h2", process="p3"), stale_ms=-1))
    await database.write(lambda tx: stored.leave(tx, "w", "one", "s1", "gone"))
    await database.write(lambda tx: _join(tx, other))
    again = replace(other, session="s3", host_id="h3")
    assert await database.write(lambda tx: _join(tx, again)) == "active"  # the same process, at another host


async def test_an_earlier_session_changes_nothing(database: Database) -> None:
    await database.write(lambda tx: _join(tx, ONE))
    await database.write(lambda tx: _join(tx, replace(ONE, session="s2")))
    assert await database.write(lambda tx: stored.beat(tx, "w", "one", "s1", active=5)) is None
    await database.write(lambda tx: stored.leave(tx, "w", "one", "s1", "gone"))
    assert await database.write(lambda tx: stored.beat(tx, "w", "one", "s2", active=2)) == "active"
    found = await database.read(lambda tx: stored.get(tx, "w", "one"))
    assert (found.active, found.host_id, found.reason) == (2, "h1", "")


async def test_a_cordon_outlives_a_connection_and_a_drain_does_not(database: Database) -> None:
    await database.write(lambda tx: _join(tx, ONE))
    await database.write(lambda tx: stored.set_state(tx, "w", "one", "cordoned"))
    assert await database.write(lambda tx: stored.beat(tx, "w", "one", "s1", active=0)) == "cordoned"
    assert await database.write(lambda tx: _join(tx, ONE)) == "cordoned"
    assert (
        await database.write(lambda tx: stored.beat(tx, "w", "one", "s1", active=0, drains=True))
        == "draining"
    )
    assert await database.write(lambda tx: _join(tx, ONE)) == "active"


async def test_what_a_worker_did_is_added_up_and_kept_for_a_week(database: Database) -> None:
    await database.write(lambda tx: _join(tx, ONE))
    for number in range(KEPT_HOURS + 30):
        hour = WorkerHour(hour=number * HOUR_MS, claimed=2, done=1, ran_ms=10)
        await database.write(lambda tx, hour=hour: stored.add(tx, "w", "one", hour))  # type: ignore[misc]
    last = WorkerHour(hour=(KEPT_HOURS + 29) * HOUR_MS, claimed=1, lost=1, waited_ms=7)
    await database.write(lambda tx: stored.add(tx, "w", "one", last))
    found = await database.read(lambda tx: stored.hours(tx, "w", "one", limit=1000))
    assert len(found) == KEPT_HOURS + 1
    assert (found[0].claimed, found[0].done, found[0].lost, found[0].waited_ms, found[0].ran_ms) == (
        3,
        1,
        1,
        7,
        10,
    )
    await database.write(lambda tx: stored.remove(tx, "w", "one"))
    assert await database.read(lambda tx: stored.hours(tx, "w", "one")) == []
    with pytest.raises(NotFoundError):
        await database.write(lambda tx: stored.remove(tx, "w", "one"))


async def test_the_number_of_workers_is_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MAX_WORKERS", 3)
    for number in range(3):
        await database.write(lambda tx, n=number: _join(tx, replace(ONE, worker_id=f"w{n}")))  # type: ignore[misc]
    with pytest.raises(RateLimitedError, match="hostler workers remove"):
        await database.write(lambda tx: _join(tx, ONE))
    await database.write(lambda tx: _join(tx, replace(ONE, workspace_id="other")))
    await database.write(lambda tx: stored.remove(tx, "w", "w0"))
    await database.write(lambda tx: _join(tx, ONE))
