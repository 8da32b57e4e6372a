"""The blocks of docs/clients/langgraph.md, as printed; and the client for JavaScript."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.dialects.langgraph import AGENT, langgraph, said, texts_of
from support.dialects.players import script
from support.http_host import ADMIN_KEY, Served
from support.node_clients import node_clients

PAGE = Path(__file__).parents[4] / "docs" / "clients" / "langgraph.md"
BLOCK = re.compile(r"^```python\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DRIVER = Path(__file__).parents[3] / "support" / "dialects" / "langgraph_client.mjs"
ORDER: list[Any] = ["tool", "player.order", {"thing": "茶"}, "o"]


def run(code: str) -> str:
    """Run a program; what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), {})
    return out.getvalue()


async def test_the_blocks_of_the_page(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = dict(BLOCK.findall(PAGE.read_text("utf-8")))
    assert set(blocks) == {"tour.py", "resume.py"}
    monkeypatch.setenv("HOSTLER_URL", served.url)
    monkeypatch.setenv("HOSTLER_KEY", ADMIN_KEY)
    printed = await asyncio.to_thread(run, blocks["tour.py"])
    assert printed.splitlines() == ["['Hello']", *["['Hello', 'you said: Hello']"] * 2, "[]"]
    approving: dict[str, Any] = {}
    exec(compile(blocks["resume.py"], str(PAGE), "exec"), approving)
    async with langgraph(served.url) as client:
        await client.runs.wait("t", AGENT, input=said(ORDER))
        done = await approving["approve"](client, "t", AGENT)
    assert "ordered 1 茶" in texts_of(done)[-1]


async def test_the_client_for_javascript(served: Served, tmp_path: Path) -> None:
    node = node_clients("@langchain/langgraph-sdk@1.15.0", "@langchain/core@1.4.0")
    steps = script(["delta", "你好 👩‍👩‍👧", "m"], ["say", "你好 👩‍👩‍👧", "m"], ORDER, ["say", "Bye."])
    told = await asyncio.to_thread(node.run, DRIVER, tmp_path, served.url, ADMIN_KEY, steps)
    assert told["assistants"] == [AGENT]
    assert told["tokens"] == "你好 👩‍👩‍👧"
    assert told["interrupts"] == 1
    assert told["again"] == told["first"], "joined from its start"
    assert told["rest"] == told["first"][2:], "joined after its second event"
    assert told["texts"][0] == "你好 👩‍👩‍👧"
    assert told["texts"][-1] == "Bye."
    assert told["state"] == told["texts"]
    assert told["refused"]["status"] == 404
    assert "no agent 'nobody'" in json.dumps(told["refused"])
