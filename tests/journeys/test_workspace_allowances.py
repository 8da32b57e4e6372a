"""What a workspace may use: what its agents name, are granted and run with, whoever writes them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.model_entries import ModelEntry
from hostler.domain.tool_entries import ExecEntry, ToolEntry
from hostler.host.config import ConfigFile
from hostler.storage.stores import agents, settings
from support.http_host import OTHER, WORKSPACE, Served, serving
from support.model_server import ModelServer
from support.stepping import Latch
from support.trust import trusted

pytestmark = pytest.mark.gate("allowances")

BOUND_SECONDS = 110.0
RUNNER = "plugin:test/teller/default"
WAITER = "plugin:test/teller/waiter"
MANIFEST = """
plugin: {author: test, name: teller, version: 1.0.0}
runners: [{name: default, entry: "teller:Teller"}, {name: waiter, entry: "teller:Waiter"}]
tools: ["teller:add"]
"""
TELLER = '''
"""Tells what it was given."""

import asyncio
import json
import os

from hostler_sdk import HostError, Runner, message, tool


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Teller(Runner):
    """Tells what it was given."""

    config = [{"name": "key", "type": "secret"}]
    permissions = {"models": ["invoke"], "tools": ["call"]}

    async def run(self, ctx):
        models = sorted(model.model_id for model in ctx.resources.models)
        tools = sorted(tool.tool_name for tool in ctx.resources.tools)
        yield message(json.dumps({"models": models, "tools": tools, "key": ctx.config.get("key")}))


class Waiter(Runner):
    """Waits at a socket, then tries all that it was granted; the first attempt ends its process instead."""

    capabilities = {"resumable"}
    permissions = {"models": ["invoke", "count_tokens"], "tools": ["call"]}

    async def run(self, ctx):
        if ctx.attempt == 1:
            reader, _ = await asyncio.open_unix_connection(ctx.input.text)
            await reader.read()
            if os.path.exists(ctx.input.text + ".die"):
                os._exit(9)
        told = {}
        for name, work in {
            "big": lambda: ctx.models.invoke("big", [{"role": "user", "content": "hi"}]),
            "small": lambda: ctx.models.invoke("small", [{"role": "user", "content": "hi"}]),
            "count": lambda: ctx.models.count_tokens("big", [{"role": "user", "content": "hi"}]),
            "add": lambda: ctx.tools.call("teller.add", {"a": 1, "b": 2}),
        }.items():
            try:
                told[name] = ["ok", str(await work())]
            except HostError as error:
                told[name] = [error.code, error.message]
        yield message(json.dumps(told))
'''
EVERYTHING: dict[str, Any] = {"allowed_tool_names": ["*"], "allowed_model_ids": ["small", "big"]}


class Tenant:
    """Somebody with all rights in one workspace."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def put(self, **fields: Any) -> httpx.Response:
        spec = {"name": "mine", "runner": RUNNER, **fields}
        return await self._client.put("/v1/agents/mine", json=spec)

    async def get(self, path: str) -> httpx.Response:
        return await self._client.get(path)

    async def list(self, what: str) -> list[dict[str, Any]]:
        return list((await self._client.get(f"/v1/{what}")).json()["items"])

    async def run(self, text: str = "hi") -> dict[str, Any]:
        body = {"event_type": "message.received", "input": {"text": text}, "agent": "mine"}
        answer = await self._client.post("/v1/events", json=body, params={"wait": 60})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def told(self, text: str = "hi") -> dict[str, Any]:
        """What a run of its agent was given."""
        run = await self.run(text)
        assert run["status"] == "completed", run
        return dict(json.loads(run["output"]["text"]))

    async def why(self, text: str = "hi") -> str:
        """Why a run of its agent failed."""
        run = await self.run(text)
        assert run["status"] == "failed", run
        journal = (await self._client.get(f"/v1/runs/{run['run_id']}/journal")).json()["items"]
        return str(next(e["data"]["error"] for e in journal if e["type"] == "run.failed"))


