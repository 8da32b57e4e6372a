"""Version 2 of control groups, where a group with members hands on no controllers.

Tried with the one controller that machines with a mixture of both versions have left over (huge pages): what
matters is who is a member of which group.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.sandbox_groups import own_groups

BOUND_SECONDS = 40.0
CONTROLLER = "hugetlb"


def unified() -> Path | None:
    """The group of this process in a tree of version 2 that has the controller and may be changed."""
    for own in own_groups() if sys.platform == "linux" else []:
        controllers = own / "cgroup.controllers"
        if controllers.exists() and CONTROLLER in controllers.read_text().split() and os.access(own, os.W_OK):
            return own
    return None


OWN = unified()
pytestmark = [
    pytest.mark.gate("processor-time"),
    pytest.mark.skipif(OWN is None, reason="no tree of version 2 with a controller to hand on"),
]

HOST = """
import json, sys
from pathlib import Path
from hostler.domain import control_groups as domain
from hostler.sandbox import control_groups, group_places
domain.CONTROLLERS = group_places.CONTROLLERS = control_groups.CONTROLLERS = ("hugetlb",)
base, is_given = Path(sys.argv[1]), sys.argv[2] == "given"
(base / "cgroup.procs").write_text("0")
found = group_places.hand_on(base, is_given=is_given)
tree = control_groups._settle(control_groups.Hierarchy(2, str(base), str(base)), base, tuple(found))
groups = control_groups.ControlGroups([tree])
made = groups.make("plugin acme/echo", domain.GroupLimits(1 << 30, 64))
import subprocess
code = "import os, sys, time; sys.stdin.read(1); os.fork(); os.setsid(); time.sleep(86390)"
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
child = subprocess.Popen([sys.executable, "-c", code], **pipes)
(made.inside[0] / "cgroup.procs").write_text(str(child.pid))
child.stdin.close()
said = {
    "handed on": found,
    "own": Path("/proc/self/cgroup").read_text().rpartition("0::")[2].strip(),
    "inside": [path.name for path in made.inside],
    "controllers inside": (made.inside[0] / "cgroup.controllers").read_text().split(),
    "members of the host's": sorted((base / "cgroup.procs").read_text().split()),
    "removed": made.remove(),
    "child": child.wait(30),
}
groups.close()
said["left"] = sorted(path.name for path in base.iterdir() if path.is_dir())
print(json.dumps(said))
"""


@pytest.fixture
def base() -> Iterator[Path]:
    """A group below the one of this process."""
    assert OWN is not None
    enabled = CONTROLLER in (OWN / "cgroup.subtree_control").read_text().split()
    if not enabled:
        (OWN / "cgroup.subtree_control").write_text(f"+{CONTROLLER}")
    made = OWN / f"test-{secrets.token_hex(4)}"
    made.mkdir()
    yield made
    for path in [*sorted(made.rglob("*/"), reverse=True), made]:
        if path.is_dir():
            path.rmdir()
    if not enabled:
        (OWN / "cgroup.subtree_control").write_text(f"-{CONTROLLER}")


def host(base: Path, given: str) -> dict[str, object]:
    command = [sys.executable, "-c", HOST, str(base), given]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False)
    assert ended.returncode == 0, ended.stderr
    said: dict[str, object] = json.loads(ended.stdout)
    return said


def test_a_host_that_is_alone_in_its_group_moves_down_and_hands_controllers_on(base: Path) -> None:
    said = host(base, "own")
    assert said["handed on"] == said["controllers inside"] == [CONTROLLER]
    assert str(said["own"]).endswith("/hostler-hosts")
    assert said["members of the host's"] == []
    assert (said["inside"], said["removed"], said["child"]) == (["inside"], True, -9)
    assert said["left"] == ["hostler-hosts"]


@pytest.fixture
def neighbour(base: Path) -> Iterator[int]:
    """Another process in the group."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(86389)"])
    (base / "cgroup.procs").write_text(str(process.pid))
    yield process.pid
    process.kill()
    process.wait()


def test_a_group_that_others_are_in_stays_as_it_is_and_still_ends_what_is_in_it(
    base: Path, neighbour: int
) -> None:
    said = host(base, "own")
    assert said["handed on"] == []
    assert str(said["own"]).endswith(base.name)
    assert str(neighbour) in said["members of the host's"]  # type: ignore[operator]
    assert (said["removed"], said["child"], said["left"]) == (True, -9, [])


def test_in_a_group_that_was_given_to_the_host_all_move_down(base: Path, neighbour: int) -> None:
    said = host(base, "given")
    assert said["handed on"] == [CONTROLLER]
    assert said["members of the host's"] == []
    assert str(neighbour) in (base / "hostler-hosts" / "cgroup.procs").read_text().split()
