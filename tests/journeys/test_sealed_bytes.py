"""Encryption at rest: no content is in any byte that a host wrote, with the index, the log and the files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hostler.secrets.key_ring import new_key
from support.canaries import Canaries, bytes_of, configure, leaks, leave
from support.command_line import ECHO, CommandLine
from support.stepping import stage, within
from support.turned_on import turn_on

pytestmark = pytest.mark.gate("sealed-content")


async def test_no_content_is_in_any_byte(tmp_path: Path) -> None:
    data, words = tmp_path / "data", Canaries()
    async with within(100), stage(data, hold_seconds=0.05) as host:
        await turn_on(host, tmp_path)
        await configure(host, tmp_path)
        await leave(host, words, "c")
        assert leaks(data, words) == {}
    assert leaks(data, words) == {}


def test_commands_beside_a_host_open_what_is_sealed(tmp_path: Path) -> None:
    """Without a server: audit verify, gc, runs, backup and restore; and what they say without the key."""
    data = tmp_path / "data"
    hostler = CommandLine(data, tmp_path)
    key = tmp_path / "master.key"
    key.write_text(new_key().hex())
    config = tmp_path / "hostler.yaml"
    agent = {"name": "echo", "runner": "plugin:acme/echo/default"}
    plugin = {"path": str(ECHO), "level": "trusted"}
    config.write_text(json.dumps({"plugins": [plugin], "agents": [agent], "master_key": [f"file:{key}"]}))
    assert hostler("apply", config).status == 0
    assert hostler("run", "echo", "kanarieword", "--conversation", "c").status == 0
    assert not [path for path, content in bytes_of(data).items() if b"kanarieword" in content]
    assert hostler("audit", "verify").status == 0
    assert hostler("gc", "--transcripts", "0").status == 0
    assert hostler("audit", "verify").status == 0
    (run,) = json.loads(hostler("runs", "list", "--json").out)
    assert "kanarieword" in hostler("runs", "tail", run["run_id"]).out
    assert hostler("backup", tmp_path / "copy").status == 0
    restored = CommandLine(tmp_path / "restored", tmp_path)
    assert restored("restore", tmp_path / "copy").status == 0
    shutil.copy(data / "erasure.key", tmp_path / "restored")
    assert restored("audit", "verify").status == 0
    key.unlink()
    refused = hostler("audit", "verify")
    assert refused.status != 0
    assert "the master key cannot be read" in refused.out + refused.err
    found = hostler("doctor")
    assert "master.key" in found.out + found.err
