"""Files registered in place: only what lies under an allowed folder, only while it is what it was."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.storage.stores.registered_files import (
    RegisteredFile,
    RegisteredFiles,
    decode_registered,
    encode_registered,
)
from hostler_protocol.errors import InvalidArgumentError, StorageError

pytestmark = pytest.mark.gate("registered-files")

SECRET = b"the secret of another folder"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An allowed folder beside one that is not."""
    (tmp_path / "allowed" / "sub").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file.txt").write_bytes(SECRET)
    (tmp_path / "allowed" / "sub" / "file.txt").write_bytes(b"0123456789")
    return tmp_path / "allowed"


@pytest.fixture
def registered(root: Path) -> Iterator[RegisteredFiles]:
    opened = RegisteredFiles([root])
    yield opened
    opened.close()


async def test_a_file_is_read_in_ranges_where_it_lies(registered: RegisteredFiles, root: Path) -> None:
    file = decode_registered(encode_registered(await registered.register(root / "sub" / "file.txt")))
    assert file.blob.size_bytes == 10
    for offset, length, expected in [(0, 4, b"0123"), (8, 10, b"89"), (10, 1, b""), (3, 0, b"")]:
        assert await registered.read(file, offset, length) == expected


async def test_a_link_inside_the_folder_is_resolved_when_registered(
    registered: RegisteredFiles, root: Path
) -> None:
    (root / "link").symlink_to(root / "sub" / "file.txt")
    file = await registered.register(root / "link")
    (root / "link").unlink()
    (root / "link").symlink_to("/etc/hostname")
    assert await registered.read(file, 0, 4) == b"0123"


@pytest.mark.parametrize(
    "make",
    [
        lambda root: root.parent / "outside" / "file.txt",
        lambda root: root / ".." / "outside" / "file.txt",
        lambda root: _link(root / "link", root.parent / "outside" / "file.txt"),
        lambda root: _link(root / "folder", root.parent / "outside") / "file.txt",
        lambda root: root,
        lambda root: root / "sub",
        lambda root: root / "not there",
        lambda root: _fifo(root / "fifo"),
        lambda root: root.with_name("allowed2") / "file.txt",
        lambda root: Path("/etc/passwd"),
        lambda root: Path("/proc/self/environ"),
    ],
)
async def test_what_may_not_be_registered(registered: RegisteredFiles, root: Path, make: object) -> None:
    (root.parent / "allowed2").mkdir()
    (root.parent / "allowed2" / "file.txt").write_bytes(b"a name that only begins like the folder's")
    with pytest.raises(InvalidArgumentError):
        await registered.register(make(root))  # type: ignore[operator]


def _link(at: Path, to: Path) -> Path:
    at.symlink_to(to)
    return at


def _fifo(at: Path) -> Path:
    os.mkfifo(at)
    return at


def _append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def _rewrite_behind_its_times(path: Path) -> None:
    before = path.stat()
    path.write_bytes(b"9876543210")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"9876543210")
    other.replace(path)


def _replace_by_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parents[2] / "outside" / "file.txt")


def _replace_folder_by_link(path: Path) -> None:
    path.parent.rename(path.parents[1] / "moved")
    path.parent.symlink_to(path.parents[2] / "outside")


def _replace_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "change",
    [
        _append,
        _rewrite_behind_its_times,
        _replace,
        _replace_by_link,
        _replace_folder_by_link,
        _replace_by_fifo,
        Path.unlink,
    ],
)
async def test_a_file_that_is_no_longer_what_it_was_is_refused(
    registered: RegisteredFiles, root: Path, change: object
) -> None:
    path = root / "sub" / "file.txt"
    file = await registered.register(path)
    change(path)  # type: ignore[operator]
    for _ in range(2):
        with pytest.raises(StorageError) as caught:
            await registered.read(file, 0, 5)
        assert str(root) not in caught.value.message, "no path of the host in what callers see"


async def test_new_times_with_the_same_bytes_are_still_the_same_file(
    registered: RegisteredFiles, root: Path
) -> None:
    path = root / "sub" / "file.txt"
    file = await registered.register(path)
    os.utime(path, (1, 1))
    assert await registered.read(file, 0, 4) == b"0123"
    _replace_with_same = path.with_name("copy")
    _replace_with_same.write_bytes(b"0123456789")
    _replace_with_same.replace(path)
    assert await registered.read(file, 4, 4) == b"4567"


async def test_a_folder_that_is_no_longer_allowed_closes_its_files(root: Path, tmp_path: Path) -> None:
    with _closing(RegisteredFiles([root])) as before:
        file = await before.register(root / "sub" / "file.txt")
    for roots in ([], [tmp_path / "outside"]):
        with _closing(RegisteredFiles(roots)) as after, pytest.raises(StorageError, match="no longer in"):
            await after.read(file, 0, 4)
    forged = RegisteredFile(str(root / "sub" / ".." / ".." / "outside" / "file.txt"), file.sha256, file.stamp)
    with _closing(RegisteredFiles([root])) as again, pytest.raises(StorageError):
        await again.read(forged, 0, 4)


class _closing:
    def __init__(self, opened: RegisteredFiles) -> None:
        self.opened = opened

    def __enter__(self) -> RegisteredFiles:
        return self.opened

    def __exit__(self, *_: object) -> None:
        self.opened.close()


@pytest.mark.parametrize(
    "place",
    ["/", "/etc", "/etc/ssl", "/proc", "/usr/share", "home", "above home", "data", "in data", "file", "gone"],
)
def test_system_home_and_the_hosts_own_folders_are_no_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    home, data = tmp_path / "people" / "ada", tmp_path / "srv" / "data"
    for folder in (home, data / "blobs"):
        folder.mkdir(parents=True)
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(home))
    where = {
        "home": home,
        "above home": home.parent,
        "data": data,
        "in data": data / "blobs",
        "file": tmp_path / "file",
        "gone": tmp_path / "gone",
    }
    with pytest.raises(InvalidArgumentError):
        RegisteredFiles([where.get(place, Path(place))], private=[data])


@pytest.mark.parametrize("swapped", ["file", "folder"])
async def test_no_swap_between_check_and_read_ever_shows_another_folder(
    registered: RegisteredFiles, root: Path, swapped: str
) -> None:
    """A racer exchanges the file (or its folder) and a link to the secret, as fast as it can."""
    path = root / "sub" / "file.txt"
    path.write_bytes(b"x" * len(SECRET))
    real = path if swapped == "file" else path.parent
    target = root.parent / "outside" / ("file.txt" if swapped == "file" else "")
    link, parked = root / "link", root / "parked"
    link.symlink_to(target)
    stop = threading.Event()
    swaps = 0

    def race() -> None:
        nonlocal swaps
        while not stop.is_set():
            real.rename(parked)
            link.rename(real)
            real.rename(link)
            parked.rename(real)
            swaps += 1

    file = await registered.register(path)
    racer = threading.Thread(target=race)
    racer.start()
    tried = 0
    try:
        while tried < 2_000 or swaps < 200:
            tried += 1
            try:
                content = await registered.read(file, 0, 100)
                assert content == b"x" * len(SECRET)
            except StorageError:
                pass
            try:
                again = await registered.register(path)
                assert again.sha256 == file.sha256
            except InvalidArgumentError:
                pass
    finally:
        stop.set()
        await asyncio.to_thread(racer.join)
