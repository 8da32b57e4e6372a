"""Budgets of agents: calls, tokens and cost, per run and per day; exact over runs, restarts and hosts."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.budgeted import ASK, COST, INPUT, PLACE, READ, SET, TOKENS, codes, model
from support.model_server import ModelServer
from support.postgres import PostgresServer
from support.stepping import Stage, Steps, stage, within

pytestmark = pytest.mark.gate("child-runs")


def budget(**limits: float) -> dict[str, Any]:
    return {"resource_policy": {"budget": limits}}


def above(**limits: float) -> dict[str, Any]:
    """The same for an agent whose runs may have children."""
    return {"resource_policy": {"budget": limits, "allowed_agents": ["child"]}}


def spending(**limits: float) -> dict[str, Any]:
    """The same for an agent that may ask the model."""
    return {"resource_policy": {"budget": limits, "allowed_model_ids": ["m"]}}


def reads(count: int) -> list[list[Any]]:
    return [*[READ] * count, ["tell"]]


@contextlib.asynccontextmanager
async def hosts(tmp_path: Path, url: str, count: int) -> AsyncIterator[list[Stage]]:
    """So many hosts on one database, each with the stepper."""
    async with within(), contextlib.AsyncExitStack() as stack:
        opened = [stage(tmp_path / f"h{n}", database=url, agent=False) for n in range(count)]
        yield [await stack.enter_async_context(one) for one in opened]


@pytest.fixture
def shared(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """A PostgreSQL database for several hosts."""
    url = postgres_server.create(postgres_template)
    yield url
    postgres_server.drop(url)


# -- per day --------------------------------------------------------------------------------------


async def test_the_calls_of_a_day_are_the_agents_and_outlive_the_host(
    tmp_path: Path, database_url: str
) -> None:
    async with hosts(tmp_path, database_url, 1) as (host,):
        await host.agent(**budget(max_calls_per_day=5))
        await host.agent("other", **budget(max_calls_per_day=5))
        assert codes(await host.run(reads(3), **PLACE)) == ["ok"] * 3
        ended = await host.run(reads(3), **PLACE)
        assert codes(ended) == ["ok", "ok", "rate_limited"]
        refused = ended.told[-1]["error"]
        assert refused["retryable"] is True
        assert 0 < refused["details"]["retry_after"] <= 86_400
        assert (refused["details"]["budget"], refused["details"]["limit"]) == ("calls", 5)
        assert "5 calls" in refused["message"]
        assert codes(await host.run(reads(1), agent="other", **PLACE)) == ["ok"]
    async with hosts(tmp_path, database_url, 1) as (host,):
        assert codes(await host.run(reads(1), **PLACE)) == ["rate_limited"]
        await host.agent(**budget(max_calls_per_day=7))  # another version: its day is the same
        assert codes(await host.run(reads(3), **PLACE)) == ["ok", "ok", "rate_limited"]
        await host.agent(**budget())
        assert codes(await host.run(reads(3), **PLACE)) == ["ok"] * 3


async def test_runs_at_once_share_the_calls_of_a_day(tmp_path: Path, database_url: str) -> None:
    async with hosts(tmp_path, database_url, 1) as (host,):
        await host.agent(**budget(max_calls_per_day=23))
        ended = await asyncio.gather(*(host.run(reads(8), **PLACE) for _ in range(6)))
        assert sorted(code for one in ended for code in codes(one)).count("ok") == 23


@pytest.mark.postgres
async def test_two_hosts_share_the_calls_of_a_day(tmp_path: Path, shared: str) -> None:
    async with hosts(tmp_path, shared, 2) as both:
        await both[0].agent(**budget(max_calls_per_day=31))
        await both[1].agent(**budget(max_calls_per_day=31))
        ended = await asyncio.gather(*(host.run(reads(10), **PLACE) for host in both * 3))
        ran_on = {e["data"]["actor"] for one in ended for e in one.entries("lifecycle", "running")}
        assert len(ran_on) == 2
        assert [code for one in ended for code in codes(one)].count("ok") == 31


@pytest.mark.postgres
@pytest.mark.parametrize(
    "limit", [{"max_tokens_per_day": TOKENS + INPUT + 7}, {"max_cost_per_day": COST + INPUT}]
)
async def test_two_hosts_share_the_tokens_and_the_cost_of_a_day(
    tmp_path: Path, shared: str, limit: dict[str, float]
) -> None:
    async with ModelServer() as server, hosts(tmp_path, shared, 2) as both:
        for host in both:
            await model(host, server)
            await host.agent(**spending(**limit))
        told = [codes(await host.run([ASK, ["tell"]], **PLACE)) for host in [*both, both[0], both[1]]]
        assert told == [["ok"], ["ok"], ["rate_limited"], ["rate_limited"]]
        # what costs nothing goes on
        assert codes(await both[1].run(reads(1), **PLACE)) == ["ok"]
        assert len(server.requests) == 2


async def test_tokens_and_cost_of_a_day_outlive_the_host(tmp_path: Path, database_url: str) -> None:
    async with ModelServer() as server:
        async with hosts(tmp_path, database_url, 1) as (host,):
            await model(host, server)
            await host.agent(**spending(max_tokens_per_day=INPUT + 7))
            await host.agent("dear", **spending(max_cost_per_day=INPUT))
            for name in ("main", "dear"):
                assert codes(await host.run([ASK, ASK, ["tell"]], agent=name, **PLACE)) == [
                    "ok",
                    "rate_limited",
                ]
        async with hosts(tmp_path, database_url, 1) as (host,):
            await model(host, server)
            for name in ("main", "dear"):
                assert codes(await host.run([ASK, ["tell"]], agent=name, **PLACE)) == ["rate_limited"]


# -- per run --------------------------------------------------------------------------------------


async def test_the_calls_of_a_run_are_those_of_all_its_attempts(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**budget(max_calls_per_run=3), recovery={"on_crash": "restart"})
        ended = await host.run({"1": [READ, READ, ["crash"]], "2": reads(3)}, **PLACE)
        assert (ended.record.attempt, codes(ended)) == (2, ["ok", "unauthorized", "unauthorized"])
        refused = ended.told[-1]["error"]
        assert refused["details"] == {"budget": "calls", "limit": 3, "account": "run"}


async def test_what_is_answered_from_the_recording_is_not_counted_again(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(runner="resumable", **budget(max_calls_per_run=4, max_calls_per_day=4))
        steps: Steps = [SET, READ, SET, ["crash", 1], READ, READ, ["tell"]]
        ended = await host.run(steps, **PLACE)
        assert ended.record.attempt == 2
        assert codes(ended) == ["ok"] * 4 + ["unauthorized"]


async def test_a_refused_call_takes_nothing(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**budget(max_calls_per_run=2, max_calls_per_day=3))
        wrong = ["call", "state.get", {"scope": "actor", "key": ""}]
        foreign = ["call", "tool.call", {"tool_name": "nobody.knows", "parameters": {}}]
        ended = await host.run([wrong, foreign, READ, READ, READ, ["tell"]], **PLACE)
        assert codes(ended) == ["invalid_argument", "not_found", "ok", "ok", "unauthorized"]
        # one of the day is left: those that the run's own budget refused took none
        assert codes(await host.run(reads(2), **PLACE)) == ["ok", "rate_limited"]


# -- children -------------------------------------------------------------------------------------


def child(steps: Steps, **more: Any) -> list[Any]:
    given = {"agent": "child", "input": {"text": json.dumps(steps)}, **more}
    return ["call", "run.create", given]


async def test_a_childs_calls_count_for_the_runs_above_it_and_their_agents(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**above(max_calls_per_run=4))
        await host.agent("child")
        ended = await host.run([child(reads(2), wait=30), READ, READ, ["tell"]], **PLACE)
        assert [answer.get("error", {}).get("code", "ok") for answer in ended.told] == [
            "ok",
            "ok",
            "unauthorized",
        ]
        await host.agent("daily", **above(max_calls_per_day=4))
        ended = await host.run([child(reads(9), wait=30), READ, ["tell"]], agent="daily", **PLACE)
        below = ended.told[0]["output"]["text"]
        assert below.count("rate_limited") == 6
        assert ended.told[1]["error"]["code"] == "rate_limited"


@pytest.mark.postgres
async def test_a_child_on_another_host_counts_for_its_parent(tmp_path: Path, shared: str) -> None:
    async with hosts(tmp_path, shared, 2) as both:
        for host in both:
            await host.agent(**above(max_calls_per_run=12))
            await host.agent("child", concurrency={"max_runs": 1})
        children = [child(reads(3), wait=60) for _ in range(3)]
        together = ["together", *([one] for one in children)]
        ended = await both[0].run([together, READ, READ, ["tell"]], **PLACE)
        # three children with three calls each, and the calls that made them: twelve
        assert [answer.get("error", {}).get("code", "ok") for answer in ended.told[3:]] == [
            "unauthorized",
            "unauthorized",
        ]
