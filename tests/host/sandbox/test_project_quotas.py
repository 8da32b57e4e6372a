"""Project quotas: folders hold no more than they may, on both file systems, whatever a sandbox tries.

The kernel has to have project quotas (CONFIG_QFMT_V2 for ext4, CONFIG_XFS_QUOTA), and the tests root.
"""

from __future__ import annotations

import ast
import asyncio
import errno
import fcntl
import os
import struct
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.working_folders import FolderOwner, WorkingFolderSettings
from hostler.sandbox import project_quotas, quota_calls
from hostler.sandbox.disk_limits import quota_limits
from hostler.sandbox.folders import pin
from hostler.sandbox.limit_reports import limit_reports
from hostler.sandbox.machine import MachineSandbox
from hostler.sandbox.port import MIB, CommandResult, Mechanism, SandboxLimits, SandboxSpec
from hostler.sandbox.probe import find_capabilities, find_sandbox
from hostler.sandbox.quota_calls import Usage
from hostler.sandbox.syscalls import number
from hostler.sandbox.users import UNUSED_IDS, SandboxUsers
from hostler.tools.workspaces.folders import WorkingFolders
from support.quota_disks import quota_disk

pytestmark = [
    pytest.mark.gate("project-quotas"),
    pytest.mark.skipif(sys.platform != "linux", reason="project quotas are Linux's"),
]
MECHANISMS = asyncio.run(find_capabilities()).mechanisms if sys.platform == "linux" else ()
on_each = pytest.mark.parametrize("mechanism", MECHANISMS)
MOST = 4 * MIB
FILES = 100
PROJECT = UNUSED_IDS[7]
BOUND_SECONDS = 30.0
NODUMP = 0x80
"""FS_XFLAG_NODUMP."""
WRITE = """
import errno, os
def fill(path):
    written = 0
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        while True:
            written += os.write(file, b"x" * 65536)
    except OSError as error:
        assert error.errno in (errno.EDQUOT, errno.ENOSPC), error
    os.close(file)
    return written
"""
MANY = "for number in range(100): open(f'{number}', 'wb').write(b'x' * 2**20)"


@pytest.fixture(params=["ext4", "xfs"])
def disk(request: pytest.FixtureRequest) -> Iterator[Path]:
    with quota_disk(request.param) as mounted:
        yield mounted


def usage(folder: Path, project: int | None = None) -> Usage:
    fd = os.open(folder, os.O_RDONLY)
    try:
        device = project_quotas.find_device(fd)
        return quota_calls.usage_of(fd, device, quota_calls.project_of(fd)[0] if project is None else project)
    finally:
        os.close(fd)


def project(path: Path) -> tuple[int, bool]:
    fd = os.open(path, os.O_RDONLY)
    try:
        return quota_calls.project_of(fd)
    finally:
        os.close(fd)


def spec_of(code: str, *folders: Path, most: int = MOST, files: int = FILES, **more: Any) -> SandboxSpec:
    limits = SandboxLimits(
        memory_bytes=256 * MIB, disk_bytes=most, files=files, seconds=60.0, output_bytes=4000
    )
    argv = [os.path.realpath(sys.executable), "-I", "-S", "-c", WRITE + code]
    more = {"own_folders": True} | more
    return SandboxSpec("test", argv, folders[0], {}, writable=folders, limits=limits, **more)


class World:
    """A sandbox, and a folder of its own on a file system with quotas."""

    def __init__(self, sandbox: MachineSandbox, folder: Path) -> None:
        self.sandbox, self.folder = sandbox, folder

    async def run(self, code: str, **more: Any) -> CommandResult:
        return await self.sandbox.run(spec_of(code, self.folder, **more))


async def world_of(mechanism: Mechanism, disk: Path) -> World:
    folder = disk / "own"
    folder.mkdir()
    found = await find_sandbox(mechanism, users=SandboxUsers())
    assert found.capabilities.has_own_users(mechanism), "root has users for sandboxes"
    return World(found, folder)


# -- what holds ---------------------------------------------------------------------------------------


