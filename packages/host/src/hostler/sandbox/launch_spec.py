"""From what a sandbox shall be to what the shim is told: one function per mechanism."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hostler.sandbox.capabilities import SIGNALS_LANDLOCK, Ground
from hostler.sandbox.port import KIB, MIB, Mechanism, SandboxLimits, SandboxSpec
from hostler.sandbox.process import Command
from hostler.sandbox.syscall_filter import Wanted, asked_calls, filter_program, machine
from hostler.sandbox.visible_files import DEVICES, PROCESSES, PROGRAMS, SETTINGS, TOP, both_ways, python_paths
from hostler_protocol.errors import UnavailableError

CONFINE = Path(__file__).with_name("confine.py")
CONFINE_INSIDE = "/run/confine.py"
DOOR_PORT = 3128
"""Where the proxy is reached inside: the network there is the sandbox's alone."""
GOES_ON = (5, 5)
"""The first Linux that can."""
FIRST_UID, UIDS = 1_900_000_000, 1_000_000
"""Users that nobody has."""
NOBODY = 65534
SPARE_MEMORY_BYTES = 256 * MIB
"""What a single process may map beyond the limit of all: the limit is to be seen before it fails."""
SPARE_PROCESSES = 8
"""The same for processes."""
SPARE_DISK_BYTES = MIB
"""And of a single file beyond what all may have together."""
LARGE_SHARE = 8
"""Memory of this part of what a process may have, asked for at once, is looked at."""
TMP_NAME = ".tmp"
OWN_TMP = "/tmp"  # noqa: S108 - its own
OWN_PLACES = (OWN_TMP, "/dev", "/proc")
"""Folders of the sandbox's own, with namespaces."""
OWN_ENTRIES = ("/proc/self", "/proc/thread-self")


def command_for(spec: SandboxSpec, mechanism: Mechanism, ground: Ground) -> Command:
    """The command that the shim executes. UnavailableError where this machine cannot hold it like that."""
    if mechanism == "bubblewrap":
        return _bubblewrap(spec, ground)
    if mechanism == "landlock":
        return _landlock(spec, ground)
    raise UnavailableError(
        f"{spec.name} cannot be sandboxed on this machine ({ground.reason()}); "
        "`hostler doctor` says more. Whoever trusts it all the same says so by name, with `level: trusted`"
    )


def user_of(name: str, ground: Ground, mechanism: Mechanism) -> int | None:
    """As whom a sandbox of this name runs where the host is root; None: as the host's own user."""
    if not (ground.maps_users if mechanism == "bubblewrap" else ground.changes_user):
        return None
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    wanted = FIRST_UID + seed % UIDS
    return wanted if _is_mapped(wanted) else NOBODY


def _is_mapped(uid: int) -> bool:
    ranges = (line.split() for line in Path("/proc/self/uid_map").read_text().splitlines())
    return any(int(first) <= uid < int(first) + int(count) for first, _, count in ranges)


# -- namespaces -----------------------------------------------------------------------------------


