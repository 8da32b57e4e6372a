"""A message that came while a run of its conversation waited for an approval runs once that is decided."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from support.http_host import Served, serving
from support.http_runs import ended, pause_of
from support.trust import trusted

SHOP = Path(__file__).parents[2] / "examples" / "shop"
CLERK: dict[str, Any] = {
    "name": "clerk",
    "runner": "plugin:acme/shop/default",
    "resource_policy": {"allowed_tool_names": ["shop.*"], "tool_approval": {"shop.send": "required"}},
}
SEND = 'shop.send {"to": "ada", "text": "hi"}'


async def _shop(served: Served, folder: Path) -> None:
    shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns("*.sqlite3*", "__pycache__"))
    config = ConfigFile(plugins=[trusted(folder)], agents=[convert(CLERK, AgentSpec, "clerk")])
    await served.host.apply(config, actor="test")


async def _metric(served: Served, name: str) -> float:
    text = (await served.client.get("/metrics")).text
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert found is not None, text
    return float(found.group(1))


async def _until(served: Served, run_id: str, status: str) -> None:
    while (await served.client.get(f"/v1/runs/{run_id}")).json()["status"] != status:
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("hold_seconds", [0.05, 60.0], ids=["parked", "held"])
async def test_a_message_behind_a_pause_runs_after_the_decision(
    tmp_path: Path, database_url: str, hold_seconds: float
) -> None:
    settings: dict[str, Any] = {"hold_seconds": hold_seconds, "database": database_url}
    async with serving(tmp_path / "data", agent=False, **settings) as served:
        await _shop(served, tmp_path / "shop")
        client, place = served.client, {"agent": "clerk", "conversation_id": "c1"}
        first = (await served.say(SEND, wait=None, **place))["run"]["run_id"]
        pause = await pause_of(client, first)
        if hold_seconds < 1:
            await _until(served, first, "paused")
        accepted = await served.say("shop.prices", wait=None, **place)
        second = accepted["run"]["run_id"]
        assert accepted["outcome"] == "queued"
        assert await _metric(served, "hostler_runs_waiting") == 1
        (call,) = pause["calls"]
        action = {"call_id": call["call_id"], "type": "approve", "args_hash": call["args_hash"]}
        body = {"revision": pause["revision"], "actions": [action]}
        answer = await client.post(f"/v1/pauses/{pause['id']}/actions", json=body)
        assert answer.status_code == 202, answer.text
        records = [await ended(client, run_id) for run_id in (first, second)]
        assert [record["status"] for record in records] == ["completed", "completed"]
        assert "suite" in records[1]["output"]["text"]
        assert await _metric(served, "hostler_runs_waiting") == 0