class Shared:
    """A host that several workspaces share: two models, a plugin with a tool, `exec`."""

    def __init__(self, served: Served) -> None:
        self.served = served

    async def allow(self, **lists: list[str]) -> httpx.Response:
        return await self.served.client.put(f"/v1/config/workspaces/{OTHER}", json={"name": OTHER, **lists})

    @contextlib.asynccontextmanager
    async def tenant(self, workspace: str = OTHER) -> AsyncIterator[Tenant]:
        async with self.served.as_key(await self.served.key(workspace)) as client:
            yield Tenant(client)

    async def store(self, **fields: Any) -> None:
        """Store an agent of the tenant as it may have been before the operator changed anything."""
        spec = AgentSpec(name="mine", runner=RUNNER, **fields)
        await self.served.host.db.write(lambda tx: agents.apply(tx, OTHER, spec))
        self.served.host.event_router.changed(OTHER)


@contextlib.asynccontextmanager
async def sharing(tmp_path: Path, models_at: str = "https://models.example/v1") -> AsyncIterator[Shared]:
    folder = tmp_path / "teller"
    folder.mkdir()
    (folder / "teller.py").write_text(TELLER)
    (folder / "hostler.yaml").write_text(MANIFEST)
    models = [ModelEntry(id=name, base_url=models_at, api_key="x") for name in ("small", "big")]
    config = ConfigFile(
        plugins=[trusted(folder)],
        models=models,
        tools=[ToolEntry(exec=ExecEntry())],
        agents=[AgentSpec(name="first", runner=RUNNER)],
    )
    async with asyncio.timeout(BOUND_SECONDS), serving(tmp_path / "data", agent=False) as served:
        await served.host.apply(config, actor="test")
        yield Shared(served)


async def test_nobody_else_grants_himself_the_tools_of_the_operators_machine(tmp_path: Path) -> None:
    async with sharing(tmp_path) as host, host.tenant() as tenant, host.tenant(WORKSPACE) as own:
        for policy in ({"allowed_tool_names": ["exec"]}, {"allowed_tool_names": ["exe*"]}):
            answer = await tenant.put(resource_policy=policy)
            assert answer.status_code == 400, answer.text
            assert "workspace 'other' may not use tool" in answer.text
        for agent in (tenant, own):
            assert (await agent.put(resource_policy=EVERYTHING)).status_code == 200
        assert await tenant.told() == {"models": ["big", "small"], "tools": ["teller.add"], "key": None}
        assert (await own.told())["tools"] == ["exec", "teller.add"]
        assert [one["name"] for one in await tenant.list("tools")] == ["teller.add"]
        reminders = ["schedule.create", "schedule.delete", "schedule.list"]
        assert [one["name"] for one in await own.list("tools")] == ["exec", *reminders, "teller.add"]


async def test_a_workspace_names_its_own_agents_as_those_that_its_runs_may_create(tmp_path: Path) -> None:
    async with sharing(tmp_path) as host, host.tenant() as tenant, host.tenant(WORKSPACE) as own:
        for agent, names, unknown in (
            (tenant, ["mine", "first"], ["first"]),
            (own, ["mine", "first"], []),
            (tenant, ["*", "fir*"], ["fir*"]),
        ):
            answer = await agent.put(resource_policy={"allowed_agents": names})
            assert answer.status_code == 200, answer.text
            problems = [one["problem"] for one in answer.json()["problems"]]
            assert len(problems) == len(unknown)
            assert all(repr(name) in problem for name, problem in zip(unknown, problems, strict=True))
            assert "did you mean" not in str(problems), "agents of others are no suggestions"


async def test_an_entry_says_what_agents_may_name_and_are_given(tmp_path: Path) -> None:
    async with sharing(tmp_path) as host, host.tenant() as tenant:
        assert (await tenant.put(resource_policy=EVERYTHING)).status_code == 200
        answer = await host.allow(models=["sm*"], tools=["exec"])
        assert answer.status_code == 200, answer.text
        assert await tenant.told() == {"models": ["small"], "tools": ["exec"], "key": None}
        assert [one["model_id"] for one in await tenant.list("models")] == ["small"]
        assert [one["name"] for one in await tenant.list("tools")] == ["exec"]
        answer = await tenant.put(resource_policy={"allowed_model_ids": ["big"]})
        assert answer.status_code == 400
        assert "workspace 'other' may not use model 'big'" in answer.text
        answer = await tenant.put(resource_policy={"allowed_model_ids": ["bigg"]})
        assert "'big'" not in answer.text, "names of what it may not use are not told"

        gone = await host.served.client.delete(f"/v1/config/workspaces/{OTHER}")
        assert gone.status_code == 200, gone.text
        assert (await tenant.told())["models"] == ["big", "small"]