def _bubblewrap(spec: SandboxSpec, ground: Ground) -> Command:
    uid = user_of(spec.name, ground, "bubblewrap")
    environment = {**spec.environment, "TMPDIR": "/tmp"}  # noqa: S108 - its own
    if spec.network:
        environment |= _proxy_variables()
    view = _Mounts()
    view.add_system()
    limits = spec.limits
    for folder, size in (("/tmp", limits.tmp_bytes), ("/dev/shm", limits.tmp_bytes)):  # noqa: S108
        view.add("--perms", "1777", "--size", str(size), "--tmpfs", folder)
    writable = dict.fromkeys(real for _, real in both_ways(spec.writable))
    visible = [*python_paths(sys.executable), *spec.read_only, *spec.writable]
    for inside, real in both_ways(visible):
        view.add("--bind" if real in writable else "--ro-bind", str(real), str(inside))
    view.add("--ro-bind", str(CONFINE), CONFINE_INSIDE)
    argv = [ground.bwrap, *_namespaces(own_users=uid is not None), *view.argv]
    argv += ["--remount-ro", "/dev", "--remount-ro", "/"]
    argv += ["--chdir", "/", "--", _interpreter(), "-I", "-S", CONFINE_INSIDE]
    wanted = Wanted(network=bool(spec.network))
    order = _order(spec, argv, environment, wanted, uid=uid)
    everything = [*map(str, _system_paths()), *_names(visible), OWN_TMP, "/dev", *OWN_ENTRIES, CONFINE_INSIDE]
    order["asked"] |= {
        "read": everything,
        "write": [*_names(spec.writable), OWN_TMP, "/dev", *OWN_ENTRIES],
        "private": [f"{place}/" for place in OWN_PLACES],
    }
    order |= {
        "own_users": uid is not None,
        "own_processes": 2,
        "passes_signals_on": True,
        "mode": "bubblewrap",
    }
    if spec.network:
        order["confine"]["door"] = DOOR_PORT
    return Command(argv, Path("/"), {}, "subreaper", order)


def _namespaces(*, own_users: bool) -> list[str]:
    spaces = ["pid", "net", "ipc", "uts"] if own_users else ["user", "pid", "net", "ipc", "uts"]
    return [
        *(f"--unshare-{space}" for space in spaces),
        *("--unshare-cgroup-try", "--hostname", "sandbox", "--die-with-parent"),
    ]


class _Mounts:
    """What bubblewrap is told to show, in order.

    Folders above what is shown are made here, open to everybody: bubblewrap's own are root's alone, and
    `access(2)` in a sandbox under another user would deny whatever lies below them.
    """

    def __init__(self) -> None:
        self.argv: list[str] = []
        self._made = {Path("/")}

    def add(self, *how: str) -> None:
        """One mount; the last word is where it goes."""
        place = Path(how[-1])
        for folder in reversed(place.parents):
            if folder not in self._made:
                self.argv += ["--perms", "0755", "--dir", str(folder)]
                self._made.add(folder)
        self.argv += how
        self._made.add(place)

    def add_system(self) -> None:
        """Programs and libraries, settings, `/proc` and `/dev`."""
        for name in TOP:
            top = Path("/", name)
            if top.is_symlink():
                self.add("--symlink", str(top.readlink()), str(top))
            elif top.is_dir():
                self.add("--ro-bind", str(top), str(top))
        for path in (*PROGRAMS, *SETTINGS):
            real = os.path.realpath(path)
            if os.path.exists(real):  # noqa: PTH110 - as above
                self.add("--ro-bind", real, path)
        self.add("--proc", "/proc")
        self.add("--dev", "/dev")


def _proxy_variables() -> dict[str, str]:
    address = f"http://127.0.0.1:{DOOR_PORT}"
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    return {**dict.fromkeys(names, address), "no_proxy": "", "NO_PROXY": ""}


# -- without namespaces ---------------------------------------------------------------------------


