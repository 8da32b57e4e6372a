"""The host is killed while a run waits for an approval; it is decided by each interface's own means."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.dialects.ag_ui import ag_ui_client, texts_of, user
from support.dialects.openai_responses import client_of
from support.dialects.players import PLAYER, RUNNER, script
from support.http_runs import pause_of
from support.node_clients import Node, node_clients
from support.server_process import KEY, HostProcess, config_file, serving

pytestmark = [pytest.mark.gate("killed-hosts"), pytest.mark.timeout(300)]

AI = "ai@7.0.173"
CHAT = Path(__file__).parents[1] / "host/http/ai_sdk/chat.mjs"
POLICY = {"allowed_tool_names": ["player.*"], "tool_approval": {"player.book": "required"}}

Decide = Callable[[], Awaitable[list[str]]]
"""Gives the decision, or the same one again; returns the texts of what follows."""


async def approved_elsewhere(client: httpx.AsyncClient, run_id: str) -> None:
    """Approve what a run waits for, where Chat Completions says that it is decided."""
    pause = await pause_of(client, run_id)
    actions = [
        {"call_id": call["call_id"], "type": "approve", "args_hash": call["args_hash"]}
        for call in pause["calls"]
    ]
    answer = await client.post(
        f"/v1/pauses/{pause['id']}/actions", json={"revision": pause["revision"], "actions": actions}
    )
    assert answer.status_code in (200, 202), answer.text


async def chat_completions(host: HostProcess, steps: str, folder: Path) -> Decide:
    """The answer says what waits; after the decision the same answer goes on, under its id."""
    async with client_of(host.url, KEY) as client:
        asked = await client.chat.completions.create(
            model="player", messages=[{"role": "user", "content": steps}]
        )
    assert "player.book" in str(asked.choices[0].message.content)
    run_id = asked.hostler["run_id"]  # type: ignore[attr-defined]

    async def decide() -> list[str]:
        async with host.client() as client:
            if (await client.get(f"/v1/runs/{run_id}")).json()["status"] == "paused":
                await approved_elsewhere(client, run_id)
        async with client_of(host.url, KEY) as client:
            done: Any = await client.chat.completions.retrieve(asked.id)
        return list(done.hostler["messages"])

    return decide


async def responses(host: HostProcess, steps: str, folder: Path) -> Decide:
    """An approval request, answered in the next request."""
    async with client_of(host.url, KEY) as client:
        asked = await client.responses.create(model="player", input=steps)
    (request,) = [item for item in asked.output if item.type == "mcp_approval_request"]
    reply: Any = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}

    async def decide() -> list[str]:
        async with client_of(host.url, KEY) as client:
            done = await client.responses.create(model="player", previous_response_id=asked.id, input=[reply])
            assert (await client.responses.retrieve(done.id)).output_text == done.output_text
        said = [item for item in done.output if item.type == "message"]
        return [part.text for item in said for part in item.content if part.type == "output_text"]

    return decide


async def background_responses(host: HostProcess, steps: str, folder: Path) -> Decide:
    """The same of a response that nobody waits for, streamed after the decision."""
    async with client_of(host.url, KEY) as client:
        asked = await client.responses.create(model="player", input=steps, background=True)
        async for _ in await client.responses.retrieve(asked.id, stream=True):
            pass
        asked = await client.responses.retrieve(asked.id)
    (request,) = [item for item in asked.output if item.type == "mcp_approval_request"]
    reply: Any = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}

    async def decide() -> list[str]:
        async with client_of(host.url, KEY) as client:
            stream: Any = await client.responses.create(model="player", input=[reply], stream=True)
            events = [event async for event in stream]
        return [event.text for event in events if event.type == "response.output_text.done"]

    return decide


async def ai_sdk(host: HostProcess, steps: str, folder: Path) -> Decide:
    """`useChat`: the approval comes back in the assistant's message, which goes on."""
    node: Node = await asyncio.to_thread(node_clients, AI)

    async def chat(*what: dict[str, Any], **plan: Any) -> dict[str, Any]:
        address = f"{host.url}/ai-sdk/player"
        full = json.dumps({"api": address, "key": KEY, "id": "chat", "steps": what, **plan})
        found: dict[str, Any] = await asyncio.to_thread(node.run, CHAT, folder, full)
        assert found["errors"] == []
        return found

    asked = await chat({"send": steps})

    async def decide() -> list[str]:
        done = await chat({"approved": True}, messages=asked["messages"])
        parts = [part for message in done["messages"][1:] for part in message["parts"]]
        return [part["text"] for part in parts if part["type"] == "text"]

    return decide


async def ag_ui(host: HostProcess, steps: str, folder: Path) -> Decide:
    """An interrupt, resumed by the next run of the thread."""
    async with ag_ui_client(host.url, KEY) as client:
        asked = await client.command(say=[user(steps)], run={"runId": "r1"})
        (interrupt,) = asked["interrupts"]
    resume = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}

    async def decide() -> list[str]:
        async with ag_ui_client(host.url, KEY) as client:
            await client.command(run={"runId": "r2", "resume": [resume]})
            return texts_of((await client.command(connect=True))["messages"])

    return decide


@pytest.mark.parametrize(
    "interface",
    [chat_completions, responses, background_responses, ai_sdk, ag_ui],
    ids=lambda f: f.__name__,
)
async def test_a_run_that_waits_outlives_its_host_and_its_tool_runs_once(
    tmp_path: Path, interface: Callable[[HostProcess, str, Path], Awaitable[Decide]]
) -> None:
    agent = {"name": "player", "runner": RUNNER, "resource_policy": POLICY}
    config = config_file(tmp_path / "config.json", plugins=[PLAYER], agents=[agent])
    book = tmp_path / "book"
    steps = script(["say", "One moment."], ["tool", "player.book", {"path": str(book)}, "b"], ["say", "Bye."])
    async with serving(HostProcess(tmp_path / "host", config)) as host:
        decide = await interface(host, steps, tmp_path)
        host.kill()
        assert not book.exists()
        await host.start()
        assert not book.exists()  # nobody has decided
        said = await decide()
        assert said[-1] == "Bye."
        assert sum("booked" in text for text in said) == 1
        assert book.read_text() == "booked\n"
        host.kill()
        await host.start()
        assert (await decide())[-1] == "Bye."  # the same decision, once more
        assert book.read_text() == "booked\n"
        async with host.client() as client:
            (run,) = (await client.get("/v1/runs")).json()["items"]
        assert run["status"] == "completed"
