"""Control groups of the kernel (cgroups): where they can be made, and what is written into them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from hostler.domain.record import Record

Controller = Literal["memory", "pids", "cpu"]
CONTROLLERS: tuple[Controller, ...] = ("memory", "pids", "cpu")
Version = Literal[1, 2]

PERIOD_MICROSECONDS = 100_000
"""The kernel's default: a quota of processor time is granted anew ten times a second."""
MIN_QUOTA_MICROSECONDS = 1_000
"""The least quota that the kernel takes."""
SHARE_OF_ALL = {2: ("cpu.weight", "100"), 1: ("cpu.shares", "1024")}
"""All sandboxes of a host together: the weight of one ordinary group or program, spread over all processors.
So a host, which needs one of them, gets two thirds of it at least, and of more than two processors more."""
SHARE_OF_SHIM = {2: ("cpu.weight", "1000"), 1: ("cpu.shares", "10240")}
"""The shim within the share of its sandbox, so that limits are watched however busy the sandbox is."""
MEMORY_SHARE = 0.9
"""All sandboxes of a host together may use this part of the memory; the rest is for the host and others."""
_ESCAPED = re.compile(r"\\([0-7]{3})")


class Hierarchy(Record):
    """A mounted tree of groups. Of version 2, files in the groups say which controllers it has."""

    version: Version
    mount: str
    own: str
    """The folder of this process's group."""
    controllers: tuple[Controller, ...] = ()
    is_namespace_root: bool = False
    """`own` is the root of this process's cgroup namespace."""


def hierarchies(mountinfo: str, own_groups: str) -> list[Hierarchy]:
    """Return the trees in which groups could be made, given /proc/self/mountinfo and /proc/self/cgroup.

    Trees mounted read-only, without a needed controller, or without this process's group are left out.
    """
    paths = _own_paths(own_groups)
    found: list[Hierarchy] = []
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        fields, options = before.split(), after.split()
        if not dash or len(fields) < 6 or len(options) < 3 or options[0] not in ("cgroup", "cgroup2"):
            continue
        if "ro" in fields[5].split(",") or "ro" in options[2].split(","):
            continue
        root, mount = _unescaped(fields[3]), _unescaped(fields[4])
        version: Version = 2 if options[0] == "cgroup2" else 1
        controllers = tuple(one for one in CONTROLLERS if one in options[2].split(",") and version == 1)
        path = paths.get("" if version == 2 else controllers[0] if controllers else "-")
        below = None if path is None else _below(path, root)
        if path is None or below is None or any(one.mount == mount for one in found):
            continue
        own = mount if below == "/" else mount.rstrip("/") + below
        found.append(Hierarchy(version, mount, own, controllers, path == "/"))
    return found


def _own_paths(own_groups: str) -> dict[str, str]:
    """Return the path of the own group by controller; "" for version 2."""
    paths: dict[str, str] = {}
    for line in own_groups.splitlines():
        _, _, rest = line.partition(":")
        names, colon, path = rest.partition(":")
        if colon:
            paths.update(dict.fromkeys(names.split(","), path))
    return paths


def _below(path: str, root: str) -> str | None:
    """Return a group's path below the root of a mount; None if it is not below it."""
    if path.startswith("/.."):
        return None
    if root == "/":
        return path
    if path == root:
        return "/"
    return path[len(root) :] if path.startswith(f"{root}/") else None


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)


# -- what is written ------------------------------------------------------------------------------


class GroupLimits(Record):
    """Limits of one sandbox. `cpus`: processor time, in processors; None for no limit."""

    memory_bytes: int
    processes: int
    cpus: float | None = None


class Setting(Record):
    """A file of a group and its value. `is_optional`: kernels and configurations without it do without."""

    file: str
    value: str
    is_optional: bool = False


def settings_of(controller: Controller, version: Version, limits: GroupLimits) -> list[Setting]:
    """Return what to write into the group of a sandbox, in order."""
    if controller == "memory":
        return memory_settings(version, limits.memory_bytes)
    if controller == "pids":
        return [Setting("pids.max", str(limits.processes))]
    if limits.cpus is None:
        return []
    quota = max(MIN_QUOTA_MICROSECONDS, int(limits.cpus * PERIOD_MICROSECONDS))
    if version == 2:
        return [Setting("cpu.max", f"{quota} {PERIOD_MICROSECONDS}")]
    return [
        Setting("cpu.cfs_period_us", str(PERIOD_MICROSECONDS)),
        Setting("cpu.cfs_quota_us", str(quota)),
    ]


def memory_settings(version: Version, most: int) -> list[Setting]:
    """Return the settings for a limit of memory, swap included; at the limit the whole group is killed."""
    if version == 2:
        return [
            Setting("memory.max", str(most)),
            Setting("memory.swap.max", "0", is_optional=True),
            Setting("memory.oom.group", "1", is_optional=True),
        ]
    return [
        Setting("memory.limit_in_bytes", str(most)),
        Setting("memory.memsw.limit_in_bytes", str(most), is_optional=True),
        Setting("memory.kmem.tcp.limit_in_bytes", str(most), is_optional=True),
    ]


def settings_of_all(controller: Controller, version: Version, total_memory: int) -> list[Setting]:
    """Return what to write into the group that holds all sandboxes of a host."""
    if controller == "memory":
        settings = memory_settings(version, int(total_memory * MEMORY_SHARE))
        return [one for one in settings if one.file != "memory.oom.group"]
    if controller == "cpu":
        return [Setting(*SHARE_OF_ALL[version], is_optional=True)]
    return []


def events_of(controller: Controller, version: Version) -> tuple[str, str] | None:
    """Return the file and the key that count how often a group's limit ended or refused something."""
    if controller == "memory":
        return ("memory.events", "oom_kill") if version == 2 else ("memory.oom_control", "oom_kill")
    return ("pids.events", "max") if controller == "pids" else None


def count_of(text: str, key: str) -> int:
    """Return the value of a key in a file of events; 0 without it."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.strip().isdecimal():
            return int(value)
    return 0


def is_limited(files: Mapping[str, str]) -> bool:
    """Whether a group of version 2 has a limit of memory or processor time, given the content of its files.

    A host does not make the groups of its sandboxes outside of such a group: they would escape the limit.
    """
    memory, cpu = files.get("memory.max", "max"), files.get("cpu.max", "max")
    return memory.strip() != "max" or not cpu.strip().startswith("max")


def missing(enabled: str, available: str) -> list[Controller]:
    """Return the needed controllers that a group could hand to its children and does not yet, given its
    `cgroup.subtree_control` and `cgroup.controllers`."""
    return [one for one in CONTROLLERS if one in available.split() and one not in enabled.split()]


def slug(name: str, most: int = 60) -> str:
    """Return the name of a sandbox as part of a group's name."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:most] or "sandbox"


def chosen(versions: Sequence[tuple[Version, Sequence[Controller]]]) -> dict[Controller, int]:
    """Return for each controller the index of the tree to use, given their versions and controllers.

    Version 2 is preferred.
    """
    found: dict[Controller, int] = {}
    for index, (_, controllers) in sorted(enumerate(versions), key=lambda one: -one[1][0]):
        for name in controllers:
            found.setdefault(name, index)
    return found
