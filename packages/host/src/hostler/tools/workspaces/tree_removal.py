"""Measure and remove folders written by others, with any content."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import stat
from pathlib import Path

from hostler.domain.record import Record

MAX_DEPTH = 100
"""Nesting of folders; a walk keeps one descriptor per level open."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags for opening folders, never through a link."""


_log = logging.getLogger(__name__)


class FolderUsage(Record):
    """Usage of a folder. `whole` is False if not everything could be counted."""

    size_bytes: int = 0
    files: int = 0
    whole: bool = True


def measure_tree(root: Path, most: FolderUsage | None = None, max_depth: int = MAX_DEPTH) -> FolderUsage:
    """Return the usage below a folder. Hard links count once; sparse files count with their full size.

    Folders below `max_depth` are not counted; then it is not `whole`.
    """
    count = _Count(most)
    try:
        top = os.open(root, FOLDER)
    except OSError:
        return FolderUsage(whole=False)
    stack = [(top, count.take(top))]
    try:
        while stack and not count.is_over:
            at, folders = stack[-1]
            if not folders:
                os.close(stack.pop()[0])
                continue
            name = folders.pop()
            below = _open_below(at, name) if len(stack) < max_depth else None
            if below is None:
                count.whole = False
            else:
                stack.append((below, count.take(below)))
    finally:
        for at, _ in stack:
            os.close(at)
    return FolderUsage(count.size, count.files, count.whole)


class _Count:
    """A measurement in progress."""

    def __init__(self, most: FolderUsage | None) -> None:
        self.size = 0
        self.files = 0
        self.whole = True
        self._most = most
        self._seen: set[tuple[int, int]] = set()

    @property
    def is_over(self) -> bool:
        most = self._most
        return most is not None and (self.size > most.size_bytes or self.files > most.files)

    def take(self, at: int) -> list[str]:
        """Count the entries of one folder; return the names of its folders."""
        folders: list[str] = []
        for name in os.listdir(at):
            try:
                found = os.stat(name, dir_fd=at, follow_symlinks=False)
            except OSError:
                continue  # removed meanwhile
            self.files += 1
            if stat.S_ISDIR(found.st_mode):
                folders.append(name)
            elif found.st_nlink == 1 or (found.st_dev, found.st_ino) not in self._seen:
                self._seen.add((found.st_dev, found.st_ino))
                self.size += max(found.st_size, found.st_blocks * 512)
            if self.is_over:
                self.whole = False
                return []
        return folders


def remove_tree(root: Path) -> None:
    """Remove a folder of any depth and any modes; follows no link in it.

    Folders inside are moved up first, so that neither depth nor path length matters.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(root.lstat().st_mode):
            root.unlink()
            return
        above = os.open(root.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            top = own_folder(above, root.name)
            try:
                _empty(top)
            finally:
                os.close(top)
            os.rmdir(root.name, dir_fd=above)
        finally:
            os.close(above)


def try_remove_tree(root: Path) -> bool:
    """Remove a folder like `remove_tree`; log a failure and return False."""
    try:
        remove_tree(root)
    except OSError as error:
        _log.warning("%s cannot be removed: %s", root, error)
        return False
    return True


def _empty(top: int) -> None:
    waiting = [name for name in os.listdir(top) if not _unlinked(top, name)]
    while waiting:
        name = waiting.pop()
        below = own_folder(top, name)
        try:
            for inner in os.listdir(below):  # noqa: PTH208 - a descriptor is not a path
                if not _unlinked(below, inner):
                    os.close(own_folder(below, inner))
                    moved = secrets.token_hex(16)
                    os.rename(inner, moved, src_dir_fd=below, dst_dir_fd=top)
                    waiting.append(moved)
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=top)


def _unlinked(at: int, name: str) -> bool:
    """Remove an entry that is not a folder; return whether it was removed."""
    if stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
        return False
    os.unlink(name, dir_fd=at)
    return True


def remove_too_deep(root: Path, aside: Path) -> int:
    """Remove folders deeper than MAX_DEPTH by way of `aside`; return their number."""
    removed = 0
    top = os.open(root, FOLDER)
    stack = [(top, _folders_in(top))]
    try:
        while stack:
            at, folders = stack[-1]
            if not folders:
                os.close(stack.pop()[0])
                continue
            name = folders.pop()
            if len(stack) >= MAX_DEPTH:
                os.close(own_folder(at, name))
                doomed = aside / secrets.token_hex(16)
                os.rename(name, doomed, src_dir_fd=at)
                remove_tree(doomed)
                removed += 1
            elif (below := _open_below(at, name)) is not None:
                stack.append((below, _folders_in(below)))
    finally:
        for at, _ in stack:
            os.close(at)
    return removed


def _folders_in(at: int) -> list[str]:
    with os.scandir(at) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def own_folder(at: int, name: str) -> int:
    """Open a folder, after giving its owner all rights if necessary."""
    try:
        descriptor = os.open(name, FOLDER, dir_fd=at)
    except PermissionError:
        descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        try:
            Path(f"/proc/self/fd/{descriptor}").chmod(0o700)
        finally:
            os.close(descriptor)
        descriptor = os.open(name, FOLDER, dir_fd=at)
    with contextlib.suppress(PermissionError):
        os.fchmod(descriptor, 0o700)
    return descriptor


def _open_below(at: int, name: str) -> int | None:
    """Open a folder for counting; change its modes only if it cannot be read otherwise."""
    with contextlib.suppress(PermissionError, FileNotFoundError, NotADirectoryError):
        return os.open(name, FOLDER, dir_fd=at)
    with contextlib.suppress(OSError):
        return own_folder(at, name)
    return None
