"""CopilotKit's own runtime and client, unmodified, with an agent as the page shows it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.dialects.ag_ui import client_in
from support.dialects.players import player, script
from support.http_host import ADMIN_KEY, Served
from support.node_clients import node_clients

DRIVER = Path(__file__).parents[3] / "support" / "dialects" / "copilotkit_runtime.mjs"


@pytest.mark.timeout(600)  # 297 MB are installed once
async def test_an_agent_of_the_page_through_its_runtime(served: Served, tmp_path: Path) -> None:
    await player(served, "guide")
    pages, folder = tmp_path / "pages", tmp_path / "copilotkit"
    await asyncio.to_thread(client_in, pages)
    folder.mkdir()
    (folder / "copilot.mjs").write_text((pages / "copilot.mjs").read_text())
    scripts = [
        script(["delta", "Hel"], ["say", "Hello 你好"]),
        script(["tool", "color", {"of": "lamp"}, "c1"], ["say", "Seen."]),
        script(["tool", "player.order", {"thing": "茶"}, "o"], ["say", "Bye."]),
        script(["seen"]),
        script(["fail", "out of paint"]),
    ]
    node = await asyncio.to_thread(node_clients, "@copilotkit/runtime@1.75.0")
    told = await asyncio.to_thread(node.run, DRIVER, folder, served.url, ADMIN_KEY, *scripts)
    assert told["agents"] == ["guide"]
    said = [one["content"] for one in told["messages"] if one["role"] == "assistant" and one.get("content")]
    assert said[0] == "Hello 你好"
    assert any("blue" in text for text in said)
    assert any("ordered 1 茶" in text for text in said)
    assert said[-2] == "Bye."
    assert told["interrupts"] == ["tool_call"]
    assert told["given"]["state"] == {"theme": "dark"}
    assert told["given"]["context"] == [{"description": "the open page", "value": "lamps"}]
    assert told["types"][0][0] == "RUN_STARTED"
    assert "TOOL_CALL_START" in told["types"][1]
    assert [kinds[-1] for kinds in told["types"][:-1]] == ["RUN_FINISHED"] * 6
    assert "RUN_ERROR" in told["types"][-1]
    runs = (await served.client.get("/v1/runs")).json()["items"]
    assert [run["status"] for run in runs] == ["failed", *["completed"] * 4]
