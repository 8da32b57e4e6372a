"""A message to a conversation whose run is at work and listens is part of that run, and so is its answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hostler.host.config import ConfigFile
from support.databases import TEST_SECONDS
from support.dialects.players import PLAYER, player, playing
from support.dialects.saying import request_of
from support.http_host import Served
from support.trust import trusted

LISTENER = PLAYER.with_name("listener")
INTERFACES = ["openai-chat", "openai-responses", "ag-ui", "ai-sdk", "mcp", "langgraph", "a2a"]


async def say(served: Served, name: str, text: str) -> str:
    """Say a text; the whole response."""
    path, body, headers = request_of(name, text, place=name, agent="listener")
    answer = await served.client.post(path, json=body, headers=headers)
    assert answer.status_code == 200, (name, answer.text)
    return answer.text


@pytest.mark.shows(
    "openai-chat", "openai-responses", "ag-ui", "ai-sdk", "mcp", "langgraph", "a2a", "steer", "text"
)
async def test_a_message_steers_the_run_that_listens(tmp_path: Path) -> None:
    async with playing(tmp_path / "data") as served:
        await served.host.apply(ConfigFile(plugins=[trusted(LISTENER)]), actor="test")
        await player(served, "listener", runner="plugin:test/listener/default", resource_policy={})
        for name in INTERFACES:
            gate = tmp_path / name
            first = asyncio.create_task(say(served, name, f"wait {gate}"))
            run_id = await working(served, first, name)
            second = asyncio.create_task(say(served, name, "and hurry"))
            async with asyncio.timeout(TEST_SECONDS):
                while not (await served.client.get(f"/v1/runs/{run_id}/steering")).json()["items"]:
                    assert not second.done(), (name, second)
                    await asyncio.sleep(0.02)
            gate.touch()
            assert "and hurry" in await first, name
            assert "and hurry" in await second, name
        runs = (await served.client.get("/v1/runs")).json()["items"]
        assert [run["status"] for run in runs] == ["completed"] * len(INTERFACES)


async def working(served: Served, saying: asyncio.Task[str], place: str) -> str:
    """Wait for the run of a conversation to be at work."""
    async with asyncio.timeout(TEST_SECONDS):
        while True:
            runs = (await served.client.get(f"/v1/runs?conversation_id={place}")).json()["items"]
            if runs and runs[0]["status"] == "running":
                run_id: str = runs[0]["run_id"]
                return run_id
            assert not saying.done(), (place, runs, saying.result())
            await asyncio.sleep(0.02)
