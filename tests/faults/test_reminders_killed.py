"""The host dies while runs make reminders and remove them: each call is carried out once, each fires once."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from support.http_runs import follow
from support.oracle import rows
from support.server_process import HostProcess, config_file
from support.stepping import RUNNER, STEPPER
from support.wire_client import ask

pytestmark = [pytest.mark.gate("killed-hosts"), pytest.mark.timeout(360)]
SECONDS = 300
KILLS = 3
NAMES = [f"n{number}" for number in range(8)]
GONE = NAMES[::4]
AGENTS = {"resumed": ("resumable", "resume"), "again": ("default", "restart")}
"""By name: the runner, and what becomes of its runs after a crash."""


def steps() -> list[list[Any]]:
    """Make all reminders, and remove some; answers are said at the end."""
    made = [["call", "schedule.create", {"name": name, "text": "[]", "delay": 3600}] for name in NAMES]
    fires = ["call", "schedule.create", {"name": "fires", "text": '[["say", "fired"]]', "delay": 1}]
    gone = [["call", "schedule.delete", {"name": name}] for name in GONE]
    return [*made, fires, *gone, ["tell"]]


async def test_each_reminder_is_made_once_and_fires_once(tmp_path: Path) -> None:
    rng = random.Random("reminders killed")
    policy = {"allow_schedules": True}
    agents = [
        {
            "name": name,
            "runner": RUNNER + runner,
            "resource_policy": policy,
            "recovery": {"on_crash": on_crash, "max_attempts": 20},
        }
        for name, (runner, on_crash) in AGENTS.items()
    ]
    config = config_file(tmp_path / "config.yaml", plugins=[STEPPER], agents=agents)
    host = HostProcess(tmp_path / "host", config)
    try:
        async with asyncio.timeout(SECONDS):
            await host.start()
            runs = {name: await _send(host, name) for name in AGENTS}
            for _ in range(KILLS):
                await _called(host, rng.randint(1, 4))
                host.kill()
                await host.start()
            for run_id in runs.values():
                assert (await follow(host, run_id)).ending == ("run.completed", None)
            await _fired(host)
            await host.stop()
    except BaseException:
        print(host.log)
        raise
    finally:
        host.end()
    database = _database(host)
    left = rows(
        database, "SELECT agent_id, json_extract(spec, '$.name') FROM schedules ORDER BY agent_id, name"
    )
    for agent_id in {one for one, _ in left}:
        assert [name for one, name in left if one == agent_id] == sorted({*NAMES, "fires"} - {*GONE})
    assert len(left) == len(AGENTS) * (len(NAMES) + 1 - len(GONE))
    fired = rows(
        database,
        "SELECT agent_id, count(DISTINCT e.event_id), count(r.run_id) FROM events e JOIN runs r"
        " ON r.event_id = e.event_id WHERE e.event_type = 'schedule.triggered' GROUP BY agent_id",
    )
    assert [counts for _, *counts in fired] == [[1, 1]] * len(AGENTS)


async def _send(host: HostProcess, agent: str) -> str:
    event = {
        "event_type": "message.received",
        "event_id": f"e-{agent}",
        "agent": agent,
        "conversation_id": "c",
        "input": {"text": json.dumps(steps())},
    }
    answer = await ask(host.url, "POST", "/v1/events", event)
    run_id: str = answer.json()["run"]["run_id"]
    return run_id


async def _called(host: HostProcess, more: int) -> None:
    """Wait until the journals hold so many further calls, or no run is at work."""
    calls = "SELECT count(*) FROM journal WHERE kind = 'call' AND type LIKE 'schedule.%'"
    active = "SELECT count(*) FROM runs WHERE status NOT IN ('completed', 'failed')"
    wanted = rows(_database(host), calls)[0][0] + more
    while rows(_database(host), calls)[0][0] < wanted and rows(_database(host), active)[0][0]:
        await asyncio.sleep(0)


async def _fired(host: HostProcess) -> None:
    """Wait until the reminders that come due have had their runs."""
    ended = (
        "SELECT count(*) FROM runs r JOIN events e ON e.event_id = r.event_id"
        " WHERE e.event_type = 'schedule.triggered' AND r.status = 'completed'"
    )
    while rows(_database(host), ended)[0][0] < len(AGENTS):
        await asyncio.sleep(0.05)


def _database(host: HostProcess) -> str:
    return str(host.data / "hostler.db")
