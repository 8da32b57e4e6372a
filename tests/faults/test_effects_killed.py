"""kill -9 of host or plugins at every point of a run with effects: nothing is done twice, nothing is lost.

Runs call tools of every class, one after the other and at once, ask models, write state, and wait for people,
while host and plugins die under them. A counter outside knows what was done, and is held against the
database in the end. Whenever a run has come to its end, another one begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.counting import Counter, Kept, counting
from support.effect_load import EffectLoad, Till
from support.effect_oracle import EffectOracle
from support.effect_programs import any_program, whole_program
from support.examples import SOAK
from support.model_server import ModelServer
from support.oracle import Oracle, check_chains
from support.people import People
from support.server_process import PLUGINS, HostProcess, config_file
from support.wire_client import stream

pytestmark = pytest.mark.gate("effects-once")

MOMENTS = 500 if SOAK else 10
SECONDS = 14_400 if SOAK else 1_800
"""Bound of it all; generous, since it only has to end what hangs."""
LOOK_SECONDS = 0.005
PLUGIN_KILLS = 3
"""Of plugins in one life of the host, at most: after more in a row it would wait before it starts one."""
CUSTOMERS = 6
"""At once: few, so that each life of the host brings them further however slow the machine is."""
MOST_CUSTOMERS = 12
DURING_START = 0.1
"""How often the next host is killed as well, while it starts and recovers."""

BACK_OFF = {"hostler.domain.recovery.MAX_DELAY_SECONDS": 2}
"""Runs that were lost a few times are tried again sooner: how long a host backs off is tested elsewhere."""
POINTS = ["asking", "called", "done", "answered", "streaming"]
"""Where the counter keeps tools (after the reservation, after the effect) and runners."""
SEEN = {
    "a pause is committed": "SELECT count(*) FROM pauses",
    "the next pause is committed": "SELECT count(*) FROM pauses WHERE segment > 1",
    "a run is parked": "SELECT count(*) FROM journal WHERE kind = 'lifecycle' AND type = 'paused'",
    "a decision is committed": "SELECT count(*) FROM decision_votes",
    "a pause is claimed": "SELECT coalesce(sum(epoch), 0) FROM pauses",
    "a call is reserved": "SELECT count(*) FROM journal WHERE kind = 'intent'",
    "an outcome is committed": "SELECT count(*) FROM journal WHERE kind = 'call' AND type = 'tool.call'",
    "a run is over": "SELECT count(*) FROM runs WHERE status = 'completed'",
}
"""What is looked for in the database; the host is killed before it can say so to anyone, or just after."""


class Attack:
    """Kills host and plugins, and starts the host again."""

    def __init__(self, host: HostProcess, load: EffectLoad, counter: Counter, seed: int) -> None:
        self._host = host
        self._load = load
        self._counter = counter
        self._chance = random.Random(seed)
        self._plugin_kills = 0
        self.killed = 0

    async def go(self) -> None:
        """So many kills at points of all kinds, and more until a call was in doubt."""
        planned: list[str] = []
        while self.killed < MOMENTS or not self._load.people.resolved:
            if not planned:
                planned = [*POINTS, *POINTS, *POINTS, *SEEN]
                self._chance.shuffle(planned)
            point = planned.pop()
            await (self._at_point(point) if point in POINTS else self._after(SEEN[point]))

    def _new_runs(self, most: int) -> None:
        """Customers come while there is room: every other one with a program that comes by every point."""
        while self._load.unserved < most:
            count = len(self._load.programs)
            name = f"p{count}"
            self._load.begin(any_program(name, self._chance) if count % 2 else whole_program(name))

    async def _at_point(self, point: str) -> None:
        async with self._counter.keeping(point) as waiting:
            kept: Kept = await self._reached(waiting)
            await asyncio.sleep(self._chance.random() * 0.05)  # the others go on meanwhile
            if self._plugin_kills < PLUGIN_KILLS and self._chance.random() < 0.7:
                self._plugin_kills += 1
                self.killed += 1
                with contextlib.suppress(ProcessLookupError):
                    os.kill(kept.pid, signal.SIGKILL)
                await kept.gone()
                return
            self._kill_host()
            await kept.gone()
        await self._start_again()

    async def _after(self, query: str) -> None:
        with _looking(self._host) as look:
            before = look(query)

            async def more() -> None:
                while look(query) <= before:
                    await asyncio.sleep(LOOK_SECONDS)

            await self._reached(asyncio.create_task(more()))
            await asyncio.sleep(self._chance.choice([0, 0, self._chance.random() * 0.05]))
        self._kill_host()
        await self._start_again()

    async def _reached(self, waiting: asyncio.Task[Any]) -> Any:
        most = CUSTOMERS
        while not waiting.done():
            self._host.check()
            self._new_runs(most)
            await asyncio.wait([waiting], timeout=1)
            most = min(
                most + 1, MOST_CUSTOMERS
            )  # others may wait for their next attempt, up to half a minute
        return waiting.result()

    def _kill_host(self) -> None:
        self._host.kill()
        self.killed += 1

    async def _start_again(self) -> None:
        self._plugin_kills = 0
        if self._chance.random() < DURING_START:
            self._host.spawn()
            await self._host.locked()
            await asyncio.sleep(self._chance.random() * 0.5)
            self._kill_host()
        await self._host.start()


@contextlib.contextmanager
def _looking(host: HostProcess) -> Any:
    """Ask the database for a number."""
    look: Callable[[str], int]
    if host.database is not None:
        server = psycopg.connect(host.database, autocommit=True)
        look = lambda query: server.execute(query.encode()).fetchone()[0]  # type: ignore[index]  # noqa: E731
        close: Callable[[], None] = server.close
    else:
        file = sqlite3.connect(f"file:{host.data / 'hostler.db'}?mode=ro", uri=True, timeout=30)
        look = lambda query: file.execute(query).fetchone()[0]  # noqa: E731
        close = file.close
    try:
        yield look
    finally:
        close()


@contextlib.asynccontextmanager
async def _world(tmp_path: Path, url: str) -> AsyncIterator[tuple[HostProcess, EffectLoad, Counter, Till]]:
    async with ModelServer() as models:
        with counting(tmp_path) as counter:
            agent: dict[str, Any] = {
                "name": "doer",
                "runner": "plugin:test/doer/default",
                "config": {"model": "m"},
                "recovery": {"max_attempts": 1000},
            }
            config = config_file(
                tmp_path / "config.yaml",
                plugins=[PLUGINS / "doer", PLUGINS / "effects"],
                agents=[agent],
                models=[{"id": "m", "base_url": models.base_url, "max_retries": 0}],
            )
            host = HostProcess(
                tmp_path / "host",
                config,
                database=url if url.startswith("postgresql:") else None,
                environment={"HOSTLER_PLUGIN_COUNTER": counter.path},
                options=["--hold-seconds", "0.1"],
                constants=BACK_OFF,
            )
            load = EffectLoad(host, Oracle(), People(host, counter))
            try:
                async with asyncio.timeout(SECONDS):
                    await host.start()
                    yield host, load, counter, Till(models)
            except BaseException:
                print(host.log)
                raise
            finally:
                host.end()


@pytest.mark.timeout(SECONDS + 60)
async def test_effects_are_made_once_whenever_host_or_plugin_is_killed(
    tmp_path: Path, database_url: str
) -> None:
    """Invariants 3, 9, 10, 11, 12, 19, 21 and 22 of pauses, by kill -9."""
    seed = int(os.environ.get("HOSTLER_SEED", "33"))
    async with _world(tmp_path, database_url) as (host, load, counter, till):
        attack = Attack(host, load, counter, seed)
        async with load.going():
            await attack.go()
        oracle = load.oracle
        results = await oracle.check_streams(host)
        await _check_cursors(host, oracle, random.Random(seed))
        facts = await counter.facts()
        assert await host.stop() == 0
        url = host.database or str(host.data / "hostler.db")
        nothing = tmp_path / "nothing"
        nothing.touch()
        oracle.check_facts(url, host.data / "blobs", nothing)
        assert check_chains(host.data, host.database) == len(oracle.accepted)
        said = {run: _last_message(oracle, run) for run in oracle.seen}
        found = EffectOracle(url, load.programs, facts, load.people, till.paid, said).check()
        print({**found, "kills": attack.killed, "lives": host.lives, "results": results})
        assert found["in doubt"] > 0
        assert oracle.resumed > 0


async def _check_cursors(host: HostProcess, oracle: Oracle, chance: random.Random) -> None:
    """From any place on a stream is what it was."""
    for run_id in chance.sample(sorted(oracle.seen), min(10, len(oracle.seen))):
        seen = oracle.seen[run_id]
        after = chance.randrange(len(seen))
        again = [result async for piece in stream(host.url, run_id, after) for result in piece]
        assert again == seen[after:]


def _last_message(oracle: Oracle, run_id: str) -> str:
    said = [result for result in oracle.seen[run_id] if result.type == "message.completed"]
    return str(json.loads(said[-1].data)["data"]["message"]["content"]) if said else ""
