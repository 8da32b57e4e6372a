"""How an attempt ends that its runner does not end: time, losses, a stopping host, other attempts."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import runs
from hostler_protocol.errors import (
    StorageError,
)
from support.attempts import COMPLETED, FINISHED, PATIENT, after, attempts, raising
from support.shaky_database import Shaky

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
RESTART = {"recovery": {"on_crash": "restart"}}

# -- time ----------------------------------------------------------------------------------------------


async def test_at_its_deadline_the_runner_is_stopped_and_the_run_has_timed_out(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path, limits=PATIENT) as host:
        host.plugin.holds_starts = True  # the deadline does not wait for an answer
        host.change_prepared(deadline_at=time.time())
        run = await host.open()
        async with asyncio.timeout(60):
            await host.attempt(run).execute()
        assert host.plugin.reasons()[0] == "deadline"
        assert await host.ending(run) == ("timeout", "runner.timeout")


async def test_a_runner_that_does_nothing_for_its_idle_time_is_stopped(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open(spec={"idle_timeout": 0.001})
        await host.attempt(run).execute()
        assert host.plugin.reasons() == ["idle"]
        assert await host.ending(run) == ("timeout", "runner.timeout")
        assert "for 0.001 s (idle_timeout)" in (await host.last(run))["error"]


async def test_a_runner_whose_call_waits_for_people_is_not_idle(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path) as host:
        host.plugin.holds_starts = True
        run = await host.open(spec={"idle_timeout": 0.001})
        task = host.execute(host.attempt(run))
        await host.plugin.until(lambda: bool(host.plugin.starts))
        host.plugin.answer_start()
        host.plugin.call("interaction.request", run.run_id)  # it arrives with the answer
        await host.until(lambda: host.pause(run))
        await asyncio.sleep(0.01)  # ten times its idle time
        assert not task.done()
        assert host.plugin.reasons() == []


# -- the plugin is lost --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "produced", "ends_as"),
    [
        ({}, False, ("failed", "runner.crashed")),
        (RESTART, False, ("queued", None)),
        (RESTART, True, ("queued", None)),
        ({"recovery": {"on_crash": "resume"}}, False, ("queued", None)),
        ({"recovery": {"on_crash": "resume"}}, True, ("failed", "runner.crashed")),
    ],
)
async def test_a_lost_attempt_is_settled_by_the_policy_of_its_agent(
    database: SqlDatabase, tmp_path: Path, spec: Any, produced: bool, ends_as: tuple[str, str | None]
) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open(spec=spec)
        attempt, task = await host.started(run)
        if produced:
            host.plugin.results(run.run_id, COMPLETED)
            await host.until(lambda: host.types(run))
        host.plugin.lose()
        await task
        assert await host.ending(run) == ends_as
        assert attempt.queued_again == (ends_as[0] == "queued")
        assert (await host.run(run)).crashes == 1 or ends_as[0] == "failed"


async def test_lost_while_it_is_being_cancelled_a_run_is_not_begun_again(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open(spec=RESTART)
        attempt, task = await host.started(run)
        attempt.cancel("enough", 3600)
        host.plugin.lose()
        await task
        assert await host.ending(run) == ("cancelled", "cancelled")


# -- a host that stops ---------------------------------------------------------------------------------


async def test_handed_over_before_its_start_a_run_is_queued_again_whatever_its_policy(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path, connect=raising(AssertionError("connected"))) as host:
        run = await host.open()
        attempt = host.attempt(run)
        attempt.hand_over("the host was stopped")
        await attempt.execute()
        assert attempt.queued_again
        assert (await host.run(run)).crashes == 0


async def test_handed_over_while_it_is_prepared_a_run_is_queued_again(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        attempt = host.attempt(run)
        host.services.prepare = after(host, lambda: attempt.hand_over("the host was stopped"))
        await attempt.execute()
        assert attempt.queued_again
        assert host.plugin.started == []


@pytest.mark.parametrize(
    ("spec", "ends_as"), [(RESTART, ("queued", None)), ({}, ("failed", "host.restarted"))]
)
async def test_a_started_run_is_handed_over_by_the_policy_of_its_agent(
    database: SqlDatabase, tmp_path: Path, spec: Any, ends_as: tuple[str, str | None]
) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open(spec=spec)
        attempt, task = await host.started(run)
        attempt.hand_over("the host was stopped")
        await task
        assert host.plugin.reasons() == ["the host was stopped"]
        assert await host.ending(run) == ends_as
        assert (await host.run(run)).crashes == 0


async def test_a_cancelled_run_that_is_handed_over_before_its_start_has_ended(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        attempt = host.attempt(run)
        attempt.cancel("enough")
        attempt.hand_over("the host was stopped")
        await attempt.execute()
        assert await host.ending(run) == ("failed", "host.restarted")


# -- another attempt, or no journal --------------------------------------------------------------------


async def test_a_fenced_attempt_writes_nothing_more(database: SqlDatabase, tmp_path: Path) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        attempt, task = await host.started(run)
        attempt.fence("another attempt")
        host.plugin.results(run.run_id, COMPLETED, FINISHED)
        await task
        assert host.plugin.reasons() == ["superseded"]
        assert await host.ending(run) == ("running", None)
        assert await host.types(run) == []


async def test_what_a_fenced_attempt_has_not_written_is_dropped(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        attempt, task = await host.started(run)
        host.plugin.results(run.run_id, COMPLETED)
        await asyncio.sleep(0)  # received, and on its way to the journal
        attempt.fence("another attempt")
        await task
        assert await host.types(run) == []


async def test_an_attempt_that_no_longer_owns_its_run_ends_with_its_next_write(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        attempt, task = await host.started(run)
        await database.write(
            lambda tx: runs.transition(tx, run.run_id, 1, "queued", cause="another host", actor="t")
        )
        host.plugin.results(run.run_id, COMPLETED)
        await task
        assert host.plugin.reasons() == ["superseded"]
        assert await host.ending(run) == ("queued", None)
        assert await host.types(run) == []
        assert not attempt.queued_again


async def test_an_attempt_whose_journal_cannot_be_written_raises_and_is_over(
    database: SqlDatabase, tmp_path: Path
) -> None:
    shaky = Shaky(database, retryable=False)
    async with attempts(database, tmp_path, db=shaky) as host:
        run = await host.open()
        attempt, task = await host.started(run)
        shaky.refusals = 1
        host.plugin.results(run.run_id, COMPLETED)
        with pytest.raises(StorageError, match="the disk is full"):
            await task
        assert await host.ending(run) == ("running", None)
        attempt.cancel("too late", 0)
        attempt.hand_over("too late")
        attempt.fence("too late")
        assert host.plugin.reasons() == []
