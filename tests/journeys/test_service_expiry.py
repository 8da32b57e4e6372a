"""A service's question that nobody answers: the host is away for a day, and the run ends when it is back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile, PluginEntry
from support.http_host import Served, serving
from support.http_runs import ended, pause_of
from support.services.langgraph import GRAPH, KEY, THREAD, FakeLangGraph, events, interrupted
from support.services.langgraph_wire import metadata
from support.simulated_clock import simulated_clock

BOUND_SECONDS = 100.0
RUNNER = Path(__file__).parents[2] / "runners" / "langgraph"


@contextlib.asynccontextmanager
async def booking(folder: Path, fake: FakeLangGraph) -> AsyncIterator[Served]:
    """A host over a data directory, with an agent whose graph asks."""
    config = {"base-url": fake.address, "api-key": "env:LANGGRAPH_KEY", "assistant-id": GRAPH}
    spec = {"name": "book", "runner": "plugin:hostler/langgraph/default", "config": config}
    entry = PluginEntry(path=str(RUNNER), network=[f"127.0.0.1:{fake.port}"])
    async with asyncio.timeout(BOUND_SECONDS), serving(folder, agent=False) as served:
        agents = [convert(spec, AgentSpec, "book")]
        await served.host.apply(ConfigFile(plugins=[entry], agents=agents), actor="test")
        yield served


@pytest.mark.timeout(240)
async def test_a_question_expires_while_the_host_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGGRAPH_KEY", KEY)
    place: dict[str, Any] = {"agent": "book", "conversation_id": "c1"}
    with simulated_clock() as clock:
        async with FakeLangGraph() as fake:
            async with booking(tmp_path, fake) as served:
                fake.next(events(metadata(), interrupted("Where?")))
                run_id = (await served.say("Book a room", wait=None, **place))["run"]["run_id"]
                await pause_of(served.client, run_id)
            clock.advance(days=1)
            async with booking(tmp_path, fake) as served:
                record = await ended(served.client, run_id)
                assert (record["status"], record["status_code"]) == ("failed", "langgraph.unanswered")
                journal = await served.client.get(f"/v1/runs/{run_id}/journal")
                assert "it was expired" in journal.text
                assert len(fake.messages) == 1  # nothing is told the graph in anybody's name
                assert (await served.say("Then cancel it", **place))["status"] == "completed"
            assert [one["thread"] for one in fake.messages] == [THREAD, THREAD]
