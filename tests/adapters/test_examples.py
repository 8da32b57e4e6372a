"""The examples of adapters, each in the sandbox of a real host: a question that needs a tool of the host."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import hostler_adapters
from hostler.domain.agents import AgentSpec
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile, PluginEntry
from hostler_protocol.events import EventEnvelope
from support.adapter_agents import PLUGINS, as_event, model_entry, offered, text_of
from support.cached_installs import lend_environments
from support.command_line import EXAMPLES
from support.model_answers import Answer, Recorded, wishes
from support.model_server import ModelServer
from support.stepping import CALLER, stage, within

pytestmark = [
    pytest.mark.timeout(600),  # frameworks are installed
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes need Linux"),
]
ADAPTERS = sorted(path.name for path in (EXAMPLES / "adapters").iterdir() if path.is_dir())


def answer(request: Recorded) -> Answer:
    """Ask for the prices, then tell them."""
    results = [text_of(one) for one in request.json["messages"] if one["role"] == "tool"]
    if results:
        price = json.loads(results[-1])["suite"]
        return Answer(pieces=["A suite costs ", f"{price} euros a night."])
    return wishes(("call_1", offered(request, "shop_prices"), {"kind": "suite"}))


def test_every_adapter_has_an_example() -> None:
    modules = Path(hostler_adapters.__file__).parent.glob("*.py")
    adapters = {path.stem.replace("_", "-") for path in modules if "\ndef runner(" in path.read_text()}
    assert adapters == set(ADAPTERS)
    for name in ADAPTERS:
        manifest = yaml.safe_load((EXAMPLES / "adapters" / name / "hostler.yaml").read_text())
        assert manifest["requires"] == [f"hostler-adapters[{name}]"]


@pytest.mark.parametrize("name", ADAPTERS)
async def test_it_answers_with_a_tool_of_the_host(tmp_path: Path, name: str) -> None:
    pinned = PLUGINS / name.replace(
        "-", "_"
    )  # the framework as the other tests have it, the adapter as it is here
    await asyncio.to_thread(lend_environments, "adapters", pinned, tmp_path / "data")
    plugin = shutil.copytree(EXAMPLES / "adapters" / name, tmp_path / name)
    manifest = yaml.safe_load((plugin / "hostler.yaml").read_text())
    manifest["requires"] = yaml.safe_load((pinned / "hostler.yaml").read_text())["requires"]
    (plugin / "hostler.yaml").write_text(yaml.safe_dump(manifest))
    shutil.copytree(Path(hostler_adapters.__file__).parent, plugin / "hostler_adapters")
    agent = {
        "name": "suite",
        "runner": f"plugin:acme/clerk-{name}/default",
        "config": {"model": {"primary": "main"}},
        "resource_policy": {"allowed_tool_names": ["shop.prices"], "allowed_model_ids": ["main"]},
    }
    async with within(500), ModelServer(api_key="k") as server, stage(tmp_path / "data", agent=False) as host:
        server.always(answer)
        entries: list[Any] = [PluginEntry(path=str(path)) for path in (plugin, EXAMPLES / "shop")]
        config = ConfigFile(
            plugins=entries, models=[model_entry(server)], agents=[convert(agent, AgentSpec, "suite")]
        )
        await host.host.apply(config, actor="test")
        envelope = msgspec.convert(as_event("What does a suite cost?"), EventEnvelope)
        accepted = await host.host.orchestrator.accept(envelope, CALLER)
        assert accepted.run is not None, accepted
        ended = await host.ended(accepted.run.run_id)
        assert ended.record.status == "completed", ended.last
        assert ended.said == ["A suite costs 300 euros a night."]
        system = [text_of(one) for one in server.requests[0].json["messages"] if one["role"] == "system"]
        assert "You are a clerk in a hotel. Be brief." in system[0]
