"""Background work is owned: what fails is logged, counted and started again; all of it ends with the host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from hostler.host.workers import FAILING_AFTER, Workers

SECONDS = 60.0


class Failing:
    """A worker whose first rounds fail as told, then one succeeds and it waits for ever."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.worked = asyncio.Event()

    async def work(self, succeeded: Callable[[], None]) -> None:
        if self.errors:
            raise self.errors.pop(0)
        succeeded()
        self.worked.set()
        await asyncio.Event().wait()


async def test_a_worker_that_fails_is_logged_counted_and_started_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waits: list[int] = []

    def back_off(failures: int) -> float:
        waits.append(failures)
        return 0.0

    workers = Workers(back_off=back_off)
    failing = Failing(LookupError("no such row"), OSError("disk"), LookupError("still none"))
    workers.start("dispatcher", failing.work)
    async with asyncio.timeout(SECONDS):
        await failing.worked.wait()
    assert waits == [1, 2, 3], "the back-off grows with the failures in a row"
    (worker,) = workers.all()
    assert (worker.failures, worker.failures_in_a_row, worker.error) == (3, 0, "")
    assert worker.running
    assert workers.failing() == []
    await workers.stop()
    assert [one.running for one in workers.all()] == [False]
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 3
    assert "dispatcher" in errors[0].getMessage()
    assert errors[0].exc_info is not None
    assert "LookupError: no such row" in caplog.text


async def test_a_worker_that_does_not_recover_is_reported_until_it_does() -> None:
    hold, reported = asyncio.Event(), asyncio.Event()

    async def work(succeeded: Callable[[], None]) -> None:
        if len(failures) < FAILING_AFTER:
            failures.append(1)
            raise ValueError("broken")
        reported.set()
        await hold.wait()
        succeeded()
        hold.clear()
        reported.clear()
        await asyncio.Event().wait()

    failures: list[int] = []
    workers = Workers(back_off=lambda failed: 0.0)
    workers.start("lease", work)
    async with asyncio.timeout(SECONDS):
        await reported.wait()
        (worker,) = workers.failing()
        assert (worker.name, worker.error) == ("lease", "ValueError: broken")
        hold.set()
        while reported.is_set():
            await asyncio.sleep(0)
    assert workers.failing() == []
    await workers.stop()


async def test_a_worker_that_is_cancelled_by_nobody_starts_again() -> None:
    failing = Failing(asyncio.CancelledError())
    workers = Workers(back_off=lambda failed: 0.0)
    workers.start("webhooks", failing.work)
    async with asyncio.timeout(SECONDS):
        await failing.worked.wait()
    assert workers.all()[0].failures == 1
    await workers.stop()


async def test_stopping_ends_workers_at_work_and_those_that_wait_for_their_next_start() -> None:
    ended: list[str] = []
    waiting = asyncio.Event()

    async def busy(succeeded: Callable[[], None]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("busy")

    async def broken(succeeded: Callable[[], None]) -> None:
        waiting.set()
        raise ValueError("broken")

    before = asyncio.all_tasks()
    workers = Workers(back_off=lambda failed: 3600.0)
    workers.start("busy", busy)
    workers.start("broken", broken)
    async with asyncio.timeout(SECONDS):
        await waiting.wait()
        await workers.stop()
    assert ended == ["busy"]
    assert [worker.running for worker in workers.all()] == [False, False]
    assert asyncio.all_tasks() == before


async def test_a_worker_that_does_not_end_is_left_behind_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    let = asyncio.Event()
    at_work = asyncio.Event()

    async def stubborn(succeeded: Callable[[], None]) -> None:
        at_work.set()
        while not let.is_set():
            try:
                await let.wait()
            except asyncio.CancelledError:
                continue

    before = asyncio.all_tasks()
    workers = Workers()
    workers.start("stubborn", stubborn)
    await at_work.wait()
    await workers.stop(0.01)
    let.set()
    while asyncio.all_tasks() != before:
        await asyncio.sleep(0)
    assert "the worker stubborn does not end" in caplog.text


async def test_a_worker_whose_absence_does_harm_waits_no_longer_than_it_may() -> None:
    failing = Failing(LookupError("one"), LookupError("two"))
    workers = Workers(back_off=lambda failed: 3600.0)
    workers.start("lease", failing.work, longest_wait=0.0)
    async with asyncio.timeout(SECONDS):
        await failing.worked.wait()
    await workers.stop()


async def test_two_workers_do_not_share_a_name() -> None:
    workers = Workers()
    workers.start("one", Failing().work)
    with pytest.raises(ValueError, match="already"):
        workers.start("one", Failing().work)
    await workers.stop()


async def test_a_worker_that_is_ended_is_forgotten_and_its_name_is_free_at_once() -> None:
    first, second = Failing(), Failing()
    workers = Workers()
    workers.start("one", first.work)
    workers.start("other", Failing().work)
    ending = workers.end("one", SECONDS)
    workers.start("one", second.work)
    assert [worker.name for worker in workers.all()] == ["other", "one"]
    await ending
    await workers.end("none", SECONDS)
    async with asyncio.timeout(SECONDS):
        await second.worked.wait()
    await workers.stop()
