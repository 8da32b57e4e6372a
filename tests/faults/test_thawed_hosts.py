"""A host is stopped past its lease and goes on: each run has one end, no effect is made twice, none is stuck.

What is asked of the thawed host at once reaches it before it has looked at its lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter as Count
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.effect_programs import Steps
from support.examples import SOAK
from support.http_runs import begin, follow, record, send
from support.oracle import rows
from support.postgres import PostgresServer
from support.server_process import HostProcess
from support.two_hosts import Two, act, end_lease, two_hosts
from support.wire_client import Answer, ask

SECONDS = 600 if SOAK else 400
ROUNDS = 12 if SOAK else 2
"""Each host sleeps first once at least."""
POINTS = ("called", "done")
"""Of a tool: before and after its effect."""
HELD = ("--hold-seconds", "3600")
"""Runs that wait for people keep their attempt, so that the host that falls asleep has it."""
pytestmark = [pytest.mark.postgres, pytest.mark.timeout(SECONDS + 60)]


@pytest.fixture
def shared(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """A database for both."""
    url = postgres_server.create(postgres_template)
    yield url
    postgres_server.drop(url)


async def test_pauses_are_decided_and_doubts_resolved_at_the_host_that_just_thawed(
    tmp_path: Path, shared: str
) -> None:
    """Each host in turn has three runs, sleeps past its lease, and is asked at once to go on with all.

    One waits for a person. The tools of the others were at work, before and after their effect: nobody knows
    whether it was made, until somebody says so.
    """
    async with two_hosts(tmp_path, shared, *HELD, seconds=SECONDS) as two:
        for number in range(ROUNDS):
            sleeper, other = (two.first, two.second)[:: 1 if number % 2 else -1]
            run_id, pause = await _asks(two, sleeper, other)
            behind = await send(other, "doer", json.dumps([["tool", "note", "n"]]))
            await _settled(two, behind.run_id, other)
            doubts = [await _asks(two, sleeper, other) for _ in POINTS]
            async with contextlib.AsyncExitStack() as kept:
                for point, (doubt_id, asked) in zip(POINTS, doubts, strict=True):
                    waiting = await kept.enter_async_context(two.counter.keeping(point))
                    assert (await act(other, asked)).status == 202
                    assert (await waiting).run_id == doubt_id
                await two.oversleeps(sleeper)
                reviews = [await two.pause(doubt_id, "needs_review", at=other) for doubt_id, _ in doubts]
            outcomes = [
                await two.outcome(doubt_id, review)
                for (doubt_id, _), review in zip(doubts, reviews, strict=True)
            ]
            await _taken_over(other, run_id)
            sleeper.go_on()
            resolved = map(partial(_resolve, sleeper), reviews, outcomes)
            acted, *answers = await asyncio.gather(act(sleeper, pause), *resolved)
            assert acted.status == 202, acted
            assert [answer.status for answer in answers] == [200, 200], answers
            for one in (run_id, *(doubt_id for doubt_id, _ in doubts)):
                await _settled(two, one, other, refund=1, book=1)
        assert await two.first.stop() == await two.second.stop() == 0


async def test_a_run_at_work_is_taken_over_and_back_again(tmp_path: Path, shared: str) -> None:
    """The first host sleeps, the second takes the run and sleeps as well: the first has it again."""
    async with two_hosts(tmp_path, shared, seconds=SECONDS) as two:
        for number in range(ROUNDS):
            one, other = (two.first, two.second)[:: 1 if number % 2 else -1]
            program: Steps = [["tool", kind, kind] for kind in ("note", "book", "pay", "price")]
            async with two.counter.keeping("answered") as at_work:
                sent = await begin(one, "doer", json.dumps([["deltas", 1, "a"], *program]))
                await at_work
                async with two.counter.keeping("answered") as again:
                    await two.oversleeps(one)
                    assert (await again).run_id == sent.run_id
                    one.go_on()
                    await two.oversleeps(other)
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
        for host in (two.first, two.second):  # nobody is awake to see it
            await end_lease(host, shared)
        for host in (two.first, two.second):
            host.go_on()
        for number, pause in enumerate(pauses):
            assert (await act((two.first, two.second)[number % 2], pause)).status == 202
        for run_id in asked:
            await _settled(two, run_id, two.first, refund=1, note=1)
        for run_id in working:
            await _settled(two, run_id, two.second)
        assert await two.first.stop() == await two.second.stop() == 0


async def _asks(two: Two, at: HostProcess, other: HostProcess) -> tuple[str, Any]:
    """Begin a run at a host that asks for a refund and books then; its id and pause."""
    program: Steps = [["deltas", 1, "a"], ["tool", "refund", "r"], ["tool", "book", "b"]]
    sent = await begin(at, "doer", json.dumps(program))
    return sent.run_id, await two.pause(sent.run_id, at=other)


async def _resolve(host: HostProcess, review: Any, outcome: Any) -> Answer:
    (call,) = review["calls"]
    path = f"/v1/pauses/{review['id']}/calls/{call['call_id']}/resolve"
    return await ask(host.url, "POST", path, {"outcome": "happened", "result": outcome})


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
