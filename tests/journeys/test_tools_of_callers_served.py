"""Tools of the caller with killed hosts, local-agent, the run's own MCP server, and over HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import ResourcePolicy
from support.agent_host import hosting
from support.agent_host import shop as copied_shop
from support.caller_tools import CALL, PLAIN, SCREEN, given
from support.http_host import Served
from support.http_host import serving as http_serving
from support.http_runs import ended, pause_of
from support.lending import client_of, lending
from support.model_answers import wishes
from support.model_server import ModelServer
from support.server_process import HostProcess, config_file, serving
from support.shop import ALLOWED, PLACE
from support.stepping import STEPPER
from support.wire_client import ask


@pytest.mark.timeout(240)
async def test_they_outlive_a_host_that_is_killed(tmp_path: Path, database_url: str) -> None:
    agent = {"name": "main", "runner": "plugin:test/stepper/resumable"}
    config = config_file(tmp_path / "config.yaml", plugins=[STEPPER], agents=[agent])
    url = database_url if database_url.startswith("postgres") else None
    body = {"event_type": "message.received", "agent": "main", **PLACE}
    async with serving(HostProcess(tmp_path / "host", config, url)) as host:
        steps = [["deltas", 1, "a"], CALL, ["tell"]]
        answer = await ask(host.url, "POST", "/v1/events", {**body, "input": given(steps, SCREEN)})
        run_id = answer.json()["run"]["run_id"]
        for _ in range(2):
            pause = await open_pause(host, run_id)
            host.kill()
            await host.start()
        (call,) = pause["calls"]
        assert call["args_schema"] == SCREEN["parameters"]
        wrong = {"call_id": call["call_id"], "type": "approve", "args_hash": call["args_hash"]}
        right = {"call_id": call["call_id"], "type": "result", "result": {"width": 1}}
        path = f"/v1/pauses/{pause['id']}/actions"
        refused = await ask(host.url, "POST", path, {"revision": 1, "actions": [wrong]})
        assert refused.status == 422, refused
        done = await ask(host.url, "POST", path, {"revision": 1, "actions": [right]})
        assert done.status == 202, done
        async with host.client() as client:
            record = await ended(client, run_id)
        assert record["status"] == "completed", record
        assert json.loads(record["output"]["text"]) == [{"result": {"width": 1}}]


async def open_pause(host: HostProcess, run_id: str) -> dict[str, Any]:
    async with host.client() as client:
        return await pause_of(client, run_id)


@pytest.mark.parametrize("restart", [False, True], ids=["held", "restarted"])
async def test_a_model_of_local_agent_calls_them(tmp_path: Path, restart: bool) -> None:
    """Several calls of one answer, one of them of the agent's own tool, are one pause of the others."""
    options: dict[str, Any] = {"plugins": [copied_shop(tmp_path)], "policy": ALLOWED}
    asked = wishes(
        ("s", "screen_size", {"unit": "px"}),
        ("p", "shop_prices", {"kind": "suite"}),
        ("f", "pick-file", {"kind": "png"}),
    )
    async with ModelServer(api_key="k") as server:
        server.add(asked)
        server.say("It fits.")
        async with hosting(tmp_path / "data", server, **options, hold_seconds=0.5) as served:
            body = {"event_type": "message.received", "conversation_id": "c"}
            body["input"] = {"text": "does it fit?", "tools": [SCREEN, PLAIN]}  # type: ignore[assignment]
            answer = await served.client.post("/v1/events", json=body)
            run_id = answer.json()["run"]["run_id"]
            pause = await pause_of(served.client, run_id)
            if not restart:
                await act(served, pause)
                record = await ended(served.client, run_id)
                results = await results_of(served, run_id)
        if restart:
            async with hosting(tmp_path / "data", server, **options, hold_seconds=0.5) as served:
                await act(served, pause)
                record = await ended(served.client, run_id)
                results = await results_of(served, run_id)
        assert (record["status"], record["output"]["text"]) == ("completed", "It fits."), record
        first, second = (request.json for request in server.requests)
        offered = {tool["function"]["name"]: tool["function"] for tool in first["tools"]}
        assert {"screen_size", "pick-file", "shop_prices"} <= set(offered)
        assert offered["screen_size"]["description"] == SCREEN["description"]
        assert offered["screen_size"]["parameters"]["properties"] == SCREEN["parameters"]["properties"]
        told = {one["tool_call_id"]: one["content"] for one in second["messages"] if one["role"] == "tool"}
        assert list(told) == ["s", "p", "f"]
        assert json.loads(told["s"]) == {"width": 800}
        assert "no file" in told["f"]
        # what a dialect needs to show the calls, and to name them by the model's own ids
        shown = {one["tool_call_id"]: one for one in results if one["type"] == "interaction.requested"}
        assert {id_: (one["tool_name"], one["arguments"]) for id_, one in shown.items()} == {
            "s": ("screen_size", {"unit": "px"}),
            "f": ("pick-file", {"kind": "png"}),
        }
        begun = {one["tool_call_id"]: one for one in results if one["type"] == "tool.call.started"}
        assert begun["p"]["parameters"] == {"kind": "suite"}
        assert set(begun) == {"s", "p", "f"}


