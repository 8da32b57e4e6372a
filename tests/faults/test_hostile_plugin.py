"""A plugin that speaks raw JSON and tries everything it may not: nothing is allowed, everything is answered.

The host is a process of its own, with well-behaved plugins at work beside the attacker.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.load import Load
from support.oracle import Oracle
from support.server_process import PLUGINS, HostProcess, config_file, sampled_memory, serving
from support.wire_client import Seen, ask, stream

ATTEMPTS = 10_000
SEED = int(os.environ.get("HOSTLER_SEED", "7"))
SECONDS = 400
MEMORY_BOUND_BYTES = 128 * 1024 * 1024
"""What the attack may add to the host's memory: the bounds of one connection (64 MiB of open calls, 16 MiB of
results, messages of 8 MiB in both directions) with room for the allocator."""
BREAKING_LINES = [
    '{"jsonrpc": "2.0"',
    "Traceback (most recent call last):",
    "[" * 100_000,
]
"""Each ends its connection, and the process."""


@pytest.mark.timeout(SECONDS + 30)
def test_ten_thousand_attempts_of_a_hostile_plugin(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(SECONDS), serving(_host(tmp_path)) as host:
            try:
                await _attacked(host, tmp_path)
            except BaseException:
                print(host.log)
                raise

    asyncio.run(main())


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
    ended = await _run(host, "attacker", {"do": "echo", "text": "first"})
    cursor = json.loads(_text(await _run(host, "attacker", {"do": "cursor"})))["result"]["items"][0]["cursor"]
    oracle = Oracle()
    plan = {"turns": 2, "deltas": 20, "acknowledged": str(folder / "acknowledged")}
    load = Load(host, oracle, plan, ["good"], customers=2)
    async with load.going(), sampled_memory(host) as memory:
        report = folder / "report.json"
        attack = {
            "do": "attack",
            "seed": SEED,
            "count": ATTEMPTS,
            "victim": victim,
            "ended": ended.run_id,
            "cursor": cursor,
            "report": str(report),
            "odd_results": 50,
        }
        assert _end(await _run(host, "attacker", attack)) == ("run.completed", None)
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


async def _break_in_other_ways(host: HostProcess) -> None:
    """What ends the run or the connection, with the code it ends with."""
    for do, code in {
        "flood": "runner.protocol",
        "sequence": "runner.protocol",
        "pause": "runner.protocol",
        "large": "payload_too_large",
        "huge": "payload_too_large",
    }.items():
        assert _end(await _run(host, "attacker", {"do": do})) == ("run.failed", code), do
    for line in BREAKING_LINES:
        broken = await _run(host, "attacker", {"do": "noise", "line": line})
        assert _end(broken) == ("run.failed", "runner.protocol"), line[:50]
    assert _end(await _run(host, "silent", {"do": "silence"})) == ("run.failed", "runner.timeout")
    echo = await _run(host, "attacker", {"do": "echo", "text": "again"})
    assert _end(echo) == ("run.completed", None)


# -- the victim -----------------------------------------------------------------------------------


async def _victim(host: HostProcess) -> dict[str, str]:
    """A run of another plugin that goes on through all of it, and what is stored for it."""
    await _run(host, "victim", "remember secret value-of-the-victim")
    made = await _run(host, "victim", "make content-of-the-victim")
    artifact = next(_data(result) for result in made if result.type == "artifact.created")
    event_id, run_id = await _post(host, "victim", "hold")
    async with contextlib.aclosing(stream(host.url, run_id)) as pieces:
        async for seen in pieces:
            assert [result.type for result in seen] == ["message.delta"]
            break
    return {
        "agent": "victim",
        "conversation_id": "of victim",
        "event_id": event_id,
        "run_id": run_id,
        "artifact_id": str(artifact["artifact_id"]),
    }


async def _check_victim(host: HostProcess, victim: dict[str, str]) -> None:
    """Nothing of it was touched; it ends only now, because it is asked to."""
    await ask(host.url, "POST", f"/v1/runs/{victim['run_id']}/cancel", {"reason": "the test is over"})
    seen = await _follow(host, victim["run_id"])
    assert [result.type for result in seen] == ["message.delta", "run.failed"]
    assert _end(seen) == ("run.failed", "cancelled")
    states = await ask(host.url, "GET", "/v1/conversations/of%20victim/state")
    assert "value-of-the-victim" in states.body.decode()
    assert "owned" not in states.body.decode()
    history = await ask(host.url, "GET", "/v1/conversations/of%20victim/history")
    assert "forged" not in history.body.decode()
    content = await ask(host.url, "GET", f"/v1/artifacts/{victim['artifact_id']}/content")
    assert content.body == b"content-of-the-victim"


# -- runs -----------------------------------------------------------------------------------------


class Results(list[Seen]):
    """All results of a run."""

    run_id: str = ""


async def _post(host: HostProcess, agent: str, text: str) -> tuple[str, str]:
    event = {
        "event_type": "message.received",
        "agent": agent,
        "conversation_id": f"of {agent}",
        "input": {"text": text},
    }
    answer = await ask(host.url, "POST", "/v1/events", event)
    assert answer.status == 202, answer
    accepted = answer.json()
    return accepted["event_id"], accepted["run"]["run_id"]


async def _run(host: HostProcess, agent: str, plan: dict[str, Any] | str) -> Results:
    _, run_id = await _post(host, agent, plan if isinstance(plan, str) else json.dumps(plan))
    return await _follow(host, run_id)


async def _follow(host: HostProcess, run_id: str) -> Results:
    results = Results()
    results.run_id = run_id
    async for seen in stream(host.url, run_id):
        results += seen
    return results


def _data(result: Seen) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(result.data)["data"]
    return data


def _end(results: list[Seen]) -> tuple[str, str | None]:
    return results[-1].type, _data(results[-1]).get("code")


def _text(results: list[Seen]) -> str:
    return next(
        str(_data(result)["message"]["content"]) for result in results if result.type == "message.completed"
    )
