"""Exact limits of folders by project quotas, where the host is root and their file system has them.

The project of a folder is the number of its sandbox's user (users.py): no other name has it, and it is kept.
What is made in the folder belongs to the project until it is removed, wherever it is moved and whether it has
a name or not; the filter of system calls keeps programs from changing that.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hostler.sandbox.folders import PinnedFolder, open_pinned
from hostler.sandbox.quota_calls import (
    ENOSYS,
    project_of,
    read_state,
    set_limits,
    set_project,
)
from hostler.sandbox.usage import OpenFolder, Walk
from hostler.sandbox.users import UNUSED_IDS

KINDS = ("ext4", "xfs", "f2fs")
"""File systems with project quotas."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
EPERM, EACCES, ESRCH, ENOTTY, EOPNOTSUPP = 1, 13, 3, 25, 95


class Quota(NamedTuple):
    """The project of a sandbox's folders. `device`: see `usage_of`."""

    project: int
    device: str


class Mount(NamedTuple):
    """A file system. `device` is what was mounted."""

    kind: str
    device: str


class NoQuotaError(Exception):
    """A folder cannot have a project quota; the reason, for people."""


def find_device(folder: int) -> str:
    """Return what quotas of a folder's file system are asked by (see `usage_of`).

    Raises NoQuotaError where it has none that would hold.
    """
    mount = _mount_of(os.fstat(folder).st_dev)
    device = ""
    try:
        try:
            enforced = read_state(folder, device)
        except OSError as error:
            if error.errno != ENOSYS or mount.kind not in KINDS:
                raise
            device = mount.device
            enforced = read_state(folder, device)
    except OSError as error:
        raise NoQuotaError(why_not(mount.kind, error.errno)) from error
    if not enforced:
        raise NoQuotaError(why_not(mount.kind, None))
    return device


def why_not(kind: str, error: int | None) -> str:
    """Say why a file system of this kind has no project quotas.

    `error`: of the call that asked for them; None if they are counted and not enforced.
    """
    if error in (EPERM, EACCES):
        return "the host may not set quotas, which takes root of the machine (CAP_SYS_ADMIN)"
    if kind not in KINDS:
        return f"the file system {kind} has no project quotas; ext4 and XFS have them"
    if error == ENOSYS:
        return f"its file system ({kind}) is mounted without `prjquota`, or this kernel has no quotas for it"
    if error not in (None, ESRCH, ENOTTY, EOPNOTSUPP):
        return f"its file system ({kind}) cannot be asked for quotas: {os.strerror(error)}"
    how = {"ext4": " (`tune2fs -O project,quota`, once, while it is not mounted)"}.get(kind, "")
    return f"its file system ({kind}) is mounted without `prjquota`{how}"


def check_project(project: int, folder_project: int) -> None:
    """Raise NoQuotaError if a folder belongs to a project that the host has not made, or `project` is none
    that it may make."""
    if project not in UNUSED_IDS:
        raise NoQuotaError("this container has too few numbers for projects")
    if folder_project and folder_project not in UNUSED_IDS:
        raise NoQuotaError(f"it belongs to project {folder_project}, whose quota is another's")


def limit_folders(folders: Sequence[PinnedFolder], project: int, most_bytes: int, most_files: int) -> Quota:
    """Limit what the folders hold together, and return their project. Blocks.

    Raises NoQuotaError where that is not possible, and OSError.
    """
    if len({one.device for one in folders}) != 1:
        raise NoQuotaError("its folders are on several file systems")
    with contextlib.ExitStack() as stack:
        opened = [_opened(one, stack) for one in folders]
        try:
            before = [project_of(fd)[0] for fd in opened]
        except OSError as error:
            if error.errno not in (ENOTTY, EOPNOTSUPP):
                raise
            raise NoQuotaError(why_not(_mount_of(folders[0].device).kind, error.errno)) from error
        for one in before:
            check_project(project, one)
        device = find_device(opened[0])
        # a project counts the folders themselves as well
        set_limits(opened[0], device, project, most_bytes, most_files + len(opened))
        for pinned, fd, former in zip(folders, opened, before, strict=True):
            _adopt_tree(OpenFolder(pinned.real, fd), project)
            if former not in (0, project):
                set_limits(fd, device, former, 0, 0)
    return Quota(project, device)


def release(path: Path) -> None:
    """Forget the limits of a folder that is about to be removed or emptied. Blocks.

    What is in it stays in the project until it is removed. Nothing happens to a folder without a project of
    the host's. Raises OSError.
    """
    try:
        folder = os.open(path, _READ | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        project, _ = project_of(folder)
        if project in UNUSED_IDS:
            with contextlib.suppress(NoQuotaError):
                set_limits(folder, find_device(folder), project, 0, 0)
            # else nothing of another project could be moved up in it, as its removal does
            set_project(folder, 0, inherits=False)
    except OSError as error:
        if error.errno not in (ENOTTY, EOPNOTSUPP, EPERM):
            raise
    finally:
        os.close(folder)


def share_project(path: Path, folder: Path) -> None:
    """Put a file into the project of a folder, so that it can be moved there. Raises OSError."""
    try:
        above = os.open(folder, _READ | os.O_DIRECTORY)
        try:
            project, inherits = project_of(above)
        finally:
            os.close(above)
        if project and inherits:
            _join(None, str(path), project)
    except OSError as error:
        if error.errno not in (ENOTTY, EOPNOTSUPP):
            raise


def problem_at(path: Path) -> str | None:
    """Say why folders below `path` get no project quota; None if they do. Blocks."""
    place = next(one for one in (path, *path.parents) if one.is_dir())
    try:
        folder = os.open(place, _READ | os.O_DIRECTORY)
        try:
            find_device(folder)
            check_project(UNUSED_IDS[0], project_of(folder)[0])
        finally:
            os.close(folder)
    except NoQuotaError as error:
        return str(error)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _opened(pinned: PinnedFolder, stack: contextlib.ExitStack) -> int:
    """Open a folder for reading: calls for attributes take no descriptor of a mere place."""
    place = open_pinned(pinned)
    try:
        folder = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(place)
    stack.callback(os.close, folder)
    return folder


def _adopt_tree(top: OpenFolder, project: int) -> None:
    """Put a folder and everything in it into a project.

    The folder itself comes last: if it is in the project, so is all of it. The host may put files into it
    meanwhile, which a second walk finds.
    """
    if project_of(top.fd) == (project, True):
        return
    _adopt_content(top, project)
    set_project(top.fd, project, inherits=True)
    _adopt_content(top, project)


def _adopt_content(top: OpenFolder, project: int) -> None:
    with contextlib.closing(Walk(top)) as walk:
        while walk.step():
            for entry in walk.entries():
                with contextlib.suppress(FileNotFoundError):
                    if entry.is_dir(follow_symlinks=False):
                        walk.descend_later(entry.name)
                    elif not entry.is_file(follow_symlinks=False):
                        continue  # it has no content, and calls for attributes need it opened
                    _join(walk.fd, entry.name, project)


def _join(at: int | None, name: str, project: int) -> None:
    file = os.open(name, _READ, dir_fd=at)
    try:
        mode = os.fstat(file).st_mode
        wanted = (project, stat.S_ISDIR(mode))
        if (stat.S_ISREG(mode) or wanted[1]) and project_of(file) != wanted:
            set_project(file, project, inherits=wanted[1])
    finally:
        os.close(file)


def _mount_of(device: int) -> Mount:
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        fields, described = before.split(), after.split()
        if len(fields) > 2 and len(described) > 1 and fields[2] == wanted:
            return Mount(described[0], described[1])
    return Mount("unknown", "")
