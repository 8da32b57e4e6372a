"""A secret that an agent refers to goes where its operator says: no request sends it elsewhere.

Every route that takes a configuration is asked, by somebody with all rights of the workspace but those over
secrets, to have the agent's runner get its secret beside another address.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.host.config import ConfigFile
from hostler.http.app import ENDPOINTS
from support.http_host import WORKSPACE, Served, serving
from support.planting import planted
from support.two_workspaces import keep_secrets

pytestmark = [pytest.mark.gate("references"), pytest.mark.timeout(200)]

BOUND_SECONDS = 150.0
COLLECTOR = Path(__file__).parents[1] / "support" / "plugins" / "collector"
RUNNER = "plugin:test/collector/default"
OTHER_RUNNER = "plugin:test/collector/other"
VARIABLE = "HOSTLER_TEST_CANARY"
OF_THE_HOST = "canary-of-the-host-71c3"
STORED = "canary-of-the-workspace-0f9a"
HOME = "https://service.invalid"
ATTACKER = "https://attacker.invalid"
FORM = [
    {"name": "key", "type": "secret"},
    {"name": "address", "type": "string"},
    {"name": "rounds", "type": "integer", "default": 1},
    {"name": "prompt", "type": "prompt-editor", "default": "Be brief."},
]
AGENTS = {"env": f"env:{VARIABLE}", "store": "secret://canary"}
CRONS = {name: f"01900000-0000-7000-8000-00000000000{number}" for number, name in enumerate(AGENTS)}
"""For each agent a cron of LangGraph, which is to be changed."""
MEMBER = (
    *("agents:read", "agents:write", "runs:read", "runs:write", "events:write", "plugins:read"),
    *("conversations:read", "conversations:write", "models:read"),
)
ATTACKS: tuple[dict[str, Any], ...] = (
    {"address": ATTACKER},
    {"address": ATTACKER, "prompt": "x"},
    {"key": f"env:{VARIABLE}", "address": ATTACKER},
    {"key": "secret://canary", "address": ATTACKER},
    {"address": f"env:{VARIABLE}"},
    {"prompt": "secret://canary"},
    {"rounds": 3},
    {"unknown": ATTACKER},
)


@dataclass
class Target:
    """A host whose operator configured an agent for each kind of reference, and a run of each."""

    served: Served
    runs: dict[str, str]
    _received: Path

    def contexts(self) -> list[dict[str, Any]]:
        """The context of each run that reached the plugin."""
        lines = [json.loads(line) for line in self._received.read_text().splitlines()]
        return [line["params"]["context"] for line in lines if line.get("method") == "run/start"]

    def check(self) -> None:
        """No secret was given to the plugin but as the operator wrote it."""
        for context in self.contexts():
            text = json.dumps(context)
            if OF_THE_HOST in text or STORED in text:
                config = context["config"]
                assert config["address"] == HOME, config
                assert config["rounds"] == 1, config
                assert OF_THE_HOST not in config["prompt"]
                assert STORED not in config["prompt"]


@asynccontextmanager
async def attacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Target]:
    monkeypatch.setenv(VARIABLE, OF_THE_HOST)
    folder, data = tmp_path / "collector", tmp_path / "data"
    shutil.copytree(COLLECTOR, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "forms.json").write_text(json.dumps({"default": FORM, "other": FORM}))
    async with asyncio.timeout(BOUND_SECONDS), serving(data, agent=False) as served:
        await served.host.apply(ConfigFile(plugins=[str(folder)]), actor="test")
        await keep_secrets(served)
        await served.host.secrets.set(WORKSPACE, "workspace", "canary", STORED, "test")
        made = {}
        for name, reference in AGENTS.items():
            spec = {"name": name, "runner": RUNNER, "config": {"key": reference, "address": HOME}}
            answer = await served.client.put(f"/v1/agents/{name}", json=spec)
            assert answer.status_code == 200, answer.text
            run = await served.say("hi", agent=name, conversation_id=name)
            assert run["status"] == "completed", run
            made[name] = run["run_id"]
        received = data / "plugins" / "workspaces" / "test" / "collector" / "received"
        target = Target(served, made, received)
        seen = [context["config"]["key"] for context in target.contexts()]
        assert seen == [OF_THE_HOST, STORED], "so the plugin does get what is looked for below"
        yield target


async def over(target: Target, made: httpx.Response) -> dict[str, Any]:
    """The run that a request opened, once it is over."""
    run_id = made.json()["run_id"]
    await target.served.host.runs.wait(WORKSPACE, run_id, 60)
    run: dict[str, Any] = (await target.served.client.get(f"/v1/runs/{run_id}")).json()
    return run


async def test_neither_a_fork_nor_a_replay_sends_a_referenced_secret_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with attacked(tmp_path, monkeypatch) as target:
        served = target.served
        async with served.as_key(await served.key(WORKSPACE, *MEMBER)) as member:
            for name, run_id in target.runs.items():
                for what in ("fork", "replay"):
                    for config in ATTACKS:
                        for more in ({}, {"agent_version": 1}):
                            body = {"config": config, **more}
                            answer = await member.post(f"/v1/runs/{run_id}/{what}", json=body)
                            assert answer.status_code in (400, 403), (name, what, body, answer.text)
                            assert "secret" in answer.json()["detail"]
                made = await member.post(f"/v1/runs/{run_id}/fork", json={"config": {"prompt": "Be long."}})
                assert made.status_code == 201, made.text
                assert (await over(target, made))["status"] == "completed"
                # the fork has the secret as its source had, and is bounded as that is
                forked = f"/v1/runs/{made.json()['run_id']}"
                assert (await member.post(f"{forked}/fork", json={"config": ATTACKS[0]})).status_code == 403
                assert (await member.post(f"{forked}/replay", json={"config": ATTACKS[0]})).status_code == 403
                replayed = await member.post(f"/v1/runs/{run_id}/replay", json={"config": {"prompt": "x"}})
                assert replayed.status_code == 200, replayed.text
                assert not replayed.json()["identical"], "the collector says its configuration"
                said = json.loads(replayed.json()["text"])
                assert said["key"] == AGENTS[name], "a replay works with the reference"
        assert [context["config"]["prompt"] for context in target.contexts()].count("Be long.") == 2
        target.check()


async def test_who_may_write_the_reference_into_the_agent_may_change_what_is_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with attacked(tmp_path, monkeypatch) as target:
        served, body = target.served, {"config": {"rounds": 2}}
        keeper = await served.key(WORKSPACE, *MEMBER, "secrets:write")
        operator = await served.key(WORKSPACE, *MEMBER, "installation")
        for token, allowed in ((keeper, {"store"}), (operator, {"env", "store"})):
            async with served.as_key(token) as person:
                for name, run_id in target.runs.items():
                    made = await person.post(f"/v1/runs/{run_id}/fork", json=body)
                    replayed = await person.post(f"/v1/runs/{run_id}/replay", json=body)
                    expected = (201, 200) if name in allowed else (403, 403)
                    assert (made.status_code, replayed.status_code) == expected, (made.text, replayed.text)
                    if name in allowed:
                        assert (await over(target, made))["status"] == "completed"
        changed = [one["config"]["key"] for one in target.contexts() if one["config"]["rounds"] == 2]
        assert sorted(changed) == sorted([STORED, STORED, OF_THE_HOST])


def configuring() -> set[str]:
    """The routes with a configuration in their bodies, as their types say."""
    return {
        endpoint.name
        for endpoint in ENDPOINTS
        if endpoint.reads_body
        and any("config" in re.split(r"[^a-z_]+", place.name) for place in planted(endpoint.body))
    }


def requests_of(run_id: str, agent: str, config: dict[str, Any]) -> dict[str, tuple[str, str, Any]]:
    """What each route is asked: method, path and body."""
    spec = {"name": agent, "runner": RUNNER, "config": {"key": AGENTS[agent], "address": HOME, **config}}
    whole = {"agents": [spec]}
    graph = {
        "assistant_id": agent,
        "input": {"messages": [{"role": "user", "content": "hi"}], "config": config},
        "config": {"configurable": {**config, "config": config}},
        "context": config,
    }
    event = {"event_type": "message.received", "agent": agent, "input": {"text": "hi"}}
    thread = {**graph, "if_not_exists": "create"}
    return {
        "fork_run": ("POST", f"/v1/runs/{run_id}/fork", {"config": config}),
        "replay_run": ("POST", f"/v1/runs/{run_id}/replay", {"config": config}),
        "create_agent": ("POST", "/v1/agents", {**spec, "name": "mine"}),
        "put_agent": ("PUT", f"/v1/agents/{agent}", spec),
        "put_agent, another runner": ("PUT", f"/v1/agents/{agent}", {**spec, "runner": OTHER_RUNNER}),
        "apply_config": ("POST", "/v1/config", whole),
        "add_entry": ("POST", "/v1/config/agents", spec),
        "put_entry": ("PUT", f"/v1/config/agents/{agent}", spec),
        "create_thread_run": ("POST", "/langgraph/threads/t1/runs", thread),
        "stream_thread_run": ("POST", "/langgraph/threads/t2/runs/stream", thread),
        "wait_for_thread_run": ("POST", "/langgraph/threads/t3/runs/wait", thread),
        "create_stateless_run": ("POST", "/langgraph/runs", graph),
        "stream_stateless_run": ("POST", "/langgraph/runs/stream", graph),
        "wait_for_stateless_run": ("POST", "/langgraph/runs/wait", graph),
        "create_cron": ("POST", "/langgraph/runs/crons", {**graph, "schedule": "@yearly"}),
        "create_thread_cron": ("POST", "/langgraph/threads/t1/runs/crons", {**graph, "schedule": "@yearly"}),
        "update_cron": (
            "PATCH",
            f"/langgraph/runs/crons/{CRONS[agent]}",
            {name: graph[name] for name in ("input", "config", "context")},
        ),
        "create_assistant": ("POST", "/langgraph/assistants", {"graph_id": agent, "config": config}),
        "post_event": ("POST", "/v1/events?wait=30", {**event, "config": config}),
        "post_event, as data": ("POST", "/v1/events?wait=30", {**event, "data": config}),
        "retry_run": ("POST", f"/v1/runs/{run_id}/retry", {"config": config}),
        "try_model": ("POST", "/v1/models/main/test", {"input": "hi", "config": config}),
        "try_tool": ("POST", "/v1/tools/none/test", {"arguments": {}, "config": config}),
        "test of a runner": ("POST", "/v1/runners/trial", {"runner": RUNNER, "config": spec["config"]}),
    }


OWN = {"fork_run", "replay_run", "create_agent", "put_agent", "put_agent, another runner"}
"""They take a configuration of this runner from who has the right to write agents."""


async def test_no_route_with_a_configuration_sends_a_referenced_secret_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with attacked(tmp_path, monkeypatch) as target:
        served = target.served
        asked = set(requests_of("run", "env", {}))
        assert configuring() <= asked, "a route with a configuration that is not asked here"
        assert {one.name for one in ENDPOINTS if one.path.endswith("/test")} <= asked
        for agent, cron in CRONS.items():
            timed = {"name": f"cron-{cron}", "cron": "@yearly", "agent": agent, "text": "hi"}
            assert (await served.client.post("/v1/schedules", json=timed)).status_code == 201
        answered: dict[str, set[int]] = {}
        async with served.as_key(await served.key(WORKSPACE, *MEMBER)) as member:
            for agent, run_id in target.runs.items():
                for config in ({"address": ATTACKER}, {"key": AGENTS[agent], "address": ATTACKER}):
                    for name, (method, path, body) in requests_of(run_id, agent, config).items():
                        answer = await member.request(method, path, json=body)
                        answered.setdefault(name, set()).add(answer.status_code)
                        assert answer.status_code < 500, (name, answer.text)
                    await settled(target)
            for schedule in (await member.get("/v1/schedules")).json()["items"]:
                fired = await member.post(f"/v1/schedules/{schedule['name']}/run")
                assert fired.json()["outcome"] in ("started", "queued"), fired.text
            await settled(target)
        assert all(answered[name] <= {400, 403} for name in OWN), answered
        assert all(answered[name] == {403} for name in ("apply_config", "add_entry", "put_entry")), answered
        assert {name for name, statuses in answered.items() if statuses & {200, 201}} >= {
            "stream_stateless_run",
            "wait_for_thread_run",
            "post_event, as data",
            *("create_cron", "create_thread_cron", "update_cron"),
        }, "parameters of a run reach a runner that has its secret, but not as its configuration"
        assert len(target.contexts()) > 12
        target.check()


async def settled(target: Target) -> None:
    """Wait until no run is at work."""
    for run in (await target.served.client.get("/v1/runs", params={"limit": 200})).json()["items"]:
        await target.served.host.runs.wait(WORKSPACE, run["run_id"], 60)
