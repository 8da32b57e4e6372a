"""A workspace as people see it in the console: a model, tools, runs, a question, a failure, workers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from hostler.domain.model_entries import ModelEntry, Price
from hostler.host.config import ConfigFile, PluginEntry
from support.console_workers import some_workers
from support.http_host import Served, serving
from support.model_server import ModelServer
from support.trust import trusted

ROOT = Path(__file__).parents[2]
HOUSE = """# House

## Pets

Dogs are welcome in all rooms but the dining room. Cats have to be asked about.

## Breakfast

Breakfast is served from seven to ten, on Sundays until eleven. Dogs stay outside.
"""
TOWN = "# \u57ce\u5e02\n\n\u535a\u7269\u9986\u661f\u671f\u65e5\u514d\u8d39\u3002\n"
PROMPT = "You are the reception of a small hotel. Use the tools for prices and bookings."
POLICY: dict[str, Any] = {"allowed_tool_names": ["shop.*"], "tool_approval": {"shop.book": "required"}}
ANSWER = """A **double room** is the best choice for two:

| room | a night | for two nights |
| --- | --- | --- |
| single | €80 | €160 |
| double | €120 | €240 |

Breakfast is included. Shall I book it?
"""


@dataclass
class Scene:
    """The host, and what pages are about."""

    served: Served
    model: ModelServer
    run_id: str = ""
    """A run with a call of a model and of a tool."""
    pause_id: str = ""

    async def say(self, text: str, conversation: str, *, agent: str = "reception") -> dict[str, Any]:
        """Send a message, and return its run once it ended or waits."""
        body = {
            "event_type": "message.received",
            "agent": agent,
            "conversation_id": conversation,
            "actor": {"actor_type": "user", "actor_id": "ada", "actor_name": "Ada"},
            "input": {"text": text},
        }
        answer = await self.served.client.post("/v1/events?wait=30", json=body)
        assert answer.status_code == 200, answer.text
        run: dict[str, Any] = answer.json()
        return run


@contextlib.asynccontextmanager
async def scene(data_dir: Path) -> AsyncIterator[Scene]:
    """Begin a host in which all of that has happened."""
    with ModelServer() as model:
        async with serving(data_dir, agent=False, hold_seconds=0.2) as served:
            await served.host.apply(_config(model.base_url), actor="test")
            made = Scene(served, model)
            await _happen(made)
            yield made


def _config(base_url: str) -> ConfigFile:
    plugins: list[str | PluginEntry] = [
        trusted(ROOT / "runners" / "local-agent"),
        trusted(ROOT / "examples" / "shop"),
        trusted(ROOT / "examples" / "echo"),
    ]
    price = Price(input=0.15, output=0.6)
    entry = ModelEntry(id="main", base_url=base_url, model="gpt-5-mini", context_window=128_000, price=price)
    return ConfigFile(plugins=plugins, models=[entry])


async def _knowledge(client: httpx.AsyncClient) -> None:
    """A knowledge base with two documents that can be found, and one that cannot be read."""
    base = {"kb_id": "house-rules", "name": "House rules", "description": "What guests ask at the desk."}
    assert (await client.post("/v1/knowledge", json=base)).status_code == 201
    for name, text in {"house.md": HOUSE, "prices.txt": " \n", "town.md": TOWN}.items():
        path = f"/v1/knowledge/house-rules/documents/{name}"
        assert (await client.put(path, content=text.encode())).status_code == 201
        while (await client.get(path)).json()["state"] in ("waiting", "indexing"):
            await asyncio.sleep(0.02)


async def _happen(made: Scene) -> None:
    client, model = made.served.client, made.model
    config = {"model": {"primary": "main", "fallbacks": []}, "prompt": PROMPT}
    runner = "plugin:hostler/local-agent/default"
    agents: dict[str, dict[str, Any]] = {
        "reception": {"runner": runner, "config": config, "resource_policy": POLICY},
        "echo": {"runner": "plugin:acme/echo/default", "event_types": []},
    }
    for name, spec in agents.items():
        answer = await client.put(f"/v1/agents/{name}", json={"name": name, **spec})
        assert answer.status_code in (200, 201), answer.text
    for number, words in enumerate(("Good morning", "Is the lift repaired?", "你好,今晚还有房间吗?")):
        model.say(f"Good morning! {words} is noted; our desk is open until eleven.")
        await made.say(words, f"guest-{number + 1}")
    model.call_tool("shop.prices", {})
    model.say(ANSWER)
    made.run_id = (await made.say("What do two nights cost for two?", "ada"))["run_id"]
    model.fail(401, "the key was revoked")
    await made.say("And in May?", "guest-2")
    model.call_tool("shop.book", {"kind": "double"}, call_id="call_2")
    model.always("Your room is booked.")
    await made.say("Then book the double room, please.", "ada")
    for number in range(6):
        await made.say(f"hello {number}", f"echo-{number % 3}", agent="echo")
    await made.served.host.db.write(some_workers)
    await _knowledge(client)
    waiting = (await client.get("/v1/pauses?status=open")).json()["items"]
    made.pause_id = waiting[0]["id"]
