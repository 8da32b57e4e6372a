"""`hostler acp` with the official JavaScript client."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from support.command_line import HOSTLER
from support.editor_hosts import a_host
from support.editors import delta, result, said, steps
from support.node_clients import node_clients
from support.server_process import KEY
from support.shop import BOOK, asking, calling

pytestmark = pytest.mark.timeout(600)
SCRIPT = Path(__file__).parents[1] / "support" / "acp_client.mjs"
PACKAGES = ("@agentclientprotocol/sdk@2.4.0", "zod@4.3.6")
FIELDS = [{"name": "size", "type": "select", "options": ["s", "xl"], "required": True}]


async def test_a_session_of_the_javascript_client(tmp_path: Path) -> None:
    node = await asyncio.to_thread(node_clients, *PACKAGES)
    work = steps(
        delta("Hello 你好 "),
        said("Hello 你好 🎉"),
        BOOK,
        asking(kind="form", title="Which size?", fields=FIELDS),
        calling("editor_read_file", path="a.txt"),
        ["tell"],
    )
    told = {"work": work, "asks": steps(BOOK), "fails": steps(result("run.failed", code="x", error="closed"))}
    async with a_host(tmp_path) as host:
        command = [*HOSTLER, "acp", "helper", "--url", host.url, "--key", KEY]
        given = json.dumps([command, str(tmp_path), told])
        found = await asyncio.to_thread(node.run, SCRIPT, tmp_path, given)
    assert found["about"]["agentInfo"]["name"] == "hostler"
    assert found["session"]["configOptions"][0]["currentValue"] == "helper"
    assert found["answer"]["stopReason"] == "end_turn"
    texts = [one["content"]["text"] for one in found["text"]]
    assert "".join(texts[:2]) == "Hello 你好 🎉"
    book, size, read = json.loads(texts[-1])
    assert book["result"]["booking"] == "B1"
    assert size["values"] == {"size": "xl"}
    assert read["result"]["content"] == f"text of {tmp_path / 'a.txt'}"
    assert found["form"]["message"] == "Which size?"
    assert found["outcome"] == "cancelled"
    assert found["withdrawn"] == 1
    assert found["failed"]["code"] == -32603
    assert "closed" in found["failed"]["message"]
    kinds = list(dict.fromkeys(one["sessionUpdate"] for one in found["loaded"]))
    assert kinds[:3] == ["user_message_chunk", "agent_message_chunk", "tool_call"]
    assert [one["cwd"] for one in found["sessions"]] == [str(tmp_path)]
