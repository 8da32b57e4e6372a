"""A request that waits for a run gets the record that any later read gives, mostly without one of its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hostler.host import run_reader
from hostler.host.run_reader import RunReader
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import runs
from hostler.storage.stores.run_endings import finish
from hostler.storage.stores.run_rows import Fenced, Run
from hostler_protocol.errors import NotFoundError
from support.dispatching import HOST
from support.http_host import WORKSPACE, serving
from support.run_rows import new
from support.stepping import within

TRIES = 3
"""What is read with the commit is left out where a commit takes long; once in three it does not."""


@pytest.mark.parametrize(
    ("text", "status"), [("say 3", "completed"), ("fail", "failed"), ("say 1", "completed")]
)
async def test_who_waits_gets_what_is_read_later(tmp_path: Path, text: str, status: str) -> None:
    async with within(), serving(tmp_path) as served:
        waited = await served.say(text)
        read = (await served.client.get(f"/v1/runs/{waited['run_id']}")).json()
        assert {**waited, "waiting": False, "waits_for": None, "waits": []} == read, (
            "a run that has ended waits for nobody"
        )
        assert read["status"] == status


async def test_who_waits_for_a_run_that_ends_here_costs_no_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: Counter[str] = Counter()

    def count(method: str) -> None:
        read = getattr(RunReader, method)

        async def counted(*arguments: Any) -> Any:
            reads[method] += 1
            return await read(*arguments)

        monkeypatch.setattr(RunReader, method, counted)

    count("record")
    count("_results")
    async with within(), serving(tmp_path) as served:
        for _ in range(TRIES):
            await served.say("say 1")
    assert reads["record"] < TRIES
    assert reads["_results"] == 0, "the attempt's results are awaited from its launch on"


async def test_several_who_wait_get_the_same_and_one_who_waits_later_reads_it(tmp_path: Path) -> None:
    async with within(), serving(tmp_path) as served:
        accepted = await served.say("hold", wait=None)
        run_id = accepted["run"]["run_id"]
        waits = [asyncio.create_task(served.host.runs.wait(WORKSPACE, run_id, 60)) for _ in range(3)]
        assert (await served.host.runs.wait(WORKSPACE, run_id, 0.0)).status in ("claimed", "running")
        await served.host.orchestrator.cancel(WORKSPACE, run_id, reason="enough", actor="test")
        found = [await wait for wait in waits]
        assert {record.status for record in found} == {"cancelled"}
        assert found == [await served.host.runs.wait(WORKSPACE, run_id, 60)] * 3


async def test_an_end_that_is_undone_is_shown_to_nobody(database: SqlDatabase) -> None:
    reader = RunReader(database)
    opened = await database.write(lambda tx: runs.open(tx, new("r1"), HOST))
    waits = asyncio.create_task(reader.wait("w1", "r1", 0.2))
    await database.read(lambda tx: runs.get(tx, "w1", "r1"))  # behind the read of the one who waits
    told: list[Any] = []

    def end(tx: Tx) -> None:
        _end(tx, opened)
        told.append(reader.look_at_end(tx, opened))
        raise NotFoundError("the transaction is undone")

    with pytest.raises(NotFoundError):
        await database.write(end)
    assert told
    assert (await waits).status == "claimed"


async def test_a_run_that_is_deleted_as_it_ends_ends_nevertheless(
    database: SqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = RunReader(database)
    opened = await database.write(lambda tx: runs.open(tx, new("r1"), HOST))
    waits = asyncio.create_task(reader.wait("w1", "r1", 0.2))
    await database.read(lambda tx: runs.get(tx, "w1", "r1"))

    def deleted(_tx: Tx, _workspace_id: str, run_id: str) -> Any:
        raise NotFoundError(f"there is no run {run_id!r}")

    def end(tx: Tx) -> Any:
        _end(tx, opened)
        return reader.look_at_end(tx, opened)

    with monkeypatch.context() as patch:
        patch.setattr(run_reader, "record", deleted)
        (await database.write(end))()
    assert (await waits).status == "failed"


def _end(tx: Tx, run: Run) -> None:
    ended = finish(tx, run.run_id, run.attempt, "failed", cause="test", actor="h1", status_code="host.error")
    assert not isinstance(ended, Fenced)
