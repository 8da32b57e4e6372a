"""Archives of plugin folders: the same files everywhere, and nothing but files."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hostler.plugins.pins import digest_of_files
from hostler.plugins.remote_workers import archives
from hostler.plugins.remote_workers.archives import pack, unpack, unpacked
from hostler_protocol.errors import PluginStartError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A plugin's folder."""
    made = tmp_path / "plugin"
    (made / "inner" / "deep").mkdir(parents=True)
    (made / "hostler.yaml").write_text("plugin: {}\n")
    (made / "inner" / "deep" / "code.py").write_text("x = 1\n")
    (made / "inner" / "tool.sh").write_text("#!/bin/sh\n")
    (made / "inner" / "tool.sh").chmod(0o755)
    (made / "__pycache__").mkdir()
    (made / "__pycache__" / "code.pyc").write_bytes(b"\0")
    return made


def test_a_folder_is_the_same_where_it_is_unpacked(tmp_path: Path, folder: Path) -> None:
    digest, archive = pack(folder, tmp_path / "archives")
    assert digest == digest_of_files(folder)
    copy = unpack(archive, digest, tmp_path / "plugins")
    assert copy == tmp_path / "plugins" / digest
    assert (copy / "inner" / "deep" / "code.py").read_text() == "x = 1\n"
    assert os.access(copy / "inner" / "tool.sh", os.X_OK)
    assert not (copy / "__pycache__").exists()
    assert not os.access(copy / "hostler.yaml", os.X_OK)
    assert unpack(archive, digest, tmp_path / "plugins") == copy  # somebody else was faster
    assert unpacked(digest, tmp_path / "plugins") == copy
    assert {path.name for path in (tmp_path / "plugins").iterdir()} == {digest}


def test_the_archive_is_the_same_each_time(tmp_path: Path, folder: Path) -> None:
    first = pack(folder, tmp_path / "a")[1].read_bytes()
    os.utime(folder / "hostler.yaml", (1, 1))
    assert pack(folder, tmp_path / "b")[1].read_bytes() == first
    (folder / "hostler.yaml").write_text("plugin: {x: 1}\n")
    assert pack(folder, tmp_path / "b")[1].read_bytes() != first


@pytest.mark.parametrize(
    "spoil",
    [
        lambda copy: (copy / "hostler.yaml").write_text("plugin: {x: 1}\n"),
        lambda copy: (copy / "more.py").write_text(""),
        lambda copy: (copy / "hostler.yaml").unlink(),
        lambda copy: (copy / "hostler.yaml").chmod(0o755),
    ],
)
def test_a_copy_that_has_changed_is_removed(
    tmp_path: Path, folder: Path, spoil: Callable[[Path], object]
) -> None:
    digest, archive = pack(folder, tmp_path / "archives")
    copy = unpack(archive, digest, tmp_path / "plugins")
    spoil(copy)
    assert unpacked(digest, tmp_path / "plugins") is None
    assert not copy.exists()


def test_links_are_not_packed(tmp_path: Path, folder: Path) -> None:
    (folder / "link").symlink_to("/etc/passwd")
    with pytest.raises(PluginStartError, match="a link or no file"):
        pack(folder, tmp_path / "archives")


def _member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", data: bytes = b"x") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.linkname, member.size = kind, link, len(data)
        tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (_member("../out"), "which is no file of a plugin"),
        (_member("a/../../out"), "which is no file of a plugin"),
        (_member("/tmp/out"), "which is no file of a plugin"),
        (_member("link", tarfile.SYMTYPE, "/etc/passwd", b""), "which is no file of a plugin"),
        (_member("hard", tarfile.LNKTYPE, "/etc/passwd", b""), "which is no file of a plugin"),
        (_member("pipe", tarfile.FIFOTYPE, data=b""), "which is no file of a plugin"),
        (_member("folder", tarfile.DIRTYPE, data=b""), "which is no file of a plugin"),
        (_member("other.py"), "does not hold the files of the digest"),
        (b"no archive at all", "cannot be unpacked"),
        (_member("cut.py", data=b"x" * 5_000)[:2_000], "cannot be unpacked"),
    ],
)
def test_a_hostile_archive_leaves_nothing(tmp_path: Path, content: bytes, reason: str) -> None:
    archive = tmp_path / "archive.tar"
    archive.write_bytes(content)
    with pytest.raises(PluginStartError, match=reason):
        unpack(archive, "0" * 64, tmp_path / "plugins")
    assert list((tmp_path / "plugins").iterdir()) == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("name", "most"), [("MAX_PINNED_FILES", 2), ("MAX_PINNED_BYTES", 10)])
def test_an_archive_is_bounded(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    digest, archive = pack(folder, tmp_path / "archives")
    monkeypatch.setattr(archives, name, most)
    with pytest.raises(PluginStartError, match="more files or bytes than a plugin may have"):
        unpack(archive, digest, tmp_path / "plugins")


def test_the_longest_unused_copies_are_removed_but_not_those_in_use(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_ARCHIVES", 3)
    plugins = tmp_path / "plugins"
    digests: list[str] = []
    for number in range(5):
        (folder / "hostler.yaml").write_text(f"plugin: {{x: {number}}}\n")
        digest, archive = pack(folder, tmp_path / "archives")
        os.utime(archive, (number, number))
        copy = unpack(archive, digest, plugins, used=digests[:1])
        os.utime(copy, (number, number))
        digests.append(digest)
    assert {path.name for path in plugins.iterdir()} == {digests[0], *digests[2:]}
    assert len(list((tmp_path / "archives").iterdir())) == 3
