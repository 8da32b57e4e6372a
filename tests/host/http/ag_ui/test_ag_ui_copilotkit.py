"""CopilotKit's own runtime and client, unmodified, with an agent as the page shows it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from support.dialects.ag_ui import client_in
from support.dialects.players import player, script
from support.http_host import ADMIN_KEY, Served
from support.node_clients import node_clients

DRIVER = Path(__file__).parents[3] / "support" / "dialects" / "copilotkit_runtime.mjs"


@pytest.mark.skipif(
    not os.environ.get("HOSTLER_HEAVY"), reason="CopilotKit takes 297 MB: HOSTLER_HEAVY=1 asks for it"
)
@pytest.mark.timeout(400)
async def test_text_and_tools_of_the_page_and_a_failure_through_its_runtime(
    served: Served, tmp_path: Path
) -> None:
    await player(served, "guide")
    pages, folder = tmp_path / "pages", tmp_path / "copilotkit"
    client_in(pages)
    folder.mkdir()
    (folder / "copilot.mjs").write_text((pages / "copilot.mjs").read_text())
    scripts = [
        script(["delta", "Hel"], ["say", "Hello 你好"]),
        script(["tool", "color", {"of": "lamp"}, "c1"], ["say", "Seen."]),
        script(["fail", "out of paint"]),
    ]
    node = node_clients("@copilotkit/runtime@1.75.0")
    told = await asyncio.to_thread(node.run, DRIVER, folder, served.url, ADMIN_KEY, *scripts)
    assert told["agents"] == ["guide"]
    said = [one["content"] for one in told["messages"] if one["role"] == "assistant" and one.get("content")]
    assert (said[0], said[-1]) == ("Hello 你好", "Seen.")
    assert any("blue" in text for text in said)
    assert told["types"][0][0] == "RUN_STARTED"
    assert "TOOL_CALL_START" in told["types"][1]
    assert told["types"][1][-1] == told["types"][2][-1] == "RUN_FINISHED"
    assert "RUN_ERROR" in told["types"][3]
    runs = (await served.client.get("/v1/runs")).json()["items"]
    assert sorted(run["status"] for run in runs) == ["completed", "completed", "failed"]
