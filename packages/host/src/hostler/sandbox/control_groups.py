"""Control groups of the kernel for sandboxes: exact limits of memory and processes, shares of processors.

Version 2 where its controllers can be had, else version 1: as root, or where a group is delegated to this
user (systemd: `Delegate=yes`). Each host process has a group of its own in each tree, with one group per
sandbox in it. It holds a lock on its group, which ends with the process: so a later host finds the groups of
a dead one, kills what runs in them, and removes them. The host itself is never in a limited group.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import itertools
import logging
import os
import secrets
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostler.domain.control_groups import (
    CONTROLLERS,
    SHARE_OF_SHIM,
    Controller,
    GroupLimits,
    Hierarchy,
    Setting,
    chosen,
    events_of,
    hierarchies,
    is_limited,
    missing,
    settings_of,
    settings_of_all,
    slug,
)

PREFIX = "hostler."
"""Starts the name of the group of a host process."""
HOSTS_GROUP = "hostler-hosts"
"""Holds the hosts of a delegated group: one with members cannot hand its controllers on."""
MAX_GROUPS_WALKED = 5_000
"""Groups looked through for those of dead hosts; machines with more have other means to tidy up."""
LOCK_TRIES = 5
KILL_PASSES, KILL_WAIT_SECONDS = 50, 0.01
"""For processes that fork while they are being killed."""
SPARE_PROCESSES = 8
"""How many more than its limit may exist, so that it is seen that the limit was exceeded."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Tree:
    """A tree with a group of this host process in it, and the controllers that are used there."""

    hierarchy: Hierarchy
    host: Path
    lock: int
    controllers: tuple[Controller, ...]


@dataclass(slots=True)
class SandboxGroup:
    """The groups of one sandbox. Members of `inside` are limited; `around` the shim has its share, too."""

    folders: list[Path] = field(default_factory=list)
    """In the order in which they were made."""
    inside: list[Path] = field(default_factory=list)
    around: list[Path] = field(default_factory=list)
    kill: Path | None = None
    events: dict[Controller, tuple[Path, str]] = field(default_factory=dict)

    def launch(self) -> dict[str, Any]:
        """Return what the shim has to know."""
        return {
            "around": [str(path / "cgroup.procs") for path in self.around],
            "inside": [str(path / "cgroup.procs") for path in self.inside],
            "kill": None if self.kill is None else str(self.kill / "cgroup.kill"),
            "events": {name: (str(path), key) for name, (path, key) in self.events.items()},
        }

    def remove(self) -> bool:
        """Kill what is left in the groups, and remove them. Blocks. Return whether they are gone."""
        for path in self.inside:
            _kill_members(path)
        self.folders = [path for path in reversed(self.folders) if not _remove(path)][::-1]
        return not self.folders


class ControlGroups:
    """The groups of the sandboxes of this host process."""

    def __init__(self, trees: Sequence[_Tree]) -> None:
        self._trees = trees
        self._numbers = itertools.count(1)
        self._pid = os.getpid()
        self.versions = {name: tree.hierarchy.version for tree in trees for name in tree.controllers}
        """The version that each controller in use has."""

    @property
    def kills(self) -> bool:
        """Whether the kernel kills all processes of a group at once."""
        return any((tree.host / "cgroup.kill").exists() for tree in self._trees)

    def make(self, name: str, limits: GroupLimits) -> SandboxGroup:
        """Make the groups of one sandbox. Blocks. Raises OSError."""
        group, label = SandboxGroup(), f"{next(self._numbers)}-{slug(name)}"
        try:
            for tree in self._trees:
                self._make_in(tree, tree.host / label, group, limits)
        except BaseException:
            group.remove()
            raise
        return group

    def _make_in(self, tree: _Tree, folder: Path, group: SandboxGroup, limits: GroupLimits) -> None:
        version, inside, around = tree.hierarchy.version, folder, folder
        _make(folder, group)
        if version == 2 or "cpu" in tree.controllers:
            # in version 2 processes are in groups without further ones only; and the shim, which watches the
            # limits, must not be one of many in the sandbox
            inside, around = folder / "inside", folder / "around"
            if version == 2:
                _enable(folder, tree.controllers)
            _make(inside, group)
            _make(around, group)
        for name in tree.controllers:
            place = folder if name == "cpu" else inside
            _write_all(place, settings_of(name, version, limits))
            events = events_of(name, version)
            if events is not None and (place / events[0]).exists():
                group.events[name] = (place / events[0], events[1])
        group.inside.append(inside)
        if "cpu" in tree.controllers:
            _write_all(around, [Setting(*SHARE_OF_SHIM[version])])
            group.around.append(around)
        if (inside / "cgroup.kill").exists():
            group.kill = inside

    def close(self) -> None:
        """Remove the groups of this process, as far as they are empty."""
        if os.getpid() != self._pid:
            return  # a forked child
        for tree in self._trees:
            _remove_tree(tree.host)
            os.close(tree.lock)
        self._trees = ()