def _landlock(spec: SandboxSpec, ground: Ground) -> Command:
    if spec.network:
        raise UnavailableError(
            f"{spec.name} may reach {', '.join(spec.network)}: that takes a network namespace, which this "
            f"machine does not offer ({ground.reason()}); Landlock can only cut it off from all networks"
        )
    uid = user_of(spec.name, ground, "landlock")
    # /etc/gitconfig is there and cannot be read, which git takes for an error; with namespaces it is absent
    environment = {"GIT_CONFIG_NOSYSTEM": "1", **spec.environment}
    if spec.writable:
        environment["TMPDIR"] = str(spec.writable[0] / TMP_NAME)
    visible = [*python_paths(sys.executable), *spec.read_only]
    argv = [_interpreter(), "-I", "-S", str(CONFINE)]
    wanted = Wanted(
        namespaces=False,
        same_user=uid is None,
        signals_held=ground.landlock >= SIGNALS_LANDLOCK,
    )
    order = _order(spec, argv, environment, wanted, uid=uid)
    order["confine"]["landlock"] = {
        "read": [str(real) for _, real in both_ways([*_system_paths(), *visible])] + list(PROCESSES),
        "write": [str(real) for _, real in both_ways(spec.writable)],
        "devices": list(DEVICES),
    }
    holds = order["confine"]["landlock"]
    order["asked"] |= {
        "read": [*_names([*_system_paths(), *visible]), *PROCESSES, *holds["devices"], *OWN_ENTRIES],
        "write": [*holds["write"], *holds["devices"]],
        "private": [],
    }
    if uid is None:  # what the host's user runs elsewhere counts as well
        order["confine"]["rlimits"]["NPROC"] += _own_tasks()
    order |= {"own_users": False, "own_processes": 0, "passes_signals_on": False, "mode": None}
    return Command(argv, Path("/"), {}, "auto", order)


def _own_tasks() -> int:
    uid, count = os.getuid(), 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == uid:
                    count += len(os.listdir(f"/proc/{entry.name}/task"))  # noqa: PTH208
            except OSError:
                continue
    return count


# -- both -----------------------------------------------------------------------------------------


def _system_paths() -> list[Path]:
    return [Path("/", name) for name in TOP] + [Path(name) for name in (*PROGRAMS, *SETTINGS)]


def _names(paths: Iterable[Path]) -> list[str]:
    return [str(name) for name, _ in both_ways(paths)]


def _interpreter() -> str:
    """The interpreter itself, not the link to it in an environment."""
    return os.path.realpath(sys.executable)


def _order(
    spec: SandboxSpec, argv: list[str], environment: Mapping[str, str], wanted: Wanted, *, uid: int | None
) -> dict[str, Any]:
    processor = machine()
    assert processor is not None  # no mechanism was found otherwise
    limits, rlimits = spec.limits, _rlimits(spec.limits)
    wanted = replace(wanted, asks=_goes_on(), large_bytes=rlimits["DATA"] // LARGE_SHARE)
    return {
        "command": argv,
        "confine": {
            "argv": list(spec.argv),
            "cwd": str(spec.cwd),
            "env": dict(environment),
            "uid": uid,
            "cpus": limits.cpus,
            "rlimits": rlimits,
            "told": filter_program(wanted, processor, tell=True).hex(),
            "untold": filter_program(wanted, processor, tell=False).hex(),
            "landlock": None,
            "door": None,
        },
        "asked": {
            "calls": asked_calls(processor) if wanted.asks else {},
            "quiet": [path for path in sys.path if path],
            "data_bytes": rlimits["DATA"],
            "open_files": limits.open_files,
        },
        "watch": {
            "memory": limits.memory_bytes,
            "processes": limits.processes,
            "disk": limits.disk_bytes,
            "files": limits.files,
            "file_bytes": rlimits["FSIZE"],
            "folders": [os.path.realpath(path) for path in spec.writable],
        },
    }


def _goes_on() -> bool:
    """Whether the kernel can let a call go on that it asked about."""
    release = os.uname().release.split("-")[0].split(".")
    return tuple(int(part) if part.isdecimal() else 0 for part in release[:2]) >= GOES_ON


def _rlimits(limits: SandboxLimits) -> dict[str, int]:
    memory = limits.memory_bytes + max(SPARE_MEMORY_BYTES, limits.memory_bytes // 2)
    rlimits = {
        "NPROC": limits.processes + SPARE_PROCESSES,
        "DATA": memory,
        "FSIZE": min(limits.file_bytes, limits.disk_bytes + SPARE_DISK_BYTES),
        "NOFILE": limits.open_files,
        "CORE": 0,
        "MEMLOCK": 64 * KIB,
        "MSGQUEUE": 0,
    }
    if limits.cpu_seconds is not None:
        rlimits["CPU"] = limits.cpu_seconds
    return rlimits
