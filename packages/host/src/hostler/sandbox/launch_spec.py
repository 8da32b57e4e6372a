"""Build the shim's launch spec from a SandboxSpec: one function per mechanism."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from hostler.sandbox.capabilities import SIGNALS_LANDLOCK, SandboxCapabilities
from hostler.sandbox.control_groups import SPARE_PROCESSES, SandboxGroup
from hostler.sandbox.folders import PinnedFolder
from hostler.sandbox.own_settings import own_settings, user_variables
from hostler.sandbox.port import KIB, MIB, Mechanism, SandboxLimits, SandboxSpec
from hostler.sandbox.process import Command
from hostler.sandbox.project_quotas import Quota
from hostler.sandbox.syscall_filter import FilterOptions, filter_program, machine, traced_calls
from hostler.sandbox.visible_files import (
    DEVICES,
    PROCESSES,
    PROGRAMS,
    SETTINGS,
    TOP,
    named_and_real,
    python_paths,
)
from hostler_protocol.errors import UnavailableError

CONFINE = Path(__file__).with_name("confine.py")
CONFINE_INSIDE = "/run/confine.py"
CONTENT_OF = "content of "
"""Stands in the arguments of bubblewrap for a descriptor from which a file is read."""
PROXY_PORT = 3128
"""The proxy's port inside the sandbox, whose network is private."""
MODEL_DOOR_ADDRESS = "127.0.0.2"
"""Where plugins that use hostler_sdk serve their model door, which no proxy reaches."""
MIN_CONTINUE_LINUX = (5, 5)
"""The first Linux whose seccomp listener can let a call continue."""
SPARE_MEMORY_BYTES = 256 * MIB
"""How much more than the common limit a single process may map, so that the limit is noticed before mmap
fails."""
SPARE_DISK_BYTES = MIB
"""The same for the size of a single file."""
NICE = 5
"""Of everything in a sandbox where no control group gives it a share: a third of the weight of others."""
QUEUED_SIGNALS = 4096
"""Signals and timers that wait, of all processes of the user together: the kernel's limit is shared with what
the user runs outside, to which the rest of it is left."""
LARGE_SHARE = 8
"""A request for more than one part in this many of a process's memory limit is reported."""
TMP_NAME = ".tmp"
OWN_TMP = "/tmp"  # noqa: S108 - its own
PRIVATE_FOLDERS = (OWN_TMP, "/dev", "/proc")
"""Folders private to the sandbox, with namespaces."""
OWN_ENTRIES = ("/proc/self", "/proc/thread-self")


def check_possible(spec: SandboxSpec, mechanism: Mechanism, capabilities: SandboxCapabilities) -> None:
    """Raise UnavailableError if this machine cannot enforce the spec."""
    if mechanism == "none":
        raise UnavailableError(
            f"{spec.name} cannot be sandboxed on this machine ({capabilities.reason()}); "
            "`hostler doctor` says more. To run it unsandboxed, trust it by name with `level: trusted`"
        )
    if mechanism == "landlock" and spec.network:
        raise UnavailableError(
            f"{spec.name} may reach {', '.join(spec.network)}: that needs a network namespace, which this "
            f"machine does not offer ({capabilities.reason()}); Landlock can only cut off all networks"
        )


def command_for(
    spec: SandboxSpec,
    mechanism: Mechanism,
    capabilities: SandboxCapabilities,
    uid: int | None,
    folders: Sequence[PinnedFolder],
    *,
    group: SandboxGroup | None = None,
    quota: Quota | None = None,
) -> Command:
    """Return the command for the shim.

    `uid` is the user of the sandbox, None for the host's own; `folders` are the prepared writable folders,
    `group` its control groups, `quota` the project of the folders.
    """
    group = SandboxGroup() if group is None else group
    counts = "memory" not in group.events
    if mechanism == "bubblewrap":
        command = _bubblewrap(spec, capabilities, uid, counts_memory=counts)
    else:
        command = _landlock(spec, capabilities, uid, counts_memory=counts)
    launch = cast("dict[str, Any]", command.sandbox)
    launch["groups"], launch["nice"] = group.launch(), 0 if group.around else NICE
    launch["watch"]["folders"] = [tuple(one) for one in folders]
    launch["watch"]["quota"] = quota
    launch["confine"]["folders"] = [(one.device, one.inode) for one in folders]
    launch["confine"]["writable"] = [one.named for one in folders]
    if launch["confine"]["landlock"] is not None:
        launch["confine"]["landlock"]["folders"] = launch["confine"]["folders"]
    return command


