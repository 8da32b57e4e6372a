"""A reference to a secret is looked up only where an operator wrote it: never where anybody else did."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from hostler.storage.stores import agents
from hostler_protocol.manifest import FormItemType
from support.http_host import Served, serving

pytestmark = pytest.mark.gate("references")

COLLECTOR = Path(__file__).parents[1] / "support" / "plugins" / "collector"
CANARY = "canary-of-the-host-5b2e"
VARIABLE = "HOSTLER_TEST_CANARY"
BOUND_SECONDS = 110.0


@pytest.fixture
def reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """One reference of each kind, the first two of which lead to the canary."""
    (tmp_path / "secret").write_text(CANARY)
    monkeypatch.setenv(VARIABLE, CANARY)
    return {"env": f"env:{VARIABLE}", "file": f"file:{tmp_path / 'secret'}", "store": "secret://canary"}


class Collected:
    """A host with the collector, which is sandboxed as any plugin that nobody trusts."""

    def __init__(self, served: Served, data: Path) -> None:
        self.served = served
        self._received = data / "plugins" / "workspaces" / "test" / "collector" / "received"

    async def run(self, runner: str, config: dict[str, Any], **event: Any) -> dict[str, Any]:
        """The run of an agent with this configuration."""
        name = f"agent-{runner}"
        spec = {"name": name, "runner": f"plugin:test/collector/{runner}", "config": config}
        answer = await self.served.client.put(f"/v1/agents/{name}", json=spec)
        if (
            answer.status_code == 400
        ):  # refused when it is saved; it may have been stored before its plugin changed
            stored = convert(spec, AgentSpec, name)
            await self.served.host.db.write(lambda tx: agents.apply(tx, "default", stored))
            self.served.host.event_router.changed("default")
        else:
            assert answer.status_code == 200, answer.text
        return await self.served.say(event.pop("text", "hi"), agent=name, **event)

    def received(self) -> str:
        """Every byte the plugin was given so far."""
        return self._received.read_text()


@asynccontextmanager
async def collected(tmp_path: Path, forms: dict[str, list[dict[str, Any]]]) -> AsyncIterator[Collected]:
    folder = tmp_path / "collector"
    shutil.copytree(COLLECTOR, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "forms.json").write_text(json.dumps(forms))
    data = tmp_path / "data"
    async with asyncio.timeout(BOUND_SECONDS), serving(data, agent=False) as served:
        await served.host.apply(ConfigFile(plugins=[str(folder)]), actor="test")
        yield Collected(served, data)


async def test_no_default_of_a_form_is_looked_up(tmp_path: Path, reference: dict[str, str]) -> None:
    """Each type of item with a reference as its default: its text reaches the plugin, or a clear refusal."""
    forms = {
        f"{kind.replace('[', '-').replace(']', '')}-{place}": [
            {"name": "item", "type": kind, "default": text, "options": [text]}
        ]
        for kind in get_args(FormItemType)
        for place, text in reference.items()
        if place == "env" or kind in ("secret", "string", "json", "file")
    }
    async with collected(tmp_path, forms) as host:
        for runner, (item,) in forms.items():
            made = await host.run(runner, {})
            if made["status"] == "completed":
                assert json.loads(made["output"]["text"])["item"] == item["default"], runner
            else:
                assert made["status_code"] == "runner.config_invalid", (runner, made)
            assert (made["status"] == "failed") or item["type"] != "secret", runner
        assert CANARY not in host.received()
        assert json.loads(host.received().splitlines()[0])["HOSTLER_PLUGIN_NAME"] == "collector"


async def test_the_refusal_says_what_to_do_and_an_operators_own_word_counts(
    tmp_path: Path, reference: dict[str, str]
) -> None:
    form = [{"name": "key", "type": "secret", "default": reference["env"]}]
    async with collected(tmp_path, {"default": form}) as host:
        made = await host.run("default", {})
        assert made["status_code"] == "runner.config_invalid"
        journal = (await host.served.client.get(f"/v1/runs/{made['run_id']}/journal")).json()["items"]
        error = next(e["data"]["error"] for e in journal if e["type"] == "run.failed")
        assert "'key'" in error
        assert f"{reference['env']}, is a reference" in error
        assert CANARY not in host.received()
        plugin = (await host.served.client.get("/v1/plugins/test%2Fcollector")).json()
        assert any("'key'" in warning and "reference" in warning for warning in plugin["warnings"])
        for value, expected in (("", ""), ("mine", "mine"), (reference["env"], CANARY)):
            made = await host.run("default", {"key": value})
            assert made["status"] == "completed", made
            assert json.loads(made["output"]["text"])["key"] == expected
        assert CANARY in host.received()


async def test_no_word_of_an_event_or_of_another_field_is_looked_up(
    tmp_path: Path, reference: dict[str, str]
) -> None:
    form = [
        {"name": "key", "type": "secret"},
        {"name": "address", "type": "string"},
        {"name": "more", "type": "json"},
    ]
    word = reference["env"]
    async with collected(tmp_path, {"default": form}) as host:
        made = await host.run(
            "default",
            {"address": word, "more": {"key": word, "list": [word]}},
            text=word,
            data={"key": word, "config": {"key": word}},
            actor={"actor_type": "user", "actor_id": word, "actor_name": word},
            conversation_id=word,
        )
        assert made["status"] == "completed", made
        assert json.loads(made["output"]["text"])["address"] == word
        assert word in host.received()
        assert CANARY not in host.received()


@pytest.mark.gate("installation-right")
async def test_a_key_of_a_workspace_writes_no_references(tmp_path: Path, reference: dict[str, str]) -> None:
    """What a tenant says is looked up nowhere: only the installation's own key may name its secrets."""
    form = [
        {"name": "key", "type": "secret"},
        {"name": "address", "type": "string"},
    ]
    runner = "plugin:test/collector/default"
    async with collected(tmp_path, {"default": form, "other": form}) as host:
        served = host.served
        spec = {"name": "theirs", "runner": runner, "config": {"key": reference["env"], "address": "a"}}
        token = await served.key(rights=["admin"])
        async with served.as_key(token) as tenant:
            for text in (reference["env"], reference["file"]):
                for config in ({"key": text}, {"address": text}):
                    wanted = {"name": "mine", "runner": runner, "config": config}
                    for answer in (
                        await tenant.post("/v1/agents", json=wanted),
                        await tenant.put("/v1/agents/mine", json=wanted),
                    ):
                        assert answer.status_code == 403, answer.text
                        assert "'installation'" in answer.json()["detail"]
                        assert next(iter(config)) in answer.json()["detail"]
            plain = {"name": "mine", "runner": runner, "config": {"key": "env", "address": "file me"}}
            assert (await tenant.put("/v1/agents/mine", json=plain)).status_code == 200

            # what the operator wrote stays where it is
            assert (await served.client.put("/v1/agents/theirs", json=spec)).status_code == 200
            changed = {**spec, "priority": 5}
            assert (await tenant.put("/v1/agents/theirs", json=changed)).status_code == 200
            elsewhere = {**spec, "runner": "plugin:test/collector/other"}
            other = {**spec, "config": {**spec["config"], "address": "b"}}  # type: ignore[dict-item]
            for wanted in (elsewhere, other):
                answer = await tenant.put("/v1/agents/theirs", json=wanted)
                assert answer.status_code == 403, answer.text
        assert not host._received.exists() or CANARY not in host.received()
