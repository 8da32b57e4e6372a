"""A service that asks, under a host that is killed while people think: the answer comes after its restart."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.http_runs import ended, pause_of, send
from support.server_process import HostProcess, serving
from support.services.langgraph import GRAPH, KEY, THREAD, FakeLangGraph, events, interrupted, updates
from support.services.langgraph_wire import ai, chunk, metadata
from support.services.server import Answer, Hold

pytestmark = pytest.mark.timeout(400)
BOUND_SECONDS = 300.0
QUESTION = f"{1:032x}"


@contextlib.asynccontextmanager
async def booking(folder: Path, fake: FakeLangGraph, **policy: Any) -> AsyncIterator[HostProcess]:
    """A host with an agent whose graph asks."""
    config = {"base-url": fake.address, "api-key": "env:LANGGRAPH_KEY", "assistant-id": GRAPH, "timeout": 200}
    agent: dict[str, Any] = {
        "name": "book",
        "runner": "plugin:hostler/langgraph/default",
        "config": config,
        **policy,
    }
    entry = {"path": "hostler/langgraph", "network": [f"127.0.0.1:{fake.port}"]}
    path = folder / "hostler.yaml"
    path.write_text(json.dumps({"plugins": [entry], "agents": [agent]}))
    host = HostProcess(folder / "host", path, environment={"LANGGRAPH_KEY": KEY})
    async with asyncio.timeout(BOUND_SECONDS), serving(host):
        yield host


async def answer(client: httpx.AsyncClient, pause: dict[str, Any], action: str, **more: Any) -> None:
    (call,) = pause["calls"]
    done = {"call_id": call["call_id"], "type": action, "args_hash": call["args_hash"], **more}
    body = {"revision": pause["revision"], "actions": [done]}
    said = await client.post(f"/v1/pauses/{pause['id']}/actions", json=body)
    assert said.status_code == 202, said.text


async def test_the_answer_comes_after_the_host_was_killed(tmp_path: Path) -> None:
    async with FakeLangGraph() as fake, booking(tmp_path, fake) as host:
        fake.next(events(metadata(), chunk("Wait."), interrupted({"question": "哪个城市?"})))
        run_id = (await send(host, "book", "Book a room", "c1")).run_id
        async with host.client() as client:
            pause = await pause_of(client, run_id)
        assert pause["calls"][0]["title"] == "哪个城市?"
        host.kill()
        await host.start()
        fake.next(events(metadata(), chunk("Booked."), updates(messages=[ai("Booked.")])))
        async with host.client() as client:
            assert (await client.get(f"/v1/runs/{run_id}")).json()["status"] == "paused"
            await answer(client, await pause_of(client, run_id), "answer", values={"answer": "里斯本"})
            record = await ended(client, run_id)
            assert (record["status"], record["attempt"]) == ("completed", 2)
        first, second = fake.messages
        assert "input" in first
        assert (second["command"], second["thread"]) == ({"resume": {QUESTION: "里斯本"}}, THREAD)


async def test_a_host_that_is_killed_while_it_sends_the_answer_does_not_send_it_again(tmp_path: Path) -> None:
    async with FakeLangGraph() as fake, booking(tmp_path, fake) as host:
        fake.next(events(metadata(), interrupted("Where?")))
        run_id = (await send(host, "book", "Book a room", "c1")).run_id
        fake.next(Answer([metadata(), chunk("So"), Hold()], content_type="text/event-stream"))
        async with host.client() as client:
            await answer(client, await pause_of(client, run_id), "answer", values={"answer": "there"})
            await fake.until(lambda: len(fake.messages) == 2, "the answer is not sent")
        host.kill()
        await host.start()
        async with host.client() as client:
            record = await ended(client, run_id)
        assert record["status"] == "failed"
        assert record["status_code"] in ("langgraph.already_sent", "host.restarted")
        assert len(fake.messages) == 2


async def test_a_question_where_nobody_may_be_asked_ends_the_run_and_the_thread_takes_the_next_message(
    tmp_path: Path,
) -> None:
    async with FakeLangGraph() as fake, booking(tmp_path, fake, allow_questions=False) as host:
        fake.next(events(metadata(), interrupted("Where?")))
        run_id = (await send(host, "book", "Book a room", "c1")).run_id
        async with host.client() as client:
            record = await ended(client, run_id)
            assert (record["status"], record["status_code"]) == ("failed", "langgraph.unanswered")
            assert len(fake.messages) == 1
            next_run = (await send(host, "book", "Then cancel it", "c1")).run_id
            assert (await ended(client, next_run))["status"] == "completed"
        assert [one["thread"] for one in fake.messages] == [THREAD, THREAD]
