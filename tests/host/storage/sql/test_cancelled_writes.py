"""A caller that is cancelled while it writes is told what became of its work, once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hostler.storage.port import Tx
from hostler.storage.sql.database import Job, SqlDatabase
from hostler_protocol.errors import UnavailableError
from support.group_commits import Gate, Guilty, ids, insert, with_table


class Told:
    """What `late` was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, type[BaseException] | None]] = []
        self.changed = asyncio.Event()

    def __call__(self, value: object, error: BaseException | None) -> None:
        self.calls.append((value, None if error is None else type(error)))
        self.changed.set()


def guilty(_tx: Tx) -> int:
    raise Guilty


@pytest.mark.parametrize(("work", "told"), [(insert(1), (1, None)), (guilty, (None, Guilty))])
async def test_a_caller_that_was_cancelled_is_told_late_what_became_of_its_work(
    database: SqlDatabase, work: Callable[[Tx], int], told: tuple[object, object]
) -> None:
    await with_table(database)
    gate, late = Gate(), Told()
    holding = asyncio.create_task(database.write(gate.hold))
    await gate.entered()
    caller = asyncio.create_task(database.write(work, late=late))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert late.calls == []
    gate.open()
    await holding
    await late.changed.wait()
    assert late.calls == [told]
    assert await ids(database) == ([1] if told[1] is None else [])


@pytest.mark.parametrize(("work", "told"), [(insert(1), (1, None)), (guilty, (None, Guilty))])
async def test_a_caller_cancelled_after_the_commit_is_told_as_well(
    database: SqlDatabase,
    work: Callable[[Tx], int],
    told: tuple[object, object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await with_table(database)
    late, callers = Told(), list[asyncio.Task[int]]()
    settle = Job.settle

    def settled_and_cancelled(job: Job) -> None:
        settle(job)
        for caller in callers:
            caller.cancel()

    monkeypatch.setattr(Job, "settle", settled_and_cancelled)
    callers.append(asyncio.create_task(database.write(work, late=late)))
    with pytest.raises(asyncio.CancelledError):
        await callers[0]
    assert late.calls == [told]


async def test_a_caller_cancelled_before_its_work_is_queued_is_told_so(
    database: SqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_table(database)
    late = Told()
    monkeypatch.setattr(database, "_write_room", asyncio.Semaphore(0))
    caller = asyncio.create_task(database.write(insert(1), late=late))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert late.calls == [(None, asyncio.CancelledError)]
    assert await ids(database) == []


async def test_a_caller_that_gets_an_answer_is_not_told_late(database: SqlDatabase) -> None:
    await with_table(database)
    late = Told()
    assert await database.write(insert(1), late=late) == 1
    with pytest.raises(Guilty):
        await database.write(guilty, late=late)
    await database.close()
    with pytest.raises(UnavailableError):
        await database.write(insert(2), late=late)
    assert late.calls == []