async def test_plugins_that_may_not_be_used_are_not_shown(tmp_path: Path) -> None:
    async with sharing(tmp_path) as host, host.tenant() as tenant:
        names = [one["plugin"] for one in await tenant.list("plugins")]
        assert "test/teller" in names
        assert (await host.allow(plugins=["test/other"])).status_code == 200
        assert await tenant.list("plugins") == []
        assert await tenant.list("runners") == []
        assert (await tenant.get("/v1/plugins/test%2Fteller")).status_code == 404
        operators = (await host.served.client.get("/v1/plugins")).json()["items"]
        assert [one["plugin"] for one in operators] == names


async def test_what_is_taken_from_a_workspace_is_refused_to_its_runs_at_work(tmp_path: Path) -> None:
    """A run that waits, perhaps for days, has a grant of before: its calls are bounded by the list of now."""
    with ModelServer() as server:
        server.always("here")
        async with sharing(tmp_path, server.base_url) as host, host.tenant() as tenant:
            assert (await tenant.put(runner=WAITER, resource_policy=EVERYTHING)).status_code == 200
            async with Latch(tmp_path) as latch:
                async with asyncio.TaskGroup() as tasks:
                    run = tasks.create_task(tenant.told(latch.path))
                    await latch.reached()
                    assert (await host.allow(models=["small"], tools=["exec"])).status_code == 200
                    latch.open()
                gone = await host.served.client.delete(f"/v1/config/workspaces/{OTHER}")
                assert gone.status_code == 200, gone.text
                assert {code for code, _ in (await tenant.told(latch.path)).values()} == {"ok"}
            told = run.result()
            assert [told[name][0] for name in ("small", "big", "count")] == ["ok", "not_found", "not_found"]
            assert "workspace 'other' may not use model 'big'" in told["big"][1]
            assert told["add"][0] != "ok"
            assert "'teller.add' is gone" in told["add"][1]
            assert [request.json["model"] for request in server.requests] == ["small", "big", "small"]


async def test_a_run_does_not_go_on_with_a_runner_that_was_taken_from_its_workspace(tmp_path: Path) -> None:
    async with sharing(tmp_path) as host, host.tenant() as tenant:
        assert (await tenant.put(runner=WAITER)).status_code == 200
        async with Latch(tmp_path) as latch, asyncio.TaskGroup() as tasks:
            Path(latch.path + ".die").touch()
            run = tasks.create_task(tenant.why(latch.path))
            await latch.reached()
            assert (await host.allow(runners=[RUNNER])).status_code == 200
            latch.open()
        assert f"workspace 'other' may not use runner '{WAITER}'" in run.result()


async def test_bounds_of_the_own_workspace_are_not_those_of_others(tmp_path: Path) -> None:
    async with sharing(tmp_path) as host, host.tenant() as tenant, host.tenant(WORKSPACE) as own:
        mine = {"name": WORKSPACE, "tools": ["teller.*"], "models": ["big"]}
        answer = await host.served.client.put(f"/v1/config/workspaces/{WORKSPACE}", json=mine)
        assert answer.status_code == 200, answer.text
        assert (await host.allow(tools=["exec"])).status_code == 200
        policy = {"allowed_tool_names": ["exec"], "allowed_model_ids": ["small"]}
        assert (await tenant.put(resource_policy=policy)).status_code == 200
        assert await tenant.told() == {"models": ["small"], "tools": ["exec"], "key": None}
        answer = await own.put(resource_policy=policy)
        assert answer.status_code == 400
        assert "workspace 'default' may not use tool 'exec'" in answer.text
        assert "workspace 'default' may not use model 'small'" in answer.text
        assert (await own.put(resource_policy=EVERYTHING)).status_code == 400
        open_policy = {"allowed_tool_names": ["*"], "allowed_model_ids": ["big"]}
        assert (await own.put(resource_policy=open_policy)).status_code == 200
        assert await own.told() == {"models": ["big"], "tools": ["teller.add"], "key": None}


