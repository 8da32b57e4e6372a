"""The blocks of docs/clients/ai-sdk.md, as printed: a chat of React in a page."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from support.dialects.ai_sdk import AI, Front
from support.dialects.players import script
from support.http_host import ADMIN_KEY
from support.node_clients import node_clients

PAGE = Path(__file__).parents[4] / "docs/clients/ai-sdk.md"
BLOCK = re.compile(r"^```(\w+)\n// (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAM = Path(__file__).parents[3] / "support/dialects/ai_sdk_react.mjs"
REACT = ("@ai-sdk/react@4.0.177", "react@19.3.1", "react-dom@19.3.1", "happy-dom@21.0.4")


async def test_the_chat_of_the_page_in_react(front: Front, tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) * 2 == len(re.findall("^```", text, re.MULTILINE)), "each block is a file"
    page = tmp_path / "page"
    page.mkdir()
    for _, name, code in blocks:
        (page / name).write_text(code)
    node = await asyncio.to_thread(node_clients, AI, *REACT)
    gate = str(tmp_path / "gate")
    order = ["tool", "player.order", {"thing": "茶"}, "o"]
    scripts = [
        script(["delta", "你好 "], ["say", "你好 👩‍👩‍👧"], order, ["say", "Bye."]),
        script(["ask", "Which size?"]),
        script(["tool", "scan", {"shelf": 3}, "s"], ["say", "Scanned."]),
        script(["fail", "the oven is cold"]),
        script(["delta", "to be stopped"], ["hold"]),
        script(["delta", "一,"], ["wait", gate], ["say", "一, 二."]),
    ]
    shown = (f"{front.served.url}/ai-sdk/player", ADMIN_KEY, json.dumps(scripts), gate)
    told = await asyncio.to_thread(node.run, PROGRAM, page, *shown)
    assert told["text"] == ["你好 👩‍👩‍👧"]
    assert told["approval"] == ['player.order {"thing":"茶"}']
    assert told["calls"] == ["player.order: output-available"]
    assert (told["question"], told["buttons"]) == (["Which size?"], ["s", "xl"])
    assert told["answered"] == 'answered: {"size": "s"}'
    assert "4711-3" in told["scanned"]
    assert "the oven is cold" in told["error"][0]
    assert told["stopped"] == 204
    assert told["sections"] == 0, "nothing that was decided is asked on"
    runs = await front.runs()
    assert [run["status"] for run in runs] == ["running", "cancelled", "failed", *["completed"] * 3]
    again = await asyncio.to_thread(node.run, PROGRAM, page, *shown, f"msg_{runs[-1]['run_id']}")
    assert again["again"][0] == "你好 👩‍👩‍👧"
    assert again["again"][-1] == "Bye."
