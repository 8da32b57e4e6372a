"""Every configuration that the documentation shows passes the checks that a host makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest
import yaml

from hostler.domain.agent_review import review_agent
from hostler.domain.agents import AgentSpec
from hostler.domain.inventory import PluginFacts
from hostler.domain.model_entries import ModelEntry
from hostler.host.config import ConfigFile, Settings
from hostler.host.config_file import read_config
from hostler.host.host import Host
from hostler.models.catalog import model_mistakes
from hostler_protocol.ids import split_runner_id

ROOT = Path(__file__).parents[3]
PAGES = [
    page
    for pattern in (
        "README.md",
        "docs/**/*.md",
        "packages/*/README.md",
        "examples/*/README.md",
        "runners/*/*.md",
    )
    for page in sorted(ROOT.glob(pattern))
]
BLOCK = re.compile(r"^```(yaml|toml)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = ({"plugin"}, {"network"}, {"endpoints"})
"""Keys that say that a block is no configuration: it is of a manifest, of an entry, of another program."""
PLUGINS: list[Any] = [str(ROOT / "examples" / name) for name in ("echo", "guide", "shop")]
MODELS = [ModelEntry(id="main"), ModelEntry(id="spare"), ModelEntry(id="judge", type="rerank")]
NAMED = ["shop.search", "shop.book", "shop.cancel", "shop.prices"]
"""Tools of the documents and servers that the pages speak of."""


def configurations() -> Iterator[tuple[str, str, str]]:
    """The page, the language and the text of each block; what shows a part of an agent is completed."""
    for page in PAGES:
        for number, (language, text) in enumerate(BLOCK.findall(page.read_text("utf-8"))):
            data: Any = yaml.safe_load(text) if language == "yaml" else {}
            if isinstance(data, dict) and any(keys <= data.keys() for keys in ELSEWHERE):
                continue
            yield f"{page.relative_to(ROOT)}:{number}", language, completed(data) or text


def completed(data: Any) -> str | None:
    """The configuration that a block shows a part of; None: it is whole."""
    if isinstance(data, list):
        return yaml.safe_dump({"agents": data})
    if data and data.keys() <= set(AgentSpec.__struct_fields__):
        agent = {"name": "a", "runner": "plugin:hostler/local-agent/default", **data}
        agent["config"] = {"model": "main", **agent.get("config", {})}
        return yaml.safe_dump({"agents": [agent]})
    return None


CONFIGURATIONS = list(configurations())


def test_there_are_configurations_on_the_pages() -> None:
    assert len(CONFIGURATIONS) >= 20
    assert {"README.md:0", "docs/agents.md:0", "docs/local-agent.md:2"} <= {at for at, _, _ in CONFIGURATIONS}


@pytest.mark.parametrize(("at", "language", "text"), CONFIGURATIONS, ids=[at for at, _, _ in CONFIGURATIONS])
def test_a_configuration_of_the_pages_can_be_read(at: str, language: str, text: str) -> None:
    config, source = read_config(text, name=f"c.{language}", base=ROOT)
    assert source.mistakes == ()
    mistakes = [mistake for model in config.models for mistake in model_mistakes(model)]
    assert [mistake for mistake in mistakes if mistake.severity == "error"] == []


async def test_the_agents_and_tools_of_the_pages_are_right(tmp_path: Path) -> None:
    found = [(at, read_config(text, name=f"c.{language}")[0]) for at, language, text in CONFIGURATIONS]
    specs = [spec for _, config in found for spec in config.agents]
    wrong: list[str] = []
    settings = Settings(data_dir=tmp_path, passive=True, shutdown_grace_seconds=0.0)
    async with Host.open(settings) as host:
        await host.apply(ConfigFile(plugins=PLUGINS, models=MODELS), actor="t")
        inventory = await host.inventories.with_discovery(specs)
        shown = {split_runner_id(spec.runner)[0]: PluginFacts(None, "of the page") for spec in specs}
        inventory = msgspec.structs.replace(
            inventory,
            plugins={**shown, **inventory.plugins},
            tools={**inventory.tools, **dict.fromkeys(NAMED, "files:files")},
            knowledge_bases=["house-rules"],
        )
        for key in ("hostler/local-agent", "hostler/guide", "acme/echo"):
            assert inventory.plugins[key].runners, inventory.plugins[key].why
        for at, config in found:
            for spec in config.agents:
                mistakes = [one for one in review_agent(spec, inventory) if one.severity == "error"]
                wrong.extend(f"{at}: {spec.name}: {one.sentence}" for one in mistakes)
            for entry in config.tools:
                mistakes = host.configurator.reviewer.tool_mistakes(entry)
                wrong.extend(f"{at}: {entry.key}: {one.sentence}" for one in mistakes)
    assert wrong == []
