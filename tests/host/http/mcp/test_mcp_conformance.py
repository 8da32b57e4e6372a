"""The protocol's own conformance tests: every scenario that applies to this server passes."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from support.dialects.mcp_conformance import (
    AGENT_OF_PROMPTS,
    CONFORMANCE,
    NOT_OURS,
    PROMPTS,
    SCRIPTS,
    baseline,
    with_key,
)
from support.dialects.players import player
from support.http_host import ADMIN_KEY, Served
from support.node_clients import node_clients

PAGE = Path(__file__).parents[4] / "docs/clients/mcp.md"


@pytest.mark.timeout(300)
async def test_all_scenarios_for_servers(served: Served, tmp_path: Path) -> None:
    node = await asyncio.to_thread(node_clients, CONFORMANCE)
    for name in SCRIPTS:
        await player(served, name, prompts=PROMPTS if name == AGENT_OF_PROMPTS else [])
    expected = tmp_path / "expected.yaml"
    expected.write_text(baseline())
    program = node.module("@modelcontextprotocol/conformance") / "dist" / "index.js"
    async with with_key(served.port, ADMIN_KEY) as url:
        arguments = ["server", "--url", url, "--suite", "all", "--expected-failures", str(expected)]
        process = await asyncio.create_subprocess_exec(
            str(node.program),
            str(program),
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=tmp_path,
        )
        out = (await process.communicate())[0].decode()
    assert process.returncode == 0, out[-6000:]
    passed = re.findall(r"^[^\w\n]*([a-z][a-z0-9-]+): (\d+) passed, 0 failed", out, re.MULTILINE)
    assert len(passed) + len(NOT_OURS) == 32, out[-4000:]


def test_the_page_names_what_does_not_apply() -> None:
    page = PAGE.read_text()
    assert [name for name in NOT_OURS if f"`{name}`" not in page] == []
