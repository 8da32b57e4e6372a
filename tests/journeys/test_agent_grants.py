"""What a run is given by form, policy and catalog, as its runner sees it and as the gate lets it through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.model_entries import ModelEntry
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from support.agent_host import shop
from support.stepping import Stage, stage, within

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MESSAGES = [{"role": "user", "content": "hi"}]


async def models(host: Stage, **windows: int | None) -> None:
    """Models of a service that nobody asks, with these context windows."""
    nowhere = "http://127.0.0.1:9/v1"
    await host.models(
        *(
            ModelEntry(id=name, base_url=nowhere, model=name, context_window=window)
            for name, window in windows.items()
        ),
        ModelEntry(id="judge", type="rerank", base_url=nowhere, model="judge", context_window=64),
    )


async def clerk(host: Stage, config: dict[str, Any], tools: list[str]) -> None:
    """The clerk, with a choice of tools and a policy."""
    spec: dict[str, Any] = {"name": "main", "runner": "plugin:acme/shop/default", "config": config}
    spec["resource_policy"] = {"allowed_tool_names": tools}
    await host.host.apply(ConfigFile(agents=[convert(spec, AgentSpec, "main")]), actor="test")


async def test_the_policy_does_not_add_to_the_models_that_the_form_chooses(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await models(host, large=None, small=None)
        await host.agent(
            config={"model": {"primary": "large"}},
            resource_policy={"allowed_model_ids": ["large", "small"]},
        )
        count = ["call", "model.count_tokens", {"model_id": "small", "messages": MESSAGES}]
        ended = await host.run([count, ["tell"], ["show_context"]])
        assert [model["model_id"] for model in ended.told["resources"]["models"]] == ["large"]
        (entry,) = ended.entries("refusal") or ended.entries("call", "model.count_tokens")
        assert entry["data"]["error"]["code"] == "not_found"


async def test_the_policy_does_not_add_to_the_tools_that_the_form_chooses(tmp_path: Path) -> None:
    async with within(), stage(tmp_path / "data", plugin=shop(tmp_path), agent=False) as host:
        await clerk(host, {"tools": ["shop.prices"]}, ["shop.prices", "shop.book"])
        lines = 'help\nshop.prices {}\nshop.book {"kind": "double"}'
        said = (await host.run([], input={"text": lines})).said[0].splitlines()
        assert [line.partition(":")[0] for line in said] == ["shop.prices"] * 2 + ["shop.book"]
        assert "not_found" in said[-1]
        await clerk(host, {"tools": []}, ["*"])
        assert (await host.run([], input={"text": "help"})).said == ["What may I do? Say help."]
        await clerk(host, {"tools": None}, ["shop.prices", "shop.book"])  # no choice: the policy decides
        said = (await host.run([], input={"text": "help"})).said[0].splitlines()
        assert {line.partition(":")[0] for line in said} == {"shop.prices", "shop.book"}


WINDOWS: list[tuple[str, Any, dict[str, int | None], int | None]] = [
    ("the primary's, not the fallback's", ["a", "b"], {"a": 8_000, "b": 1_000}, 8_000),
    ("the primary's, also where it is smaller", ["b", "a"], {"a": 8_000, "b": 1_000}, 1_000),
    ("none, where the primary's is not known", ["a", "b"], {"a": None, "b": 1_000}, None),
    ("the first that is granted", ["gone", "b"], {"a": 8_000, "b": 1_000}, 1_000),
    ("the smallest, where no model is chosen", [], {"a": 8_000, "b": 1_000}, 1_000),
    ("never that of a rerank model", [], {"a": None}, None),
]


@pytest.mark.parametrize(
    ("chosen", "windows", "told"), [case[1:] for case in WINDOWS], ids=[case[0] for case in WINDOWS]
)
async def test_the_window_that_the_context_tells_is_the_primary_models(
    tmp_path: Path, chosen: list[str], windows: dict[str, int | None], told: int | None
) -> None:
    async with within(), stage(tmp_path) as host:
        await models(host, **windows)
        config = {"model": {"primary": chosen[0], "fallbacks": chosen[1:]}} if chosen else {}
        await host.unchecked_agent(config=config, resource_policy={"allowed_model_ids": [*windows, "judge"]})
        context = (await host.run([["show_context"]])).told
        assert context["runtime"]["metadata"].get("model_context_window_tokens") == told
        for model in context["resources"]["models"]:  # each says its own
            expected = windows.get(model["model_id"], 64)
            assert model["context_window_tokens"] == expected
