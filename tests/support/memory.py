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
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest

from simulation.folders import MEMORY, own_folder, remove_abandoned

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
MADE = pytest.StashKey[tuple[Path, pytest.TempPathFactory]]()
"""The folder of a test in memory, and what makes one to keep."""


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
def memory(pytestconfig: pytest.Config) -> Path:
    """A folder of this test process. Those that a killed one left are removed, also where it has none now.

    It is there until the process ends its tests: after the last one it may be read for what is kept.
    """
    remove_abandoned(MEMORY)
    opened = contextlib.ExitStack()
    pytestconfig.add_cleanup(opened.close)
    return opened.enter_context(own_folder(place()))


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of one test: in memory for those of `ROOMS`, but not `ON_DISK`, else as pytest makes it."""
    if not belongs_there(request.node.nodeid):
        found: Path = request.getfixturevalue("tmp_path")
        return found
    folder = Path(tempfile.mkdtemp(prefix=f"{_short(request.node)}-", dir=request.getfixturevalue("memory")))
    request.node.stash[MADE] = folder, tmp_path_factory
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Remove the test's folder in memory; if it failed, copy it before to where pytest keeps folders.

    Only here it is known whether taking down its fixtures failed.
    """
    failed = item.session.testsfailed
    result = yield
    if made := item.stash.get(MADE, None):
        folder, factory = made
        if item.session.testsfailed > failed:
            with contextlib.suppress(OSError):  # a socket, or no room: the other tests go on
                shutil.copytree(folder, factory.mktemp(_short(item)), dirs_exist_ok=True, symlinks=True)
        shutil.rmtree(folder, ignore_errors=True)
    return result


def _short(test: pytest.Item) -> str:
    return re.sub(r"\W", "_", test.name)[:30]
