"""Folders of MCP servers that others could replace by a link."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostler.domain.mcp_entry import McpEntry
from hostler.domain.tool_entries import FetchEntry, ToolEntry
from hostler.host.nested_folders import nested_folders
from support.http_host import serving


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
