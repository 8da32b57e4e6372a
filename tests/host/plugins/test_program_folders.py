"""What a sandbox shows of the program of an MCP server that is outside the system's folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.plugins.tool_servers import _program_folders

pytestmark = pytest.mark.gate("mcp-folders")


def program(path: Path) -> str:
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh")
    path.chmod(0o755)
    return str(path)


def test_the_whole_prefix_unless_what_is_private_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = program(tmp_path / "opt" / "bin" / "server")
    prefix = Path(server).parents[1]
    assert _program_folders(server, "", tmp_path / "data") == [prefix]
    assert _program_folders(server, "", prefix / "data") == [Path(server)]
    monkeypatch.setenv("HOME", str(prefix / "home" / "ann"))
    assert _program_folders(server, "", tmp_path / "data") == [Path(server)]
    monkeypatch.setenv("HOME", str(prefix))
    assert _program_folders(server, "", tmp_path / "data") == [Path(server)]


def test_the_file_alone_elsewhere(tmp_path: Path) -> None:
    server = program(tmp_path / "tools" / "server")
    assert _program_folders(server, "", tmp_path / "data") == [Path(server)]
    assert _program_folders("sh", "/usr/bin:/bin", tmp_path / "data") == []
    assert _program_folders("no-such-program", "/usr/bin", tmp_path / "data") == []