@on_each
async def test_writes_fail_at_the_limit_and_the_program_goes_on(mechanism: Mechanism, disk: Path) -> None:
    world = await world_of(mechanism, disk)
    made = await world.run("written = fill('a'); os.remove('a'); print(written)")
    assert (made.status.code, made.limit_reached) == (0, None), made.stderr
    assert MOST - 65536 * 2 <= int(made.stdout) <= MOST
    assert usage(world.folder).most_bytes == MOST
    assert usage(world.folder).size < MOST / 2, "what was removed counts no more"


@on_each
async def test_a_folder_that_is_full_is_reported(mechanism: Mechanism, disk: Path) -> None:
    world = await world_of(mechanism, disk)
    made = await world.run("fill('a'); fill('b')")
    assert made.limit_reached is None, made.stderr
    (told,) = [one for one in made.violations if one.subject == "disk"]
    assert told.kind == "refused"
    assert "4.0 MiB" in told.text, told
    assert "no more can be written (project quota)" in told.text


@on_each
async def test_so_is_one_with_too_many_files(mechanism: Mechanism, disk: Path) -> None:
    world = await world_of(mechanism, disk)
    made = await world.run("""
for number in range(1000):
    try:
        os.close(os.open(f"empty{number}", os.O_CREAT | os.O_WRONLY))
    except OSError as error:
        assert error.errno in (errno.EDQUOT, errno.ENOSPC), error
        break
print(len(os.listdir(".")))
""")
    (told,) = [one for one in made.violations if one.subject == "files"]
    assert "101 of 101 files and folders" in told.text, "the folder itself is one of them"
    count = int(made.stdout)
    assert FILES - 5 <= count <= FILES, made.stderr


@on_each
async def test_nothing_gets_past_the_limit(mechanism: Mechanism, disk: Path) -> None:
    """Files that were open before, files without a name, holes filled by mappings, reserved blocks."""
    world = await world_of(mechanism, disk)
    made = await world.run("""
import mmap
files = [os.open(f"open{number}", os.O_RDWR | os.O_CREAT) for number in range(8)]
for number in range(4):
    os.remove(f"open{number}")
files += [os.open(".", os.O_TMPFILE | os.O_RDWR) for number in range(2)]
total = 0
for round in range(64):
    for file in files:
        try:
            total += os.write(file, b"x" * 65536)
        except OSError as error:
            assert error.errno in (errno.EDQUOT, errno.ENOSPC), error
reserved = 0
for number in range(64):
    try:
        file = os.open(f"reserved{number}", os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(file, 0, 1 << 20)
        reserved += 1
    except OSError as error:
        assert error.errno in (errno.EDQUOT, errno.ENOSPC), error
print(total + reserved * (1 << 20))
os.fsync(files[4])
""")
    assert made.status.code == 0, made.stderr
    assert MOST / 2 < int(made.stdout) <= MOST
    assert usage(world.folder).size <= MOST


@on_each
async def test_a_program_cannot_take_its_files_out_of_the_project(mechanism: Mechanism, disk: Path) -> None:
    """Owners of files may, in the namespace of the machine: it is the filter that holds."""
    world = await world_of(mechanism, disk)
    made = await world.run(f"""
import ctypes, fcntl, struct
libc = ctypes.CDLL(None, use_errno=True)
os.mkdir("below")
open("below/file", "w").close()
refused = []
for path in (".", "below", "below/file"):
    fd = os.open(path, os.O_RDONLY)
    flags, size, count, project, cow = struct.unpack("=5I8x", fcntl.ioctl(fd, 0x801C581F, bytes(28)))
    assert project >= {UNUSED_IDS[0]}, project
    for request in (0x401C5820, 0x401C5820 | 1 << 32, 0x401C5820 - (1 << 32)):
        for new in (0, 1, project + 1):
            for kept in (0, 0x200):
                wanted = struct.pack("=5I8x", flags & ~0x200 | kept, size, count, new, cow)
                buffer = ctypes.create_string_buffer(wanted)
                number = ctypes.c_ulong(request % 2**64)
                result = libc.syscall(ctypes.c_long({_number("ioctl")}), fd, number, buffer)
                refused.append((result, ctypes.get_errno()))
    for request in (0x40086602, 0x40046602):
        none = ctypes.create_string_buffer(8)
        refused.append((libc.ioctl(fd, ctypes.c_ulong(request), none), ctypes.get_errno()))
    wanted = ctypes.create_string_buffer(struct.pack("=QIIIII", 0, 0, 0, 0, 0, 0))
    result = libc.syscall(ctypes.c_long(469), fd, b"", wanted, ctypes.c_size_t(24), 0x1000)
    refused.append((result, ctypes.get_errno()))
    for command in (0x800008, 0x800007, 0x800003):
        buffer = ctypes.create_string_buffer(256)
        result = libc.syscall(ctypes.c_long(443), fd, command << 8 | 2, project, buffer)
        refused.append((result, ctypes.get_errno()))
    after = struct.unpack("=5I8x", fcntl.ioctl(fd, 0x801C581F, bytes(28)))
    assert after[3] == project, after
    assert path.endswith("file") or after[0] & 0x200
print(sorted(set(refused)))
""")
    assert made.status.code == 0, made.stderr
    answers = ast.literal_eval(made.stdout.decode())
    assert {result for result, _ in answers} == {-1}
    known = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM}
    assert {number for _, number in answers} <= known, answers