async def test_a_runner_that_may_not_be_used_runs_nothing(tmp_path: Path) -> None:
    async with sharing(tmp_path) as host, host.tenant() as tenant:
        assert (await tenant.put()).status_code == 200
        for lists in ({"plugins": ["acme/*"]}, {"runners": ["plugin:test/teller/other"]}):
            assert (await host.allow(**lists)).status_code == 200
            assert await tenant.list("runners") == []
            assert RUNNER in await tenant.why()
            answer = await tenant.put(priority=3)
            assert answer.status_code == 400
            assert f"workspace 'other' may not use runner '{RUNNER}'" in answer.text
        assert (await host.allow(runners=["plugin:test/*"])).status_code == 200
        assert (await tenant.told())["tools"] == []


@pytest.mark.gate("references")
async def test_references_of_a_workspace_stay_within_its_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "key").write_text("their key")
    (tmp_path / "ours").write_text("canary-of-the-host")
    monkeypatch.setenv("THEIRS_KEY", "their variable")
    monkeypatch.setenv("OURS_KEY", "canary-of-the-host")
    wrong = ["env:OURS_KEY", f"file:{tmp_path}/ours", f"file:{theirs}/../ours", "env:THEIRS"]
    async with sharing(tmp_path) as host, host.tenant() as tenant:
        assert (await host.allow(secrets=["env:THEIRS_*", f"file:{theirs}/*"])).status_code == 200
        for reference, value in (("env:THEIRS_KEY", "their variable"), (f"file:{theirs}/key", "their key")):
            answer = await tenant.put(config={"key": reference})
            assert answer.status_code == 200, answer.text
            assert (await tenant.told())["key"] == value
        answer = await tenant.put(config={"key": "env:sk-the-secret-itself"})
        assert answer.status_code == 403
        assert "sk-the-secret" not in answer.text
        for reference in wrong:
            answer = await tenant.put(config={"key": reference})
            assert answer.status_code == 403, answer.text
            assert "workspace 'other' may not use secret" in answer.json()["detail"]
            await host.store(config={"key": reference})
            assert "may not use secret" in await tenant.why()
        (theirs / "link").symlink_to(tmp_path / "ours")
        assert (await tenant.put(config={"key": f"file:{theirs}/link"})).status_code == 200
        why = await tenant.why()
        assert "a link that leads to one which this workspace may not use" in why
        assert "canary" not in why


async def test_an_entry_that_cannot_be_read_allows_nothing(tmp_path: Path) -> None:
    async with sharing(tmp_path) as host, host.tenant() as tenant:
        assert (await tenant.put()).status_code == 200
        db, configurator = host.served.host.db, host.served.host.configurator
        of_later = {"name": OTHER, "models": ["small"], "list_of_a_later_version": []}
        await db.write(lambda tx: settings.put(tx, WORKSPACE, "workspace", OTHER, of_later))
        await configurator.load()
        assert [(one.kind, one.name) for one in configurator.problems] == [("workspace", OTHER)]
        assert RUNNER in await tenant.why()
        assert await tenant.list("models") == []
        assert (await host.allow(models=["small"])).status_code == 200
        assert (await tenant.told())["models"] == []


async def test_mistakes_of_entries_are_told_at_once(tmp_path: Path) -> None:
    async with sharing(tmp_path) as host:
        answer = await host.allow(secrets=["THEIRS_KEY"], models=[""])
        assert answer.status_code == 400
        told = answer.json()["detail"]
        assert "models[0]" in told
        assert "secrets[0]" in told
        twice = {"workspaces": [{"name": "a"}, {"name": "a", "models": []}, {"name": "b", "tols": []}]}
        answer = await host.served.client.post("/v1/config", json=twice)
        assert answer.status_code == 400, answer.text
        told = answer.json()["detail"]
        assert "'a' is used twice" in told
        assert "tols" in told
        assert "tools" in told
