"""Many runs over three remote workers: one is killed, one cut off until it comes back, one drained.

A counter outside of all processes knows what was done, and is held against the database in the end: nothing
is done twice, nothing is lost. `just soak` has 1,000 runs.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.domain import worker_limits as limits
from support.counting import Counter, counting
from support.cut_network import Network, network_to
from support.effect_load import EffectLoad
from support.effect_oracle import EffectOracle
from support.effect_programs import Steps
from support.examples import SOAK
from support.oracle import Oracle, check_chains, rows
from support.people import People
from support.remote_worker import WorkerProcess
from support.server_process import PLUGINS, HostProcess, config_file
from support.wire_client import ask

RUNS = 1_000 if SOAK else 150
CUSTOMERS = 12
"""Runs at once: as many as the workers have slots."""
SECONDS = 7_200 if SOAK else 900
"""Bound of it all; generous, since it only has to end what hangs."""
SOON = {
    "hostler.domain.recovery.MAX_DELAY_SECONDS": 2,
    **{
        f"{limits.__name__}.{name}": value
        for name, value in {"BEAT_SECONDS": 0.5, "QUIET_SECONDS": 4.0, "STALE_SECONDS": 8.0}.items()
    },
}
pytestmark = [pytest.mark.timeout(SECONDS + 60), pytest.mark.gate("workers", "effects-once")]


def _program(name: str) -> Steps:
    return [
        ["deltas", 2, "a "],
        ["tool", "note", f"{name} 1"],
        ["together", [["tool", kind, f"{name} 2"] for kind in ("note", "book", "pay", "price")]],
        ["set", name, 1],
        ["tool", "book", f"{name} 3"],
    ]


class _World:
    """The host, its customers, and the three workers."""

    def __init__(
        self, host: HostProcess, load: EffectLoad, network: Network, workers: list[WorkerProcess]
    ) -> None:
        self.host, self.load, self.network, self.workers = host, load, network, workers

    @property
    def begun(self) -> int:
        """How many customers have come."""
        return len(self.load.programs)

    @property
    def served(self) -> int:
        """How many customers have been served."""
        return self.begun - self.load.unserved

    def _come(self) -> None:
        """Let customers come while there is room."""
        self.host.check()
        while self.load.unserved < CUSTOMERS and self.begun < RUNS:
            self.load.begin(_program(f"p{self.begun}"))

    async def serve(self, until: int) -> None:
        """Let customers come until so many have been served."""
        while self.served < until:
            self._come()
            await asyncio.sleep(0.05)

    async def look(self, worker: WorkerProcess) -> Any:
        """A worker as the host shows it."""
        answer = await ask(self.host.url, "GET", f"/v1/workers/{worker.worker_id}")
        assert answer.status == 200, answer
        return answer.json()

    async def gone(self, worker: WorkerProcess) -> Any:
        """A worker once it is not connected. Nobody new comes meanwhile."""
        while (found := await self.look(worker))["connected"]:
            await asyncio.sleep(0.05)
        return found

    async def busy(self, worker: WorkerProcess) -> None:
        """Let customers come until a worker has runs."""
        while not (await self.look(worker))["active"]:
            assert self.served < RUNS, f"worker {worker.worker_id} has got no more runs"
            self._come()


@asynccontextmanager
async def _world(folder: Path, counter: Counter) -> AsyncIterator[_World]:
    agent: dict[str, Any] = {
        "name": "doer",
        "runner": "plugin:test/doer/default",
        "recovery": {"max_attempts": 1_000},
        "worker_labels": ["work"],
    }
    config = config_file(
        folder / "config.yaml", plugins=[PLUGINS / "doer", PLUGINS / "effects"], agents=[agent]
    )
    environment = {"HOSTLER_PLUGIN_COUNTER": counter.path}
    host = HostProcess(
        folder / "host",
        config,
        environment=environment,
        options=["--hold-seconds", "0.1"],
        constants=SOON,
    )
    workers: list[WorkerProcess] = []
    try:
        async with asyncio.timeout(SECONDS):
            await host.start()
            body = {"name": "workers", "rights": ["workers:connect"]}
            key = (await ask(host.url, "POST", "/v1/keys", body)).json()["key"]
            async with network_to(int(host.url.rpartition(":")[2])) as network:
                for name, url in (("killed", host.url), ("cut", network.url), ("drained", host.url)):
                    worker = WorkerProcess(
                        folder,
                        name,
                        url,
                        key,
                        labels=f"work,{name}",
                        trusted=("test/doer",),
                        environment=environment,
                        constants=SOON,
                    )
                    workers.append(worker)
                    await worker.start()
                load = EffectLoad(host, Oracle(), People(host, counter))
                yield _World(host, load, network, workers)
    except BaseException:
        print(host.log, *(worker.log for worker in workers), sep="\n---\n")
        raise
    finally:
        for worker in workers:
            worker.end()
        host.end()


async def _attack(world: _World) -> None:
    killed, cut, drained = world.workers
    await world.serve(RUNS // 6)
    while True:
        await world.busy(killed)
        killed.kill()
        if any(hour["lost"] for hour in (await world.gone(killed))["hours"]):
            break
        await killed.start()  # its run had just ended
    await world.serve(RUNS // 3)
    await killed.start()
    joined = 1
    while True:
        await world.busy(cut)
        world.network.hang()
        if any(hour["lost"] for hour in (await world.gone(cut))["hours"]):
            break
        world.network.join()  # its run had just ended
        joined += 1
        await cut.joined(joined)
    await world.serve(RUNS // 2)
    world.network.join()
    await cut.joined(joined + 1)
    await world.serve(2 * RUNS // 3)
    await world.busy(drained)
    drained.send_signal(signal.SIGTERM)
    assert await drained.ended() == 0
    await world.serve(RUNS)


async def test_each_run_is_done_once_whatever_becomes_of_its_worker(tmp_path: Path) -> None:
    with counting(tmp_path) as counter:
        async with _world(tmp_path, counter) as world:
            host, load = world.host, world.load
            async with load.going():
                await _attack(world)
            workers = (await ask(host.url, "GET", "/v1/workers")).json()["items"]
            assert [(one["worker_id"], one["connected"]) for one in workers] == [
                ("cut", True),
                ("drained", False),
                ("killed", True),
            ]
            did = {
                one.worker_id: (await ask(host.url, "GET", f"/v1/workers/{one.worker_id}")).json()["hours"]
                for one in world.workers
            }
            lost = {name: sum(hour["lost"] for hour in hours) for name, hours in did.items()}
            assert (lost["killed"] > 0, lost["cut"] > 0, lost["drained"]) == (True, True, 0)
            oracle = load.oracle
            await oracle.check_streams(host)
            facts = await counter.facts()
            assert await host.stop() == 0
        url = str(host.data / "hostler.db")
        nothing = tmp_path / "nothing"
        nothing.touch()
        oracle.check_facts(url, host.data / "blobs", nothing)
        assert check_chains(host.data, None) == len(oracle.accepted) == RUNS
        assert rows(url, "SELECT status, count(*) FROM runs GROUP BY status") == [("completed", RUNS)]
        said = {run: _last_message(oracle, run) for run in oracle.seen}
        found = EffectOracle(url, load.programs, facts, load.people, {}, said).check()
        print({**found, "lost": lost})
        assert (found["runs"], found["given up"]) == (RUNS, 0)


def _last_message(oracle: Oracle, run_id: str) -> str:
    said = [result for result in oracle.seen[run_id] if result.type == "message.completed"]
    return str(json.loads(said[-1].data)["data"]["message"]["content"]) if said else ""
