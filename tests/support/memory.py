"""Folders of tests in memory, where the machine has room for them.

Hosts and stores sync what they commit, which on a disk takes a tenth of the processor time of their tests,
and more of the time that they wait. What tests kill are processes, never the machine: files in memory outlive
them just as well.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from simulation.folders import MEMORY, own_folder

ROOMS = (
    "tests/channels/",
    "tests/conformance/",
    "tests/host/calls/",
    "tests/host/channels/",
    "tests/host/http/",
    "tests/host/journal/",
    "tests/host/pauses/",
    "tests/host/runs/",
    "tests/langbot/",
    "tests/properties/",
    "tests/runners/",
)
"""Rooms whose tests have their `tmp_path` there. Others try what a folder of /dev has not: places in a
sandbox, limits of disks, folders of users."""
ON_DISK = ("tests/conformance/test_store_artifacts.py::test_a_registered_file",)
"""Tests in those rooms of files that are served from where they are, which may not be below /dev."""
ROOM_BYTES = 4 << 30
"""For the folders of all workers at once, of a few megabytes each, and their servers of PostgreSQL."""


def place() -> Path:
    """Where folders are made: in memory, or where the machine has them otherwise."""
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(MEMORY).free
        if min(free, psutil.virtual_memory().available) >= ROOM_BYTES:
            return MEMORY
    return Path(tempfile.gettempdir())


def belongs_there(test: str) -> bool:
    """Whether the folder of a test, by its name with the file, is in memory."""
    return test.startswith(ROOMS) and not test.startswith(ON_DISK)


@pytest.fixture(scope="session")
def memory() -> Iterator[Path]:
    """A folder of this test process. Those that a killed one left are removed."""
    with own_folder(place()) as folder:
        yield folder


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of one test: in memory for those of `ROOMS`, but not `ON_DISK`, else as pytest makes it.

    That of a test that failed is moved to where pytest keeps them.
    """
    if not belongs_there(request.node.nodeid):
        found: Path = request.getfixturevalue("tmp_path")
        yield found
        return
    name = re.sub(r"\W", "_", request.node.name)[:30]
    failed = request.session.testsfailed
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=request.getfixturevalue("memory")))
    yield folder
    if request.session.testsfailed > failed:
        with contextlib.suppress(shutil.Error):  # sockets are not moved
            shutil.copytree(folder, tmp_path_factory.mktemp(name), dirs_exist_ok=True, symlinks=True)
    shutil.rmtree(folder, ignore_errors=True)