# -- namespaces -----------------------------------------------------------------------------------


def _bubblewrap(
    spec: SandboxSpec, capabilities: SandboxCapabilities, uid: int | None, *, counts_memory: bool
) -> Command:
    environment = {**user_variables(), **spec.environment, "TMPDIR": "/tmp"}  # noqa: S108 - its own
    if spec.network:
        environment |= _proxy_variables()
    view = _Mounts()
    view.add_system()
    limits = spec.limits
    for folder, size in (("/tmp", limits.tmp_bytes), ("/dev/shm", limits.tmp_bytes)):  # noqa: S108
        view.add("--perms", "1777", "--size", str(size), "--tmpfs", folder)
    writable = dict.fromkeys(real for _, real in named_and_real(spec.writable))
    visible = [*python_paths(sys.executable), *spec.read_only, *spec.writable]
    for inside, real in named_and_real(visible):
        view.add("--bind" if real in writable else "--ro-bind", str(real), str(inside))
    view.add("--ro-bind", str(CONFINE), CONFINE_INSIDE)
    settings = _settings(environment, uid)
    for path in settings:
        view.add("--perms", "0444", "--ro-bind-data", f"{CONTENT_OF}{path}", path)
    argv = [capabilities.bwrap, *_namespaces(own_users=uid is not None), *view.argv]
    # a read-only /proc: no process opens the memory of another for writing (/proc/PID/mem)
    argv += ["--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"]
    argv += ["--chdir", "/", "--", _interpreter(), "-I", "-S", CONFINE_INSIDE]
    options = FilterOptions(
        tcp=bool(spec.network) or spec.loopback,
        unix_sockets=spec.unix_sockets,
        counts_memory=counts_memory,
    )
    launch = _launch_spec(spec, argv, environment, options, uid=uid)
    launch["contents"] = {f"{CONTENT_OF}{path}": text for path, text in settings.items()}
    everything = [
        *settings,
        *map(str, _system_paths()),
        *_visible_names(visible),
        OWN_TMP,
        "/dev",
        *OWN_ENTRIES,
        CONFINE_INSIDE,
    ]
    launch["audit"] |= {
        "read": everything,
        "write": [*_visible_names(spec.writable), OWN_TMP, "/dev", *OWN_ENTRIES],
        "private": [f"{place}/" for place in PRIVATE_FOLDERS],
    }
    launch["confine"]["is_first"] = True
    launch |= {
        "own_users": uid is not None,
        "own_processes": 2,
        "passes_signals_on": True,
        "mode": "bubblewrap",
    }
    if spec.network:
        launch["confine"]["proxy_port"] = PROXY_PORT
    return Command(argv, Path("/"), {}, "subreaper", launch)


def _settings(environment: Mapping[str, str], uid: int | None, machine_name: str = "") -> dict[str, str]:
    user = (os.getuid(), os.getgid()) if uid is None else (uid, uid)
    return own_settings(*user, environment, machine_name)


def _namespaces(*, own_users: bool) -> list[str]:
    spaces = ["pid", "net", "ipc", "uts"] if own_users else ["user", "pid", "net", "ipc", "uts"]
    return [
        *(f"--unshare-{space}" for space in spaces),
        *("--unshare-cgroup-try", "--hostname", "sandbox", "--die-with-parent", "--as-pid-1"),
    ]


class _Mounts:
    """Mount arguments for bubblewrap, in order.

    Parent folders are created here and readable by everyone: those that bubblewrap creates are root's alone,
    and `access(2)` in a sandbox of another user would then deny everything below them.
    """

    def __init__(self) -> None:
        self.argv: list[str] = []
        self._made = {Path("/")}

    def add(self, *how: str) -> None:
        """Add one mount; the last argument is its target."""
        place = Path(how[-1])
        for folder in reversed(place.parents):
            if folder not in self._made:
                self.argv += ["--perms", "0755", "--dir", str(folder)]
                self._made.add(folder)
        self.argv += how
        self._made.add(place)

    def add_system(self) -> None:
        """Add programs, libraries, settings, `/proc` and `/dev`."""
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
    address = f"http://127.0.0.1:{PROXY_PORT}"
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    # the address of the SDK's model door; `localhost` and 127.0.0.1 may be endpoints behind the proxy
    direct = dict.fromkeys(("no_proxy", "NO_PROXY"), MODEL_DOOR_ADDRESS)
    # programs may be told to ignore the others; this one says that there is no other way out
    own = {"NODE_USE_ENV_PROXY": "1", "HOSTLER_SANDBOX_PROXY": address}
    return {**dict.fromkeys(names, address), **direct, **own}


