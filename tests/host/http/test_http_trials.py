"""Tests of models and tools over HTTP: runs as any other, of what the person names and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from hostler.domain.allowances import WorkspaceEntry
from hostler.domain.budget_limits import WorkspaceBudget
from hostler.domain.model_entries import ModelEntry, Price
from hostler.domain.tool_entries import ToolEntry
from hostler.host.config import ConfigFile
from support.gates import Gate
from support.http_host import WORKSPACE, Served, serving
from support.mcp_bench import BOUND_SECONDS, over_stdio
from support.model_server import ModelServer

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def models() -> AsyncIterator[ModelServer]:
    async with ModelServer() as made:
        yield made


@pytest.fixture
async def served(tmp_path: Path, models: ModelServer) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data", agent=False) as made:
        address = f"{models.base_url}"
        entries = [
            ModelEntry(id="main", base_url=address, price=Price(input=1.0, output=2.0), max_retries=0),
            ModelEntry(id="vectors", base_url=address, type="embedding", max_retries=0),
            ModelEntry(id="order", base_url=address, type="rerank", max_retries=0),
        ]
        tools = [ToolEntry(mcp=over_stdio(tmp_path / "server", allow=["say", "fail", "change"]))]
        await made.host.apply(ConfigFile(models=entries, tools=tools), actor="test")
        await made.host.mcp.wait_for_lists(BOUND_SECONDS)
        yield made


def vectors(vector: list[float]) -> bytes:
    """The answer of an embedding service."""
    found = {"data": [{"index": 0, "embedding": vector}], "usage": {"prompt_tokens": 3}}
    return json.dumps(found).encode()


async def ended(client: httpx.AsyncClient, answer: httpx.Response) -> dict[str, Any]:
    """The run of a test, once it is over or waits."""
    assert answer.status_code == 201, answer.text
    place = f"/v1/runs/{answer.json()['run_id']}"
    assert answer.headers.get("location", place) == place
    async with asyncio.timeout(60):
        while True:
            run: dict[str, Any] = (await client.get(place)).json()
            if run["status"] in ("completed", "failed", "paused", "cancelled"):
                return run
            await asyncio.sleep(0.05)


async def test_a_model_is_asked_by_a_run_that_is_counted_and_audited(
    served: Served, models: ModelServer
) -> None:
    models.say("Lamp.")
    run = await ended(
        served.client, await served.client.post("/v1/models/main/test", json={"input": "a word?"})
    )
    assert (run["status"], run["output"]["text"], run["agent"]) == ("completed", "Lamp.", "test: main")
    assert run["usage"]["input_tokens"] > 0
    assert run["cost"] > 0
    assert models.requests[-1].json["messages"] == [{"role": "user", "content": "a word?"}]
    assert "tools" not in models.requests[-1].json
    (fact,) = [
        one
        for one in (await served.client.get("/v1/audit")).json()["items"]
        if one["action"] == "model.tested"
    ]
    assert (fact["actor"], fact["target"], fact["body"]["run_id"]) == ("admin", "main", run["run_id"])
    models.say("Door.")
    again = await ended(served.client, await served.client.post(f"/v1/runs/{run['run_id']}/retry", json={}))
    assert (again["output"]["text"], again["retry_of"]) == ("Door.", run["run_id"])
    names = [one["name"] for one in (await served.client.get("/v1/agents")).json()["items"]]
    assert names == []


async def test_models_of_other_types_are_asked_what_they_can(served: Served, models: ModelServer) -> None:
    models.raw(vectors([0.5] * 12))
    found = await ended(
        served.client, await served.client.post("/v1/models/vectors/test", json={"input": "lamp"})
    )
    assert found["output"]["text"].startswith("12 numbers: [0.5, 0.5")
    nothing = await served.client.post("/v1/models/order/test", json={"input": "lamp"})
    assert (nothing.status_code, nothing.json()["code"]) == (400, "invalid_argument")
    ranked = [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]
    models.raw(json.dumps({"results": ranked}).encode())
    body = {"input": "lamp", "documents": ["a door", "a light"]}
    found = await ended(served.client, await served.client.post("/v1/models/order/test", json=body))
    assert found["output"]["text"] == "0.9000  a light\n0.1000  a door"


async def test_a_model_that_fails_says_why(served: Served, models: ModelServer) -> None:
    models.fail(401, "wrong key")
    run = await ended(served.client, await served.client.post("/v1/models/main/test", json={"input": "x"}))
    assert run["status"] == "failed"
    assert "wrong key" in (await served.client.get(f"/v1/runs/{run['run_id']}/journal")).text


async def test_a_tool_is_called_once_with_checked_arguments(served: Served) -> None:
    run = await ended(
        served.client, await served.client.post("/v1/tools/s.say/test", json={"arguments": {"text": "hello"}})
    )
    assert run["status"] == "completed", run
    assert "hello" in run["output"]["text"]
    wrong = await ended(
        served.client, await served.client.post("/v1/tools/s.say/test", json={"arguments": {"nothing": 1}})
    )
    assert wrong["status"] == "failed"
    unknown = await served.client.post("/v1/tools/s.none/test", json={"arguments": {}})
    assert unknown.status_code == 404
    actions = [one["action"] for one in (await served.client.get("/v1/audit")).json()["items"]]
    assert actions.count("tool.tested") == 2


async def test_an_approval_is_waited_for_and_a_skill_is_read(served: Served, tmp_path: Path) -> None:
    folder = tmp_path / "skills" / "brewing"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: brewing\ndescription: Tea.\n---\nBoil \U0001f375 water.\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\xff\x00")
    entry = over_stdio(tmp_path / "other", allow=["say"], approval={"*": "required"})
    entry = msgspec.structs.replace(entry, name="held")
    config = ConfigFile(tools=[ToolEntry(mcp=entry)], skills=[str(tmp_path / "skills")])
    await served.host.apply(config, actor="test")
    await served.host.mcp.wait_for_lists(BOUND_SECONDS)
    client = served.client
    made = (await client.post("/v1/tools/held.say/test", json={"arguments": {"text": "hello"}})).json()
    async with asyncio.timeout(60):
        while not (found := (await client.get(f"/v1/pauses?run_id={made['run_id']}")).json()["items"]):
            await asyncio.sleep(0.05)
    assert "held.say" in json.dumps(found[0])
    assert (await client.post(f"/v1/runs/{made['run_id']}/cancel", json={})).status_code in (200, 202)
    read = await ended(client, await client.post("/v1/tools/skill.brewing/test", json={}))
    assert "Boil" in read["output"]["text"]
    text = (await client.get("/v1/skills/brewing/file")).json()
    assert (text["path"], text["truncated"]) == ("SKILL.md", False)
    assert text["text"].endswith("Boil \U0001f375 water.\n")
    picture = (await client.get("/v1/skills/brewing/file?path=picture.png")).json()
    assert (picture["text"], picture["size_bytes"]) == (None, 6)
    for path in ("../other", "/etc/passwd", "none.md"):
        assert (await client.get("/v1/skills/brewing/file", params={"path": path})).status_code == 404, path
    (folder / "long.md").write_text("é" * 400_000)
    long = (await client.get("/v1/skills/brewing/file?path=long.md")).json()
    assert long["truncated"] is True
    assert len(long["text"].encode()) <= 512 * 1024
    assert (await client.post("/v1/tools/skill.brewing/test", json={})).status_code == 409  # it changed


async def test_who_may_test_and_what(served: Served, models: ModelServer) -> None:
    body = {"input": "x"}
    for rights in (["models:read", "plugins:read", "events:write"], ["agents:write", "models:read"]):
        async with served.as_key(await served.key(WORKSPACE, *rights)) as client:
            for path in ("/v1/models/main/test", "/v1/tools/s.say/test"):
                refused = await client.post(path, json=body if "models" in path else {})
                assert refused.status_code == 403, (rights, path)
            assert (await client.post("/v1/mcp-servers/s/reconnect")).status_code == 403
    entry = WorkspaceEntry(name="small", models=["vectors"], plugins=[], tools=[])
    await served.host.apply(ConfigFile(workspaces=[entry]), actor="test")
    async with served.as_key(await served.key("small")) as client:
        assert (await client.post("/v1/models/main/test", json=body)).status_code == 404
        assert (await client.post("/v1/tools/s.say/test", json={})).status_code == 404
        models.raw(vectors([1.0]))
        found = await ended(client, await client.post("/v1/models/vectors/test", json=body))
        assert found["output"]["text"] == "1 numbers: [1]"
        again = await client.post(f"/v1/runs/{found['run_id']}/replay", json={})
        assert again.status_code == 200, "its runner is the host's own, for every workspace"
        assert again.json()["identical"]
    async with served.as_key(
        await served.key(WORKSPACE, "agents:write", "events:write", "runs:read")
    ) as client:
        models.say("Yes.")
        assert (await ended(client, await client.post("/v1/models/main/test", json=body)))[
            "status"
        ] == "completed"
    assert len(models.requests) == 2


async def test_a_server_is_connected_anew_when_somebody_asks(served: Served) -> None:
    client = served.client
    (before,) = (await client.get("/v1/mcp-servers")).json()["items"]
    assert before["restarts"] == 0
    assert (await client.post("/v1/mcp-servers/none/reconnect")).status_code == 404
    assert (await client.post("/v1/mcp-servers/s/reconnect")).status_code == 200
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            (now,) = (await client.get("/v1/mcp-servers")).json()["items"]
            if now["restarts"] == 1 and now["state"] == "ready":
                break
            await asyncio.sleep(0.05)
    facts = (await client.get("/v1/audit")).json()["items"]
    assert [one["actor"] for one in facts if one["action"] == "mcp_server.reconnected"] == ["admin"]
    said = await ended(
        client, await client.post("/v1/tools/s.say/test", json={"arguments": {"text": "again"}})
    )
    assert "again" in said["output"]["text"]


async def test_a_test_goes_on_at_the_next_start_of_the_host(tmp_path: Path, models: ModelServer) -> None:
    held = Gate()
    models.say(["Here ", held, "never"])
    config = ConfigFile(models=[ModelEntry(id="main", base_url=models.base_url, max_retries=0)])
    async with serving(tmp_path / "data", agent=False, shutdown_grace_seconds=0.0) as served:
        await served.host.apply(config, actor="test")
        made = await served.client.post("/v1/models/main/test", json={"input": "x"})
        run = made.json()["run_id"]
        async with asyncio.timeout(60):
            while "Here" not in (await served.client.get(f"/v1/runs/{run}/journal")).text:
                await asyncio.sleep(0.05)
    models.say("Lamp.")
    # no agent names the runner, and nothing has asked for its plugin since the start
    async with serving(tmp_path / "data", agent=False) as served:
        over = await ended(served.client, made)
        assert (over["status"], over["output"]["text"], over["attempt"]) == ("completed", "Lamp.", 2)
    held.open()


async def test_a_budget_of_the_workspace_bounds_tests(served: Served, models: ModelServer) -> None:
    budget = WorkspaceBudget(max_cost_per_day=0.0000001)
    await served.host.apply(ConfigFile(workspaces=[WorkspaceEntry(name="poor", budget=budget)]), actor="test")
    async with served.as_key(await served.key("poor")) as client:
        run = await ended(client, await client.post("/v1/models/main/test", json={"input": "x" * 1000}))
        assert run["status"] == "failed"
        assert "budget" in (await client.get(f"/v1/runs/{run['run_id']}/journal")).text
    assert models.requests == []
