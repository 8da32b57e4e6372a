"""OpenAI's Responses with its client for JavaScript."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from support.dialects.players import playing, script
from support.http_host import ADMIN_KEY
from support.node_clients import node_clients

PROGRAM = Path(__file__).parents[3] / "support" / "dialects" / "openai_responses.mjs"
PACKAGE = "openai@7.57.0"


@pytest.mark.timeout(400)
async def test_the_client_for_javascript_streams_calls_goes_on_and_is_told_errors(tmp_path: Path) -> None:
    node = await asyncio.to_thread(node_clients, PACKAGE)
    steps = script(
        ["delta", "你好"],
        ["delta", " 👩‍👩‍👧"],
        ["say", "你好 👩‍👩‍👧"],
        ["tool", "weather", {"city": "Porto"}, "c1"],
        ["say", "好了"],
    )
    folder = tmp_path / "node"
    folder.mkdir()
    async with playing(tmp_path / "data") as served:
        seen = await asyncio.to_thread(node.run, PROGRAM, folder, f"{served.url}/v1", ADMIN_KEY, steps)
    assert seen["deltas"] == "你好 👩‍👩‍👧"
    assert json.loads(seen["asked"].pop("arguments")) == {"city": "Porto"}
    assert seen["asked"] == {"status": "completed", "text": "你好 👩‍👩‍👧", "name": "weather"}
    assert seen["done"] == {"status": "completed", "text": 'weather: "晴 ☀️"好了'}
    assert seen["resumed"] == {"text": 'weather: "晴 ☀️"好了', "often": True}
    assert seen["same"]
    assert seen["roles"][0] == "user"
    assert len(seen["roles"]) == 6
    assert seen["deleted"]["object"] == "conversation.deleted"
    assert seen["deleted"]["deleted"]
    error = {"status": 404, "code": "model_not_found", "param": "model", "kind": "NotFoundError"}
    assert seen["error"] == error
