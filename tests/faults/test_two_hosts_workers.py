"""Two hosts on one PostgreSQL, and a remote worker at one of them: that host works on its runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.domain import worker_limits as limits
from support.http_runs import record, send
from support.postgres import PostgresServer
from support.remote_worker import WorkerProcess
from support.server_process import PLUGINS, HostProcess, config_file
from support.two_hosts import LEASE, LOOKS, end_lease
from support.wire_client import ask

SECONDS = 240
SOON = {
    f"{limits.__name__}.{name}": value
    for name, value in {"BEAT_SECONDS": 0.3, "QUIET_SECONDS": 4.0, "STALE_SECONDS": 8.0}.items()
}
pytestmark = [pytest.mark.gate("workers"), pytest.mark.postgres, pytest.mark.timeout(SECONDS + 30)]


@pytest.fixture
def shared(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """A database for both."""
    url = postgres_server.create(postgres_template)
    yield url
    postgres_server.drop(url)


class _World:
    def __init__(self, folder: Path, first: HostProcess, second: HostProcess, key: str) -> None:
        self.folder, self.first, self.second, self.key = folder, first, second, key
        self.workers: list[WorkerProcess] = []

    async def worker(self, worker_id: str, host: HostProcess, place: str = "a") -> WorkerProcess:
        """A worker that is connected to a host."""
        folder = self.folder / place
        folder.mkdir(exist_ok=True)
        worker = WorkerProcess(folder, worker_id, host.url, self.key, constants=SOON)
        self.workers.append(worker)
        await worker.start()
        return worker

    async def when(self, run_id: str, host: HostProcess, **fields: Any) -> Any:
        """A run once it is so, as a host shows it."""
        while True:
            found = await record(host, run_id)
            if all(found[name] == value for name, value in fields.items()):
                return found
            await asyncio.sleep(0.05)

    async def host_of(self, worker_id: str, host: HostProcess) -> str | None:
        """The host that a worker is connected to, as another host shows it."""
        one = (await ask(host.url, "GET", f"/v1/workers/{worker_id}")).json()
        return str(one["host_id"]) if one["connected"] else None


@asynccontextmanager
async def _two(folder: Path, database: str) -> AsyncIterator[_World]:
    runner = "plugin:test/puppet/default"
    agents: list[dict[str, Any]] = [
        {"name": "far", "runner": runner, "worker_labels": ["gpu"], "recovery": {"on_crash": "restart"}},
        {"name": "near", "runner": runner},
    ]
    config = config_file(folder / "config.yaml", plugins=[PLUGINS / "puppet"], agents=agents)
    first, second = (
        HostProcess(folder / name, config, database, options=list(LEASE), constants={**LOOKS, **SOON})
        for name in ("first", "second")
    )
    world = None
    try:
        async with asyncio.timeout(SECONDS):
            await first.start()
            await second.start()
            body = {"name": "workers", "rights": ["workers:connect"]}
            key = (await ask(first.url, "POST", "/v1/keys", body)).json()["key"]
            world = _World(folder, first, second, key)
            yield world
    except BaseException:
        print(first.log, second.log, sep="\n---\n")
        raise
    finally:
        for worker in world.workers if world is not None else ():
            worker.end()
        first.end()
        second.end()


def _id(host: HostProcess) -> str:
    return (host.data / "host_id").read_text("ascii").strip()


async def test_runs_are_worked_on_by_the_host_that_has_the_worker(tmp_path: Path, shared: str) -> None:
    async with _two(tmp_path, shared) as world:
        first, second = world.first, world.second
        waiting = await send(first, "far", "say 1", "c1")
        assert (await world.when(waiting.run_id, first, waits_for="a worker with label gpu"))["attempt"] == 1
        await world.worker("w1", second)
        assert await world.host_of("w1", first) == _id(second)
        await world.when(waiting.run_id, first, status="completed")
        for number, host in enumerate((first, second)):  # whoever is told of it
            sent = await send(host, "far", "say 1", f"d{number}")
            await world.when(sent.run_id, first, status="completed")
        near = await send(first, "near", "say 1", "c9")
        await world.when(near.run_id, second, status="completed")


async def test_a_worker_follows_when_its_host_dies(tmp_path: Path, shared: str) -> None:
    async with _two(tmp_path, shared) as world:
        first, second = world.first, world.second
        await world.worker("w1", first)
        held = await send(second, "far", "hold", "c1")
        await world.when(held.run_id, second, status="running")
        first.kill()
        await end_lease(first, shared)
        await world.when(held.run_id, second, status="queued", attempt=2)
        await world.worker("w2", second)
        await world.when(held.run_id, second, status="running", attempt=2)


async def test_one_id_is_one_worker_whichever_host_it_dials(tmp_path: Path, shared: str) -> None:
    async with _two(tmp_path, shared) as world:
        first, second = world.first, world.second
        own = await world.worker("w1", first)
        held = await send(first, "far", "hold", "c1")
        await world.when(held.run_id, first, status="running")
        (tmp_path / "b").mkdir()
        other = WorkerProcess(tmp_path / "b", "w1", second.url, world.key, constants=SOON)
        world.workers.append(other)
        other.spawn()
        while "connected from another process" not in other.log:
            await asyncio.sleep(0.05)
        assert await world.host_of("w1", second) == _id(first)
        assert (await record(second, held.run_id))["status"] == "running"
        own.kill()
        await other.joined()
        await world.when(held.run_id, second, status="running", attempt=2)
        assert await world.host_of("w1", first) == _id(second)


async def test_a_cordon_at_one_host_is_seen_by_the_worker_of_another(tmp_path: Path, shared: str) -> None:
    async with _two(tmp_path, shared) as world:
        first, second = world.first, world.second
        worker = await world.worker("w1", first)
        assert (await ask(second.url, "POST", "/v1/workers/w1/cordon")).json()["state"] == "cordoned"
        cordoned = b'hostler_remote_workers{state="cordoned"} 1'
        while cordoned not in (await ask(first.url, "GET", "/metrics")).body:
            await asyncio.sleep(0.05)
        waiting = await send(first, "far", "say 1", "c1")
        assert "w1 is cordoned" in (await record(first, waiting.run_id))["waits_for"]
        assert (await ask(second.url, "POST", "/v1/workers/w1/uncordon")).status == 200
        await world.when(waiting.run_id, second, status="completed")
        assert (await ask(second.url, "DELETE", "/v1/workers/w1")).status in {200, 204}
        assert await worker.ended() == 1
