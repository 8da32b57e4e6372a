"""Whole trees that others wrote: counted, and removed, whatever is in them."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

MAX_DEPTH = 100
"""Folders within each other; each keeps a descriptor open while a tree is walked."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How folders are opened: never through a link."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What lies in the folder. `whole` is false where not all of it could be counted."""

    size_bytes: int = 0
    files: int = 0
    whole: bool = True


def measure_tree(root: Path, most: Usage | None = None, max_depth: int = MAX_DEPTH) -> Usage:
    """What lies below a folder. Files with several names count once; links and holes count as they say.

    What lies deeper than `max_depth` folders is not counted: then it is not `whole`.
    """
    count = _Count(most)
    try:
        top = os.open(root, FOLDER)
    except OSError:
        return Usage(whole=False)
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
    return Usage(count.size, count.files, count.whole)


class _Count:
    """A measurement on its way."""

    def __init__(self, most: Usage | None) -> None:
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
        """Count what lies in one folder; the names of the folders in it."""
        folders: list[str] = []
        for name in os.listdir(at):
            try:
                found = os.stat(name, dir_fd=at, follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile
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
    """Remove a folder, however deep and whatever its modes say; no link in it is followed.

    Folders within it are moved up first: so neither depth nor length of a path matters.
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


def _empty(top: int) -> None:
    waiting = [name for name in os.listdir(top) if not _unlinked(top, name)]
    while waiting:
        name = waiting.pop()
        below = own_folder(top, name)
        try:
            for inner in os.listdir(below):  # noqa: PTH208  a descriptor is no path
                if not _unlinked(below, inner):
                    os.close(own_folder(below, inner))
                    moved = secrets.token_hex(16)
                    os.rename(inner, moved, src_dir_fd=below, dst_dir_fd=top)
                    waiting.append(moved)
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=top)


def _unlinked(at: int, name: str) -> bool:
    """Whether it is gone; folders stay."""
    if stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
        return False
    os.unlink(name, dir_fd=at)
    return True


def remove_too_deep(root: Path, aside: Path) -> int:
    """Remove what lies deeper than MAX_DEPTH folders, by way of `aside`; how many folders that were."""
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
    """A descriptor of a folder that its owner may change, whatever its modes said."""
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
    """A folder that is counted; its modes are only changed where it can't be looked into otherwise."""
    with contextlib.suppress(PermissionError, FileNotFoundError, NotADirectoryError):
        return os.open(name, FOLDER, dir_fd=at)
    with contextlib.suppress(OSError):
        return own_folder(at, name)
    return None
