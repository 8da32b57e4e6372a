"""Secrets that are written out in entries: nobody reads them there, and nothing moves them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from hostler.host.config import ConfigFile
from support.command_line import CommandLine
from support.http_host import OTHER, Served, serving
from support.trust import trusted

pytestmark = pytest.mark.gate("written-secrets")

BOUND_SECONDS = 110.0
SECRET = "a-very-secret-value"
RUNNER = "plugin:test/keeper/default"
OTHER_RUNNER = "plugin:test/keeper/other"
MANIFEST = """
plugin: {author: test, name: keeper, version: 1.0.0}
runners: [{name: default, entry: "keeper:Keeper"}, {name: other, entry: "keeper:Keeper"}]
"""
KEEPER = '''
"""Says whether it has its secret."""

import hashlib

from hostler_sdk import Runner, message


class Keeper(Runner):
    """Says whether it has its secret, and what else it has."""

    config = [{"name": "key", "type": "secret"}, {"name": "address", "type": "string"}]

    async def run(self, ctx):
        key = hashlib.sha256(ctx.config["key"].encode()).hexdigest()[:8]
        yield message(f"{key} for {ctx.config['address']}")
'''
HAS_IT = "ebe1fd62"
"""How the runner names the secret."""


def plugin(folder: Path) -> Path:
    folder.mkdir()
    (folder / "keeper.py").write_text(KEEPER)
    (folder / "hostler.yaml").write_text(MANIFEST)
    return folder


def agent(**fields: Any) -> dict[str, Any]:
    config = {"key": SECRET, "address": "here"} | fields.pop("config", {})
    return {"name": "clerk", "runner": RUNNER, "config": config, **fields}


def model(**fields: Any) -> dict[str, Any]:
    return {"id": "small", "base_url": "https://models.example/v1", "api_key": SECRET, **fields}


class Reader:
    """A client that must never see the secret."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.marks = 0

    async def __call__(self, method: str, path: str, body: Any = None, **query: Any) -> httpx.Response:
        answer = await self._client.request(method, path, json=body, params=query)
        assert SECRET not in answer.text, f"{method} {path}"
        self.marks += answer.text.count('"***"')
        return answer

    async def said(self) -> str:
        body = {"event_type": "message.received", "input": {"text": "hi"}, "agent": "clerk"}
        run = (await self("POST", "/v1/events", body, wait=60)).json()
        assert run["status"] == "completed", run
        await self("GET", f"/v1/runs/{run['run_id']}/journal")
        return str(run["output"]["text"])


@contextlib.asynccontextmanager
async def keeping(tmp_path: Path) -> AsyncIterator[Served]:
    config = ConfigFile(plugins=[trusted(plugin(tmp_path / "keeper"))])
    async with asyncio.timeout(BOUND_SECONDS), serving(tmp_path / "data", agent=False) as served:
        await served.host.apply(config, actor="test")
        yield served


@contextlib.asynccontextmanager
async def tenant(served: Served) -> AsyncIterator[Reader]:
    """Somebody with all rights in a workspace, and none in the installation."""
    async with served.as_key(await served.key(OTHER)) as client:
        yield Reader(client)


async def test_no_answer_has_a_secret_of_an_agent(tmp_path: Path) -> None:
    async with keeping(tmp_path) as served, tenant(served) as read:
        assert (await read("POST", "/v1/agents", agent())).status_code == 201
        assert (
            await read("PUT", "/v1/agents/clerk", agent(concurrency={"on_busy": "parallel"}))
        ).status_code == 200
        for path in ("/v1/agents", "/v1/agents/clerk", "/v1/agents/clerk/versions"):
            assert (await read("GET", path)).status_code == 200
        assert read.marks == 2 + 1 + 1 + 2
        assert (await read.said()) == f"{HAS_IT} for here"


async def test_no_answer_has_a_secret_of_the_configuration(tmp_path: Path) -> None:
    async with keeping(tmp_path) as served:
        read = Reader(served.client)
        file = {"models": [model()], "agents": [agent()]}
        assert (await read("POST", "/v1/config", file, dry_run=True)).status_code == 200
        assert (await read("POST", "/v1/config", file)).status_code == 200
        for path in ("", "/agents", "/agents/clerk", "/models", "/models/small"):
            before = read.marks
            assert (await read("GET", f"/v1/config{path}")).status_code == 200
            assert read.marks > before, path
        changed = {"models": [model(api_key="sk-changed")], "agents": [agent(config={"key": "sk-changed"})]}
        changes = (await read("POST", "/v1/config", changed)).json()["changes"]
        told = {one["kind"]: one for one in changes if one["change"] == "changed"}
        assert told["model"]["before"] == told["model"]["after"] == model(api_key="***")
        assert told["agent"]["before"] == agent(config={"key": "***"})
        for path in ("models/small", "agents/clerk"):
            await read("PUT", f"/v1/config/{path}", model() if path[0] == "m" else agent())
            assert (await read("DELETE", f"/v1/config/{path}")).json()["changes"][0]["change"] == "removed"
        for path in ("/v1/audit", "/v1/models", "/v1/problems"):
            assert (await read("GET", path)).status_code == 200


