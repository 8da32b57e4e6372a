"""A2A with its official client for JavaScript, unmodified."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from support.dialects.players import script
from support.http_host import ADMIN_KEY, Served
from support.node_clients import node_clients

SCRIPT = Path(__file__).with_name("a2a_client.mjs")
COMPLETED = 3


@pytest.mark.timeout(400)
async def test_it_streams_decides_and_gets(host: Served, binding: str, tmp_path: Path) -> None:
    node = await asyncio.to_thread(node_clients, "@a2a-js/sdk@1.3.0")
    text = script(
        ["delta", "你好"],
        ["say", "你好 🙂"],
        ["tool", "player.order", {"thing": "灯"}, "m1"],
        ["say", "Bye."],
    )
    program = await asyncio.to_thread(node.start, SCRIPT, tmp_path, host.url, ADMIN_KEY, binding, text)
    out, errors = await asyncio.to_thread(program.communicate)
    assert program.returncode == 0, errors
    seen = json.loads(out)
    assert seen["kinds"][:2] == ["task", "statusUpdate"]
    assert seen["texts"] == ["你好 🙂", 'player.order: "ordered 1 灯"', "Bye."]
    assert (seen["state"], seen["asked"], seen["refused"]) == (COMPLETED, 1, "TaskNotFoundError")