def _number(name: str) -> int:
    found = number(name, os.uname().machine)
    assert found is not None
    return found


@on_each
async def test_moves_and_links_change_no_account(mechanism: Mechanism, disk: Path) -> None:
    world = await world_of(mechanism, disk)
    other = disk / "other"
    other.mkdir()
    (other / "large").write_bytes(b"y" * (6 * MIB))
    made = await world.run("""
os.mkdir("a"), os.mkdir("a/b")
for name in ("a/one", "a/b/two"):
    open(name, "w").write("z" * (1 << 20))
os.rename("a/b", "b"), os.link("a/one", "b/again"), os.symlink("/nowhere", "link"), os.mkfifo("fifo")
os.rename("b/two", "a/two")
print(fill("more"))
""")
    assert made.status.code == 0, made.stderr
    assert MOST - 2 * MIB - 262144 < int(made.stdout) <= MOST - 2 * MIB
    assert usage(world.folder).size <= MOST
    assert project(other / "large") == (0, False)


# -- how it begins, changes and ends ------------------------------------------------------------------


@on_each
async def test_what_a_folder_held_before_counts(mechanism: Mechanism, disk: Path) -> None:
    world = await world_of(mechanism, disk)
    (world.folder / "a" / "b").mkdir(parents=True)
    (world.folder / "a" / "b" / "old").write_bytes(b"o" * (2 * MIB))
    (world.folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(world.folder / "fifo")
    made = await world.run("print(fill('a/b/new'))")
    assert made.status.code == 0, made.stderr
    assert 2 * MIB - 262144 < int(made.stdout) <= 2 * MIB
    uid = world.folder.stat().st_uid
    assert project(world.folder) == project(world.folder / "a" / "b") == (uid, True)
    assert project(world.folder / "a" / "b" / "old") == (uid, False)


@on_each
async def test_limits_are_those_of_the_next_start(mechanism: Mechanism, disk: Path) -> None:
    world = await world_of(mechanism, disk)
    for most in (MOST, 8 * MIB, 2 * MIB):
        made = await world.run("print(fill('a')); os.remove('a')", most=most)
        assert made.status.code == 0, made.stderr
        assert most - 131072 <= int(made.stdout) <= most


@on_each
async def test_two_folders_have_one_limit_together(mechanism: Mechanism, disk: Path) -> None:
    world = await world_of(mechanism, disk)
    second = disk / "second"
    second.mkdir()
    there = f"{second}/b"
    code = f"open({there!r}, 'w').close(); print(fill('a') + fill({there!r}))"
    made = await world.sandbox.run(spec_of(code, world.folder, second))
    assert made.status.code == 0, made.stderr
    assert MOST - 131072 <= int(made.stdout) <= MOST


@on_each
async def test_a_folder_of_others_is_looked_at_instead(mechanism: Mechanism, disk: Path) -> None:
    """One that an operator names, or that is in a project already, whose quota it would leave."""
    world = await world_of(mechanism, disk)
    made = await world.run(MANY, own_folders=False, most=2 * MIB)
    assert made.limit_reached == "disk"
    assert project(world.folder) == (0, False)
    for path in world.folder.iterdir():
        path.unlink(missing_ok=True)
    fd = os.open(world.folder, os.O_RDONLY)
    quota_calls.set_project(fd, 42, inherits=True)
    os.close(fd)
    made = await world.run(MANY, most=2 * MIB)
    assert made.limit_reached == "disk"
    assert project(world.folder) == (*project(world.folder / "0")[:1], True) == (42, True)


def test_a_folder_gives_its_quota_back(disk: Path) -> None:
    folder = disk / "own"
    (folder / "deep").mkdir(parents=True)
    pinned, fd = pin(str(folder))
    os.close(fd)
    project_quotas.limit_folders([pinned], PROJECT, MOST, FILES)
    assert usage(folder).most_bytes == MOST
    # another name of the folder, as if the file of users had been deleted
    project_quotas.limit_folders([pinned], PROJECT + 1, MOST, FILES)
    assert usage(folder, PROJECT) == Usage(0, 0)
    assert project(folder / "deep") == (PROJECT + 1, True)
    project_quotas.release(folder)
    assert usage(folder, PROJECT + 1)[2:] == (0, 0)
    assert project(folder) == (0, False)
    project_quotas.release(folder / "missing")


def test_what_was_interrupted_is_done_at_the_next_start(disk: Path) -> None:
    folder = disk / "own"
    (folder / "deep" / "deeper").mkdir(parents=True)
    (folder / "deep" / "file").write_bytes(b"o" * MIB)
    fd = os.open(folder / "deep", os.O_RDONLY)
    quota_calls.set_project(fd, PROJECT, inherits=True)
    os.close(fd)
    pinned, fd = pin(str(folder))
    os.close(fd)
    project_quotas.limit_folders([pinned], PROJECT, MOST, FILES)
    assert usage(folder).size >= MIB
    assert usage(folder).files == 4
    assert project(folder / "deep" / "deeper") == (PROJECT, True)


async def test_working_folders_have_quotas_and_lose_them(disk: Path) -> None:
    folders = WorkingFolders(disk / "workspaces", WorkingFolderSettings(disk_mib=4, spare_mib=1))
    owner = FolderOwner(kind="conversation", workspace_id="w", conversation_id="c")
    sandbox = await find_sandbox(users=SandboxUsers())
    try:
        async with folders.use(owner) as used:
            made = await sandbox.run(spec_of("fill('a'); os.remove('a'); os.mkdir('below')", used.path))
            assert made.status.code == 0, made.stderr
            number = project(used.path)[0]
            assert number in UNUSED_IDS
            for path in ("below/by the host", "new/one"):  # staged outside, and moved into the project
                assert await folders.in_thread(partial(used.tree.write, path, b"text"))
                assert project(used.path / path) == (number, False)
            await folders.in_thread(lambda: used.tree.remove("below", recursive=True))
        assert (await folders.remove(owner.key)).folders == 1
        async with asyncio.timeout(BOUND_SECONDS):
            while usage(disk, number) != Usage(0, 0):  # XFS gives back what was removed a moment later
                await asyncio.to_thread(os.sync)
    finally:
        folders.close()


@pytest.mark.parametrize(
    ("kind", "options"), [("ext4", "defaults"), ("xfs", "defaults"), ("xfs", "pqnoenforce")]
)
def test_quotas_that_would_not_hold_are_none(kind: str, options: str) -> None:
    with quota_disk(kind, options) as disk:
        assert f"({kind}) is mounted without `prjquota`" in str(project_quotas.problem_at(disk))
        pinned, fd = pin(str(disk))
        os.close(fd)
        with pytest.raises(project_quotas.NoQuotaError, match="prjquota"):
            project_quotas.limit_folders([pinned], PROJECT, MOST, FILES)
        assert project(disk) == (0, False)


async def test_the_doctor_says_that_the_limit_is_exact(disk: Path) -> None:
    why = project_quotas.problem_at(disk / "data" / "not" / "there")
    capabilities = await find_capabilities()
    reports = {one.limit: one for one in limit_reports(capabilities, capabilities.best(), why)}
    assert reports["disk"].is_exact
    assert reports["disk"].text.startswith("exact (project quota)")


@on_each
async def test_flags_of_files_are_not_changed(mechanism: Mechanism, folder: Path) -> None:
    """On any file system, so that it shows where no project quotas can be had: a flag that owners may set."""
    (folder / "outside").touch()
    fd = os.open(folder / "outside", os.O_RDONLY)
    try:
        flags = struct.pack("=5I8x", NODUMP, 0, 0, 0, 0)
        fcntl.ioctl(fd, quota_calls.SET_ATTRIBUTES, flags)
    except OSError as error:
        pytest.skip(f"the file system of this machine keeps no flags: {error}")
    finally:
        os.close(fd)
    sandbox = await find_sandbox(mechanism, users=SandboxUsers())
    made = await sandbox.run(
        spec_of(
            f"""
import fcntl, struct
fd = os.open("own", os.O_RDWR | os.O_CREAT)
attributes = struct.pack("=5I8x", {NODUMP}, 0, 0, 0, 0)
for request, value in ((0x401C5820, attributes), (0x40086602, bytes([64, 0, 0, 0] * 2))):
    try:
        fcntl.ioctl(fd, request, value)
        print("done")
    except OSError as error:
        print(errno.errorcode[error.errno])
print(struct.unpack("=5I8x", fcntl.ioctl(fd, 0x801C581F, bytes(28)))[0] & {NODUMP})
""",
            folder,
        )
    )
    assert made.stdout == b"ENOTSUP\nENOTSUP\n0\n", made.stderr


# -- without a file system that has them --------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "error", "said"),
    [
        ("ext4", None, "mounted without `prjquota` (`tune2fs"),
        ("ext4", errno.ESRCH, "mounted without `prjquota`"),
        ("xfs", None, "(xfs) is mounted without `prjquota`"),
        ("ext4", errno.EPERM, "takes root of the machine"),
        ("xfs", errno.EIO, "cannot be asked for quotas: Input/output error"),
        ("xfs", errno.ENOSYS, "without `prjquota`, or this kernel has no quotas for it"),
        ("btrfs", errno.ENOSYS, "the file system btrfs has no project quotas; ext4 and XFS have them"),
        ("overlay", errno.ENOSYS, "overlay has no project quotas"),
    ],
)
def test_why_there_is_no_quota(kind: str, error: int | None, said: str) -> None:
    assert said in project_quotas.why_not(kind, error)


