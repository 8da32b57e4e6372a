"""Control groups of sandboxes on this machine: what they limit, and that none is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec.structs
import pytest

from hostler.domain.control_groups import GroupLimits
from hostler.sandbox import group_files, group_places
from hostler.sandbox.control_groups import ControlGroups, find_groups
from hostler.sandbox.machine import MachineSandbox
from hostler.sandbox.port import MIB, SandboxLimits, SandboxSpec
from hostler.sandbox.probe import find_capabilities
from support.hostile_runs import combinations
from support.sandbox_groups import delegated
from support.sandbox_programs import ended

pytestmark = [
    pytest.mark.gate("sandbox-memory", "processor-time"),
    pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's"),
]
BOUND_SECONDS = 40.0
FOUND = asyncio.run(find_capabilities()) if sys.platform == "linux" else None
GROUPS = None if FOUND is None else FOUND.groups.groups
PLACES = combinations() if sys.platform == "linux" else []
with_groups = pytest.mark.skipif(GROUPS is None, reason="no control groups can be made here")
on_each_mechanism = pytest.mark.parametrize("mechanism", sorted({mechanism for mechanism, _ in PLACES}))
LIMITS = SandboxLimits(memory_bytes=128 * MIB, processes=20, seconds=BOUND_SECONDS, output_bytes=10_000)


def python(code: str, folder: Path, **limits: object) -> SandboxSpec:
    changed = msgspec.structs.replace(LIMITS, **limits)
    return SandboxSpec(
        "test", [sys.executable, "-I", "-S", "-c", code], folder, {}, writable=(folder,), limits=changed
    )


def sandbox(mechanism: str) -> MachineSandbox:
    assert FOUND is not None
    return MachineSandbox(mechanism, FOUND)  # type: ignore[arg-type]


@pytest.fixture
def groups() -> Iterator[ControlGroups]:
    found = find_groups().groups
    assert found is not None
    yield found
    found.close()


@with_groups
@on_each_mechanism
async def test_the_host_is_in_no_limited_group_and_nothing_is_left(mechanism: str, folder: Path) -> None:
    assert GROUPS is not None
    before = Path("/proc/self/cgroup").read_text()
    process = await sandbox(mechanism).start(python("import time; time.sleep(600)", folder), marker="0" * 32)
    made = [path for tree in GROUPS._trees for path in tree.host.iterdir() if path.is_dir()]
    assert len(made) == len(GROUPS._trees)
    members = {
        pid for path in made for inside in (path, *path.glob("*/")) for pid in group_files.members(inside)
    }
    assert process.pid in members
    assert os.getpid() not in members
    process.kill()
    await process.wait_gone()
    assert not [path for path in made if path.exists()]
    assert Path("/proc/self/cgroup").read_text() == before


@with_groups
@on_each_mechanism
async def test_memory_is_never_over_its_limit(mechanism: str, folder: Path) -> None:
    if "memory" not in GROUPS.versions:  # type: ignore[union-attr]
        pytest.skip("no memory controller here")
    code = "import os\nfor _ in range(4):\n    if os.fork() == 0: break\nx = bytearray(b'x') * (100 << 20)"
    made = await sandbox(mechanism).run(python(code, folder))
    assert made.limit_reached == "memory"


@with_groups
@on_each_mechanism
async def test_processor_time_has_a_limit(mechanism: str, folder: Path) -> None:
    """Judged by the time that it got, not by how long it took."""
    if "cpu" not in GROUPS.versions:  # type: ignore[union-attr]
        pytest.skip("no cpu controller here")
    code = (
        "import os, time\nend = time.monotonic() + 3\n"
        "pids = [pid for pid in (os.fork() for _ in range(2)) if pid]\n"
        "while time.monotonic() < end: pass\n"
        "if len(pids) == 2:\n    [os.waitpid(pid, 0) for pid in pids]\n    print(sum(os.times()[:4]))"
    )
    made = await sandbox(mechanism).run(python(code, folder, cpus=0.5))
    assert made.status.code == 0, made.stderr
    assert float(made.stdout) < 3 * 0.5 + 0.6


@pytest.mark.parametrize("mechanism", sorted({mechanism for mechanism, user in PLACES if user == "ordinary"}))
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can delegate groups")
@with_groups
def test_an_ordinary_user_has_the_groups_that_are_delegated_to_it(mechanism: str, folder: Path) -> None:
    with delegated() as given:
        code = "x = bytearray(b'x') * (200 << 20)\nprint('no')"
        join = [str(path / "cgroup.procs") for path in given]
        limits = json.dumps({"memory_bytes": 128 * MIB})
        said = ended(mechanism, "ordinary", folder, code, limits, join=join)
        assert set(said["groups"]) == set(GROUPS.versions)  # type: ignore[union-attr]
        assert said["limit"] == "memory"
        left = [path for group in given for path in group.rglob("*") if path.is_dir()]
        assert [path for path in left if path.name != group_places.HOSTS_GROUP] == []


@with_groups
def test_two_hosts_do_not_disturb_each_other(groups: ControlGroups) -> None:
    """Each looks for groups of dead hosts when it starts; those of the other one are not touched."""
    made = groups.make("one", GroupLimits(64 * MIB, 10))
    other = find_groups().groups
    assert other is not None
    try:
        assert all(path.exists() for path in made.folders)
        also = other.make("one", GroupLimits(64 * MIB, 10))
        assert not set(also.folders) & set(made.folders)
        assert also.remove()
    finally:
        other.close()
    assert made.remove()


@with_groups
def test_forked_processes_have_groups_of_their_own(groups: ControlGroups) -> None:
    """Each counts its sandboxes from one: in the groups of the other the same name would be taken."""
    asked, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            made = groups.make("one", GroupLimits(64 * MIB, 10))
            os.write(told, json.dumps([str(path) for path in made.folders]).encode())
            made.remove()
            groups.close()
        finally:
            os._exit(0)
    os.close(told)
    made = groups.make("one", GroupLimits(64 * MIB, 10))
    with os.fdopen(asked) as pipe:
        theirs = [Path(one) for one in json.loads(pipe.read())]
    os.waitpid(pid, 0)
    assert len(theirs) == len(made.folders)
    assert not set(theirs) & set(made.folders)
    assert [one.parent for one in theirs if one.parent.exists()] == []
    assert all(one.exists() for one in made.folders)
    assert made.remove()


KILLED_HOST = """
import os, signal, subprocess, sys
from hostler.domain.control_groups import GroupLimits
from hostler.sandbox.control_groups import find_groups
groups = find_groups().groups
group = groups.make("killed", GroupLimits(64 << 20, 10))
command = [sys.executable, "-c", "import time; time.sleep(86391)"]
# it holds no pipe of its host: whoever waits for the host's output does not wait for it
quiet = subprocess.DEVNULL
child = subprocess.Popen(command, start_new_session=True, stdout=quiet, stderr=quiet)
for path in group.inside:
    (path / "cgroup.procs").write_text(str(child.pid))
