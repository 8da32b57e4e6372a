"""How an attempt waits for people: calls that are held, runs that are parked, and pauses of the runner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostler.domain.pause_actions import Action, ActRequest
from hostler.pauses.service import PauseService
from hostler.runs.attempt import Attempt
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import pause_calls
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import CancelledCallError
from hostler_protocol.manifest import Capabilities
from support.attempts import COMPLETED, FINISHED, Attempts, attempts
from support.pauses import person

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
RESUMABLE = Capabilities(resumable=True)
EXPLICIT = Capabilities(continuation=True)


def pausing(kind: str = "question", **more: Any) -> tuple[str, Any]:
    """A result by which the runner pauses its run."""
    pending = {"kind": kind, "tool_name": "size", "title": "Which size?", "arguments": {}, **more}
    return "run.paused", {"pending": [pending], "state": {"step": 3}}


async def decide(host: Attempts, run: Run, attempt: Attempt | None = None, **action: Any) -> None:
    """Decide the one call that waits."""
    database = host.host.world.db
    pause = await host.pause(run)
    (call,) = await database.read(lambda tx: pause_calls.of_pause(tx, pause))
    boss = await database.write(lambda tx: person(tx, "boss", "admin", workspace="main"))

    def changed(run_id: str) -> None:
        if attempt is not None:
            attempt.people_changed()

    service = PauseService(database, on_changed=changed)
    actions = [Action(call_id=call.call_id, **action)]
    await service.act(boss, pause.pause_id, ActRequest(revision=pause.revision, actions=actions))


async def asked(host: Attempts, run: Run) -> Any:
    """Ask a question; the id of the call, once people see it."""
    call_id = host.plugin.call("interaction.request", run.run_id)
    await host.until(lambda: host.pause(run))
    return call_id


async def test_a_call_that_is_decided_while_it_is_held_is_answered(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path, capabilities=RESUMABLE) as host:
        run = await host.open()
        attempt, task = await host.started(run)
        call_id = await asked(host, run)
        await decide(host, run, attempt, type="answer", values={})
        await host.plugin.until(lambda: call_id in host.plugin.answers)
        assert host.plugin.answers[call_id].decision == "answered"
        host.plugin.results(run.run_id, COMPLETED, FINISHED)
        await task
        assert await host.ending(run) == ("completed", None)
        assert (await host.types(run))[0] == "interaction.requested"


async def test_after_the_hold_time_the_run_is_parked_and_its_call_stays_unanswered(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path, capabilities=RESUMABLE, hold_seconds=0) as host:
        run = await host.open()
        attempt, task = await host.started(run)
        call_id = await asked(host, run)
        await task
        assert await host.ending(run) == ("paused", None)
        assert await host.types(run) == ["interaction.requested", "run.paused"]
        assert [method for method, _ in host.plugin.said if method == "run/park"] == ["run/park"]
        assert call_id not in host.plugin.answers
        assert not attempt.queued_again


async def test_a_run_is_parked_when_its_other_calls_are_over(database: SqlDatabase, tmp_path: Path) -> None:
    async with attempts(database, tmp_path, capabilities=RESUMABLE, hold_seconds=0) as host:
        run = await host.open()
        _, task = await host.started(run)
        host.plugin.call("interaction.request", run.run_id)
        read = host.plugin.call("state.get", run.run_id)
        await task
        assert await host.ending(run) == ("paused", None)
        assert read in host.plugin.answers


async def test_the_calls_of_a_runner_that_is_not_resumable_are_held_without_parking(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path, hold_seconds=0) as host:
        run = await host.open()
        attempt, task = await host.started(run)
        call_id = await asked(host, run)
        await decide(host, run, attempt, type="answer", values={})
        await host.plugin.until(lambda: call_id in host.plugin.answers)
        assert not task.done()


async def test_a_run_that_is_being_cancelled_is_not_parked(database: SqlDatabase, tmp_path: Path) -> None:
    async with attempts(database, tmp_path, capabilities=RESUMABLE, hold_seconds=0) as host:
        run = await host.open()
        attempt, task = await host.started(run)
        attempt.cancel("enough", 3600)
        await asked(host, run)
        host.plugin.results(run.run_id, COMPLETED, FINISHED)
        await task
        assert await host.ending(run) == ("completed", None)
        assert "run.paused" not in await host.types(run)


async def test_a_run_that_was_decided_as_it_was_parked_is_queued_at_once(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path, capabilities=RESUMABLE) as host:
        run = await host.open()
        attempt, task = await host.started(run)
        await asked(host, run)
        await decide(host, run, type="answer", values={})  # the attempt does not learn of it
        host.park(attempt)
        await task
        assert attempt.queued_again
        assert (await host.ending(run))[0] == "queued"


async def test_calls_of_a_parked_attempt_are_refused(database: SqlDatabase, tmp_path: Path) -> None:
    async with attempts(database, tmp_path, capabilities=EXPLICIT) as host:
        run = await host.open()
        _, task = await host.started(run)
        host.plugin.results(run.run_id, pausing())
        late = host.plugin.call("state.get", run.run_id)
        await task
        answer = host.plugin.answers.get(late)
        assert answer is None or isinstance(answer, CancelledCallError)
        assert await host.entries(run, "call") == []


async def test_a_runner_pauses_its_run_with_its_state(database: SqlDatabase, tmp_path: Path) -> None:
    async with attempts(database, tmp_path, capabilities=EXPLICIT) as host:
        run = await host.open()
        attempt, task = await host.started(run)
        host.plugin.results(run.run_id, COMPLETED, pausing())
        host.plugin.end(run.run_id)
        await task
        assert await host.ending(run) == ("paused", None)
        assert await host.types(run) == ["message.completed", "interaction.requested", "run.paused"]
        pause = await host.pause(run)
        assert (pause.form, pause.status) == ("explicit", "open")
        assert not attempt.queued_again


async def test_a_pause_that_cannot_be_kept_fails_the_run(database: SqlDatabase, tmp_path: Path) -> None:
    async with attempts(database, tmp_path, capabilities=EXPLICIT) as host:
        run = await host.open()
        _, task = await host.started(run)
        host.plugin.results(run.run_id, pausing("approval", tool_name="unknown"))
        await task
        assert await host.ending(run) == ("failed", "runner.protocol")
        assert "'unknown' is not among the resources" in (await host.last(run))["error"]


async def test_a_run_that_is_paused_needs_no_process(database: SqlDatabase, tmp_path: Path) -> None:
    async with attempts(database, tmp_path, capabilities=EXPLICIT) as host:
        run = await host.open()
        _, task = await host.started(run)
        host.plugin.results(run.run_id, pausing())
        host.plugin.lose()
        await task
        assert await host.ending(run) == ("paused", None)


async def test_a_runner_without_the_capability_may_not_pause(database: SqlDatabase, tmp_path: Path) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        _, task = await host.started(run)
        host.plugin.results(run.run_id, pausing())
        await task
        assert await host.ending(run) == ("failed", "runner.protocol")
