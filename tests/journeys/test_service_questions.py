"""A service that asks, under a host that is killed while people think: the answer comes after its restart."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.cached_installs import lend_environments
from support.http_runs import ended, pause_of, send
from support.server_process import HostProcess, serving
from support.services import a2a, openai_responses
from support.services.langgraph import GRAPH, THREAD, FakeLangGraph, events, interrupted
from support.services.langgraph_wire import chunk, metadata
from support.services.server import Answer, Hold

pytestmark = pytest.mark.timeout(400)
BOUND_SECONDS = 300.0
RUNNERS = Path(__file__).parents[2] / "runners"
QUESTION = f"{1:032x}"


@dataclass(frozen=True)
class Asking:
    """A service that asks: its question, what people do, and what it is sent then."""

    runner: str
    fake: Callable[[], Any]
    config: dict[str, Any]
    """`address` is replaced by that of the fake."""
    question: Answer
    action: str
    decided: dict[str, Any]
    sent: Callable[[dict[str, Any]], Any]
    expected: Any


LANGGRAPH = Asking(
    runner="langgraph",
    fake=FakeLangGraph,
    config={"base-url": "address", "api-key": "env:SERVICE_KEY", "assistant-id": GRAPH},
    question=events(metadata(), chunk("Wait."), interrupted({"question": "哪个城市?"})),
    action="answer",
    decided={"values": {"answer": "里斯本"}},
    sent=lambda message: (message.get("command"), message["thread"]),
    expected=({"resume": {QUESTION: "里斯本"}}, THREAD),
)
ASKING = [
    LANGGRAPH,
    Asking(
        runner="openai-responses",
        fake=openai_responses.FakeOpenAI,
        config={"base-url": "address", "api-key": "env:SERVICE_KEY", "model": openai_responses.MODEL},
        question=Answer(
            openai_responses.numbered(
                openai_responses.created(),
                openai_responses.item("done", openai_responses.approval()),
                openai_responses.completed(openai_responses.approval()),
            ),
            content_type="text/event-stream",
        ),
        action="approve",
        decided={},
        sent=lambda message: (message["input"][0].get("approve"), message.get("previous_response_id")),
        expected=(True, openai_responses.FIRST),
    ),
    Asking(
        runner="a2a",
        fake=a2a.FakeA2A,
        config={"agent-card-url": "address", "api-key": "env:SERVICE_KEY"},
        question=a2a.events(
            a2a.said({"task": a2a.task("SUBMITTED")}), a2a.said(a2a.status("INPUT_REQUIRED", "哪个城市?"))
        ),
        action="answer",
        decided={"values": {"answer": "里斯本"}},
        sent=lambda message: (message["parts"][0]["text"], message.get("taskId")),
        expected=("里斯本", a2a.TASK),
    ),
]


@contextlib.asynccontextmanager
async def booking(
    folder: Path, fake: Any, asking: Asking = LANGGRAPH, **policy: Any
) -> AsyncIterator[HostProcess]:
    """A host with an agent whose service asks."""
    config = {name: fake.address if value == "address" else value for name, value in asking.config.items()}
    runner = f"plugin:hostler/{asking.runner}/default"
    agent: dict[str, Any] = {"name": "book", "runner": runner, "config": config | {"timeout": 200}, **policy}
    entry = {"path": f"hostler/{asking.runner}", "network": [f"127.0.0.1:{fake.port}"]}
    path = folder / "hostler.yaml"
    path.write_text(json.dumps({"plugins": [entry], "agents": [agent]}))
    host = HostProcess(folder / "host", path, environment={"SERVICE_KEY": fake.key})
    plugin = RUNNERS / asking.runner
    if "requires:" in (plugin / "hostler.yaml").read_text("utf-8"):
        await asyncio.to_thread(lend_environments, "services", plugin, host.data)
    async with asyncio.timeout(BOUND_SECONDS), serving(host):
        yield host


async def answer(client: httpx.AsyncClient, pause: dict[str, Any], action: str, **more: Any) -> None:
    (call,) = pause["calls"]
    done = {"call_id": call["call_id"], "type": action, "args_hash": call["args_hash"], **more}
    body = {"revision": pause["revision"], "actions": [done]}
    said = await client.post(f"/v1/pauses/{pause['id']}/actions", json=body)
    assert said.status_code == 202, said.text


@pytest.mark.parametrize("asking", ASKING, ids=[one.runner for one in ASKING])
async def test_the_decision_comes_after_the_host_was_killed(tmp_path: Path, asking: Asking) -> None:
    async with asking.fake() as fake, booking(tmp_path, fake, asking) as host:
        fake.next(asking.question)
        run_id = (await send(host, "book", "Book a room", "c1")).run_id
        async with host.client() as client:
            pause = await pause_of(client, run_id)
        assert len(pause["calls"]) == 1
        host.kill()
        await host.start()
        async with host.client() as client:
            assert (await client.get(f"/v1/runs/{run_id}")).json()["status"] == "paused"
            assert len(fake.messages) == 1
            await answer(client, await pause_of(client, run_id), asking.action, **asking.decided)
            record = await ended(client, run_id)
            assert (record["status"], record["attempt"]) == ("completed", 2), record
            assert record["output"]["text"].endswith("ok")
        assert len(fake.messages) == 2
        assert asking.sent(fake.messages[1]) == asking.expected
        assert asking.sent(fake.messages[0]) != asking.expected


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
