"""One attempt, from its claim to its end, with a plugin on a real connection in this process."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hostler.domain.recovery import MAX_BEGINNINGS
from hostler.plugins.connection import PluginConnection
from hostler.plugins.limits import DEFAULT_CONNECTION_LIMITS
from hostler.storage.sealing.envelope import KeyMissingError
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.session import CommitUnknownError
from hostler_protocol.errors import (
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    PluginCrashedError,
    PluginStartError,
    StorageError,
    UnavailableError,
)
from hostler_protocol.limits import INITIAL_RESULT_CREDIT
from hostler_protocol.manifest import Capabilities
from support.attempts import COMPLETED, FINISHED, PATIENT, after, attempts, delta, raising

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
RESTART = {"recovery": {"on_crash": "restart"}}


def log(text: str) -> tuple[str, Any]:
    return "log", {"level": "info", "text": text}


# -- the whole way -------------------------------------------------------------------------------------


async def test_an_attempt_runs_from_its_claim_to_the_ending_that_the_runner_gives(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        attempt, task = await host.started(run)
        assert host.plugin.started[0].context.input.text == "hello"
        host.plugin.results(run.run_id, delta("hel"), delta("lo"), COMPLETED, FINISHED)
        await task
        assert await host.ending(run) == ("completed", None)
        assert await host.types(run) == [
            "message.delta",
            "message.delta",
            "message.completed",
            "run.completed",
        ]
        assert not attempt.queued_again
        moves = [entry.type for entry in await host.entries(run, "lifecycle")]
        assert moves == ["claimed", "running", "completed"]


@pytest.mark.parametrize("idle", [None, 60.0])
async def test_an_attempt_that_is_over_leaves_nothing_to_the_garbage_collector(
    database: SqlDatabase, tmp_path: Path, idle: float | None
) -> None:
    async with attempts(database, tmp_path, capabilities=Capabilities(resumable=True)) as host:
        run = await host.open(spec={"idle_timeout": idle})
        attempt, task = await host.started(run)
        host.plugin.results(run.run_id, COMPLETED)
        host.plugin.call("state.get", run.run_id)
        host.plugin.end(run.run_id)
        stage: weakref.ref[Any] = weakref.ref(attempt._stage)
        gc.disable()
        try:
            await task
            host.forget()
            del attempt, task
            await asyncio.sleep(0)
            assert stage() is None
        finally:
            gc.enable()


async def test_a_runner_that_ends_without_output_has_failed(database: SqlDatabase, tmp_path: Path) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        _, task = await host.started(run)
        host.plugin.results(run.run_id, log("nothing"))
        host.plugin.end(run.run_id)
        await task
        assert await host.ending(run) == ("failed", "runner.no_output")


async def test_only_the_first_ending_counts_and_results_after_it_are_ignored(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        _, task = await host.started(run)
        failed = ("run.failed", {"error": "too late", "code": "my.code"})
        host.plugin.results(run.run_id, COMPLETED, FINISHED, failed, COMPLETED)
        host.plugin.end(run.run_id)
        await task
        host.plugin.lose()
        await asyncio.sleep(0)
        assert await host.ending(run) == ("completed", None)
        assert await host.types(run) == ["message.completed", "run.completed"]


async def test_a_run_that_breaks_the_protocol_fails(database: SqlDatabase, tmp_path: Path) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        _, task = await host.started(run)
        host.plugin.results(run.run_id, COMPLETED, *[log("more than its credit")] * INITIAL_RESULT_CREDIT)
        await task
        assert await host.ending(run) == ("failed", "runner.protocol")


async def test_notes_of_the_preparation_are_warnings_of_the_first_attempt(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path) as host:
        host.change_prepared(notes=("a tool was left out",))
        run = await host.open()
        _, task = await host.started(run)
        host.plugin.results(run.run_id, COMPLETED, FINISHED)
        await task
        (warning,) = await host.entries(run, "warning")
        assert "a tool was left out" in str(warning.data)


# -- an attempt that cannot start ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PluginStartError("no module"), "runner.crashed"),
        (PluginCrashedError("it died"), "runner.crashed"),
        (NotFoundError("no such plugin"), "runner.config_invalid"),
    ],
)
async def test_a_plugin_that_cannot_be_connected_fails_the_run(
    database: SqlDatabase, tmp_path: Path, error: Exception, code: str
) -> None:
    async with attempts(database, tmp_path, connect=raising(error)) as host:
        run = await host.open(spec=RESTART)
        await host.attempt(run).execute()
        assert (await host.ending(run))[0] == "failed"
        assert (await host.ending(run))[1] == code
        assert await host.types(run) == ["run.failed"]


@pytest.mark.parametrize(
    "error",
    [UnavailableError("the plugin is being replaced"), CommitUnknownError("the connection broke")],
    ids=["replaced", "database away"],
)
async def test_a_run_of_which_nothing_was_begun_is_queued_again(
    database: SqlDatabase, tmp_path: Path, error: HostlerError
) -> None:
    async with attempts(database, tmp_path, connect=raising(error)) as host:
        run = await host.open()
        attempt = host.attempt(run)
        await attempt.execute()
        assert attempt.queued_again
        stored = await host.run(run)
        assert (stored.status, stored.crashes) == ("queued", 0)


async def test_a_run_that_this_host_lacks_the_keys_for_is_left_to_others(
    database: SqlDatabase, tmp_path: Path
) -> None:
    error = KeyMissingError("none of the keys opens it")
    async with attempts(database, tmp_path, connect=raising(error)) as host:
        run = await host.open()
        later = msgspec.structs.replace(run, crashes=MAX_BEGINNINGS)
        attempt = host.attempt(later)
        await attempt.execute()
        assert attempt.queued_again
        stored = await host.run(run)
        assert (stored.status, stored.crashes) == ("queued", 0), "it is no fault of the run"


async def test_a_run_whose_beginning_is_not_stored_is_tried_again_and_not_for_ever(
    database: SqlDatabase, tmp_path: Path
) -> None:
    error = StorageError("disk I/O error: nothing was written")
    async with attempts(database, tmp_path, connect=raising(error)) as host:
        for crashes in range(MAX_BEGINNINGS - 1):
            run = await host.open()
            attempt = host.attempt(msgspec.structs.replace(run, crashes=crashes))
            await attempt.execute()
            assert attempt.queued_again
            assert (await host.run(run)).status == "queued"
        run = await host.open()
        await host.attempt(msgspec.structs.replace(run, crashes=MAX_BEGINNINGS - 1)).execute()
        assert await host.ending(run) == ("failed", "host.error")
        assert "tried 5 times" in (await host.last(run))["error"]


async def test_a_start_that_the_plugin_refuses_fails_the_run(database: SqlDatabase, tmp_path: Path) -> None:
    async with attempts(database, tmp_path) as host:
        host.plugin.refuses_starts = InvalidArgumentError("no such runner here")
        run = await host.open(spec=RESTART)
        await host.attempt(run).execute()
        assert await host.ending(run) == ("failed", "runner.protocol")
        assert "no such runner here" in (await host.last(run))["error"]


async def test_an_attempt_before_that_does_not_leave_has_its_process_replaced(
    database: SqlDatabase, tmp_path: Path
) -> None:
    limits = replace(DEFAULT_CONNECTION_LIMITS, leave_seconds=0.01)
    async with attempts(database, tmp_path, limits=limits) as host:
        run = await host.open()
        first, task = await host.started(run)
        first.fence("a test")
        await task
        again = host.attempt(await host.claim_again(run))
        await again.execute()
        (why,) = host.replaced
        assert "does not leave the process" in why
        assert again.queued_again
        assert (await host.run(run)).crashes == 0


# -- cancelled -----------------------------------------------------------------------------------------


async def test_cancelled_before_it_is_executed_it_connects_nothing(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path, connect=raising(AssertionError("connected"))) as host:
        run = await host.open()
        attempt = host.attempt(run)
        attempt.cancel("no need")
        await attempt.execute()
        assert await host.ending(run) == ("cancelled", "cancelled")
        assert (await host.last(run))["error"] == "no need"


async def test_cancelled_while_its_plugin_starts_it_waits_no_longer(
    database: SqlDatabase, tmp_path: Path
) -> None:
    asked = asyncio.Event()

    async def connect(runner_id: str) -> PluginConnection:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with attempts(database, tmp_path, connect=connect) as host:
        run = await host.open()
        attempt = host.attempt(run)
        task = host.execute(attempt)
        await asked.wait()
        attempt.cancel("no need")
        await task
        assert await host.ending(run) == ("cancelled", "cancelled")


async def test_cancelled_while_it_is_prepared_its_runner_is_not_started(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        attempt = host.attempt(run)
        host.services.prepare = after(host, lambda: attempt.cancel("no need"))
        await attempt.execute()
        assert await host.ending(run) == ("cancelled", "cancelled")
        assert host.plugin.started == []
        assert [entry.kind for entry in await host.entries(run, "context")] == ["context"]


async def test_cancelled_while_its_start_is_unanswered_it_ends_after_the_grace(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path, limits=PATIENT, cancel_grace_seconds=0) as host:
        host.plugin.holds_starts = True
        run = await host.open()
        attempt = host.attempt(run)
        task = host.execute(attempt)
        await host.plugin.until(lambda: bool(host.plugin.starts))
        attempt.cancel("enough")
        async with asyncio.timeout(60):
            await task
        assert host.plugin.reasons()[0] == "enough"
        assert await host.ending(run) == ("cancelled", "cancelled")
        assert await host.connection.wait_free([run.run_id], 0) == [run.run_id]
        host.plugin.answer_start()  # too late: the plugin is told once more, and says that it has stopped
        host.plugin.end(run.run_id)
        assert await host.connection.wait_free([run.run_id], 60) == []
        assert host.replaced == []


async def test_a_cancelled_runner_that_completes_within_its_grace_has_completed(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        attempt, task = await host.started(run)
        attempt.cancel("enough", 60)
        host.plugin.results(run.run_id, COMPLETED, FINISHED)
        await task
        assert host.plugin.reasons() == ["enough"]
        assert await host.ending(run) == ("completed", None)


async def test_a_cancelled_runner_is_not_waited_for_longer_than_the_shortest_grace(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        attempt, task = await host.started(run)
        attempt.cancel("enough", 3600)
        attempt.cancel("ignored")
        attempt.cancel("ignored", 0)
        attempt.cancel("ignored", 3600)
        await task
        assert host.plugin.reasons() == ["enough"]
        assert await host.ending(run) == ("cancelled", "cancelled")
        assert (await host.last(run))["error"] == "enough"


async def test_a_repeated_request_without_a_grace_leaves_that_of_the_first(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path, cancel_grace_seconds=0) as host:
        run = await host.open()
        attempt, task = await host.started(run)
        attempt.cancel("enough", 3600)
        attempt.cancel("again")
        await asyncio.sleep(0)
        host.plugin.results(run.run_id, COMPLETED, FINISHED)
        await task
        assert await host.ending(run) == ("completed", None)


async def test_cancelled_after_its_end_it_stays_as_it_ended(database: SqlDatabase, tmp_path: Path) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        attempt, task = await host.started(run)
        host.plugin.results(run.run_id, COMPLETED, FINISHED)
        await task
        attempt.cancel("too late", 0)
        await asyncio.sleep(0)
        assert host.plugin.reasons() == []
        assert await host.ending(run) == ("completed", None)
