"""The page of MCP: what it shows works, with the clients that it names as far as this machine has them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from support.dialects.mcp import texts_of
from support.http_host import ADMIN_KEY, Served
from support.node_clients import node_clients

PAGE = (Path(__file__).parents[4] / "docs/clients/mcp.md").read_text()
REMOTE = "mcp-remote@0.15.1"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


async def test_the_program_of_the_page(served: Served, tmp_path: Path) -> None:
    (code,) = blocks("python")
    (tmp_path / "hello.py").write_text(code)
    own = {"HOSTLER_URL": served.url, "HOSTLER_KEY": ADMIN_KEY, "AGENT": "player"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(tmp_path / "hello.py"),
        env=os.environ | own,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await process.communicate()
    assert process.returncode == 0, error.decode()
    assert out.decode().splitlines() == ["player - Asks the agent player.", "you said: Hello"]


async def test_a_client_that_starts_programs(served: Served, tmp_path: Path) -> None:
    """As Claude Desktop does it: `mcp-remote`, with the arguments of the page."""
    wanted = [json.loads(block) for block in blocks("json")]
    (entry,) = [one["mcpServers"]["hostler"] for one in wanted if "mcpServers" in one]
    node = await asyncio.to_thread(node_clients, REMOTE)
    arguments: list[str] = [one.replace("http://127.0.0.1:8420", served.url) for one in entry["args"][1:]]
    assert arguments.pop(0) == "mcp-remote"
    environment = {
        "AUTH": f"Bearer {ADMIN_KEY}",
        "MCP_REMOTE_CONFIG_DIR": str(tmp_path),
        "HOME": str(tmp_path),
    }
    program = node.module("mcp-remote") / "dist" / "proxy.js"
    server = StdioServerParameters(
        command=str(node.program), args=[str(program), *arguments], env=environment
    )
    async with asyncio.timeout(60), Client(server, mode="legacy") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["player"]
        answer: Any = await client.call_tool("player", {"message": "你好 🙂"})
        assert texts_of(answer) == ["you said: 你好 🙂"]


def test_the_entries_of_other_clients_are_what_they_read() -> None:
    (editor,) = [one for one in map(json.loads, blocks("json")) if "servers" in one]
    assert editor["servers"]["hostler"]["type"] == "http"
    assert editor["servers"]["hostler"]["headers"] == {"Authorization": "Bearer KEY"}
