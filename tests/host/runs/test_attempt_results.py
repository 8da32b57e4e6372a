"""Results of an attempt: their order in the journal, what their commits wait for, and credit after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.domain.agents import DeliveryPolicy
from hostler.runs.attempt_results import WIDER_CREDIT
from hostler.storage.sql.database import SqlDatabase
from hostler_protocol.limits import INITIAL_RESULT_CREDIT
from support.attempts import COMPLETED, FINISHED, Attempts, attempts, delta
from support.shaky_database import Shaky

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
INVALID = ("state.updated", {"scope": "nowhere"})


async def test_results_and_warnings_are_journalled_in_their_order(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        _, task = await host.started(run)
        host.plugin.results(run.run_id, delta("a"), INVALID, delta("b"), delta("c"), COMPLETED, FINISHED)
        await task
        kinds = [(entry.kind, entry.type) for entry in await host.entries(run, "result", "warning")]
        assert kinds == [
            ("result", "message.delta"),
            ("warning", "dropped"),
            ("result", "message.delta"),
            ("result", "message.delta"),
            ("result", "message.completed"),
            ("result", "run.completed"),
        ]
        sequences = [entry.sequence for entry in await host.entries(run, "result")]
        assert sequences == [1, 2, 3, 4, 5]


async def test_the_message_of_an_ending_is_in_the_transcript_and_has_its_usage(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        _, task = await host.started(run)
        usage = {"input_tokens": 3, "output_tokens": 4}
        host.plugin.results(run.run_id, COMPLETED, usage=usage)
        message = {"role": "assistant", "content": "goodbye"}
        host.plugin.results(run.run_id, ("run.completed", {"finish_reason": "stop", "message": message}))
        await task
        assert await host.said(run) == ["hello", "goodbye"]
        stored = await host.run(run)
        assert stored.usage is not None
        assert (stored.usage.input_tokens, stored.usage.output_tokens) == (3, 4)


async def test_credit_follows_the_commit_and_is_wider_once(database: SqlDatabase, tmp_path: Path) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open()
        await host.started(run)
        host.plugin.results(run.run_id, delta("a"), delta("b"), COMPLETED)
        await credited(host, 3 + WIDER_CREDIT)
        assert await host.types(run) == ["message.delta", "message.delta", "message.completed"]
        host.plugin.results(run.run_id, delta("d"))
        await credited(host, 4 + WIDER_CREDIT)


async def test_results_that_are_not_stored_are_credited_as_well(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with attempts(database, tmp_path) as host:
        run = await host.open(spec={"delivery_policy": DeliveryPolicy(enable_streaming=False)})
        _, task = await host.started(run)
        host.plugin.results(run.run_id, *[delta("a")] * INITIAL_RESULT_CREDIT)
        await credited(host, INITIAL_RESULT_CREDIT + WIDER_CREDIT)
        host.plugin.results(run.run_id, INVALID)
        await credited(host, INITIAL_RESULT_CREDIT + WIDER_CREDIT + 1)
        host.plugin.results(run.run_id, COMPLETED, FINISHED)
        await task
        assert await host.types(run) == ["message.completed", "run.completed"]


async def test_results_that_were_never_committed_get_no_credit(database: SqlDatabase, tmp_path: Path) -> None:
    shaky = Shaky(database, retryable=False)
    async with attempts(database, tmp_path, db=shaky) as host:
        run = await host.open()
        _, task = await host.started(run)
        shaky.refusals = 1
        host.plugin.results(run.run_id, delta("a"), COMPLETED)
        await host.over(task)
        assert host.plugin.credits() == []
        assert await host.types(run) == []


async def test_only_deltas_are_committed_without_a_disk_sync(database: SqlDatabase, tmp_path: Path) -> None:
    shaky = Shaky(database)
    async with attempts(database, tmp_path, db=shaky) as host:
        run = await host.open()
        _, task = await host.started(run)
        shaky.writes.clear()
        host.plugin.results(run.run_id, delta("a"), delta("b"))
        await credited(host, 2 + WIDER_CREDIT)
        assert shaky.writes == [False]
        host.plugin.results(run.run_id, delta("c"), COMPLETED)
        await credited(host, 4 + WIDER_CREDIT)
        assert shaky.writes == [False, True]
        host.plugin.results(run.run_id, FINISHED)
        await task
        assert shaky.writes == [False, True, True]


async def credited(host: Attempts, results: int) -> None:
    """Wait until so many results were allowed in all."""
    await host.plugin.until(lambda: sum(host.plugin.credits()) >= results)
    assert sum(host.plugin.credits()) == results
