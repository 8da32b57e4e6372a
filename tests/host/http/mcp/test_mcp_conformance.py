"""The protocol's own conformance tests: every scenario that applies to this server passes."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from support.dialects.mcp_conformance import (
    AGENT_OF_PROMPTS,
    CONFORMANCE,
    MAY_FAIL,
    NOT_OURS,
    PROMPTS,
    SCENARIOS,
    SCRIPTS,
    STATELESS,
    baseline,
    with_key,
)
from support.dialects.players import player
from support.http_host import ADMIN_KEY, Served
from support.node_clients import node_clients

PAGE = Path(__file__).parents[4] / "docs/clients/mcp.md"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("revision", CONFORMANCE)
async def test_all_scenarios_for_servers(served: Served, tmp_path: Path, revision: str) -> None:
    node = await asyncio.to_thread(node_clients, CONFORMANCE[revision])
    for name in SCRIPTS:
        await player(served, name, prompts=PROMPTS if name == AGENT_OF_PROMPTS else [])
    expected, results = tmp_path / "expected.yaml", tmp_path / "results"
    expected.write_text(baseline(revision))
    program = node.module("@modelcontextprotocol/conformance") / "dist" / "index.js"
    async with with_key(served.port, ADMIN_KEY) as url:
        arguments = ["server", "--url", url, "--suite", "all", "--expected-failures", str(expected)]
        if revision == "2026-07-28":
            arguments += ["--spec-version", revision, "-o", str(results)]
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
    passed = re.findall(r"^[^\w\n]*([a-z][a-z0-9-]+): \d+ passed, 0 failed", out, re.MULTILINE)
    assert len({*passed, *NOT_OURS[revision]}) == SCENARIOS[revision], out[-4000:]
    failed = {
        check["id"]
        for found in results.glob(f"*{STATELESS}*/checks.json")
        for check in json.loads(found.read_text())
        if check["status"] == "FAILURE"
    }
    assert failed <= MAY_FAIL, out[-4000:]
    assert bool(failed) == (revision == "2026-07-28")


def test_the_page_names_what_does_not_apply() -> None:
    page = PAGE.read_text()
    assert [name for names in NOT_OURS.values() for name in names if f"`{name}`" not in page] == []
    assert [name for name in CONFORMANCE.values() if name.rpartition("@")[2] not in page] == []
