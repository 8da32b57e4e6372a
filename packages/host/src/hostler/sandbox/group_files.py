"""Files of control groups: read and write them, kill the members of a group, remove and lock it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from hostler.domain.control_groups import Setting

MAX_GROUPS_WALKED = 5_000
"""Groups looked through for those of dead hosts; machines with more have other means to tidy up."""
KILL_PASSES, KILL_WAIT_SECONDS = 50, 0.01
"""For processes that fork while they are being killed, and take a moment to be gone."""


def enable(folder: Path, controllers: Sequence[str]) -> None:
    """Have a group hand controllers to its children. Raises OSError."""
    if controllers:
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


def write_all(folder: Path, settings: Sequence[Setting]) -> None:
    """Write settings into the files of a group. Raises OSError, unless a setting is optional."""
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


def content(path: Path) -> str:
    """Return the content of a file; nothing if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""


def members(group: Path) -> list[int]:
    """Return the members of a group that this process can name; 0 stands for others."""
    return [pid for pid in map(int, content(group / "cgroup.procs").split()) if pid > 0]


def kill_members(group: Path) -> None:
    """Kill everything in a group and the groups below it."""
    with contextlib.suppress(OSError):
        file = os.open(group / "cgroup.kill", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(file, b"1")
        finally:
            os.close(file)
    for _ in range(KILL_PASSES):
        pids = [pid for folder in (group, *below(group)) for pid in members(folder)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not pids:
            return
        time.sleep(KILL_WAIT_SECONDS)


def below(group: Path) -> list[Path]:
    """Return the groups below one, parents first."""
    found: list[Path] = []
    waiting = [group]
    while waiting and len(found) < MAX_GROUPS_WALKED:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
            found += folders
            waiting += folders
    return found


def remove(group: Path) -> bool:
    """Remove a group without members; return whether it is gone."""
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def remove_all(groups: Sequence[Path]) -> bool:
    """Remove groups, the last ones first; those that were killed may take a moment to be empty."""
    left = list(groups)
    for _ in range(KILL_PASSES):
        left = [path for path in reversed(left) if not remove(path)][::-1]
        if not left:
            return True
        time.sleep(KILL_WAIT_SECONDS)
    return False


def remove_tree(group: Path) -> bool:
    """Remove a group and the groups below it, none with members; return whether they are gone."""
    return remove_all([group, *below(group)])


def locked(group: Path) -> int | None:
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
