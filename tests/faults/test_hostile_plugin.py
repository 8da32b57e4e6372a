"""A plugin that speaks raw JSON and tries everything it may not: nothing is allowed, everything is answered.

The host is a process of its own, with well-behaved plugins at work beside the attacker.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.examples import SOAK
from support.http_runs import Results, begin, cancel, follow, perform, send
from support.load import Load
from support.oracle import Oracle
from support.server_process import PLUGINS, HostProcess, config_file, sampled_memory, serving
from support.wire_client import ask

pytestmark = pytest.mark.gate("plugin-identity")

ATTEMPTS = 10_000 if SOAK else 3_000
SEED = int(os.environ.get("HOSTLER_SEED", "7"))
SECONDS = 400
MEMORY_BOUND_BYTES = 128 * 1024 * 1024
"""What the attack may add to the host's memory: the bounds of one connection (64 MiB of open calls, 16 MiB of
results, messages of 8 MiB in both directions) with room for the allocator."""
ATTACKERS, VICTIMS = "attackers", "victims"
"""Conversations."""
BREAKING_LINES = [
    '{"jsonrpc": "2.0"',
    "Traceback (most recent call last):",
    "[" * 100_000,
]
"""Each ends its connection, and the process."""


@pytest.mark.timeout(SECONDS + 30)
async def test_thousands_of_attempts_of_a_hostile_plugin(tmp_path: Path) -> None:
    async with asyncio.timeout(SECONDS), serving(_host(tmp_path)) as host:
        try:
            await _attacked(host, tmp_path)
        except BaseException:
            print(host.log)
            raise


def _host(folder: Path) -> HostProcess:
    agents: list[dict[str, Any]] = [
        {"name": "victim", "runner": "plugin:test/puppet/default"},
        {"name": "good", "runner": "plugin:test/busy/default"},
        {"name": "attacker", "runner": "plugin:test/attacker/default"},
        {"name": "silent", "runner": "plugin:test/attacker/default", "config": {"timeout": 2}},
    ]
    plugins = [PLUGINS / name for name in ("puppet", "busy", "attacker")]
    return HostProcess(folder / "host", config_file(folder / "config.yaml", plugins=plugins, agents=agents))


async def _attacked(host: HostProcess, folder: Path) -> None:
    victim = await _victim(host)
    ended = await send(host, "attacker", json.dumps({"do": "echo", "text": "first"}), ATTACKERS)
    await follow(host, ended.run_id)
    page = json.loads((await _try(host, do="cursor")).text)["result"]
    oracle = Oracle()
    plan = {"turns": 2, "deltas": 20, "acknowledged": str(folder / "acknowledged")}
    load = Load(host, oracle, plan, ["good"], customers=2)
    async with load.going(), sampled_memory(host) as memory:
        report = folder / "report.json"
        attack = {
            "seed": SEED,
            "count": ATTEMPTS,
            "victim": victim,
            "ended": ended.run_id,
            "cursor": page["items"][0]["cursor"],
            "report": str(report),
            "odd_results": 50,
        }
        assert (await _try(host, do="attack", **attack)).ending == ("run.completed", None)
        _check_report(json.loads(report.read_text()))
        await _break_in_other_ways(host)
        peaceful = len(oracle.seen)
        await load.until(load.results + 200)  # the host goes on working
        assert len(oracle.seen) >= peaceful > 0
    assert {results[-1].type for results in oracle.seen.values()} == {"run.completed"}
    await oracle.check_streams(host)
    await _check_victim(host, victim)
    print(f"memory: {memory.before / 2**20:.0f} MiB before, {memory.added / 2**20:.0f} MiB more at most")
    assert memory.added < MEMORY_BOUND_BYTES
    assert (await ask(host.url, "GET", "/readyz")).status == 200
    assert await host.stop() == 0


def _check_report(report: dict[str, Any]) -> None:
    codes: Counter[tuple[str, str]] = Counter({(kind, code): n for kind, code, n in report["codes"]})
    print(*sorted((*key, count) for key, count in codes.items()), sep="\n")
    assert report["wrong"] == []
    assert sum(codes.values()) == ATTEMPTS
    assert len({kind for kind, _ in codes}) >= 14, "every kind of attempt was made"


async def _try(host: HostProcess, agent: str = "attacker", **plan: Any) -> Results:
    return await perform(host, agent, json.dumps(plan), ATTACKERS)


async def _break_in_other_ways(host: HostProcess) -> None:
    """What ends the run or the connection, with the code it ends with."""
    for do, code in {
        "flood": "runner.protocol",
        "sequence": "runner.protocol",
        "pause": "runner.protocol",
        "large": "payload_too_large",
        "huge": "payload_too_large",
    }.items():
        assert (await _try(host, do=do)).ending == ("run.failed", code), do
    for line in BREAKING_LINES:
        broken = await _try(host, do="noise", line=line)
        assert broken.ending == ("run.failed", "runner.protocol"), line[:50]
    assert (await _try(host, "silent", do="silence")).ending == ("run.failed", "runner.timeout")
    assert (await _try(host, do="echo", text="again")).text == "again"


async def _victim(host: HostProcess) -> dict[str, str]:
    """A run of another plugin that goes on through all of it, and what is stored for it."""
    await perform(host, "victim", "remember secret value-of-the-victim", VICTIMS)
    made = await perform(host, "victim", "make content-of-the-victim", VICTIMS)
    artifact = made.data(made.types.index("artifact.created"))
    held = await begin(host, "victim", "hold", VICTIMS)
    return {
        "agent": "victim",
        "conversation_id": VICTIMS,
        "event_id": held.event_id,
        "run_id": held.run_id,
        "artifact_id": str(artifact["artifact_id"]),
    }


async def _check_victim(host: HostProcess, victim: dict[str, str]) -> None:
    """Nothing of it was touched; it ends only now, because it is asked to."""
    held = await cancel(host, victim["run_id"])
    assert held.types == ["message.delta", "run.failed"]
    assert held.ending == ("run.failed", "cancelled")
    states = (await ask(host.url, "GET", f"/v1/conversations/{VICTIMS}/state")).body.decode()
    assert "value-of-the-victim" in states
    assert "owned" not in states
    history = (await ask(host.url, "GET", f"/v1/conversations/{VICTIMS}/history")).body.decode()
    assert "make content-of-the-victim" in history
    assert "forged" not in history
    content = await ask(host.url, "GET", f"/v1/artifacts/{victim['artifact_id']}/content")
    assert content.body == b"content-of-the-victim"
