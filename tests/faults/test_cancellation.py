"""A stop reaches every child, also of a runner that ignores it and of another host; nothing late is taken."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.storage.stores import runs
from hostler_protocol.runs import TERMINAL_STATUSES, RunRecord
from support.http_runs import begin, record
from support.postgres import PostgresServer
from support.server_process import PLUGINS, HostProcess, config_file
from support.stepping import WORKSPACE, Latch, Stage, stage, within
from support.wire_client import ask

SECONDS = 110.0


def _url(database_url: str) -> str | None:
    return database_url if database_url.startswith("postgres") else None


async def _family(made: Stage, latch: Latch) -> list[str]:
    """A run with two children, none of which listens to a wish to end; their ids."""
    stubborn = json.dumps(
        [["deltas", 1], ["gate", latch.path], ["say", "too late"], ["call", "host.info", {}]]
    )
    child = {"agent": "helper", "input": {"text": stubborn}}
    parent = await made.start(
        [
            ["call", "run.create", child],
            ["call", "run.create", child],
            ["tell"],
            ["gate", latch.path],
            ["say", "too late"],
        ]
    )
    await made.seen(parent, "message.completed")
    said = next(entry for entry in await made.entries(parent) if entry["type"] == "message.completed")
    born = [one["run_id"] for one in json.loads(said["data"]["data"]["message"]["content"])]
    for run_id in born:
        await made.seen(run_id, "message.delta")
    return [parent, *born]


def _took(asked: float, record_: RunRecord) -> float:
    return (record_.finished_at or 0.0) - asked


@pytest.mark.parametrize(("grace", "bound"), [(None, 6.0), (0.0, 1.0)])
async def test_a_run_and_two_children_that_ignore_it_all_end_in_time(
    tmp_path: Path, database_url: str, grace: float | None, bound: float
) -> None:
    async with (
        within(),
        stage(tmp_path / "d", database=_url(database_url), cancel_grace_seconds=5.0) as made,
        Latch(tmp_path) as latch,
    ):
        await made.agent(resource_policy={"allowed_agents": ["helper"]})
        await made.agent("helper")
        family = await _family(made, latch)
        asked = time.time()
        await made.host.cancel(WORKSPACE, family[0], reason="enough", actor="test", grace=grace)
        noted = time.time() - asked  # what the wish itself took on this machine
        ended = [await made.ended(run_id) for run_id in family]
        for one in ended:
            assert (one.record.status, one.types[-1]) == ("cancelled", "run.failed")
            assert _took(asked, one.record) - noted < bound + 10.0
            if grace is None:
                assert _took(asked, one.record) >= 4.9, "their runners had their time"
        took = max(_took(asked, one.record) for one in ended)
        print(f"all three were over {took:.2f} s after the wish")
        latch.open()  # now they speak, and nobody listens
        after = await made.run([["say", "next"]])
        assert after.said == ["next"]
        for run_id, before in zip(family, ended, strict=True):
            assert (await made.ended(run_id)).results == before.results


async def test_a_stop_that_is_asked_for_again_with_less_time_has_less(tmp_path: Path) -> None:
    async with (
        within(),
        stage(tmp_path / "d", cancel_grace_seconds=60.0) as made,
        Latch(tmp_path) as latch,
    ):
        run_id = await made.start([["deltas", 1], ["gate", latch.path]])
        await latch.reached()
        await made.cancel(run_id, "please")
        row = await made.host.db.read(lambda tx: runs.get(tx, WORKSPACE, run_id))
        assert (row.status, row.cancel_reason, row.cancel_grace) == ("running", "please", None)
        await made.host.cancel(WORKSPACE, run_id, reason="now", actor="test", grace=0.0)
        ended = await made.ended(run_id)
        assert (ended.record.status, ended.last["error"]) == ("cancelled", "please")


async def test_an_interrupted_run_keeps_what_it_said_and_says_why_it_ended(
    tmp_path: Path, database_url: str
) -> None:
    async with (
        within(),
        stage(tmp_path / "d", database=_url(database_url), cancel_grace_seconds=0.1) as made,
    ):
        await made.agent(concurrency={"on_busy": "interrupt"})
        first = await made.start([["say", "half of it"], ["hold"]], conversation_id="c")
        await made.seen(first, "message.completed")
        second = await made.run([["call", "history.page", {}], ["tell"]], conversation_id="c")
        ended = await made.ended(first)
        assert ended.record.status == "cancelled"
        assert ended.last["error"].startswith("interrupted by a newer message")
        assert ended.record.output is not None
        assert ended.record.output.text == "half of it"
        history = [item["content"] for item in second.told[0]["items"]]
        assert "half of it" in history


# -- another host of the same database ----------------------------------------------------------------


@pytest.fixture
def shared(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """A database for both."""
    url = postgres_server.create(postgres_template)
    yield url
    postgres_server.drop(url)


@pytest.mark.postgres
async def test_a_stop_pressed_at_another_host_is_heard(tmp_path: Path, shared: str) -> None:
    agents: list[dict[str, Any]] = [{"name": "puppet", "runner": "plugin:test/puppet/default"}]
    config = config_file(tmp_path / "config.yaml", plugins=[PLUGINS / "puppet"], agents=agents)
    first, second = (HostProcess(tmp_path / name, config, shared) for name in ("first", "second"))

    try:
        await first.start()
        await second.start()
        held = await begin(first, "puppet", "hold", "c")
        asked = time.time()
        wish = {"reason": "from afar", "grace": 0}
        answer = await ask(second.url, "POST", f"/v1/runs/{held.run_id}/cancel", wish)
        assert answer.status == 200, answer
        while (ended := await record(second, held.run_id))["status"] not in TERMINAL_STATUSES:
            await asyncio.sleep(0.02)
        assert ended["status"] == "cancelled"
        print(f"over {ended['finished_at'] - asked:.2f} s after it was asked for at the other host")
        assert ended["finished_at"] - asked < 30
        assert await first.stop() == await second.stop() == 0
    except BaseException:
        print(first.log, second.log, sep="\n---\n")
        raise
    finally:
        first.end()
        second.end()