# -- without namespaces ---------------------------------------------------------------------------


def _landlock(
    spec: SandboxSpec, capabilities: SandboxCapabilities, uid: int | None, *, counts_memory: bool
) -> Command:
    # /etc/gitconfig exists but cannot be read, an error for git; with namespaces it does not exist
    environment = {"GIT_CONFIG_NOSYSTEM": "1", **user_variables(), **spec.environment}
    if spec.writable:
        environment["TMPDIR"] = str(spec.writable[0] / TMP_NAME)
    visible = [*python_paths(sys.executable), *spec.read_only]
    argv = [_interpreter(), "-I", "-S", str(CONFINE)]
    options = FilterOptions(
        namespaces=False,
        same_user=uid is None,
        signals_scoped=capabilities.landlock >= SIGNALS_LANDLOCK,
        counts_memory=counts_memory,
    )
    launch = _launch_spec(spec, argv, environment, options, uid=uid)
    launch["confine"]["landlock"] = {
        "read": [str(real) for _, real in named_and_real([*_system_paths(), *visible])] + list(PROCESSES),
        "write": [str(real) for _, real in named_and_real(spec.writable)],
        "devices": list(DEVICES),
    }
    landlock = launch["confine"]["landlock"]
    launch["audit"] |= {
        "read": [
            *_visible_names([*_system_paths(), *visible]),
            *PROCESSES,
            *landlock["devices"],
            *OWN_ENTRIES,
        ],
        "write": [*landlock["write"], *landlock["devices"]],
        "private": [],
        "supplied": _settings(environment, uid, os.uname().nodename),
    }
    if uid is None:  # the limit also counts processes that the host's user runs elsewhere
        launch["confine"]["rlimits"]["NPROC"] += _own_tasks()
    launch |= {"own_users": False, "own_processes": 0, "passes_signals_on": False, "mode": None}
    launch["shared_in"] = TMP_NAME if spec.writable else None
    return Command(argv, Path("/"), {}, "auto", launch)


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


def _visible_names(paths: Iterable[Path]) -> list[str]:
    return [str(name) for name, _ in named_and_real(paths)]


def _interpreter() -> str:
    """Return the interpreter itself, not a virtual environment's link to it."""
    return os.path.realpath(sys.executable)


def _launch_spec(
    spec: SandboxSpec,
    argv: list[str],
    environment: Mapping[str, str],
    options: FilterOptions,
    *,
    uid: int | None,
) -> dict[str, Any]:
    processor = machine()
    assert processor is not None  # otherwise no mechanism was found
    limits, rlimits = spec.limits, _rlimits(spec.limits)
    options = replace(options, traces=_can_continue(), large_bytes=rlimits["DATA"] // LARGE_SHARE)
    return {
        "command": argv,
        "contents": {},
        "shared_in": None,
        "groups": None,
        "nice": 0,
        "confine": {
            "argv": list(spec.argv),
            "cwd": str(spec.cwd),
            "env": dict(environment),
            "uid": uid,
            "cpus": None if limits.cpus is None else math.ceil(limits.cpus),
            "rlimits": rlimits,
            "huge_pages": not options.counts_memory,
            "filter": filter_program(options, processor, notify=True).hex(),
            "silent_filter": filter_program(options, processor, notify=False).hex(),
            "landlock": None,
            "proxy_port": None,
            "is_first": False,
        },
        "audit": {
            "calls": traced_calls(options, processor),
            "ignored": [path for path in sys.path if path],
            "data_bytes": rlimits["DATA"],
            "open_files": limits.open_files,
            "supplied": {},
        },
        "watch": {
            "memory": limits.memory_bytes,
            "processes": limits.processes,
            "disk": limits.disk_bytes,
            "files": limits.files,
            "file_bytes": rlimits["FSIZE"],
        },
    }


def _can_continue() -> bool:
    """Whether the kernel can let a reported call continue."""
    release = os.uname().release.split("-")[0].split(".")
    return tuple(int(part) if part.isdecimal() else 0 for part in release[:2]) >= MIN_CONTINUE_LINUX


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
        "SIGPENDING": QUEUED_SIGNALS,
    }
    if limits.cpu_seconds is not None:
        rlimits["CPU"] = limits.cpu_seconds
    return rlimits
