"""Files that the shim opens for a sandbox without namespaces: nothing in its folder leads it elsewhere."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.gate("surroundings"),
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are Linux's"),
]
if sys.platform == "linux":
    from hostler.sandbox.supplied_files import EACCES, EXDEV, SHARED_FOLDER, Supplied, SuppliedFiles

CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL
EEXIST, ENOENT, ELOOP, EAGAIN = 17, 2, 40, 11


@pytest.fixture
def files(tmp_path: Path) -> Iterator[SuppliedFiles]:
    (tmp_path / "own" / ".tmp").mkdir(parents=True)
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    workspace = os.open(tmp_path / "own", os.O_RDONLY | os.O_DIRECTORY)
    made = SuppliedFiles({"/etc/passwd": "me\n"}, proc)
    made.share_in(workspace, ".tmp", None)
    yield made
    made.close()
    os.close(proc)
    os.close(workspace)


def shm(tmp_path: Path) -> Path:
    return tmp_path / "own" / ".tmp" / SHARED_FOLDER


def opened(
    files: SuppliedFiles, path: str, flags: int = os.O_RDONLY, call: str = "openat"
) -> Supplied | None:
    return files.answer(call, [os.fsencode(path)], flags)


def test_settings_are_read_from_their_beginning_and_not_changed(files: SuppliedFiles) -> None:
    for _ in range(2):
        found = opened(files, "/etc/passwd")
        assert found is not None
        assert os.read(found.descriptor, 100) == b"me\n"
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(found.descriptor, b"x")
        for again in (os.O_RDWR, os.O_RDWR | os.O_TRUNC):
            with pytest.raises(OSError, match="not permitted"):
                os.write(os.open(f"/proc/self/fd/{found.descriptor}", again), b"x")
        os.close(found.descriptor)
    assert opened(files, "/etc/passwd", os.O_RDWR) is None
    assert opened(files, "/etc/passwd", call="unlinkat") is None
    assert opened(files, "/etc/shadow") is None


def test_shared_memory_is_made_found_and_removed(files: SuppliedFiles, tmp_path: Path) -> None:
    made = opened(files, "/dev/shm/a", CREATE)
    assert made is not None
    os.write(made.descriptor, b"x")
    assert (shm(tmp_path) / "a").read_bytes() == b"x"
    assert opened(files, "/dev/shm/a", CREATE) == Supplied(error=EEXIST)
    assert files.answer("link", [b"/dev/shm/a", b"/dev/shm/b"], 0) == Supplied()
    assert opened(files, "/dev/shm/a", call="unlink") == Supplied()
    assert opened(files, "/dev/shm/a") == Supplied(error=ENOENT)
    files.close()
    assert not shm(tmp_path).exists()


def test_nothing_in_the_folder_leads_elsewhere(files: SuppliedFiles, tmp_path: Path) -> None:
    assert opened(files, "/dev/shm/first", CREATE) is not None
    secret = tmp_path / "secret"
    secret.write_text("s")
    (shm(tmp_path) / "link").symlink_to(secret)
    assert opened(files, "/dev/shm/link", os.O_RDWR) == Supplied(error=ELOOP)
    for name in ("../../../secret", "..", ".", "", "a/b", "/etc/passwd"):
        assert opened(files, f"/dev/shm/{name}", os.O_RDWR | os.O_CREAT) is None
    (shm(tmp_path) / "folder").mkdir()
    assert opened(files, "/dev/shm/folder") == Supplied(error=EACCES)
    assert files.answer("link", [os.fsencode(secret), b"/dev/shm/b"], 0) == Supplied(error=EXDEV)
    assert files.answer("link", [b"/dev/shm/first", os.fsencode(tmp_path / "b")], 0) == Supplied(error=EXDEV)
    assert files.answer("rename", [b"/dev/shm/first", b"/dev/shm/b"], 0) is None
    assert files.answer("mkdir", [b"/dev/shm/first"], 0) is None


def test_the_shim_never_waits(files: SuppliedFiles, tmp_path: Path) -> None:
    held = opened(files, "/dev/shm/held", CREATE)
    assert held is not None
    os.mkfifo(shm(tmp_path) / "pipe")
    for flags in (os.O_RDONLY, os.O_RDWR):
        assert opened(files, "/dev/shm/pipe", flags) == Supplied(error=EACCES)
    assert opened(files, "/dev/shm/pipe", os.O_WRONLY) not in (None, Supplied())
    os.close(held.descriptor)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # the holder of a lease gets one
    lease = os.open(shm(tmp_path) / "held", os.O_RDWR)
    fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    assert opened(files, "/dev/shm/held", os.O_RDWR) == Supplied(error=EAGAIN)
    os.close(lease)
    signal.signal(signal.SIGIO, before)


def test_a_folder_that_is_a_link_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / ".tmp").symlink_to(tmp_path / "elsewhere")
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    workspace = os.open(tmp_path / "own", os.O_RDONLY | os.O_DIRECTORY)
    made = SuppliedFiles({}, proc)
    assert not made.any
    made.share_in(workspace, ".tmp", None)
    found = opened(made, "/dev/shm/a", CREATE)
    assert found is not None
    assert found.error
    assert list((tmp_path / "elsewhere").iterdir()) == []
    os.close(proc)
    os.close(workspace)
