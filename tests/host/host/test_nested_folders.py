"""Folders of MCP servers that others could replace by a link."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostler.domain.mcp_entry import McpEntry
from hostler.domain.tool_entries import FetchEntry, ToolEntry
from hostler.host.nested_folders import nested_folders
from support.http_host import serving

pytestmark = pytest.mark.gate("mcp-folders")


def server(name: str, **folders: Any) -> ToolEntry:
    return ToolEntry(mcp=McpEntry(name=name, command=["server"], **folders))


def found(*entries: ToolEntry) -> list[tuple[str, str]]:
    return [(entry.key, mistake.place) for entry, mistake in nested_folders(entries)]


def test_a_folder_below_one_that_may_be_written_is_found() -> None:
    assert found(server("a", write=["/srv/a", "/srv/a/b"])) == [("mcp:a", "mcp.write[1]")]
    outer = server("outer", write=["/srv/shared"])
    assert found(outer, server("b", read=["/opt", "/srv/shared/x"])) == [("mcp:b", "mcp.read[1]")]
    assert found(server("b", cwd="/srv/shared/x"), outer) == [("mcp:b", "mcp.cwd")]
    assert found(outer, server("b", write=["/srv/other/../shared/x"])) == [("mcp:b", "mcp.write[0]")]
    ((_, mistake),) = nested_folders([outer, server("b", write=["/srv/shared/x"])])
    assert "/srv/shared/x lies within /srv/shared, which mcp:outer may write to" in mistake.text


def test_others_are_not() -> None:
    outer = server("outer", write=["/srv/shared"])
    assert found(outer, server("same", write=["/srv/shared"], read=["/srv/shared2", "/srv"])) == []
    assert found(server("reads", read=["/srv"]), outer) == []
    assert found(outer, server("trusted", cwd="/srv/shared/x", level="trusted")) == []
    assert found(outer, ToolEntry(fetch=FetchEntry()), ToolEntry()) == []


def test_a_program_that_others_may_replace_is_found(tmp_path: Path) -> None:
    program = tmp_path / "shared" / "tools" / "server"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh")
    program.chmod(0o755)
    outer = server("outer", write=[str(tmp_path / "shared")])
    for level in ("sandboxed", "trusted"):
        b = ToolEntry(mcp=McpEntry(name="b", command=[str(program)], level=level))
        assert found(outer, b) == [("mcp:b", "mcp.command")]
    named = McpEntry(name="b", command=["server"], environment={"PATH": str(program.parent)})
    assert found(outer, ToolEntry(mcp=named)) == [("mcp:b", "mcp.command")]
    own = McpEntry(name="b", command=[str(program)], write=[str(program.parent)])
    ((_, mistake),) = nested_folders([ToolEntry(mcp=own)])
    assert "which it may write to" in mistake.text
    assert mistake.text.endswith("can replace it by another program; keep the program elsewhere")
    (tmp_path / "link").symlink_to(program)
    assert found(outer, ToolEntry(mcp=McpEntry(name="b", command=[str(tmp_path / "link")])))
    elsewhere = ToolEntry(mcp=McpEntry(name="b", command=["sh", str(program)]))
    assert found(outer, elsewhere) == []


def test_a_link_is_seen_through(tmp_path: Path) -> None:
    (tmp_path / "shared" / "x").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "shared" / "x")
    outer = server("outer", write=[str(tmp_path / "shared")])
    assert found(outer, server("b", write=[str(tmp_path / "link")])) == [("mcp:b", "mcp.write[0]")]


@pytest.mark.parametrize("at_once", [True, False])
async def test_it_is_refused_when_it_is_configured(tmp_path: Path, at_once: bool) -> None:
    async with serving(tmp_path / "data", agent=False) as served:
        (tmp_path / "shared" / "x").mkdir(parents=True)
        outer = {"mcp": {"name": "outer", "command": ["cat"], "write": [str(tmp_path / "shared")]}}
        inner = {"mcp": {"name": "inner", "command": ["cat"], "write": [str(tmp_path / "shared" / "x")]}}
        if at_once:
            refused = await served.client.post("/v1/config", json={"tools": [outer, inner]})
        else:
            added = await served.client.post("/v1/config", json={"tools": [outer]})
            assert added.status_code == 200, added.text
            refused = await served.client.post("/v1/config/tools", json=inner)
        assert refused.status_code == 400
        assert "write[0]: " in refused.json()["detail"]
        assert "which mcp:outer may write to" in refused.json()["detail"]
