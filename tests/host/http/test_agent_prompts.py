"""Prompts of agents over HTTP: stored with the agent, and listed for whoever may send it messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.command_line import CommandLine
from support.front_ends import front_end
from support.http_host import ADMIN_KEY, OTHER, PUPPET_RUNNER, Served, serving

WEEK: dict[str, Any] = {
    "name": "week",
    "title": "一周小结 🙂",
    "description": None,
    "text": '<b>{team}</b> {"a": {}} 🙂',
    "arguments": [{"name": "team", "description": "哪个团队", "required": True}],
}
HELLO: dict[str, Any] = {
    "name": "hello",
    "title": None,
    "description": None,
    "text": "Hello",
    "arguments": [],
}
DESK = {"name": "desk", "runner": PUPPET_RUNNER, "prompts": [WEEK, {"name": "hello", "text": "Hello"}]}


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


async def test_prompts_are_stored_with_the_agent(served: Served) -> None:
    api = served.client
    made = await api.post("/v1/agents", json=DESK)
    assert made.json()["spec"]["prompts"] == [WEEK, HELLO]
    assert (await api.get("/v1/agents/desk/prompts")).json() == {"items": [WEEK, HELLO]}
    entry = (await api.get("/v1/agents/desk/entry")).json()
    (written,) = yaml.safe_load(entry["yaml"])["agents"]
    assert written == entry["entry"]
    again = await api.put("/v1/agents/desk", json=written)
    assert (again.json()["version"], again.json()["spec"]["prompts"]) == (1, [WEEK, HELLO])
    changed = await api.put("/v1/agents/desk", json=DESK | {"prompts": [HELLO]})
    assert changed.json()["version"] == 2
    assert (await api.get("/v1/agents/desk/prompts")).json() == {"items": [HELLO]}


async def test_all_mistakes_are_told_at_once(served: Served) -> None:
    wrong = [{"name": "a b", "text": "{city}", "argument": []}, {"name": "c"}]
    answer = await served.client.post("/v1/agents", json=DESK | {"prompts": wrong})
    assert answer.status_code == 400
    assert [(one["field"], one["expected"]) for one in answer.json()["details"]["errors"]] == [
        ("prompts[0].argument", "unknown key; did you mean 'arguments'?"),
        ("prompts[1]", "the key 'text' is missing"),
        ("prompts[0].name", "a name has 1 to 64 letters from a to z, digits, _ and -"),
        ("prompts[0].text", "{city} is no argument: add one of this name, or take the braces away"),
    ]
    assert (await served.client.get("/v1/agents/desk")).status_code == 404


async def test_a_configuration_file_has_them(served: Served, tmp_path: Path) -> None:
    cli = CommandLine(tmp_path / "cli", tmp_path, HOSTLER_URL=served.url, HOSTLER_KEY=ADMIN_KEY)
    file = tmp_path / "agents.yaml"
    file.write_text(yaml.safe_dump({"agents": [DESK]}, allow_unicode=True))
    applied = await asyncio.to_thread(cli, "apply", file)
    assert applied.status == 0, applied.err
    assert (await served.client.get("/v1/agents/desk/prompts")).json() == {"items": [WEEK, HELLO]}
    shown = await asyncio.to_thread(cli, "agents", "show", "desk")
    assert "一周小结 🙂" in shown.out
    file.write_text(yaml.safe_dump({"agents": [DESK | {"prompts": [WEEK, WEEK]}]}))
    refused = await asyncio.to_thread(cli, "apply", file)
    assert refused.status != 0
    assert "prompts[1].name: 'week' is the name of 2 prompts" in refused.out + refused.err


async def test_whoever_may_send_messages_lists_them(served: Served) -> None:
    await served.client.put("/v1/agents/desk", json=DESK)
    await served.client.put("/v1/agents/off", json=DESK | {"name": "off", "enabled": False})
    async with served.as_key(await served.key("default", "events:write")) as sender:
        assert (await sender.get("/v1/agents/desk/prompts")).json() == {"items": [WEEK, HELLO]}
        for name in ("off", "none"):
            missing = await sender.get(f"/v1/agents/{name}/prompts")
            assert (missing.status_code, missing.json()["detail"]) == (404, f"there is no agent {name!r}")
    async with served.as_key(await served.key("default", "agents:read")) as reader:
        assert (await reader.get("/v1/agents/desk/prompts")).status_code == 403
    async with served.as_key(await served.key(OTHER)) as other:
        assert (await other.get("/v1/agents/desk/prompts")).status_code == 404


async def test_a_front_end_token_lists_those_of_its_agent_alone(served: Served) -> None:
    await served.client.put("/v1/agents/desk", json=DESK)
    await served.client.put("/v1/agents/other", json=DESK | {"name": "other", "prompts": [HELLO]})
    async with front_end(served, agent="desk") as page:
        assert (await page.client.get("/v1/agents/desk/prompts")).json() == {"items": [WEEK, HELLO]}
        for name in ("other", "none"):
            missing = await page.client.get(f"/v1/agents/{name}/prompts")
            assert (missing.status_code, missing.json()["detail"]) == (404, f"there is no agent {name!r}")
    async with front_end(served, agent="desk", rights=["runs:read"]) as page:
        assert (await page.client.get("/v1/agents/desk/prompts")).status_code == 403