async def results_of(served: Served, run_id: str) -> list[dict[str, Any]]:
    items = (await served.client.get(f"/v1/runs/{run_id}/journal", params={"limit": 100})).json()["items"]
    return [{**one["data"], "type": one["type"]} for one in items if one["kind"] == "result"]


async def act(served: Served, pause: dict[str, Any]) -> None:
    """Answer both calls, by the ids that the model gave them."""
    assert {call["tool"] for call in pause["calls"]} == {"screen_size", "pick-file"}
    actions = [
        {"call_id": "s", "result": {"width": 800}},
        {"call_id": "f", "result": {"error": "no file"}},
    ]
    answer = await served.client.post(
        "/v1/pauses/actions", json={"conversation_id": "c", "tool_actions": actions}
    )
    assert answer.status_code == 202, answer.text


async def test_a_service_of_the_run_is_shown_them(tmp_path: Path) -> None:
    async with asyncio.timeout(100), lending(tmp_path) as made:
        body = {"event_type": "message.received", "agent": "lender", "conversation_id": "c"}
        tools = [SCREEN, PLAIN]
        answer = await made.served.client.post(
            "/v1/events", json={**body, "input": {"text": str(tmp_path / "socket"), "tools": tools}}
        )
        assert answer.status_code == 202, answer.text
        lent = await made.next()
        async with client_of(lent) as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert listed["screen_size"].input_schema == SCREEN["parameters"]
            assert "pick-file" in listed
            call = asyncio.create_task(client.call_tool("screen_size", {"unit": "px"}))
            pause = await pause_of(made.served.client, lent.run_id)
            action = {"call_id": pause["calls"][0]["call_id"], "type": "result", "result": {"width": 7}}
            await made.served.client.post(
                f"/v1/pauses/{pause['id']}/actions",
                json={"revision": pause["revision"], "actions": [action]},
            )
            assert (await call).structured_content == {"width": 7}
        lent.end()
        await made.over(lent.run_id)


async def test_over_http_a_refusal_is_a_problem_document(tmp_path: Path) -> None:
    async with http_serving(tmp_path, agent=False) as served:
        await served.agent(resource_policy=ResourcePolicy(allow_client_tools=False))
        body = {"event_type": "message.received", "agent": "puppet"}
        for tools, status, words in (
            ([SCREEN], 403, "allow_client_tools is false"),
            ([{"name": "no name"}], 400, "input.tools[0].name 'no name'"),
            ([{"name": f"t{n}"} for n in range(129)], 413, "at most 128"),
            ([{"name": "a", "type": "function"}], 400, "unknown key 'type'"),
        ):
            answer = await served.client.post(
                "/v1/events", json={**body, "input": {"text": "hi", "tools": tools}}
            )
            assert (answer.status_code, words in answer.text) == (status, True), answer.text
