"""Folders of tests in memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from support import memory as in_memory


def test_folders_are_where_files_are_kept_if_memory_has_no_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    monkeypatch.setattr(in_memory, "MEMORY", tmp_path)
    monkeypatch.setattr(in_memory, "ROOM_BYTES", 0)
    assert in_memory.place() == tmp_path
    monkeypatch.setattr(in_memory, "ROOM_BYTES", 1 << 60)
    assert in_memory.place() == disk
    monkeypatch.setattr(in_memory, "ROOM_BYTES", 0)
    monkeypatch.setattr(in_memory, "MEMORY", tmp_path / "missing")
    assert in_memory.place() == disk


def test_only_tests_of_some_rooms_have_their_folder_in_memory(
    memory: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    assert not tmp_path.is_relative_to(memory)
    assert list(tmp_path.iterdir()) == []
    assert in_memory.belongs_there("tests/host/http/test_one.py::test_a")
    assert not in_memory.belongs_there(request.node.nodeid)
    assert not in_memory.belongs_there(f"{in_memory.ON_DISK[0]}_x[sqlite]")
