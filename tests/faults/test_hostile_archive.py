"""Hostile archives: wheels that plugins require, and backups. The host unpacks no others."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import resource
import stat
import subprocess
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.host.config import ConfigFile, PluginEntry
from support.command_line import CommandLine
from support.hostile_peers import MIB, SECONDS, attacked
from support.packages import Index
from support.stepping import stage

pytestmark = [pytest.mark.gate("hostile-peers"), pytest.mark.timeout(400)]
MANIFEST = """
plugin: {author: test, name: wants, version: 1.0.0}
runners: [{name: default, entry: "wants:Wants"}]
requires: [evil]
"""
WANTS = """
from hostler_sdk import Runner, message

class Wants(Runner):
    async def run(self, ctx):
        yield message("ran")
"""
INFO = "evil-1.0.dist-info"
HEAD = {
    f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{INFO}/RECORD": "",
}


class Wheel:
    """A wheel that is being made by hand."""

    def __init__(self, outside: Path) -> None:
        self.outside = outside
        self.data = io.BytesIO()
        self.zip = zipfile.ZipFile(self.data, "w", zipfile.ZIP_DEFLATED)
        self.zip.writestr("evil.py", "VALUE = 1\n")

    def add(self, name: str, content: bytes | str = "evil", mode: int = stat.S_IFREG | 0o644) -> None:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = mode << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, content)

    def close(self) -> bytes:
        """Its bytes; a second call adds nothing."""
        if self.zip.fp is not None:
            for name, text in HEAD.items():
                self.zip.writestr(name, text)
            self.zip.close()
        return self.data.getvalue()


def lying(wheel: Wheel) -> None:
    """A member whose sizes in the directory are not its own."""
    wheel.add("big.py", b"a" * 5_000)
    wheel.zip.filelist[-1].file_size = 7


def twice(wheel: Wheel) -> None:
    with warnings.catch_warnings(action="ignore"):
        wheel.add("evil.py", "VALUE = 'other'\n")
        wheel.add(f"{INFO}/METADATA", "Metadata-Version: 2.1\nName: other\nVersion: 9\n")
        wheel.close()


def many(wheel: Wheel) -> None:
    for number in range(5_000):
        wheel.add(f"n/{number}", "")


def by_link(wheel: Wheel) -> None:
    wheel.add("door", str(wheel.outside), stat.S_IFLNK | 0o777)
    wheel.add("door/marker", "evil")


def code(wheel: Wheel) -> str:
    return f"import pathlib; pathlib.Path({str(wheel.outside / 'marker')!r}).write_text('evil')\n"


WHEELS: dict[str, Callable[[Wheel], None]] = {
    "a path that leads out": lambda wheel: wheel.add("../../../../../../" + str(wheel.outside / "marker")),
    "an absolute path": lambda wheel: wheel.add(str(wheel.outside / "marker")),
    "a path with backslashes": lambda wheel: wheel.add("..\\..\\..\\marker"),
    "a link, and a file behind it": by_link,
    "a device": lambda wheel: wheel.add("device", "", stat.S_IFCHR | 0o666),
    "a pipe": lambda wheel: wheel.add("pipe", "", stat.S_IFIFO | 0o666),
    "one name twice": twice,
    "sizes that lie": lying,
    "a member that grows a thousandfold": lambda wheel: wheel.add("big.txt", b"\0" * (64 * MIB)),
    "more members than anybody counts": many,
    "an archive in the archive": lambda wheel: wheel.add("inner.whl", Wheel(wheel.outside).close()),
    "code that runs with the interpreter": lambda wheel: wheel.add("evil.pth", code(wheel)),
    "another interpreter": lambda wheel: wheel.add(
        "evil-1.0.data/scripts/python", "#!/bin/sh\nexit 0\n", 0o100755
    ),
    "other settings of the environment": lambda wheel: wheel.add(
        "evil-1.0.data/data/pyvenv.cfg", "home = /\n"
    ),
    "the host's own package": lambda wheel: wheel.add("hostler_sdk/__init__.py", code(wheel)),
    "names that command a terminal": lambda wheel: wheel.add("\x1b[2J\u202eevil.py"),
}
BYTES: dict[str, Callable[[bytes], bytes]] = {
    "an archive that is cut off": lambda data: data[: len(data) // 2],
    "no archive": lambda _: b"\x00" * 1_000,
    "a directory that leads elsewhere": lambda data: data.replace(b"evil.py", b"../e.py"),
}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    made = tmp_path / "outside"
    made.mkdir()
    return made


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    (tmp_path / "index").mkdir()
    with Index(tmp_path / "index").serving() as serving:
        monkeypatch.setenv("UV_DEFAULT_INDEX", serving.url)
        yield serving


@pytest.mark.parametrize("name", [*WHEELS, *BYTES])
async def test_a_wheel_that_is_an_attack_reaches_nothing_outside_of_its_environment(
    name: str, tmp_path: Path, outside: Path, index: Index
) -> None:
    wheel = Wheel(outside)
    if name in WHEELS:
        WHEELS[name](wheel)
    data = BYTES[name](wheel.close()) if name in BYTES else wheel.close()
    (index.folder / "evil-1.0-py3-none-any.whl").write_bytes(data)
    folder = tmp_path / "wants"
    folder.mkdir()
    (folder / "hostler.yaml").write_text(MANIFEST)
    (folder / "wants.py").write_text(WANTS)
    before = set(tmp_path.iterdir())
    async with asyncio.timeout(SECONDS), stage(tmp_path / "data") as made:
        await made.host.apply(ConfigFile(plugins=[PluginEntry(path=str(folder))]), actor="test")
        steps = asyncio.create_task(made.run([["say", "honest work"]], conversation_id="honest"))
        problems = {one.name: one.problem for one in await made.host.problems() if one.kind == "plugin"}
        assert (await steps).said == ["honest work"]
        (status,) = [one for one in made.host.supervisor.status() if one.key == "test/wants"]
        if status.state != "ready":
            assert status.reason
            assert "\x1b" not in status.reason
            assert "test/wants" in problems
        elif name == "code that runs with the interpreter":
            pass  # in the plugin's own sandbox, where `outside` is not
    assert list(outside.iterdir()) == []
    assert set(tmp_path.iterdir()) - before <= {tmp_path / "data"}
    environments = tmp_path / "data" / "plugins" / "environments"
    for path in environments.rglob("*"):
        mode = path.lstat().st_mode
        assert stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode), path
        if stat.S_ISLNK(mode) and path.parent.name != "bin":
            assert environments in path.resolve().parents or path.name == "lib64", path
    assert not list(environments.glob(".building-*"))


# -- backups -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of a host with one file."""
    top = tmp_path_factory.mktemp("backup")
    hostler = CommandLine(top / "data", top)
    with hostler.serving() as server, server.client() as client:
        assert client.post("/v1/artifacts", content=b"a file").status_code == 201
    assert hostler("backup", top / "copy").status == 0
    return top / "copy"


