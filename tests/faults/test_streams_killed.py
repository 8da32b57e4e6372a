"""Streams over runs while hosts die: no gap, no repeat, one order, and it is that of the journals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.followed import Follower, Seen, ended_runs, following, iter_seen, results_by_run
from support.load import Load
from support.oracle import Oracle
from support.postgres import PostgresServer
from support.server_process import PLUGINS, HostProcess, config_file
from support.two_hosts import LEASE, LOOKS, end_lease
from support.wire_client import LOST, ask

pytestmark = pytest.mark.gate("killed-hosts")

SECONDS = 600
KILLS = 4
CONVERSATIONS = 5
PLAN = {"turns": 2, "deltas": 12}
WORKSPACE = "/v1/stream?from=start"


def conversation(number: int) -> str:
    return f"/v1/conversations/c{number}/stream?from=start"


def configured(folder: Path) -> Path:
    agents: list[dict[str, Any]] = [
        {
            "name": policy,
            "runner": "plugin:test/busy/default",
            "recovery": {"on_crash": policy, "max_attempts": 9},
        }
        for policy in ("fail", "restart")
    ]
    return config_file(folder / "config.yaml", plugins=[PLUGINS / "busy"], agents=agents)


@pytest.mark.timeout(SECONDS + 60)
async def test_streams_equal_the_journals_however_often_the_host_is_killed(
    tmp_path: Path, database_url: str
) -> None:
    chance = random.Random(int(os.environ.get("HOSTLER_SEED", "7")))
    database = database_url if database_url.startswith("postgresql:") else None
    host = HostProcess(tmp_path / "host", configured(tmp_path), database=database)
    oracle = Oracle()
    plan = {**PLAN, "acknowledged": str(tmp_path / "acknowledged")}
    load = Load(host, oracle, plan, ["fail", "restart"], conversations=CONVERSATIONS)
    watchers = [
        Follower([host], WORKSPACE),
        *(Follower([host], conversation(n)) for n in range(CONVERSATIONS)),
    ]
    try:
        async with asyncio.timeout(SECONDS):
            await host.start()
            async with following(*watchers):
                async with load.going():
                    for _ in range(KILLS):
                        await load.until(load.results + chance.randint(50, 300))
                        await asyncio.sleep(chance.random() * 0.02)
                        host.kill()
                        await host.start()
                runs = set(oracle.accepted.values())
                await watchers[0].until(lambda seen: runs <= ended_runs(seen))
                for number, one in enumerate(watchers[1:]):
                    of = {run for run in runs if run in ended_in(watchers[0], f"c{number}")}
                    await one.until(lambda seen, of=of: of <= ended_runs(seen))  # type: ignore[misc]
            await check(host, watchers[0], runs)
            for number, one in enumerate(watchers[1:]):
                assert one.seen == of_conversation(watchers[0], f"c{number}")
            assert sum(one.resumed for one in watchers) >= KILLS
            assert await host.stop() == 0
    except BaseException:
        print(host.log)
        raise
    finally:
        host.end()


def ended_in(watcher: Follower, conversation_id: str) -> set[str]:
    return {
        one.data["run_id"]
        for one in watcher.seen
        if one.type == "run.status" and one.data["conversation_id"] == conversation_id
    }


def of_conversation(watcher: Follower, conversation_id: str) -> list[Seen]:
    """What a watcher of the workspace saw of a conversation: a result names its run only."""
    runs = ended_in(watcher, conversation_id)
    return [
        one
        for one in watcher.seen
        if one.data.get("conversation_id") == conversation_id or one.data.get("run_id") in runs
    ]


async def check(host: HostProcess, watcher: Follower, runs: set[str]) -> None:
    """What was seen over all lives is what the stream has from its start, and what the journals have."""
    assert len({one.cursor for one in watcher.seen}) == len(watcher.seen)
    async with host.client() as client:
        whole = []
        async with client.stream("GET", WORKSPACE) as answer:
            async for event in iter_seen(answer):
                whole.append(event)
                if event.cursor == watcher.seen[-1].cursor:
                    break
        assert watcher.seen == whole
        seen = results_by_run(watcher.seen)
        assert runs <= set(seen)
        for run_id in runs:
            async with client.stream("GET", f"/v1/runs/{run_id}/stream") as answer:
                assert seen[run_id] == [one.data async for one in iter_seen(answer)]


@pytest.fixture
def shared(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """A database for two hosts."""
    url = postgres_server.create(postgres_template)
    yield url
    postgres_server.drop(url)


@pytest.mark.postgres
@pytest.mark.timeout(SECONDS + 60)
async def test_two_hosts_give_one_order_and_cursors_of_one_are_good_at_the_other(
    tmp_path: Path, shared: str
) -> None:
    config = configured(tmp_path)
    first, second = (
        HostProcess(tmp_path / name, config, shared, options=list(LEASE), constants=LOOKS)
        for name in ("first", "second")
    )
    runs: set[str] = set()

    async def customer(host: HostProcess, number: int, count: int) -> None:
        for turn in range(count):
            event = {
                "event_type": "message.received",
                "event_id": f"{host.data.name}-{number}-{turn}",
                "agent": "restart",
                "conversation_id": f"c{(number + turn) % CONVERSATIONS}",
                "input": {"text": json.dumps({**PLAN, "acknowledged": str(tmp_path / "acknowledged")})},
            }
            with contextlib.suppress(*LOST):
                answer = (await ask(host.url, "POST", "/v1/events?wait=100", event)).json()
                runs.add(answer["run_id"])

    watchers = [
        Follower([first, second], WORKSPACE),
        Follower([second], WORKSPACE),
        Follower([first, second], conversation(1)),
        Follower([second], conversation(1)),
    ]
    try:
        async with asyncio.timeout(SECONDS):
            await first.start()
            await second.start()
            async with following(*watchers):
                async with asyncio.TaskGroup() as group:
                    for number in range(4):
                        group.create_task(customer(first, number, 3))
                        group.create_task(customer(second, number, 6))
                    await watchers[1].until(lambda seen: len(seen) > 150)
                    first.kill()
                    await end_lease(first, shared)
                everything = {
                    one["run_id"]
                    for one in (await ask(second.url, "GET", "/v1/runs?limit=200")).json()["items"]
                }
                assert runs <= everything
                for one in watchers[:2]:
                    await one.until(lambda seen: everything <= ended_runs(seen))
                of_one = ended_in(watchers[1], "c1")
                for one in watchers[2:]:
                    await one.until(lambda seen: of_one <= ended_runs(seen))
            assert watchers[0].resumed
            assert watchers[0].seen == watchers[1].seen
            assert watchers[2].seen == watchers[3].seen
            await check(second, watchers[1], everything)
            assert await second.stop() == 0
    except BaseException:
        print(first.log, second.log, sep="\n---\n")
        raise
    finally:
        first.end()
        second.end()
