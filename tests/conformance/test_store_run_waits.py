"""What runs wait for, on both databases: people by kind, runs that they started, their turn, a time."""

from __future__ import annotations

import msgspec
import pytest

from hostler.domain.run_view import RunWait
from hostler.runs.run_waits import waits_of
from hostler.storage.port import Database, Tx
from hostler.storage.stores import runs
from hostler.storage.stores.run_rows import NewRun
from support.pauses import WORKSPACE, call, open_pause, open_run

pytestmark = pytest.mark.gate("both-databases")
FAR = 100_000_000
"""Milliseconds until a delayed start: longer than any test."""


def queued(tx: Tx, run_id: str, lane: str, *, delay: int | None = None, parallel: bool = False) -> None:
    """Open a run that waits in a lane."""
    new = NewRun(
        workspace_id=WORKSPACE,
        run_id=run_id,
        agent_id="a1",
        agent_name="shop",
        agent_version=3,
        runner_id="plugin:acme/shop/default",
        lane=lane,
        not_before=None if delay is None else tx.now + delay,
        parallel=parallel,
    )
    runs.open(tx, new, None)


async def waits(database: Database, *ids: str, workspace: str = WORKSPACE) -> dict[str, list[RunWait]]:
    """What runs wait for, by the way that the API asks."""
    found = await database.read(lambda tx: waits_of(tx, workspace, ids, {}))
    return {run_id: found[run_id] for run_id in ids if found.get(run_id)}


def kinds(found: list[RunWait]) -> list[str]:
    return [one.kind for one in found]


async def test_people_are_named_by_kind_and_by_when_the_first_of_it_expires(database: Database) -> None:
    def store(tx: Tx) -> int:
        for run_id in ("asks", "calm"):
            open_run(tx, run_id)
        pause = open_pause(tx, call("a"), call("b"), call("q", "question"), run_id="asks", pause_id="p")
        assert pause.expires_at is not None
        return pause.expires_at

    expires_at = await database.write(store)
    found = await waits(database, "asks", "calm")
    assert {run_id: kinds(one) for run_id, one in found.items()} == {"asks": ["approval", "question"]}
    assert min(one.until or 0 for one in found["asks"]) == expires_at / 1000
    assert await waits(database, "asks", workspace="other") == {}
    assert "seats" not in msgspec.json.encode(found["asks"]).decode()


async def test_a_run_that_was_started_is_waited_for_until_it_ends(database: Database) -> None:
    def store(tx: Tx) -> None:
        open_run(tx, "parent")
        open_run(tx, "child", parent_run_id="parent")

    await database.write(store)
    assert await waits(database, "parent", "child") == {"parent": [RunWait(kind="run", run_id="child")]}
    await database.write(lambda tx: runs.transition(tx, "child", 1, "completed", cause="test", actor="h1"))
    assert await waits(database, "parent") == {}


async def test_a_queued_run_waits_for_its_turn_or_its_time(database: Database) -> None:
    def store(tx: Tx) -> None:
        open_run(tx, "first")
        for run_id in ("second", "third"):
            queued(tx, run_id, "lane of first")
        queued(tx, "beside", "lane of first", parallel=True)
        queued(tx, "later", "a lane", delay=FAR)
        queued(tx, "now", "a lane")  # whose start is delayed lets others go before
        queued(tx, "next", "a lane")

    await database.write(store)
    found = await waits(database, "first", "second", "third", "beside", "later", "now", "next")
    assert {run_id: [(one.kind, one.run_id) for one in found[run_id]] for run_id in found} == {
        "second": [("turn", "first")],
        "third": [("turn", "first")],
        "later": [("time", None)],
        "next": [("turn", "now")],
    }
    assert found["later"][0].until is not None
