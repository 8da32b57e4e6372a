"""Agents over HTTP: who made a version, changes that others made meanwhile, explanations, the catalogue."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from hostler.domain.agents import AgentSpec
from hostler.domain.trials import MODEL_RUNNER, TRIAL_PLUGIN
from hostler.host.bundled import shipped_channels, shipped_runners
from hostler.host.config import ConfigFile
from hostler.host.plugin_entries import add_shipped_runner
from support.command_line import CommandLine
from support.http_host import ADMIN_KEY, PUPPET_RUNNER, Served, serving

DESK = {"name": "desk", "runner": PUPPET_RUNNER, "event_types": []}


def command_line(served: Served, folder: Path) -> CommandLine:
    return CommandLine(folder / "cli", folder, HOSTLER_URL=served.url, HOSTLER_KEY=ADMIN_KEY)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


async def test_a_change_that_another_made_meanwhile_is_not_overwritten(served: Served) -> None:
    api = served.client
    assert (await api.post("/v1/agents", json=DESK)).json()["version"] == 1
    first = await api.put("/v1/agents/desk?version=1", json={**DESK, "priority": 1})
    assert first.json()["version"] == 2
    second = await api.put("/v1/agents/desk?version=1", json={**DESK, "priority": 2})
    assert (second.status_code, second.json()["code"]) == (409, "conflict")
    assert second.json()["details"]["version"] == 2
    assert "has version 2 now" in second.json()["detail"]
    assert (await api.delete("/v1/agents/desk?version=1")).status_code == 409
    assert (await api.get("/v1/agents/desk")).json()["spec"]["priority"] == 1
    assert (await api.delete("/v1/agents/desk?version=2")).status_code == 204
    late = await api.put("/v1/agents/desk?version=2", json=DESK)
    assert (late.status_code, late.json()["details"]["version"]) == (409, None)
    assert "is deleted" in late.json()["detail"]


async def test_versions_say_who_made_them_and_when(served: Served) -> None:
    token = await served.key("default", "agents:read", "agents:write", subject="ada")
    async with served.as_key(token) as ada:
        made = (await ada.post("/v1/agents", json=DESK)).json()
    assert made["made_by"] == "ada"
    assert made["made_by_name"] is None
    changed = AgentSpec(name="desk", runner=PUPPET_RUNNER, event_types=[], priority=4)
    await served.host.apply(ConfigFile(agents=[changed]), actor="config file")
    again = (await served.client.get("/v1/agents/desk")).json()
    assert (again["version"], again["made_by"]) == (2, "config file")
    listed = (await served.client.get("/v1/agents/desk/versions")).json()["items"]
    assert [(one["version"], one["made_by"]) for one in listed] == [(2, "config file"), (1, "ada")]
    assert listed[0]["made_at"] >= listed[1]["made_at"] == made["made_at"] > 1_700_000_000
    assert (await served.client.put("/v1/agents/desk", json={**DESK, "priority": 4})).json()[
        "made_by"
    ] == "config file"


async def test_an_agent_is_written_as_export_does(served: Served, tmp_path: Path) -> None:
    await served.client.post(
        "/v1/agents", json={**DESK, "config": {"näme": "文"}, "priority": 3, "enabled": False}
    )
    got = (await served.client.get("/v1/agents/desk/entry")).json()
    assert yaml.safe_load(got["yaml"]) == {"agents": [got["entry"]]}
    assert "priority: 3" in got["yaml"]
    assert "idle_timeout" not in got["yaml"]
    exported = await asyncio.to_thread(command_line(served, tmp_path), "export")
    of_file = next(one for one in yaml.safe_load(exported.out)["agents"] if one["name"] == "desk")
    assert of_file == got["entry"]
    assert (await served.client.get("/v1/agents/none/entry")).status_code == 404


async def test_events_are_explained_and_nothing_is_stored(served: Served, tmp_path: Path) -> None:
    filtered = {**DESK, "event_types": ["message.received"], "filters": ["event.actor.actor_id == 'ada'"]}
    await served.client.post("/v1/agents", json={**filtered, "priority": 1})
    event = {"event_type": "message.received", "input": {"text": "hi"}, "actor": {"actor_id": "bob"}}
    found = (await served.client.post("/v1/events/explain", json=event)).json()
    assert (found["outcome"], found["agent"]) == ("agent", "puppet")
    assert [(one["agent"], one["why"]) for one in found["agents"]] == [
        ("puppet", "takes"),
        ("desk", "filter"),
    ]
    event["actor"] = {"actor_id": "ada"}
    assert (await served.client.post("/v1/events/explain", json=event)).json()["agent"] == "desk"
    assert (await served.client.get("/v1/events")).json()["items"] == []
    wrong = await served.client.post("/v1/events/explain", json={"event_type": "No Type", "input": {}})
    assert wrong.status_code == 400
    file = tmp_path / "event.json"
    file.write_text(json.dumps(event))
    cli = command_line(served, tmp_path)
    shown = await asyncio.to_thread(cli, "events", "explain", file)
    assert "desk takes it" in shown.out
    assert "desk has a higher priority" in shown.out
    assert (await asyncio.to_thread(cli, "events", "explain", file, "--json")).json["agent"] == "desk"
    for content, told in (("[1]", "expected an object"), ("{", "is not JSON")):
        file.write_text(content)
        refused = await asyncio.to_thread(cli, "events", "explain", file)
        assert (refused.status, told in refused.error) == (2, True), refused.err


async def test_the_catalogue_has_what_comes_with_the_host(served: Served) -> None:
    found = (await served.client.get("/v1/catalogue")).json()
    assert {one["plugin"] for one in found["runners"]} == set(shipped_runners()) - {TRIAL_PLUGIN}
    assert all(one["label"] for one in found["runners"])
    plugins = {one["channel"].rpartition("/")[0].removeprefix("plugin:") for one in found["channels"]}
    assert plugins == set(shipped_channels())
    assert all(one["label"] and one["config_schema"] is None for one in found["channels"])  # none has started
    assert [one["name"] for one in found["demo"]["agents"]] == ["guide", "echo"]
    async with served.as_key(await served.key("default", "plugins:read")) as reader:
        read = (await reader.get("/v1/catalogue")).json()
        assert (read["demo"], read["channels"]) == (None, [])
    applied = await served.client.post("/v1/config", json=found["demo"])
    assert applied.status_code == 200, applied.text
    said = await served.say("hello", agent="echo")
    assert said["status"] == "completed"


async def test_the_form_of_a_runner_that_comes_with_the_host_is_there_before_an_agent_uses_it(
    served: Served,
) -> None:
    """A reader is told what it states: nothing is started, or served from then on."""
    supervisor = served.host.supervisor
    before = {one.key for one in supervisor.status()}
    stated = {}
    async with served.as_key(await served.key("default", "plugins:read")) as reader:
        for one in (await reader.get("/v1/catalogue")).json()["runners"]:
            path = f"/v1/runners/{quote(one['runner'], safe='')}"
            got = await reader.get(path)
            assert got.status_code == 200, got.text
            assert got.json()["config_schema"], path
            stated[one["runner"]] = got.json()
        for absent in ("plugin:hostler/none/default", "plugin:acme/none/default", "none", MODEL_RUNNER):
            path = f"/v1/runners/{quote(absent, safe='')}"
            assert (await reader.get(path)).status_code == 404, absent
        assert {one.key for one in supervisor.status()} == before
        for runner in ("plugin:hostler/local-agent/default", "plugin:hostler/coze/default"):
            add_shipped_runner(supervisor, runner)  # as an agent that names it does
            got = await reader.get(f"/v1/runners/{quote(runner, safe='')}")
            assert got.json() == stated[runner], "what it states is what it offers once it has started"
