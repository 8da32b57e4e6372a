"""A host dies between the deferral of an event and its routing: the event is routed all the same, once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.storage.stores.deferred import CLAIM_MS
from support.http_host import PUPPET, PUPPET_RUNNER
from support.http_runs import follow
from support.oracle import rows
from support.postgres import PostgresServer
from support.server_process import HostProcess, config_file
from support.wire_client import ask

HUNGRY = "event.data.w.map(x, event.data.t + x).size() == 0"
"""Needs two gigabytes for DATA, which no filter may have."""
DATA: dict[str, Any] = {"t": "a" * 100_000, "w": ["b"] * 20_000}
EVENTS = 2
SECONDS = 240
pytestmark = pytest.mark.timeout(SECONDS + 60)


@pytest.fixture
def shared(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """A database for two hosts."""
    url = postgres_server.create(postgres_template)
    yield url
    postgres_server.drop(url)


def agent(filters: list[str]) -> dict[str, Any]:
    return {"name": "picky", "runner": PUPPET_RUNNER, "filters": filters}


@asynccontextmanager
async def host_of(folder: Path, name: str, database: str | None, config: Path) -> AsyncIterator[HostProcess]:
    host = HostProcess(folder / name, config, database)
    try:
        await host.start()
        yield host
    except BaseException:
        print(host.log)
        raise
    finally:
        host.end()


async def defer(host: HostProcess) -> list[str]:
    """Send events that wait for their filter; their ids."""
    for number in range(EVENTS):
        event = {
            "event_type": "message.received",
            "event_id": f"e{number}",
            "conversation_id": f"c{number}",
            "input": {"text": "hello"},
            "data": DATA,
        }
        answer = await ask(host.url, "POST", "/v1/events", event)
        assert answer.status == 202, answer
        assert answer.json()["outcome"] == "deferred"
    return [f"e{number}" for number in range(EVENTS)]


async def claimed(database: str) -> None:
    """Wait until a host has claimed events, whose filters it evaluates now."""
    query = "SELECT count(*) FROM deferred_events WHERE next_at > "
    while rows(database, f"{query}{int(time.time() * 1000) + CLAIM_MS // 2}") == [(0,)]:
        await asyncio.sleep(0.005)


def let_claims_expire(database: str) -> None:
    """Put the clock of deferred events forward by the length of a claim, which would be a minute's wait."""
    moved = rows(database, f"UPDATE deferred_events SET next_at = next_at - {CLAIM_MS} RETURNING event_id")
    assert len(moved) == EVENTS


async def started(host: HostProcess, event_ids: list[str]) -> None:
    """Each event has one run, which completes."""
    for event_id in event_ids:
        found = (await ask(host.url, "GET", f"/v1/events/{event_id}?wait=120")).json()
        assert found["outcome"] in {"started", "queued"}, found["routing"]
        assert (await follow(host, found["run_id"])).ending == ("run.completed", None)
    runs = (await ask(host.url, "GET", "/v1/runs")).json()["items"]
    assert sorted(run["event_id"] for run in runs) == event_ids


async def test_events_that_wait_for_their_filter_survive_the_host(tmp_path: Path, database_url: str) -> None:
    database = database_url if database_url.startswith("postgresql:") else None
    path = tmp_path / "config.yaml"
    async with asyncio.timeout(SECONDS):
        config = config_file(path, plugins=[PUPPET], agents=[agent([HUNGRY])])
        async with host_of(tmp_path, "host", database, config) as host:
            url = database or str(host.data / "hostler.db")
            event_ids = await defer(host)
            await claimed(url)
            host.kill()
            let_claims_expire(url)
            config_file(path, plugins=[PUPPET], agents=[agent(["size(event.data.w) > 0"])])
            await host.start()
            await started(host, event_ids)
            assert await host.stop() == 0


@pytest.mark.postgres
async def test_another_host_routes_the_events_of_one_that_died(tmp_path: Path, shared: str) -> None:
    async with asyncio.timeout(SECONDS):
        config = config_file(tmp_path / "config.yaml", plugins=[PUPPET], agents=[agent([HUNGRY])])
        async with (
            host_of(tmp_path, "first", shared, config) as first,
            host_of(tmp_path, "second", shared, config) as second,
        ):
            event_ids = await defer(first)
            await claimed(shared)
            first.kill()
            answer = await ask(second.url, "PUT", "/v1/agents/picky", agent(["true"]))
            assert answer.status in {200, 201}, answer
            let_claims_expire(shared)
            await started(second, event_ids)
            assert rows(shared, "SELECT count(*) FROM deferred_events") == [(0,)]
            assert await second.stop() == 0