async def test_what_was_read_can_be_written_back(tmp_path: Path) -> None:
    async with keeping(tmp_path) as served, tenant(served) as read:
        await read("POST", "/v1/agents", agent())
        spec = (await read("GET", "/v1/agents/clerk")).json()["spec"]
        again = await read("PUT", "/v1/agents/clerk", spec)
        assert (again.status_code, again.json()["version"]) == (200, 1)
        changed = await read("PUT", "/v1/agents/clerk", {**spec, "concurrency": {"on_busy": "parallel"}})
        assert (changed.status_code, changed.json()["version"]) == (200, 2)
        assert (await read.said()) == f"{HAS_IT} for here"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"config": {"key": "***", "address": "elsewhere"}}, "takes the rest of config as it is"),
        ({"runner": OTHER_RUNNER, "config": {"key": "***"}}, "is another runner"),
        ({"name": "new", "config": {"key": "***"}}, "none is stored here"),
    ],
    ids=["another address", "another runner", "another agent"],
)
async def test_nobody_moves_a_secret_that_he_does_not_know(
    tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    async with keeping(tmp_path) as served, tenant(served) as read:
        await read("POST", "/v1/agents", agent())
        spec = agent(**change)
        refused = await read("PUT", f"/v1/agents/{spec['name']}", spec)
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_argument")
        assert "config.key: '***' " in refused.json()["detail"]
        assert why in refused.json()["detail"]
        assert (await read.said()) == f"{HAS_IT} for here", "nothing changed"
        known = agent(**change)
        known["config"]["key"] = SECRET
        assert (await read("PUT", f"/v1/agents/{spec['name']}", known)).status_code in {200, 201}


async def test_an_operator_changes_the_rest_of_a_config_and_not_where_a_secret_goes(tmp_path: Path) -> None:
    async with keeping(tmp_path) as served:
        read = Reader(served.client)
        await read("POST", "/v1/config", {"models": [model()], "agents": [agent()]})
        spec = agent(config={"key": "***", "address": "there"})
        assert (await read("PUT", "/v1/config/agents/clerk", spec)).status_code == 200
        assert (await read.said()) == f"{HAS_IT} for there"
        priced = model(api_key="***", timeout=5.0)
        assert (await read("PUT", "/v1/config/models/small", priced)).status_code == 200
        stored = (await served.host.export()).models[0]
        assert (stored.api_key, stored.timeout) == (SECRET, 5.0)
        for wrong in (model(api_key="***", base_url="https://e.example/v1"), model(api_key="***", id="new")):
            refused = await read("PUT", f"/v1/config/models/{wrong['id']}", wrong)
            assert refused.status_code == 400
            assert "api_key: '***' " in refused.json()["detail"]
        both = {"models": [model(api_key="***", id="a")], "agents": [agent(runner=OTHER_RUNNER)]}
        both["agents"][0]["config"]["key"] = "***"
        told = (await read("POST", "/v1/config", both)).json()["detail"]
        assert "none is stored here" in told
        assert "another runner" in told


async def test_text_of_an_unknown_form_may_be_a_secret(tmp_path: Path) -> None:
    async with keeping(tmp_path) as served:
        read = Reader(served.client)
        await read("POST", "/v1/config", {"agents": [agent()]})
        assert (await read("DELETE", "/v1/config/plugins/test%2Fkeeper")).status_code == 200
        shown = (await read("GET", "/v1/agents/clerk")).json()["spec"]["config"]
        assert shown == {"key": "***", "address": "***"}
        config = ConfigFile(plugins=[trusted(tmp_path / "keeper")])
        await served.host.apply(config, actor="test")
        shown = (await read("GET", "/v1/agents/clerk")).json()["spec"]["config"]
        assert shown == {"key": "***", "address": "here"}


def test_a_file_that_was_exported_leaves_the_secrets_where_they_are(
    hostler: CommandLine, tmp_path: Path
) -> None:
    """Without a server, too, where no plugin runs: what its form was is remembered."""
    file = hostler.cwd / "hostler.yaml"
    source = {"path": str(plugin(tmp_path / "keeper")), "level": "trusted"}
    file.write_text(json.dumps({"plugins": [source], "models": [model()], "agents": [agent()]}))
    applied = hostler("apply", file)
    assert applied.status == 0, applied.err
    exported = hostler("export").out
    assert SECRET not in applied.out + exported
    assert yaml.safe_load(exported)["agents"][0]["config"] == {"key": "***", "address": "here"}
    file.write_text(exported)
    again = hostler("apply", file)
    assert (again.status, "nothing to change" in again.err) == (0, True), again.out + again.err
    changed = hostler("agents", "change", "clerk", "config.address=there")
    assert changed.status == 0, changed.err
    assert SECRET not in changed.out + hostler("agents", "show", "clerk").out
    assert f"{HAS_IT} for there" in hostler("run", "clerk", "hi").out
    elsewhere = hostler("apply", file, "--data", tmp_path / "elsewhere")
    assert elsewhere.status == 2
    assert elsewhere.err.count("stands for a stored secret, and none is stored here") == 2
