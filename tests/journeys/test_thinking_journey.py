"""Thinking models in a whole host: what they want back outlives pauses, restarts, crashes, and is not shown.

A real host, its plugins in processes of their own, and services that refuse a round without the exact fields.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from support.agent_host import ask, hosting, record, streamed
from support.gates import BOUND_SECONDS, Gate
from support.http_host import Event, Served
from support.model_answers import Answer, Recorded
from support.model_server import ModelServer
from support.thinking import FINAL, SERVICES, Service, calling, of

SUMS = '''
from hostler_sdk import tool

@tool(effect="pure")
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b
'''
CAREFUL = '''
import msgspec

from hostler_sdk import Runner, message, paused
from hostler_sdk.types import FunctionSpec, ModelMessage

ADD = FunctionSpec(name="sums_add", parameters={"type": "object"})


class Careful(Runner):
    """Asks before its first calls, and keeps what it knows itself."""

    capabilities = {"continuation"}
    permissions = {"models": ["invoke"], "tools": ["call"]}
    config = [{"name": "model", "type": "llm-model-selector"}]

    async def run(self, ctx):
        if ctx.continuation is None:
            messages = [ModelMessage(role="user", content=ctx.input.text)]
            reply = await ctx.models.invoke(ctx.config["model"], messages, [ADD])
            pending = [
                {"tool_name": "sums.add", "arguments": msgspec.json.decode(call.function.arguments),
                 "kind": "approval", "title": "Add?"}
                for call in reply.message.tool_calls
            ]
            yield paused(pending, state={"messages": msgspec.to_builtins([*messages, reply.message])})
            return
        messages = msgspec.convert(ctx.continuation.state["messages"], list[ModelMessage])
        while messages[-1].tool_calls:
            for call in messages[-1].tool_calls[:]:
                result = await ctx.tools.call("sums.add", msgspec.json.decode(call.function.arguments))
                messages.append(ModelMessage(role="tool", content=str(result), tool_call_id=call.id))
            messages.append((await ctx.models.invoke(ctx.config["model"], messages, [ADD])).message)
        yield message(messages[-1].content)
'''
POLICY: dict[str, Any] = {"allowed_tool_names": ["sums.*"]}
LOOK_SECONDS = 0.02
HIDDEN = ("Two sums", "thought_signature", "EjQK", "EqoB", "ErcB", "gAAAA", "reasoning", "provider_data")


def sums(folder: Path) -> Path:
    """A plugin with a tool that adds, and a runner that pauses by itself."""
    found = folder / "sums"
    found.mkdir()
    (found / "sums.py").write_text(SUMS)
    (found / "careful.py").write_text(CAREFUL)
    (found / "hostler.yaml").write_text(
        "plugin: {author: test, name: sums, version: 1.0.0}\n"
        'runners: [{name: careful, entry: "careful:Careful"}]\ntools: ["sums:add"]\n'
    )
    return found


async def until_over(served: Served, run_id: str) -> dict[str, Any]:
    """Approve whatever is asked, until the run has ended."""
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            found: dict[str, Any] = (await served.client.get(f"/v1/runs/{run_id}")).json()
            if found["status"] in ("completed", "failed", "cancelled", "timeout"):
                return found
            await approve(served, run_id)
            await asyncio.sleep(LOOK_SECONDS)


async def approve(served: Served, run_id: str) -> None:
    listed = (await served.client.get(f"/v1/pauses?run_id={run_id}&status=open")).json()
    for pause in listed["items"]:
        actions = [
            {"call_id": call["call_id"], "type": "approve", "args_hash": call["args_hash"]}
            for call in pause["calls"]
        ]
        body = {"revision": pause["revision"], "actions": actions}
        decided = await served.client.post(f"/v1/pauses/{pause['id']}/actions", json=body)
        assert decided.status_code == 202, decided.text


async def until_paused(served: Served, run_id: str) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while (await served.client.get(f"/v1/runs/{run_id}")).json()["status"] != "paused":
            await asyncio.sleep(LOOK_SECONDS)


async def sent(served: Served, text: str, agent: str) -> str:
    """Send a message; the run that takes it."""
    body = {"event_type": "message.received", "agent": agent, "input": {"text": text}, "conversation_id": "c"}
    answer = await served.client.post("/v1/events", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["run"]["run_id"])


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
async def test_it_outlives_a_pause_and_another_host(tmp_path: Path, service: Service) -> None:
    asking = POLICY | {"tool_approval": {"sums.add": "required"}}
    options: dict[str, Any] = {"plugins": [sums(tmp_path)], "policy": asking, "hold_seconds": 0.1}
    async with ModelServer(api_key="k") as server:
        server.always(of(calling(service, "sums_add")))
        async with hosting(tmp_path / "data", server, **options) as served:
            run_id = await sent(served, "sums", "chat")
            await until_paused(served, run_id)
        async with hosting(tmp_path / "data", server, **options) as served:
            found = await until_over(served, run_id)
            assert (found["status"], found["output"]["text"]) == ("completed", FINAL), found
            assert len(server.requests) == 3


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
async def test_it_outlives_the_death_of_its_agent(tmp_path: Path, service: Service) -> None:
    """The first answers come out of the journal, the last one is asked for again."""
    answer = of(calling(service, "sums_add"))
    stuck = Gate()

    def first_stuck(request: Recorded) -> str | Answer:
        given = answer(request)
        is_last = given == FINAL and len(server_.requests) == 3
        return Answer(pieces=["It ", stuck, "never"]) if is_last else given

    server_: ModelServer
    async with ModelServer(api_key="k") as server_:
        server_.always(first_stuck)
        found: list[Event] = []
        options: dict[str, Any] = {"plugins": [sums(tmp_path)], "policy": POLICY}
        async with (
            hosting(tmp_path / "data", server_, **options) as served,
            streamed(served, "sums") as events,
        ):
            async for event in events:
                found.append(event)
                if event.type == "message.delta" and '"It "' in event.data and len(server_.requests) == 3:
                    name = quote("hostler/local-agent", safe="")
                    status = (await served.client.get(f"/v1/plugins/{name}")).json()
                    os.kill(status["pid"], signal.SIGKILL)
            ended = await record(served, found)
            assert (ended["status"], ended["attempt"]) == ("completed", 2), ended
            assert ended["output"]["text"] == FINAL
            assert len(server_.requests) == 4
            assert server_.requests[2].json["messages"] == server_.requests[3].json["messages"]


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
async def test_a_runner_that_pauses_by_itself_keeps_it_in_its_state(tmp_path: Path, service: Service) -> None:
    options: dict[str, Any] = {"plugins": [sums(tmp_path)]}
    async with ModelServer(api_key="k") as server:
        server.always(of(calling(service, "sums_add")))
        async with hosting(tmp_path / "data", server, **options) as served:
            spec = {
                "name": "careful",
                "runner": "plugin:test/sums/careful",
                "config": {"model": "main"},
                "resource_policy": POLICY,
            }
            await served.host.apply(ConfigFile(agents=[convert(spec, AgentSpec, "careful")]), actor="t")
            found = await until_over(served, await sent(served, "sums", "careful"))
            assert (found["status"], found["output"]["text"]) == ("completed", FINAL), found


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
async def test_people_see_none_of_it_and_the_next_turn_does_not_repeat_it(
    tmp_path: Path, service: Service
) -> None:
    options: dict[str, Any] = {"plugins": [sums(tmp_path)], "policy": POLICY}
    async with ModelServer(api_key="k") as server, hosting(tmp_path, server, **options) as served:
        server.always(of(calling(service, "sums_add")))
        shown = "".join(event.data for event in await ask(served, "sums"))
        assert FINAL in shown
        history = (await served.client.get("/v1/conversations/c/history")).text
        assert json.loads(history)["items"][0]["content_json"]["content"] == FINAL
        for hidden in HIDDEN:
            assert hidden not in shown
            assert hidden not in history
        found = await served.client.get("/v1/conversations/c/search?q=sums")
        assert [item["content"] for item in found.json()["items"]] == ["sums"]
        server.always("You are welcome.")
        await ask(served, "thanks")
        repeated = server.requests[-1].json["messages"][1:]
        assert repeated == [
            {"role": "user", "content": "sums"},
            {"role": "assistant", "content": FINAL},
            {"role": "user", "content": "thanks"},
        ]
