"""The host dies about the ends of runs and about deliveries: each end is told, as the run is stored."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.webhooks import RUN_EVENTS
from support.examples import SOAK
from support.http_host import PUPPET, PUPPET_RUNNER
from support.http_runs import record, send
from support.oracle import rows
from support.receiver import Receiver
from support.server_process import LOOK_SECONDS, HostProcess, config_file

pytestmark = pytest.mark.gate("killed-hosts")

SECONDS = 1_800 if SOAK else 300
ROUNDS = 40 if SOAK else 4
AT_ONCE = 6
CONSTANTS = {
    "hostler.host.webhooks.TRY_SECONDS": 1.0,
    "hostler.host.webhooks.LEASE_SECONDS": 3.0,
    "hostler.domain.webhooks.FIRST_WAIT_SECONDS": 0.05,
    "hostler.domain.webhooks.LAST_WAIT_SECONDS": 2.0,
    "hostler.domain.recovery.MAX_DELAY_SECONDS": 1,
}
ENDED = "SELECT count(*) FROM runs WHERE finished_at IS NOT NULL"
NOT_ENDED = "SELECT count(*) FROM runs WHERE finished_at IS NULL"
DELIVERED = "SELECT count(*) FROM deliveries WHERE status = 'delivered'"
PENDING = "SELECT count(*) FROM deliveries WHERE status <> 'delivered'"


@pytest.mark.timeout(SECONDS + 60)
async def test_each_end_is_told_whenever_the_host_dies(tmp_path: Path, database_url: str) -> None:
    rng = random.Random(int(os.environ.get("HOSTLER_SEED", "47")))
    async with asyncio.timeout(SECONDS), Receiver() as receiver:
        host = _host(tmp_path, database_url, receiver)
        try:
            for number in range(ROUNDS):
                await host.start()
                receiver.answers = [rng.choice(["200", "500", "die", "200"]) for _ in range(AT_ONCE)]
                ended, delivered = _count(host, ENDED), _count(host, DELIVERED)
                for one in range(AT_ONCE):
                    await send(host, "puppet", f"say {one}" if one % 3 else "fail so", f"c{number} {one}")
                wanted = 1 + rng.randrange(AT_ONCE)
                if number % 2:
                    await _until(host, DELIVERED, delivered + wanted)
                else:
                    await _until(host, ENDED, ended + wanted)
                host.kill()
            await host.start()
            receiver.answers = []
            await _until(host, NOT_ENDED, 0)
            await _until(host, PENDING, 0)
            await _check(host, receiver)
        except BaseException:
            print(host.log)
            raise
        finally:
            host.end()


def _host(tmp_path: Path, database_url: str, receiver: Receiver) -> HostProcess:
    webhook = {
        "name": "ends",
        "url": receiver.url,
        "secret": "env:HOOK_SECRET",
        "events": list(RUN_EVENTS),
        "network": ["127.0.0.1"],
    }
    return HostProcess(
        tmp_path / "host",
        config_file(
            tmp_path / "config.yaml",
            plugins=[PUPPET],
            agents=[{"name": "puppet", "runner": PUPPET_RUNNER, "recovery": {"on_crash": "restart"}}],
            webhooks=[webhook],
        ),
        database=database_url if database_url.startswith("postgresql:") else None,
        environment={"HOOK_SECRET": "a secret"},
        constants=CONSTANTS,
    )


async def _check(host: HostProcess, receiver: Receiver) -> None:
    """Each run has one notice with one delivery, which arrived, with one body: the run as it is stored."""
    notices = rows(_database(host), "SELECT run_id, notice_id FROM notices")
    runs = [run for (run,) in rows(_database(host), "SELECT run_id FROM runs")]
    assert len(runs) == ROUNDS * AT_ONCE
    assert sorted(run for run, _ in notices) == sorted(runs), "an end is not noted, or twice"
    deliveries = dict(rows(_database(host), "SELECT delivery_id, notice_id FROM deliveries"))
    assert sorted(deliveries.values()) == sorted(notice for _, notice in notices)
    bodies: dict[str, set[bytes]] = defaultdict(set)
    for got in receiver.requests:
        bodies[got.headers["hostler-delivery"]].add(got.body)
    assert bodies.keys() == deliveries.keys()
    for delivery, (body, *more) in bodies.items():
        assert not more, f"delivery {delivery} has several bodies"
        told: dict[str, Any] = json.loads(body)
        assert told["id"] == deliveries[delivery]
        stored = await record(host, told["run"]["id"])
        assert told["event"] == f"run.{stored['status']}"
        for name in ("status", "status_code", "conversation_id", "attempt", "started_at", "finished_at"):
            assert told["run"][name] == stored.get(name)


async def _until(host: HostProcess, query: str, wanted: int) -> None:
    """Wait until a query counts so many, or for 0 until it counts none."""
    while (found := _count(host, query)) < wanted or (not wanted and found):
        host.check()
        await asyncio.sleep(LOOK_SECONDS if not wanted else 0)


def _count(host: HostProcess, query: str) -> int:
    return int(rows(_database(host), query)[0][0])


def _database(host: HostProcess) -> str:
    return host.database or str(host.data / "hostler.db")
