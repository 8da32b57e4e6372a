"""Control groups: where they can be made, and what is written into them, by what the kernel's files say."""

from __future__ import annotations

import pytest

from hostler.domain.control_groups import (
    GroupLimits,
    Hierarchy,
    Setting,
    chosen,
    count_of,
    hierarchies,
    is_limited,
    missing,
    settings_of,
    settings_of_all,
    slug,
)

pytestmark = pytest.mark.gate("processor-time")

V2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
MEMORY = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
CPU = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
OTHER = "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n22 1 8:1 / / rw - ext4 a rw"
OWN = "5:memory:/a/b\n3:cpu,cpuacct:/c\n1:name=systemd:/d\n0::/user.slice/x.scope\n"


@pytest.mark.parametrize(
    ("mounts", "own", "expected"),
    [
        (V2, OWN, [Hierarchy(2, "/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/x.scope")]),
        (V2, "0::/\n", [Hierarchy(2, "/sys/fs/cgroup", "/sys/fs/cgroup", (), True)]),
        (MEMORY, OWN, [Hierarchy(1, "/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/a/b", ("memory",))]),
        (CPU, OWN, [Hierarchy(1, "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/c", ("cpu",))]),
        (OTHER, OWN, []),
        # a container that sees its part of the tree, by the path of the whole one
        (
            V2.replace(" / /sys", " /user.slice /sys"),
            OWN,
            [Hierarchy(2, "/sys/fs/cgroup", "/sys/fs/cgroup/x.scope")],
        ),
        (
            V2.replace(" / /sys", " /user.slice/x.scope /sys"),
            OWN,
            [Hierarchy(2, "/sys/fs/cgroup", "/sys/fs/cgroup")],
        ),
        # a process outside of the namespace or of the part that is mounted
        (V2, "0::/../elsewhere\n", []),
        (V2.replace(" / /sys", " /docker/1 /sys"), OWN, []),
        # read-only
        (V2.replace("rw,nosuid", "ro,nosuid"), OWN, []),
        (V2.replace("cgroup2 rw", "cgroup2 ro"), OWN, []),
        # mounted twice at one place, and with a space in its name
        (f"{V2}\n{V2}", "0::/\n", [Hierarchy(2, "/sys/fs/cgroup", "/sys/fs/cgroup", (), True)]),
        (V2.replace("/sys/fs/cgroup", "/a\\040b"), "0::/x\n", [Hierarchy(2, "/a b", "/a b/x")]),
        ("", "", []),
        ("nonsense - cgroup2", "nonsense", []),
    ],
)
def test_trees_in_which_groups_can_be_made(mounts: str, own: str, expected: list[Hierarchy]) -> None:
    assert hierarchies(mounts, own) == expected


def test_version_2_is_preferred_for_each_controller_that_it_has() -> None:
    trees = [(1, ("memory",)), (1, ("cpu",)), (2, ("cpu", "pids"))]
    assert chosen(trees) == {"cpu": 2, "pids": 2, "memory": 0}  # type: ignore[arg-type]
    assert chosen([]) == {}


LIMITS = GroupLimits(memory_bytes=1 << 30, processes=72, cpus=1.5)


@pytest.mark.parametrize(
    ("controller", "version", "expected"),
    [
        ("pids", 1, ["pids.max=72"]),
        ("pids", 2, ["pids.max=72"]),
        ("cpu", 1, ["cpu.cfs_period_us=100000", "cpu.cfs_quota_us=150000"]),
        ("cpu", 2, ["cpu.max=150000 100000"]),
        ("memory", 2, ["memory.max=1073741824", "memory.swap.max=0?", "memory.oom.group=1?"]),
        (
            "memory",
            1,
            [
                "memory.limit_in_bytes=1073741824",
                "memory.memsw.limit_in_bytes=1073741824?",
                "memory.kmem.tcp.limit_in_bytes=1073741824?",
            ],
        ),
    ],
)
def test_what_is_written_for_a_sandbox(controller: str, version: int, expected: list[str]) -> None:
    settings = settings_of(controller, version, LIMITS)  # type: ignore[arg-type]
    assert list(map(shown, settings)) == expected


def shown(one: Setting) -> str:
    return f"{one.file}={one.value}{'?' if one.is_optional else ''}"


def test_little_processor_time_is_what_the_kernel_takes_and_none_is_no_limit() -> None:
    few = GroupLimits(1, 1, 0.001)
    assert shown(settings_of("cpu", 2, few)[0]) == "cpu.max=1000 100000"
    assert settings_of("cpu", 2, GroupLimits(1, 1)) == []


def test_all_sandboxes_together_leave_memory_and_time_to_the_host() -> None:
    assert shown(settings_of_all("memory", 2, 1000)[0]) == "memory.max=900"
    assert "memory.oom.group" not in [one.file for one in settings_of_all("memory", 2, 1000)]
    assert shown(settings_of_all("cpu", 2, 0)[0]) == "cpu.weight=100?"
    assert shown(settings_of_all("cpu", 1, 0)[0]) == "cpu.shares=1024?"
    assert settings_of_all("pids", 2, 0) == []


@pytest.mark.parametrize(
    ("files", "limited"),
    [
        ({}, False),
        ({"memory.max": "max\n", "cpu.max": "max 100000\n"}, False),
        ({"memory.max": "1024\n"}, True),
        ({"cpu.max": "50000 100000\n"}, True),
    ],
)
def test_groups_whose_limits_nobody_may_escape(files: dict[str, str], limited: bool) -> None:
    assert is_limited(files) is limited


def test_controllers_that_are_to_be_handed_on() -> None:
    assert missing("cpu\n", "cpuset cpu io memory pids\n") == ["memory", "pids"]
    assert missing("", "hugetlb\n") == []


def test_counts_of_events() -> None:
    assert count_of("low 0\noom 3\noom_kill 2\n", "oom_kill") == 2
    assert count_of("max x\n", "max") == count_of("", "max") == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plugin Acme/Echo", "plugin_acme_echo"),
        ("../../x\n", "x"),
        ("", "sandbox"),
        ("é", "sandbox"),
        ("a" * 99, "a" * 60),
    ],
)
def test_names_of_groups(name: str, expected: str) -> None:
    assert slug(name) == expected