def note(copy: Path, **changes: Any) -> None:
    path = copy / "backup.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def blob(copy: Path) -> Path:
    return next(path for path in (copy / "blobs").glob("??/??/*") if len(path.name) == 64)


def replaced(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def seen_elsewhere(copy: Path) -> None:
    """The folder of blobs is a link to one with a blob of a known name."""
    other = copy.parent / "elsewhere"
    name = hashlib.sha256(b"secret").hexdigest()
    (other / name[:2] / name[2:4]).mkdir(parents=True)
    (other / name[:2] / name[2:4] / name).write_bytes(b"secret?")
    subprocess.run(["rm", "-rf", str(copy / "blobs")], check=True)
    (copy / "blobs").symlink_to(other)


BACKUPS: dict[str, Callable[[Path], object]] = {
    "a database that is a link": lambda copy: replaced(
        copy / "hostler.db", lambda path: path.symlink_to("/etc/passwd")
    ),
    "a database that is a pipe": lambda copy: replaced(copy / "hostler.db", os.mkfifo),
    "a database that never ends": lambda copy: replaced(
        copy / "hostler.db", lambda path: path.symlink_to("/dev/zero")
    ),
    "a database that is another one": lambda copy: (copy / "hostler.db").write_bytes(
        b"SQLite format 3\0" + b"x" * 9_000
    ),
    "no database": lambda copy: (copy / "hostler.db").unlink(),
    "a note that is no text": lambda copy: (copy / "backup.json").write_bytes(b'{"version": "\xff\xfe"}'),
    "a note that is nested without an end": lambda copy: (copy / "backup.json").write_bytes(b"[" * 50_000),
    "a note without an end": lambda copy: os.truncate(copy / "backup.json", 8 * 1024 * MIB),
    "a note that is a pipe": lambda copy: replaced(copy / "backup.json", os.mkfifo),
    "a note that counts more": lambda copy: note(copy, blobs=10**12),
    "a note of another kind": lambda copy: note(copy, blobs="many"),
    "a note of another version": lambda copy: note(copy, format=99, version="\x1b[2J"),
    "a blob that is a pipe": lambda copy: replaced(blob(copy), os.mkfifo),
    "a blob that is a link": lambda copy: replaced(blob(copy), lambda path: path.symlink_to("/etc/passwd")),
    "a blob that never ends": lambda copy: replaced(blob(copy), lambda path: path.symlink_to("/dev/zero")),
    "a blob with other bytes": lambda copy: blob(copy).write_bytes(b"other"),
    "a blob that is a folder": lambda copy: replaced(blob(copy), lambda path: path.mkdir()),
    "blobs that are elsewhere": seen_elsewhere,
}


@pytest.mark.parametrize("name", BACKUPS)
def test_a_backup_that_is_an_attack_is_refused_and_leaves_no_database(
    name: str, tmp_path: Path, backup: Path
) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(backup), str(copy)], check=True)
    BACKUPS[name](copy)
    hostler = CommandLine(tmp_path / "data", tmp_path)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    done = hostler("restore", copy)
    assert done.status != 0, done.out
    assert done.error
    assert "\x1b" not in done.err
    assert not (tmp_path / "data" / "hostler.db").exists()
    assert not list((tmp_path / "data").rglob("*.partial"))
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - before < 512 * 1024
    assert "root:" not in "".join(
        path.read_text("utf-8", "replace") for path in (tmp_path / "data").rglob("*") if path.is_file()
    )
    assert hostler("restore", backup).status == 0, "the honest one can still be restored"


async def test_files_that_are_archives_are_stored_as_they_are(tmp_path: Path) -> None:
    """An artifact is bytes: nobody looks inside."""
    async with stage(tmp_path / "data") as made, attacked(made, tmp_path / "data") as host:
        wheel = Wheel(tmp_path)
        wheel.add("../../../marker")
        blob_of = await made.host.blobs.put(wheel.close())
        await host.honest()
        assert blob_of.size_bytes == len(wheel.data.getvalue())
    assert not (tmp_path / "marker").exists()
