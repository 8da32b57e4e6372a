"""Folders of tests in memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support import memory as in_memory

TESTS = Path(__file__).parent
PLACES = """
import os
from pathlib import Path

from support import memory

memory.MEMORY, memory.ROOM_BYTES = Path(os.environ["MEMORY"]), int(os.environ["ROOM_BYTES"])
"""
CASES = """
import os
from pathlib import Path

import pytest


@pytest.fixture
def breaks(tmp_path):
    yield
    raise ValueError("taken down")


def test_passes(tmp_path):
    assert tmp_path.is_relative_to(os.environ["WANTED"])
    (tmp_path / "passed").touch()


def test_fails(tmp_path):
    (tmp_path / "failed").touch()
    assert tmp_path.parent.joinpath("none").exists()


@pytest.mark.parametrize("last", [False, True])
def test_breaks(tmp_path, breaks, last):
    (tmp_path / f"broken-{last}").touch()
"""
"""After the last one, what belongs to the whole session is taken down as well."""


def tried(folder: Path, room_bytes: int) -> list[str]:
    """The files that are left in the end of `CASES`, as tests of a room, where something was abandoned."""
    memory, disk = folder / "memory", folder / "disk"
    room = folder / in_memory.ROOMS[0]
    for made in (memory / "hostler-lives-abandoned", disk, room):
        made.mkdir(parents=True)
    (folder / "places.py").write_text(PLACES)
    (room / "test_cases.py").write_text(CASES)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(folder), str(TESTS)]),
        "TMPDIR": str(disk),
        "MEMORY": str(memory),
        "ROOM_BYTES": str(room_bytes),
        "WANTED": str(disk if room_bytes else memory),
    }
    project = ["-c", str(TESTS.parent / "pyproject.toml"), "--rootdir", str(folder)]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-p", "conftest", "-p", "places", *project, str(room)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 3 passed, 2 errors" in ended.stdout, ended.stdout + ended.stderr
    assert list(memory.iterdir()) == []
    assert list(disk.glob("hostler-lives-*")) == []
    names = ("passed", "failed", "broken-*")
    return sorted(one.name for name in names for one in disk.glob(f"**/{name}"))


def test_files_of_tests_that_failed_are_kept_and_leave_the_memory(tmp_path: Path) -> None:
    assert tried(tmp_path, room_bytes=0) == ["broken-False", "broken-True", "failed"]


def test_abandoned_folders_leave_the_memory_also_when_it_is_short(tmp_path: Path) -> None:
    assert tried(tmp_path, room_bytes=1 << 60) == ["broken-False", "broken-True", "failed"]


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
