"""A whole host with local-agent on the models of one scripted service."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hostler.domain.agents import AgentSpec
from hostler.domain.model_entries import ModelEntry, Price
from hostler.domain.tool_entries import ToolEntry
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile, PluginEntry, PluginLevel
from support.http_host import Event, Served, iter_events, serving
from support.model_server import ModelServer

FOLDER = Path(__file__).parents[2] / "runners" / "local-agent"
PRICE = Price(input=2_000_000.0, output=3_000_000.0)
"""So that a token costs 2 and 3."""
USED = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
COST = 11 * 2.0 + 7 * 3.0
"""Of one answer of the service, which always says the same usage."""
SHOP = Path(__file__).parents[2] / "examples" / "shop"


def shop(folder: Path) -> Path:
    """A copy of the shop, which keeps its bookings beside its code."""
    return shutil.copytree(SHOP, folder / "shop", ignore=shutil.ignore_patterns("*.sqlite3*", "__pycache__"))


@contextlib.asynccontextmanager
async def answering(
    data: Path, *, plugins: Sequence[Path] = (), policy: dict[str, Any] | None = None, **config: Any
) -> AsyncIterator[tuple[Served, ModelServer]]:
    """A host with local-agent on two models of one service; `config` with `_` for `-`."""
    async with ModelServer(api_key="k") as server:
        found = hosting(data, server, plugins=plugins, policy=policy, config=config)
        async with asyncio.timeout(120), found as served:
            yield served, server


@contextlib.asynccontextmanager
async def hosting(
    data: Path,
    server: ModelServer,
    *,
    plugins: Sequence[Path] = (),
    policy: dict[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    window: int = 9000,
    skills: Sequence[Path] = (),
    extra_models: Sequence[ModelEntry] = (),
    tools: Sequence[ToolEntry] = (),
    level: PluginLevel | None = "trusted",
    **settings: Any,
) -> AsyncIterator[Served]:
    """The same on a service that is there already, so that it outlives the host. `level` of all plugins."""

    def entry(name: str) -> ModelEntry:
        return ModelEntry(
            id=name,
            base_url=server.base_url,
            model=name,
            api_key="k",
            price=PRICE,
            max_retries=0,
            context_window=window,
        )

    named = {name.replace("_", "-"): value for name, value in (config or {}).items()}
    spec = {
        "name": "chat",
        "runner": "plugin:hostler/local-agent/default",
        "config": {"model": {"primary": "main", "fallbacks": ["spare"]}, **named},
        "resource_policy": policy or {},
    }
    agents = [convert(spec, AgentSpec, "chat")]
    models = [entry("main"), entry("spare"), *extra_models]
    entries: list[Any] = [PluginEntry(path=str(folder), level=level) for folder in (FOLDER, *plugins)]
    async with serving(data, agent=False, **settings) as served:
        whole = ConfigFile(
            plugins=entries, models=models, agents=agents, skills=[*map(str, skills)], tools=[*tools]
        )
        await served.host.apply(whole, actor="test")
        yield served


@contextlib.asynccontextmanager
async def streamed(served: Served, given: str | dict[str, Any]) -> AsyncIterator[AsyncIterator[Event]]:
    """Send a message and follow its run's stream."""
    whole = {"text": given} if isinstance(given, str) else given
    body = {"event_type": "message.received", "input": whole, "conversation_id": "c"}
    headers = {"accept": "text/event-stream"}
    async with served.client.stream("POST", "/v1/events", json=body, headers=headers) as answer:
        assert answer.status_code == 200
        yield iter_events(answer)


async def ask(served: Served, given: str | dict[str, Any]) -> list[Event]:
    """The whole stream of one turn."""
    async with streamed(served, given) as found:
        return [event async for event in found]


def texts(found: list[Event]) -> list[str]:
    return [json.loads(e.data)["data"]["chunk"]["content"] for e in found if e.type == "message.delta"]


async def record(served: Served, found: list[Event]) -> dict[str, Any]:
    run_id = json.loads(found[0].data)["run_id"]
    answer: dict[str, Any] = (await served.client.get(f"/v1/runs/{run_id}")).json()
    return answer
