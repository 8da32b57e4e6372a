"""Control groups of the kernel for sandboxes: exact limits of memory and processes, shares of processors.

Version 2 where its controllers can be had, else version 1: as root, or where a group is delegated to this
user (systemd: `Delegate=yes`). Each host process has a group of its own in each tree, with one group per
sandbox in it. It holds a lock on its group, which ends with the process: so a later host finds the groups of
a dead one, kills what runs in them, and removes them. The host itself is never in a limited group.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import secrets
import threading
from collections.abc import Sequence
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
    settings_of,
    settings_of_all,
    slug,
)
from hostler.domain.record import Record
from hostler.sandbox.group_files import (
    below,
    content,
    enable,
    kill_members,
    locked,
    remove,
    remove_all,
    remove_tree,
    write_all,
)
from hostler.sandbox.group_places import base_of

PREFIX = "hostler."
"""Starts the name of the group of a host process."""
LOCK_TRIES = 5
"""If a group is removed while it is being locked."""
SPARE_PROCESSES = 8
"""How many more than its limit may exist, so that it is seen that the limit was exceeded."""
_log = logging.getLogger(__name__)


class _Tree(Record):
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
            kill_members(path)
        return remove_all(self.folders)


class ControlGroups:
    """The groups of the sandboxes of this host process."""

    def __init__(self, trees: Sequence[_Tree]) -> None:
        self._trees = trees
        self._numbers = itertools.count(1)
        self._pid = os.getpid()
        self.versions = {name: tree.hierarchy.version for tree in trees for name in tree.controllers}
        """The version that each controller in use has."""
        self._changing = threading.Lock()

    def make(self, name: str, limits: GroupLimits) -> SandboxGroup:
        """Make the groups of one sandbox. Blocks. Raises OSError."""
        if os.getpid() != self._pid:
            with self._changing:
                self._be_of_this_process()
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
                enable(folder, tree.controllers)
            _make(inside, group)
            _make(around, group)
        for name in tree.controllers:
            place = folder if name == "cpu" else inside
            write_all(place, settings_of(name, version, limits))
            events = events_of(name, version)
            if events is not None and (place / events[0]).exists():
                group.events[name] = (place / events[0], events[1])
        group.inside.append(inside)
        if "cpu" in tree.controllers:
            write_all(around, [Setting(*SHARE_OF_SHIM[version])])
            group.around.append(around)
        if (inside / "cgroup.kill").exists():
            group.kill = inside

    def _be_of_this_process(self) -> None:
        """Take own groups in a forked process: those of the parent, and their names, are the parent's."""
        if os.getpid() == self._pid:
            return
        own = ControlGroups(
            [
                taken
                for tree in self._trees
                if (taken := _settle(tree.hierarchy, tree.host.parent, tree.controllers)) is not None
            ]
        )
        if len(own._trees) < len(self._trees):
            own.close()
            raise OSError("a forked process can make no groups of its own here")
        for tree in self._trees:
            os.close(tree.lock)  # the parent holds it still
        self._pid, self._trees = own._pid, own._trees

    def close(self) -> None:
        """Remove the groups of this process, as far as they are empty."""
        if os.getpid() != self._pid:
            return  # a forked child
        for tree in self._trees:
            remove_tree(tree.host)
            os.close(tree.lock)
        self._trees = ()


class FoundGroups(Record):
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
    removed = [group for one in found for group in _sweep(Path(one.mount))]
    if removed:
        _log.info("removed control groups of hosts that are gone: %d", len(removed))
    bases = [found_base for one in found if (found_base := base_of(one)) is not None]
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


def _settle(one: Hierarchy, base: Path, controllers: tuple[Controller, ...]) -> _Tree | None:
    """Make and lock the group of this process. None if that is not possible here."""
    for _ in range(LOCK_TRIES):
        host = base / f"{PREFIX}{secrets.token_hex(8)}"
        try:
            host.mkdir(0o700)
            lock = locked(host)
            if lock is None:
                continue  # another process has just taken it for one of a dead host
            try:
                if one.version == 2:
                    enable(host, controllers)
                for name in controllers:
                    write_all(host, settings_of_all(name, one.version, _total_memory(base)))
            except BaseException:
                os.close(lock)
                raise
        except OSError as error:
            _log.debug("no group for sandboxes in %s: %s", base, error)
            remove(host)
            return None
        return _Tree(one, host, lock, controllers)
    return None


def _sweep(mount: Path) -> list[Path]:
    """Remove the groups of dead hosts in a tree, with what runs in them: nobody holds their locks."""
    removed = []
    for group in below(mount):
        if not group.name.startswith(PREFIX) or (lock := locked(group)) is None:
            continue  # no group of a host, or its host lives
        try:
            kill_members(group)
            if remove_tree(group):
                removed.append(group)
        finally:
            os.close(lock)
    return removed


def _make(folder: Path, group: SandboxGroup) -> None:
    folder.mkdir(0o755)
    group.folders.append(folder)


def _total_memory(base: Path) -> int:
    """Return the memory of the machine, or the limit of the group above."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("memory.max", "memory.limit_in_bytes"):
        if (text := content(base / name).strip()).isdecimal():
            total = min(total, int(text))
    return total