print(child.pid, *{tree.host for tree in groups._trees}, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
NEXT_HOST = """
import logging
from hostler.sandbox.control_groups import find_groups
logging.basicConfig(level=logging.INFO)
find_groups().groups.close()
"""


@with_groups
def test_what_a_killed_host_left_is_killed_and_removed_at_the_next_start(groups: ControlGroups) -> None:
    """What living hosts have stays; of these, `groups` is one that this test knows to live."""
    kept = [*groups.make("kept", GroupLimits(64 * MIB, 10)).folders, *(tree.host for tree in groups._trees)]
    host = subprocess.run([sys.executable, "-c", KILLED_HOST], capture_output=True, text=True, check=False)
    assert host.returncode == -signal.SIGKILL, host.stderr
    pid, *left = host.stdout.split()
    following = subprocess.run([sys.executable, "-c", NEXT_HOST], check=True, capture_output=True, text=True)
    assert following.stderr.count("removed control groups") <= 1  # not a line for each
    end = time.monotonic() + BOUND_SECONDS  # another process may be at it already
    while (_sleeps(pid) or any(map(os.path.exists, left))) and time.monotonic() < end:
        os.sched_yield()
    assert not [path for path in left if Path(path).exists()]
    assert not _sleeps(pid)
    assert [path for path in kept if not path.exists()] == []


def _sleeps(pid: str) -> bool:
    try:
        return b"86391" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@with_groups
async def test_a_sandbox_starts_where_no_group_can_be_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ControlGroups, "make", fails)
    made = await sandbox(PLACES[0][0]).run(python("x = bytearray(b'x') * (300 << 20); input()", folder))
    assert made.limit_reached in ("memory", None)
    assert "its limits are looked at instead" in caplog.text


@with_groups
def test_a_group_that_is_full_of_processes_is_emptied(groups: ControlGroups) -> None:
    made = groups.make("forks", GroupLimits(64 * MIB, 30))
    code = "import os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(0.001)"
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", f"import sys; sys.stdin.read(1)\n{code}"], stdin=subprocess.PIPE
    )
    assert child.stdin is not None
    for path in made.inside:
        (path / "cgroup.procs").write_text(str(child.pid))
    child.stdin.write(b"x")
    child.stdin.close()
    end = time.monotonic() + BOUND_SECONDS
    while len(group_files.members(made.inside[-1])) < 20 and time.monotonic() < end:
        os.sched_yield()
    made.remove()
    child.wait(BOUND_SECONDS)
    assert made.remove()
