"""The lock on a data directory, between real processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostler.host.lock import DataDirLock, Holder, read_holder
from hostler_protocol.errors import ConflictError, StorageError
from support.hostile_runs import HERE, ORDINARY_UID, REPOSITORY

pytestmark = pytest.mark.gate("data-directory")

HOLD = """
import os, sys, time
from pathlib import Path
from hostler.host.lock import DataDirLock, Holder
from hostler_protocol.errors import ConflictError

lock = DataDirLock(Path(sys.argv[1]))
try:
    lock.acquire(Holder(pid=os.getpid(), started_at=time.time(), url=sys.argv[2] or None))
except ConflictError as error:
    print(error.message)
    sys.exit(3)
print("held", flush=True)
sys.stdin.readline()
"""
SECONDS = 110


def me(url: str | None = None) -> Holder:
    return Holder(pid=os.getpid(), started_at=time.time(), url=url)


def spawn(data: Path, url: str = "") -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", HOLD, str(data), url], stdin=pipe, stdout=pipe, text=True)


@contextmanager
def holding(data: Path, url: str = "") -> Iterator[subprocess.Popen[str]]:
    """Another process that has the lock."""
    with spawn(data, url) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_process_is_told_who_has_it_and_what_to_do(tmp_path: Path) -> None:
    with holding(tmp_path, "http://127.0.0.1:9999") as first:
        with pytest.raises(ConflictError) as refused:
            DataDirLock(tmp_path).acquire(me())
        for part in (f"process {first.pid}", "http://127.0.0.1:9999", str(tmp_path), "--data"):
            assert part in refused.value.message
        held = read_holder(tmp_path)
        assert held is not None
        assert (held.pid, held.url) == (first.pid, "http://127.0.0.1:9999")


@pytest.mark.parametrize("how", ["kill", "leave"])
def test_the_lock_goes_with_its_process_however_that_ends(tmp_path: Path, how: str) -> None:
    with holding(tmp_path) as first:
        if how == "kill":
            first.kill()
        else:
            assert first.stdin is not None
            first.stdin.close()
        first.wait(SECONDS)
    assert read_holder(tmp_path) is None, "what a dead process wrote is nobody's"
    with DataDirLock(tmp_path) as lock:
        lock.acquire(me())


def test_of_many_processes_exactly_one_gets_it(tmp_path: Path) -> None:
    processes = [spawn(tmp_path) for _ in range(6)]
    try:
        said = []
        for process in processes:
            assert process.stdout is not None
            said.append(process.stdout.readline())
        assert sum(line == "held\n" for line in said) == 1
        assert sum("is in use by" in line for line in said) == 5
    finally:
        for process in processes:
            process.kill()
            process.communicate(timeout=SECONDS)


def test_a_look_at_the_holder_disturbs_nobody(tmp_path: Path) -> None:
    with DataDirLock(tmp_path) as lock:
        lock.acquire(me())
        assert read_holder(tmp_path) is not None
        lock.note(me("http://[::1]:1"))
        found = read_holder(tmp_path)
        assert found is not None
        assert found.url == "http://[::1]:1"
        lock.note(me())
        found = read_holder(tmp_path)
        assert found is not None
        assert found.url is None, "a shorter note leaves nothing of the longer one"
    assert read_holder(tmp_path) is None
    assert read_holder(tmp_path / "nowhere") is None


def test_a_lock_is_not_inherited_by_the_plugins_of_a_host(tmp_path: Path) -> None:
    with DataDirLock(tmp_path) as lock:
        lock.acquire(me())
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    try:
        with DataDirLock(tmp_path) as again:
            again.acquire(me())
    finally:
        child.communicate(timeout=SECONDS)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(StorageError, match="--data"):
        DataDirLock(file / "data").acquire(me())


def test_only_the_owner_may_look_into_the_data_directory(tmp_path: Path) -> None:
    with DataDirLock(tmp_path / "data") as lock:
        lock.acquire(me())
        assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
        assert lock.path.stat().st_mode & 0o777 == 0o600


def test_a_data_directory_that_others_can_read_is_made_private(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for mode in (0o755, 0o2770, 0o701):
        data.chmod(mode)
        caplog.clear()
        with DataDirLock(data) as lock:
            lock.acquire(me())
        assert stat.S_IMODE(data.stat().st_mode) == 0o700
        assert [record.getMessage() for record in caplog.records] == [
            f"the data directory {data} was open to others (mode {mode:o}): now it is its owner's alone"
        ]
    caplog.clear()
    with DataDirLock(data) as lock:
        lock.acquire(me())
    assert not caplog.records


def test_a_folder_that_is_shared_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    project, shared = tmp_path / "project", tmp_path / "shared"
    project.mkdir()
    (project / "main.py").write_text("")
    project.chmod(0o755)
    shared.mkdir()
    shared.chmod(0o1777)  # as /tmp
    of_all = "is a place for everyone's files"
    for folder, mode, why in ((project, 0o755, "holds other things"), (shared, 0o1777, of_all)):
        with pytest.raises(StorageError, match=f"mode {mode:o}.*{why}: name a folder"):
            DataDirLock(folder).acquire(me())
        assert stat.S_IMODE(folder.stat().st_mode) == mode
        assert not (folder / "lock").exists()
    (project / "hostler.db").write_text("")
    with DataDirLock(project) as lock:
        lock.acquire(me())
    assert stat.S_IMODE(project.stat().st_mode) == 0o700


TRY_EACH = """
import sys
from pathlib import Path
from hostler.host.lock import DataDirLock, Holder
from hostler_protocol.errors import StorageError

for folder in sys.argv[1:]:
    try:
        with DataDirLock(Path(folder)) as lock:
            lock.acquire(Holder(pid=1, started_at=0.0))
    except StorageError as error:
        print(error.message)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who can make a folder of another user")
def test_one_of_another_user_is_refused_if_others_can_use_it(tmp_path: Path) -> None:
    theirs, mine = tmp_path / "theirs", tmp_path / "theirs" / "mine"
    tmp_path.chmod(0o755)
    theirs.mkdir()
    theirs.chmod(0o777)
    needed = [sys.prefix, sys.base_prefix, str(REPOSITORY), str(tmp_path)]
    as_user = [sys.executable, str(HERE / "as_user.py"), str(ORDINARY_UID), *needed, "--"]
    said = subprocess.run(
        [*as_user, sys.executable, "-c", TRY_EACH, str(theirs), str(mine)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=SECONDS,
    ).stdout
    assert said == (
        f"the data directory {theirs} can be used by others (mode 777) and belongs to user 0: "
        "name a folder inside it with --data; that will be private\n"
    )
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o777
    assert stat.S_IMODE(mine.stat().st_mode) == 0o700
