"""Two hosts on one PostgreSQL and one pause: twenty clients decide it at once, one host falls asleep."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter as Count
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from support.effect_programs import Steps
from support.http_runs import begin, follow, record
from support.oracle import rows
from support.postgres import PostgresServer
from support.server_process import HostProcess
from support.two_hosts import SECONDS, Two, act, two_hosts
from support.wire_client import Answer, ask

CLIENTS = 20
HOLD_SECONDS = "3600"
"""So that the run is not parked, and the host that falls asleep has it."""
pytestmark = [
    pytest.mark.gate("approved-arguments", "killed-hosts"),
    pytest.mark.postgres,
    pytest.mark.timeout(SECONDS + 30),
]


@pytest.fixture
def shared(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """A database for both."""
    url = postgres_server.create(postgres_template)
    yield url
    postgres_server.drop(url)


def _two(folder: Path, database: str, hold_seconds: str) -> AbstractAsyncContextManager[Two]:
    return two_hosts(folder, database, "--hold-seconds", hold_seconds)


async def _decide(host: HostProcess, pause: Any, number: int) -> Answer:
    """One client of many: every other one refuses, each with words of its own."""
    return await act(host, pause, "approve" if number % 2 else "deny")


async def _decide_at_once(two: Two, pause: Any) -> str:
    """All of them; what was decided. The losers are told."""
    hosts = [two.first, two.second]
    answers = await asyncio.gather(*(_decide(hosts[n // 2 % 2], pause, n) for n in range(CLIENTS)))
    taken = {n % 2 for n, answer in enumerate(answers) if answer.status == 202}
    assert len(taken) == 1, answers
    decided = ("denied", "approved")[taken.pop()]
    lost = [answer.json() for answer in answers if answer.status != 202]
    assert len(lost) == CLIENTS // 2, answers
    for problem in lost:
        assert (problem["status"], problem["details"]["reason"]) == (409, "already_decided")
        assert problem["details"]["decision"] == decided
        assert problem["details"]["decided_by"] == "admin"
    return decided


def _resumes(database: str, run_id: str) -> int:
    """How often an attempt went on with a pause of a run."""
    query = f"SELECT count(*) FROM journal WHERE run_id = '{run_id}' AND type = 'pause.resuming'"
    return int(rows(database, query)[0][0])


@pytest.mark.parametrize("hold_seconds", ["0", HOLD_SECONDS], ids=["parked", "held"])
async def test_of_conflicting_decisions_at_two_hosts_one_is_carried_out_once(
    tmp_path: Path, shared: str, hold_seconds: str
) -> None:
    """Invariants 1, 4, 5 and 28 of pauses."""
    async with _two(tmp_path, shared, hold_seconds) as two:
        outcomes: Count[str] = Count()
        for number in range(4):
            program: Steps = [["deltas", 1, "a"], ["tool", "refund", f"r{number}"]]
            sent = await begin(two.first, "doer", _text(program))
            if hold_seconds == "0":
                while (await record(two.second, sent.run_id))["status"] != "paused":
                    await asyncio.sleep(0.05)
            pause = await two.pause(sent.run_id)
            decided = await _decide_at_once(two, pause)
            outcomes[decided] += 1
            results = await follow(two.second, sent.run_id)
            assert results.ending == ("run.completed", None)
            assert list(await follow(two.first, sent.run_id)) == list(results)
            assert len(await two.facts(sent.run_id)) == (decided == "approved")
            assert _resumes(two.database, sent.run_id) == 1
            assert (await two.pause(sent.run_id, "resumed"))["calls"][0]["decision"] == decided
        assert await two.first.stop() == await two.second.stop() == 0


async def test_a_host_that_slept_through_its_resumes_carries_nothing_out(tmp_path: Path, shared: str) -> None:
    """Invariants 2 and 9 of pauses: one host sleeps past its lease while its tools are at work."""
    async with _two(tmp_path, shared, HOLD_SECONDS) as two:
        program: Steps = [["deltas", 1, "a"], ["tool", "refund", "r"], ["tool", "book", "b"]]
        runs = {
            point: (await begin(two.first, "doer", _text(program))).run_id for point in ("called", "done")
        }
        async with contextlib.AsyncExitStack() as kept:
            for point, run_id in runs.items():
                waiting = await kept.enter_async_context(two.counter.keeping(point))
                assert (await act(two.second, await two.pause(run_id))).status == 202
                assert (await waiting).run_id == run_id
            await two.oversleeps(two.first)  # its plugins go on, and wait for the counter
            reviews = {run_id: await two.pause(run_id, "needs_review") for run_id in runs.values()}
        # the tools of the sleeper go on with what they were asked; nobody asks another one for it
        outcomes = {run_id: await two.outcome(run_id, review) for run_id, review in reviews.items()}
        two.first.go_on()
        for run_id, review in reviews.items():
            (call,) = review["calls"]
            assert call["review"] == "in_doubt"
            path = f"/v1/pauses/{review['id']}/calls/{call['call_id']}/resolve"
            body = {"outcome": "happened", "result": outcomes[run_id]}
            answer = await ask(two.second.url, "POST", path, body)
            assert answer.status == 200, answer
        for run_id in runs.values():
            results = await follow(two.second, run_id)
            assert results.ending == ("run.completed", None)
            assert list(await follow(two.first, run_id)) == list(results)
            made = await two.facts(run_id)
            assert Count(effect.tool for effect in made) == {"refund": 1, "book": 1}
            assert (await record(two.first, run_id))["attempt"] > 1
        assert await two.first.stop() == await two.second.stop() == 0


async def test_a_host_that_slept_while_pauses_were_decided_is_fenced_out(tmp_path: Path, shared: str) -> None:
    """One resume each, on the host that is awake; the other learns that the runs are no longer its own."""
    async with _two(tmp_path, shared, HOLD_SECONDS) as two:
        program = _text([["deltas", 1, "a"], ["tool", "refund", "r"]])
        runs = [(await begin(two.first, "doer", program)).run_id for _ in ("deny", "approve")]
        pauses = [await two.pause(run_id) for run_id in runs]
        await two.oversleeps(two.first)
        for number, pause in enumerate(pauses):
            answers = await asyncio.gather(
                *(_decide(two.second, pause, number + 2 * n) for n in range(CLIENTS // 2))
            )
            assert {answer.status for answer in answers} == {202}
            assert (await _decide(two.second, pause, number + 1)).status == 409
        results = [await follow(two.second, run_id) for run_id in runs]
        assert {each.ending for each in results} == {("run.completed", None)}
        two.first.go_on()
        for number, run_id in enumerate(runs):
            assert list(await follow(two.first, run_id)) == list(results[number])
            assert len(await two.facts(run_id)) == number
            assert _resumes(two.database, run_id) == 1
        # it is a host like any other again
        again = await begin(two.first, "doer", _text([["deltas", 1, "a"], ["tool", "book", "b"]]))
        assert (await follow(two.second, again.run_id)).ending == ("run.completed", None)
        assert [len(await two.facts(run_id)) for run_id in runs] == [0, 1]
        assert await two.first.stop() == await two.second.stop() == 0


def _text(program: Steps) -> str:
    return json.dumps(program)
