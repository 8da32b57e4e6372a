"""The group in which a host may make those of its sandboxes, and what it hands on to them."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from hostler.domain.control_groups import CONTROLLERS, Controller, Hierarchy, is_limited, missing
from hostler.sandbox.group_files import content, members

HOSTS_GROUP = "hostler-hosts"
"""Holds the hosts of a delegated group: one with members cannot hand its controllers on."""

Base = tuple[Hierarchy, Path, tuple[Controller, ...]]


def base_of(one: Hierarchy) -> Base | None:
    """Return the group in which this process may make groups, and the controllers that these would have."""
    own = Path(one.own)
    if one.version == 1:
        return (one, own, one.controllers) if one.controllers and os.access(own, os.W_OK) else None
    if own.name == HOSTS_GROUP:
        own = own.parent
    best: Base | None = None
    for base in _candidates(one, own):
        with contextlib.suppress(OSError):
            controllers = tuple(hand_on(base, is_given=_is_given(base) or one.is_namespace_root))
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
    return is_limited({name: content(group / name) or "max" for name in ("memory.max", "cpu.max")})


def hand_on(base: Path, *, is_given: bool) -> list[Controller]:
    """Have a group hand the needed controllers to its children; return those it hands on. Raises OSError.

    A group with members cannot, except for the root of all: this process then moves into a group below it,
    and so do the others if the whole group was given to this host.
    """
    control = base / "cgroup.subtree_control"
    wanted = missing(content(control), content(base / "cgroup.controllers"))
    if wanted and (base / "cgroup.type").exists() and content(base / "cgroup.procs").split():
        _move_down(base, everyone=is_given)
    for name in wanted:
        with contextlib.suppress(OSError):  # others are members of the group
            control.write_text(f"+{name}")
    enabled = content(control).split()
    if wanted and not any(name in enabled for name in wanted):
        _move_back(base)
    return [name for name in CONTROLLERS if name in enabled]


def _move_down(base: Path, *, everyone: bool) -> None:
    hosts = base / HOSTS_GROUP
    with contextlib.suppress(FileExistsError):
        hosts.mkdir(0o755)
    for pid in members(base) if everyone else [os.getpid()]:
        with contextlib.suppress(ProcessLookupError):
            (hosts / "cgroup.procs").write_text(str(pid))


def _move_back(base: Path) -> None:
    with contextlib.suppress(OSError):
        if os.getpid() in members(base / HOSTS_GROUP):
            (base / "cgroup.procs").write_text(str(os.getpid()))
        (base / HOSTS_GROUP).rmdir()