@pytest.mark.parametrize(
    ("project", "folder", "refused"),
    [
        (PROJECT, 0, None),
        (PROJECT, PROJECT, None),
        (PROJECT, PROJECT + 1, None),
        (PROJECT, 42, "belongs to project 42"),
        (PROJECT, UNUSED_IDS[-1] + 1, "belongs to project"),
        (20_000, 0, "too few numbers"),
    ],
)
def test_which_projects_are_the_hosts(project: int, folder: int, refused: str | None) -> None:
    if refused is None:
        project_quotas.check_project(project, folder)
    else:
        with pytest.raises(project_quotas.NoQuotaError, match=refused):
            project_quotas.check_project(project, folder)


@pytest.mark.parametrize(
    ("usage", "reached"),
    [
        (Usage(0, 1, MOST, FILES), []),
        (Usage(MOST - 20_000, 1, MOST, FILES), []),
        (Usage(MOST - 16_000, 1, MOST, FILES), ["disk"]),
        (Usage(MOST + 1, 1, MOST, FILES), ["disk"]),
        (Usage(0, FILES - 1, MOST, FILES), []),
        (Usage(0, FILES, MOST, FILES), ["files"]),
        (Usage(MOST, FILES, MOST, FILES), ["disk", "files"]),
        (Usage(MOST, FILES, 0, 0), []),
    ],
)
def test_when_a_quota_is_used_up(usage: Usage, reached: list[str]) -> None:
    assert list(quota_limits(usage)) == reached


@on_each
async def test_without_quotas_folders_are_looked_at(mechanism: Mechanism, folder: Path) -> None:
    """Whatever the file system of this machine is, as long as it has no project quotas."""
    if os.geteuid() == 0 and project_quotas.problem_at(folder) is None:
        pytest.skip("the file system of this machine has project quotas")
    sandbox = await find_sandbox(mechanism, users=SandboxUsers())
    made = await sandbox.run(spec_of(MANY, folder))
    assert made.limit_reached == "disk", made.stderr