@dataclass(frozen=True, slots=True)
class FoundGroups:
    """The groups that this machine offers to this process; `why` says what keeps it from having more."""

    groups: ControlGroups | None = None
    why: str = "this system has no control groups"

    def version(self, controller: Controller) -> int | None:
        """The version of a controller, or None if it cannot be used."""
        return None if self.groups is None else self.groups.versions.get(controller)


NO_GROUPS = FoundGroups()


def find_groups() -> FoundGroups:
    """Find out where this process may make groups, and remove those of dead hosts. Blocks."""
    try:
        found = hierarchies(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    except OSError:
        return FoundGroups()
    if not found:
        return FoundGroups(why="no control groups are mounted for writing")
    for one in found:
        _sweep(Path(one.mount))
    bases = [found_base for one in found if (found_base := _base_of(one)) is not None]
    places = chosen([(one.version, controllers) for one, _, controllers in bases])
    trees = []
    for index, (tree_found, base, _) in enumerate(bases):
        used = tuple(name for name in CONTROLLERS if places.get(name) == index)
        if (used or tree_found.version == 2) and (tree := _settle(tree_found, base, used)) is not None:
            trees.append(tree)
    if not trees:
        return FoundGroups(why="this user may not make control groups")
    groups = ControlGroups(trees)
    atexit.register(groups.close)
    lacking = [name for name in CONTROLLERS if name not in groups.versions]
    return FoundGroups(groups, f"no controller for {', '.join(lacking)}" if lacking else "")


# -- where groups can be made ----------------------------------------------------------------------


_Base = tuple[Hierarchy, Path, tuple[Controller, ...]]


def _base_of(one: Hierarchy) -> _Base | None:
    """Return the group in which this process may make groups, and the controllers that these would have."""
    own = Path(one.own)
    if one.version == 1:
        return (one, own, one.controllers) if one.controllers and os.access(own, os.W_OK) else None
    if own.name == HOSTS_GROUP:
        own = own.parent
    best: _Base | None = None
    for base in _candidates(one, own):
        with contextlib.suppress(OSError):
            controllers = tuple(_hand_on(base, is_given=_is_given(base) or one.is_namespace_root))
            if best is None or len(controllers) > len(best[2]):
                best = (one, base, controllers)
    return best


def _candidates(one: Hierarchy, own: Path) -> Iterator[Path]:
    """Yield groups of version 2 that a host may arrange: its own if it is delegated, or the root of all."""
    root = Path(one.mount)
    if own != root and os.access(own, os.W_OK) and _is_delegated(own):
        yield own
    above = itertools.takewhile(lambda path: path != root, [own, *own.parents])
    if os.access(root, os.W_OK) and not any(map(_has_limit, above)):
        yield root


def _is_given(group: Path) -> bool:
    """Whether the service manager has handed a group over with all that is in it."""
    for name in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(group, name) == b"1":
                return True
    return False


def _is_delegated(group: Path) -> bool:
    """Whether this user may arrange a group: on systemd's machines root only if it was handed over."""
    if os.geteuid() != 0:
        return os.access(group / "cgroup.subtree_control", os.W_OK)
    return _is_given(group) or not Path("/run/systemd/system").exists()


def _has_limit(group: Path) -> bool:
    return is_limited({name: _text(group / name) or "max" for name in ("memory.max", "cpu.max")})


def _hand_on(base: Path, *, is_given: bool) -> list[Controller]:
    """Have a group hand the needed controllers to its children; return those it hands on. Raises OSError.

    A group with members cannot, except for the root of all: this process then moves into a group below it,
    and so do the others if the whole group was given to this host.
    """
    control = base / "cgroup.subtree_control"
    wanted = missing(_text(control), _text(base / "cgroup.controllers"))
    if wanted and (base / "cgroup.type").exists() and _text(base / "cgroup.procs").split():
        _move_down(base, everyone=is_given)
    for name in wanted:
        with contextlib.suppress(OSError):  # others are members of the group
            control.write_text(f"+{name}")
    enabled = _text(control).split()
    if wanted and not any(name in enabled for name in wanted):
        _move_back(base)
    return [name for name in CONTROLLERS if name in enabled]


def _move_down(base: Path, *, everyone: bool) -> None:
    hosts = base / HOSTS_GROUP
    with contextlib.suppress(FileExistsError):
        hosts.mkdir(0o755)
    for pid in _members(base) if everyone else [os.getpid()]:
        with contextlib.suppress(ProcessLookupError):
            (hosts / "cgroup.procs").write_text(str(pid))


def _move_back(base: Path) -> None:
    with contextlib.suppress(OSError):
        if os.getpid() in _members(base / HOSTS_GROUP):
            (base / "cgroup.procs").write_text(str(os.getpid()))
        (base / HOSTS_GROUP).rmdir()


def _settle(one: Hierarchy, base: Path, controllers: tuple[Controller, ...]) -> _Tree | None:
    """Make and lock the group of this process. None if that is not possible here."""
    for _ in range(LOCK_TRIES):
        host = base / f"{PREFIX}{secrets.token_hex(8)}"
        try:
            host.mkdir(0o700)
            lock = _locked(host)
            if lock is None:
                continue  # another process has just taken it for one of a dead host
            try:
                if one.version == 2:
                    _enable(host, controllers)
                for name in controllers:
                    _write_all(host, settings_of_all(name, one.version, _total_memory(base)))
            except BaseException:
                os.close(lock)
                raise
        except OSError as error:
            _log.debug("no group for sandboxes in %s: %s", base, error)
            _remove(host)
            return None
        return _Tree(one, host, lock, controllers)
    return None


def _locked(group: Path) -> int | None:
    """Return a descriptor that holds the lock of a group; None if another process has it or removed the
    group."""
    try:
        lock = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if group.stat().st_ino == os.fstat(lock).st_ino:
            return lock
    os.close(lock)
    return None


def _total_memory(base: Path) -> int:
    """Return the memory of the machine, or the limit of the group above."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("memory.max", "memory.limit_in_bytes"):
        if (text := _text(base / name).strip()).isdecimal():
            total = min(total, int(text))
    return total


# -- files of groups -------------------------------------------------------------------------------


def _make(folder: Path, group: SandboxGroup) -> None:
    folder.mkdir(0o755)
    group.folders.append(folder)


def _enable(folder: Path, controllers: Sequence[str]) -> None:
    if controllers:
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


def _write_all(folder: Path, settings: Sequence[Setting]) -> None:
    for setting in settings:
        try:
            # not with O_CREAT, which a missing file would answer with a refusal
            file = os.open(folder / setting.file, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(file, setting.value.encode())
            finally:
                os.close(file)
        except OSError:
            if not setting.is_optional:
                raise


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _members(group: Path) -> list[int]:
    """Return the members of a group that this process can name; 0 stands for others."""
    return [pid for pid in map(int, _text(group / "cgroup.procs").split()) if pid > 0]


def _kill_members(group: Path) -> None:
    """Kill everything in a group and the groups below it."""
    with contextlib.suppress(OSError):
        file = os.open(group / "cgroup.kill", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(file, b"1")
        finally:
            os.close(file)
    for _ in range(KILL_PASSES):
        pids = [pid for folder in (group, *_below(group)) for pid in _members(folder)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not pids:
            return
        time.sleep(KILL_WAIT_SECONDS)


def _below(group: Path) -> list[Path]:
    """Return the groups below one, parents first."""
    found: list[Path] = []
    waiting = [group]
    while waiting and len(found) < MAX_GROUPS_WALKED:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
            found += folders
            waiting += folders
    return found


def _remove(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _remove_tree(group: Path) -> bool:
    left = [path for path in reversed([group, *_below(group)]) if not _remove(path)]
    return not left


def _sweep(mount: Path) -> None:
    """Remove the groups of dead hosts in a tree, with what runs in them: nobody holds their locks."""
    for group in _below(mount):
        if not group.name.startswith(PREFIX) or (lock := _locked(group)) is None:
            continue  # no group of a host, or its host lives
        try:
            _kill_members(group)
            if _remove_tree(group):
                _log.info("removed the groups of sandboxes of a host that is gone: %s", group)
        finally:
            os.close(lock)
