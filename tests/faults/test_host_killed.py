"""kill -9 of the host at random moments under load: nothing acknowledged is lost, every run ends once.

Eight customers stream at once over HTTP while the host dies again and again; what they were told is kept by
an oracle outside of it and compared, in the end, with the database.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from support.examples import SOAK
from support.load import Load
from support.oracle import Oracle, check_chains
from support.server_process import PLUGINS, HostProcess, config_file

pytestmark = pytest.mark.gate("killed-hosts")

MOMENTS = 200 if SOAK else 6
SECONDS = 7_200 if SOAK else 900
"""Bound of it all; generous, since it only has to end what hangs."""
RESULTS_BETWEEN = 600
"""Up to so many results are seen between two kills."""
DURING_START = 0.2
"""How often the next host is killed as well, while it starts and recovers."""


@pytest.mark.timeout(SECONDS + 60)
async def test_the_host_is_killed_at_random_moments(tmp_path: Path, database_url: str) -> None:
    seed = int(os.environ.get("HOSTLER_SEED", "20"))
    acknowledged = tmp_path / "acknowledged"
    host = HostProcess(
        tmp_path / "host",
        config_file(
            tmp_path / "config.yaml",
            plugins=[PLUGINS / "busy"],
            agents=[
                {
                    "name": policy,
                    "runner": "plugin:test/busy/default",
                    "recovery": {"on_crash": policy, "max_attempts": 5},
                }
                for policy in ("fail", "restart")
            ],
        ),
        database=database_url if database_url.startswith("postgresql:") else None,
    )
    oracle = Oracle()
    plan = {"turns": 3, "deltas": 15, "acknowledged": str(acknowledged)}
    load = Load(host, oracle, plan, ["fail", "restart"])
    try:
        async with asyncio.timeout(SECONDS):
            await host.start()
            async with load.going():
                await _kill_again_and_again(host, load, random.Random(seed))
            results = await oracle.check_streams(host)
            assert await host.stop() == 0
        url = host.database or str(host.data / "hostler.db")
        oracle.check_facts(url, host.data / "blobs", acknowledged)
        assert check_chains(host.data, host.database) == len(oracle.accepted)
        assert host.lives > MOMENTS
        assert oracle.resumed > 0
        print(f"{len(oracle.accepted)} events, {results} results, {oracle.resumed} streams resumed")
    except BaseException:
        print(host.log)
        raise
    finally:
        host.end()


async def _kill_again_and_again(host: HostProcess, load: Load, chance: random.Random) -> None:
    killed = 0
    while killed < MOMENTS:
        await load.until(load.results + chance.randint(1, RESULTS_BETWEEN))
        await asyncio.sleep(chance.random() * 0.02)  # anywhere within a commit, not only after one was told
        host.kill()
        killed += 1
        if chance.random() < DURING_START:
            host.spawn()
            await host.locked()
            await asyncio.sleep(chance.random() * 0.5)
            host.kill()
            killed += 1
        await host.start()
