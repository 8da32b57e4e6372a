"""A backup with secrets, restored: with the master key they are used, without it the host says what is
locked.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.keepers import keeper_plugin, mark_of

pytestmark = pytest.mark.gate("sealed-entries")
STORED, WRITTEN = "hunter2-of-the-store", "correct-horse-written-out"
KEEPER = "runner=plugin:test/keeper/default"


def test_a_restored_backup_has_its_secrets_with_the_master_key_alone(tmp_path: Path) -> None:
    key, value = tmp_path / "master", os.urandom(32).hex()
    key.write_text(value)
    hostler = CommandLine(tmp_path / "data", tmp_path)

    def do(*arguments: str | Path, stdin: str = "") -> str:
        ran = hostler(*arguments, stdin=stdin)
        assert ran.status == 0, ran.err
        return ran.out

    do("config", "set", "master_key", f'keys=["file:{key}"]')
    do("plugins", "add", keeper_plugin(tmp_path / "keeper"), "level=trusted")
    do("secrets", "set", "token", stdin=STORED)
    do("secrets", "set", "model", "--installation", stdin=STORED)
    do("agents", "add", "k", KEEPER, "config.key=secret://token")
    do("agents", "add", "w", KEEPER, f"config.key={WRITTEN}")
    do("agents", "add", "e", KEEPER, "config.key=env:PATH")
    do("models", "add", "m", "api_key=secret://model")
    do("models", "add", "n", f"api_key={WRITTEN}")
    assert [mark_of(STORED) in do("run", "k", "hi"), mark_of(WRITTEN) in do("run", "w", "hi")] == [True] * 2
    do("backup", tmp_path / "backup")
    assert not [file for file in (tmp_path / "backup").rglob("*") if file.is_file() and has(file)]

    key.unlink()
    there = CommandLine(tmp_path / "restored", tmp_path)
    assert there("restore", tmp_path / "backup").status == 0
    shutil.copy(tmp_path / "data" / "erasure.key", tmp_path / "restored")
    with there.serving() as server, server.client() as client:
        assert client.get("/readyz").status_code == 200
        problems = {
            (one["kind"], one["name"]): one["problem"] for one in client.get("/v1/problems").json()["items"]
        }
        doctor = there("doctor")
        assert (doctor.status, "the master key cannot be read" in doctor.out) == (1, True)
        for kind, name in [
            ("master_key", "policy"),
            ("agent", "k"),
            ("agent", "w"),
            ("model", "m"),
            ("model", "n"),
        ]:
            assert str(key) in problems[kind, name], (kind, name, problems)
        for agent in ("k", "w", "e"):  # that has no secret of the host, but no content is stored in the clear
            failed = there("run", agent, "hi")
            assert (failed.status != 0, str(key) in failed.out + failed.err) == (True, True)
        listed = there("secrets", "list").out
        assert ("token" in listed, "cannot be read" in listed) == (True, True)
        refused = there("secrets", "set", "more", stdin="x" * 10)
        assert (refused.status != 0, "cannot be read" in refused.error) == (True, True)
        refused = there("agents", "add", "v", KEEPER, "config.key=in-the-clear")
        assert (refused.status != 0, "cannot be read" in refused.error) == (True, True)

    key.write_text(value)
    assert mark_of(STORED) in there("run", "k", "hi").out
    assert mark_of(WRITTEN) in there("run", "w", "hi").out
    with there.serving() as server, server.client() as client:
        assert client.get("/v1/problems").json()["items"] == []
        assert mark_of(WRITTEN) in there("run", "w", "hi").out


def has(file: Path) -> bool:
    data = file.read_bytes()
    return STORED.encode() in data or WRITTEN.encode() in data
