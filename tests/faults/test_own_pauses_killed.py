"""kill -9 of host and plugin while a run goes on from its runner's own pause: the approval is not lost.

Invariants 22 and 23 of pauses. The runner states `continuation` and is not resumable.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support.counting import Counter, counting
from support.examples import SOAK
from support.http_runs import ended, follow, pause_of, send
from support.server_process import PLUGINS, HostProcess, config_file
from support.stepping import Latch
from support.wire_client import ask

SECONDS = 150
NOTE = {"tool_name": "effects.note", "arguments": {"text": "hi"}, "kind": "approval", "call_id": "mine"}
PAUSED = [["result", "run.paused", {"pending": [NOTE], "state": {"step": 3}}], ["silent"]]
CALL = ["call", "tool.call", {"tool_name": "effects.note", "parameters": {"text": "hi"}}]
pytestmark = pytest.mark.timeout(SECONDS + 30)


@contextlib.asynccontextmanager
async def world(
    tmp_path: Path, database_url: str, **agent: Any
) -> AsyncIterator[tuple[HostProcess, Counter]]:
    """A host that was started, and the counter of its tools' effects."""
    with counting(tmp_path) as counter:
        spec: dict[str, Any] = {
            "name": "keeper",
            "runner": "plugin:test/stepper/keeper",
            "resource_policy": {
                "allowed_tool_names": ["effects.*"],
                "tool_approval": {"effects.note": "required"},
            },
            **agent,
        }
        plugins = [PLUGINS / "stepper", PLUGINS / "effects"]
        config = config_file(tmp_path / "config.yaml", plugins=plugins, agents=[spec])
        host = HostProcess(
            tmp_path / "host",
            config,
            database=database_url if database_url.startswith("postgresql:") else None,
            environment={"HOSTLER_PLUGIN_COUNTER": counter.path},
        )
        try:
            async with asyncio.timeout(SECONDS):
                await host.start()
                yield host, counter
        except BaseException:
            print(host.log)
            raise
        finally:
            host.end()


async def approved(host: HostProcess, steps: dict[str, Any]) -> str:
    """A run that has paused itself and whose call was approved, which was acknowledged; its id."""
    run_id = (await send(host, "keeper", json.dumps(steps), "c")).run_id
    async with host.client() as client:
        pause = await pause_of(client, run_id)
        (call,) = pause["calls"]
        action = {"call_id": call["call_id"], "type": "approve", "args_hash": call["args_hash"]}
        body = {"revision": pause["revision"], "actions": [action]}
        answer = await client.post(f"/v1/pauses/{pause['id']}/actions", json=body)
        assert answer.status_code == 202, answer.text
    return run_id


async def kill_host(host: HostProcess) -> None:
    host.kill()
    await host.start()


async def kill_plugin(host: HostProcess) -> None:
    path = f"/v1/plugins/{quote('test/stepper', safe='')}"
    found: dict[str, Any] = (await ask(host.url, "GET", path)).json()
    os.kill(found["pid"], signal.SIGKILL)


async def went_on(host: HostProcess, counter: Counter, run_id: str) -> int:
    """The run comes to its end with its state and the decision, and with one effect; its attempt."""
    async with host.client() as client:
        record = await ended(client, run_id)
    assert record["status"] == "completed", record
    context = json.loads(record["output"]["text"])
    assert context["continuation"]["state"] == {"step": 3}
    (decided,) = context["continuation"]["decisions"]
    assert (decided["call_id"], decided["decision"]) == ("mine", "approved")
    effects = (await counter.facts()).effects
    assert sum(effect.made for effect in effects) == 1
    assert len({effect.key for effect in effects}) == 1
    results = await follow(host, run_id)
    assert [result.sequence for result in results] == list(range(1, len(results) + 1))
    return int(record["attempt"])


@pytest.mark.parametrize("kill", [kill_host, kill_plugin], ids=["host", "plugin"])
async def test_an_approval_survives_kills_in_a_row(tmp_path: Path, database_url: str, kill: Any) -> None:
    """More than `max_attempts`, which is 3."""
    async with (
        world(tmp_path, database_url) as (host, counter),
        Latch(tmp_path, "g2") as second,
        Latch(tmp_path, "g3") as third,
        Latch(tmp_path, "g4") as fourth,
    ):
        gates = {str(n): [["gate", one.path]] for n, one in enumerate((second, third, fourth), 2)}
        run_id = await approved(host, {"1": PAUSED, **gates, "else": [CALL, ["show_context"]]})
        for latch in (second, third, fourth):
            await latch.reached()
            await kill(host)
        assert await went_on(host, counter, run_id) == 5


@pytest.mark.parametrize("after", [0.0, 0.01, 0.03, 0.1, 0.3] if SOAK else [0.01, 0.1], ids="{:g} s".format)
async def test_an_approval_survives_a_kill_at_any_moment_after_it(
    tmp_path: Path, database_url: str, after: float
) -> None:
    async with world(tmp_path, database_url) as (host, counter):
        steps = {"1": PAUSED, "else": [["deltas", 20], CALL, ["show_context"]]}
        run_id = await approved(host, steps)
        await asyncio.sleep(after)
        await kill_host(host)
        async with host.client() as client:
            record = await ended(client, run_id)
        effects = (await counter.facts()).effects
        assert len(effects) <= 1
        if record["status"] == "completed":
            assert len(effects) == 1
        else:  # it had called its tool, and the policy ruled
            assert record["status_code"] == "host.restarted"
            assert await _intents(host, run_id) == 1


async def test_a_call_that_was_under_way_is_not_made_again(tmp_path: Path, database_url: str) -> None:
    async with world(tmp_path, database_url) as (host, counter):
        run_id = await approved(host, {"1": PAUSED, "else": [CALL, ["show_context"]]})
        async with counter.keeping("done") as waiting:
            kept = await waiting
            host.kill()
            await kept.gone()
        await host.start()
        async with host.client() as client:
            record = await ended(client, run_id)
        assert (record["status"], record["status_code"]) == ("failed", "host.restarted")
        assert record["attempt"] == 2
        assert len((await counter.facts()).effects) == 1


@pytest.mark.parametrize("tool", ["book", "pay"])
async def test_a_resumable_runners_call_that_was_under_way_is_finished_without_asking_again(
    tmp_path: Path, database_url: str, tool: str
) -> None:
    name, parameters = f"effects.{tool}", {"text": "hi"}
    pending = {**NOTE, "tool_name": name, "arguments": parameters}
    paused = [["result", "run.paused", {"pending": [pending], "state": {"step": 3}}], ["silent"]]
    call = ["call", "tool.call", {"tool_name": name, "parameters": parameters}]
    policy = {"allowed_tool_names": ["effects.*"], "tool_approval": {"effects.*": "required"}}
    runner = "plugin:test/stepper/both"
    async with world(tmp_path, database_url, runner=runner, resource_policy=policy) as (host, counter):
        run_id = await approved(host, {"1": paused, "else": [call, ["show_context"]]})
        async with counter.keeping("done") as waiting:
            kept = await waiting
            host.kill()
            await kept.gone()
        await host.start()
        assert await went_on(host, counter, run_id) == 3


async def _intents(host: HostProcess, run_id: str) -> int:
    found = (await ask(host.url, "GET", f"/v1/runs/{run_id}/journal?limit=100")).json()["items"]
    return sum(entry["kind"] == "intent" for entry in found)
