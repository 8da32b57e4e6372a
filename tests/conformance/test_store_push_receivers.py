"""Receivers of notifications of single runs, on every database: due until they were told the run's state."""

from __future__ import annotations

import pytest

from hostler.domain.pauses import ROWS_KEPT_SECONDS
from hostler.storage.port import Query
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import push_receivers, runs
from hostler.storage.stores.push_receivers import ClaimedPush, Receiver
from hostler_protocol.errors import ConflictError, NotFoundError
from support.databases import read, write
from support.run_rows import move, new, opened

pytestmark = pytest.mark.gate("both-databases")
PLACE = Receiver(url="https://a.example", token="t", scheme="Bearer", credentials="c")
LEASE_MS = 60_000
_SET = "UPDATE push_receivers SET {} WHERE workspace_id = 'w1'"
AGED = Query("aged", *[_SET.format("created_at = 0")] * 2)
DUE = Query("due", *[_SET.format("next_at = 0, lease_until = 0")] * 2)


def put(database: SqlDatabase, name: str = "one", run_id: str = "r1", place: Receiver = PLACE) -> None:
    write(database, lambda tx: push_receivers.put(tx, "w1", run_id, name, place))


def claim(database: SqlDatabase) -> list[ClaimedPush]:
    return write(database, lambda tx: push_receivers.claim(tx, LEASE_MS, 10))


async def test_a_receiver_is_told_the_end_once(database: SqlDatabase) -> None:
    await opened(database, new("r1", conversation_id="c"))
    await move(database, "r1", 1, "running")
    await database.write(lambda tx: push_receivers.put(tx, "w1", "r1", "one", PLACE))

    async def due() -> list[ClaimedPush]:
        return await database.write(lambda tx: push_receivers.claim(tx, LEASE_MS, 10))

    assert await due() == []
    assert not await database.read(push_receivers.is_due)
    await move(database, "r1", 1, "completed")
    assert await database.read(push_receivers.is_due)
    (push,) = await due()
    assert (push.status, push.state, push.receiver, push.conversation_id) == (
        "completed",
        "completed",
        PLACE,
        "c",
    )
    assert push.finished_at is not None
    assert await due() == [], "another host tries it"
    assert await database.write(lambda tx: push_receivers.mark_failed(tx, push, error="no", again_in=60))
    assert await due() == []
    await database.write(lambda tx: tx.run(DUE))
    (again,) = await due()
    assert again.attempts == 2
    assert not await database.write(lambda tx: push_receivers.mark_told(tx, push)), "its lease is another's"
    assert await database.write(lambda tx: push_receivers.mark_told(tx, again))
    await database.write(lambda tx: tx.run(DUE))
    assert await due() == []


async def test_a_lease_that_ends_is_taken_over(database: SqlDatabase) -> None:
    await opened(database, new("r1"))
    await database.write(lambda tx: push_receivers.put(tx, "w1", "r1", "one", PLACE))
    await move(database, "r1", 1, "failed", status_code="runner.error")
    (first,) = await database.write(lambda tx: push_receivers.claim(tx, 0, 10))
    (second,) = await database.write(lambda tx: push_receivers.claim(tx, LEASE_MS, 10))
    assert (first.attempts, second.attempts) == (1, 2)
    assert not await database.write(lambda tx: push_receivers.mark_told(tx, first))
    assert await database.write(lambda tx: push_receivers.mark_told(tx, second, error="x" * 10_000))
    stored = await database.read(lambda tx: push_receivers.get(tx, "w1", "r1", "one"))
    assert len(stored.error or "") == push_receivers.MAX_ERROR_CHARS


def test_receivers_are_of_one_run_in_one_workspace_and_bounded(database: SqlDatabase) -> None:
    for number in range(push_receivers.MAX_RECEIVERS_OF_RUN):
        put(database, f"{number:02}")
    put(database, "00", place=Receiver(url="https://b.example"))
    with pytest.raises(ConflictError, match="at most"):
        put(database, "more")
    page = read(database, lambda tx: push_receivers.page(tx, "w1", "r1", after="00", limit=2))
    assert [one.receiver_id for one in page] == ["01", "02"]
    assert (
        read(database, lambda tx: push_receivers.get(tx, "w1", "r1", "00")).receiver.url
        == "https://b.example"
    )
    for workspace, run_id in (("w2", "r1"), ("w1", "r2")):
        assert read(database, lambda tx: push_receivers.page(tx, workspace, run_id)) == []  # noqa: B023
        assert not write(database, lambda tx: push_receivers.remove(tx, workspace, run_id, "00"))  # noqa: B023
        with pytest.raises(NotFoundError):
            read(database, lambda tx: push_receivers.get(tx, workspace, run_id, "00"))  # noqa: B023
    assert write(database, lambda tx: push_receivers.remove(tx, "w1", "r1", "00"))
    assert write(database, lambda tx: push_receivers.drop_of_run(tx, "w1", "r1")) == 19


async def test_old_receivers_go_unless_their_run_goes_on(database: SqlDatabase) -> None:
    assert ROWS_KEPT_SECONDS > 0
    await opened(database, new("r1"), new("r2"))
    await move(database, "r1", 1, "cancelled")
    for run_id in ("r1", "r2", "gone"):
        await database.write(lambda tx, run_id=run_id: push_receivers.put(tx, "w1", run_id, "one", PLACE))  # type: ignore[misc]
    assert await database.write(lambda tx: push_receivers.drop_old(tx, "w1")) == 0
    await database.write(lambda tx: tx.run(AGED))
    assert await database.write(lambda tx: push_receivers.drop_old(tx, "w1")) == 2
    assert await database.read(lambda tx: push_receivers.page(tx, "w1", "r2")) != []


async def test_runs_of_an_agent_are_counted_and_filtered(database: SqlDatabase) -> None:
    await opened(database, new("r1", conversation_id="c"), new("r2"), new("r3", agent_name="other"))
    await opened(database, new("r4", workspace="w2"))
    await move(database, "r2", 1, "failed", status_code="runner.error")

    async def found(**wanted: object) -> tuple[list[str], int]:
        rows, total = await database.read(
            lambda tx: runs.of_agent(tx, workspace_id="w1", agent_name="echo", **wanted)  # type: ignore[arg-type]
        )
        return [row.run_id for row in rows], total

    names, total = await found()
    assert (sorted(names), total) == (["r1", "r2"], 2)
    assert await found(statuses=["failed"]) == (["r2"], 1)
    assert await found(conversation_id="c") == (["r1"], 1)
    assert await found(changed_after=2**52) == ([], 0)
    (first,), total = await found(limit=1)
    assert total == 2
    rows, _ = await database.read(lambda tx: runs.of_agent(tx, workspace_id="w1", agent_name="echo", limit=1))
    rest, _ = await found(before=(rows[0].created_at, first))
    assert rest == [name for name in names if name != first]
