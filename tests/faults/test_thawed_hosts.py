"""A host is stopped past its lease and goes on: each run has one end, no effect is made twice, none is stuck.

What is asked of the thawed host at once reaches it before it has looked at its lease.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter as Count
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.effect_programs import Steps
from support.http_runs import begin, follow, record, send
from support.oracle import rows
from support.postgres import PostgresServer
from support.server_process import HostProcess
from support.two_hosts import LEASE, Two, act, two_hosts
from support.wire_client import ask

SECONDS = 600 if os.environ.get("HOSTLER_SOAK") else 400
ROUNDS = 12 if os.environ.get("HOSTLER_SOAK") else 3
HELD = (*LEASE, "--hold-seconds", "3600")
"""Runs that wait for people keep their attempt, so that the host that falls asleep has it."""
pytestmark = [pytest.mark.postgres, pytest.mark.timeout(SECONDS + 60)]


@pytest.fixture
def shared(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """A database for both."""
    url = postgres_server.create(postgres_template)
    yield url
    postgres_server.drop(url)


async def test_a_pause_is_decided_at_the_host_that_just_thawed(tmp_path: Path, shared: str) -> None:
    """Each host in turn has the run, sleeps past its lease, and is the one that is asked to go on with it."""
    async with two_hosts(tmp_path, shared, *HELD, seconds=SECONDS) as two:
        for number in range(ROUNDS):
            sleeper, other = (two.first, two.second)[:: 1 if number % 2 else -1]
            program: Steps = [["deltas", 1, "a"], ["tool", "refund", "r"], ["tool", "book", "b"]]
            sent = await begin(sleeper, "doer", json.dumps(program))
            pause = await two.pause(sent.run_id, at=other)
            behind = await send(other, "doer", json.dumps([["tool", "note", "n"]]))
            await _settled(two, behind.run_id, other)
            sleeper.pause()
            await _taken_over(other, sent.run_id)
            sleeper.go_on()
            assert (await act(sleeper, pause)).status == 202
            await _settled(two, sent.run_id, other, refund=1, book=1)
        assert await two.first.stop() == await two.second.stop() == 0


@pytest.mark.parametrize("point", ["called", "done"])
async def test_a_doubt_is_resolved_at_the_host_that_just_thawed(
    tmp_path: Path, shared: str, point: str
) -> None:
    """It fell asleep while its tool was at work: nobody knows whether it was made, until somebody says so."""
    async with two_hosts(tmp_path, shared, *HELD, seconds=SECONDS) as two:
        for number in range(ROUNDS):
            sleeper, other = (two.first, two.second)[:: 1 if number % 2 else -1]
            program: Steps = [["tool", "refund", "r"], ["tool", "book", "b"]]
            sent = await begin(sleeper, "doer", json.dumps([["deltas", 1, "a"], *program]))
            pause = await two.pause(sent.run_id, at=other)
            async with two.counter.keeping(point) as waiting:
                assert (await act(other, pause)).status == 202
                await waiting
                sleeper.pause()
                review = await two.pause(sent.run_id, "needs_review", at=other)
            (call,) = review["calls"]
            while (outcome := await two.counter.outcome(sent.run_id, call["call_id"])) is None:
                await asyncio.sleep(0.05)
            sleeper.go_on()
            path = f"/v1/pauses/{review['id']}/calls/{call['call_id']}/resolve"
            body = {"outcome": "happened", "result": outcome}
            assert (await ask(sleeper.url, "POST", path, body)).status == 200
            await _settled(two, sent.run_id, other, refund=1, book=1)
        assert await two.first.stop() == await two.second.stop() == 0


async def test_a_run_at_work_is_taken_over_and_back_again(tmp_path: Path, shared: str) -> None:
    """The first host sleeps, the second takes the run and sleeps as well: the first has it again."""
    async with two_hosts(tmp_path, shared, *LEASE, seconds=SECONDS) as two:
        for number in range(3):
            one, other = (two.first, two.second)[:: 1 if number % 2 else -1]
            program: Steps = [["tool", kind, kind] for kind in ("note", "book", "pay", "price")]
            async with two.counter.keeping("answered") as at_work:
                sent = await begin(one, "doer", json.dumps([["deltas", 1, "a"], *program]))
                await at_work
                async with two.counter.keeping("answered") as again:
                    one.pause()
                    assert (await again).run_id == sent.run_id
                    one.go_on()
                    other.pause()
                    await _settled(two, sent.run_id, one, note=1, book=1, pay=1)
                    other.go_on()
            assert (await record(other, sent.run_id))["status"] == "completed"
            own = await begin(other, "doer", json.dumps([["deltas", 1, "a"], ["tool", "book", "b"]]))
            await _settled(two, own.run_id, one, book=1)
        assert await two.first.stop() == await two.second.stop() == 0


async def test_both_hosts_sleep_with_many_runs_and_each_run_ends_once(tmp_path: Path, shared: str) -> None:
    """Both are stopped at once, with runs at work, waiting for people and waiting behind those."""
    async with two_hosts(tmp_path, shared, *HELD, seconds=SECONDS) as two:
        asks: Steps = [["deltas", 1, "a"], ["tool", "refund", "r"], ["tool", "note", "n"]]
        works: Steps = [["deltas", 3, "a"], *([["tool", "book", "b"]] * 5)]
        asked, working = [], []
        for number in range(6):
            host = (two.first, two.second)[number % 2]
            asked.append((await begin(host, "doer", json.dumps(asks), f"c{number}")).run_id)
            working.append((await send(host, "doer", json.dumps(works), f"c{number}")).run_id)
            working.append((await send(host, "doer", json.dumps(works))).run_id)
        pauses = [await two.pause(run_id) for run_id in asked]
        for host in (two.first, two.second):
            host.pause()
        await asyncio.sleep(float(LEASE[1]) + 1)  # both leases are over; nobody is awake to see it
        for host in (two.first, two.second):
            host.go_on()
        for number, pause in enumerate(pauses):
            assert (await act((two.first, two.second)[number % 2], pause)).status == 202
        for run_id in asked:
            await _settled(two, run_id, two.first, refund=1, note=1)
        for run_id in working:
            await _settled(two, run_id, two.second)
        assert await two.first.stop() == await two.second.stop() == 0


async def _taken_over(host: HostProcess, run_id: str) -> None:
    """Wait until the run's attempt was ended by another host than the one that has it."""
    while (await record(host, run_id))["status"] != "paused":
        await asyncio.sleep(0.05)


async def _settled(two: Two, run_id: str, host: HostProcess, **effects: int) -> None:
    """The run has completed, its results end once, and its effects were made as often as they should."""
    results = await follow(host, run_id)
    assert results.ending == ("run.completed", None), results
    assert sum(type_ in {"run.completed", "run.failed"} for type_ in results.types) == 1
    made = Count(effect.tool for effect in await two.facts(run_id) if effect.made)
    for tool, count in effects.items():
        assert made[tool] == count, (tool, made)
    (ends,) = rows(
        two.database,
        "SELECT count(*) FROM journal WHERE kind = 'lifecycle' "
        f"AND type IN ('completed', 'failed', 'cancelled', 'timeout') AND run_id = '{run_id}'",
    )
    assert ends[0] == 1
