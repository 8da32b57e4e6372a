"""Measure resource usage: of the processes below a process, and of folders.

Runs in the shim, with only the standard library.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MAX_DEPTH = 200
"""Maximum nesting of folders: a walk keeps one descriptor per level open."""
BLOCK_BYTES = 512
"""Unit of st_blocks."""
THREADS_FIELD = 17
"""Index in /proc/PID/stat, counted after the name."""
SESSION_FIELD = 3
"""Index in /proc/PID/stat, counted after the name."""
DATA_FIELD = 5
"""Index in /proc/PID/statm: private writable memory, in pages."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ProcessUsage(NamedTuple):
    """Totals over processes; `processes` includes threads, `memory` counts shared memory once per process.

    `data` is the most writable memory of one process, `descriptors` the most descriptors of one (0 before
    Linux 6.2).
    """

    pids: tuple[int, ...]
    processes: int
    memory: int
    data: int = 0
    descriptors: int = 0

    def exact_memory(self) -> int:
        """Return the memory in bytes with shared memory counted once; slower than `memory`."""
        return sum(_proportional_memory(pid) for pid in self.pids)


def measure_processes(root: int, skipped: int) -> ProcessUsage:
    """Measure all processes below `root`, leaving out the first `skipped` ones, which are not the sandbox's
    own.

    With `root` 0, /proc is that of the sandbox's namespace: all processes but its init count.
    """
    if root:
        pids = descendants(root)[skipped:]
    else:
        pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())[1:]  # noqa: PTH208
    threads = memory = data = descriptors = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            threads += int(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[THREADS_FIELD])
            pages = _read(f"/proc/{pid}/statm").split()
            memory += int(pages[1]) * PAGE_BYTES
            data = max(data, int(pages[DATA_FIELD]) * PAGE_BYTES)
            descriptors = max(descriptors, os.stat(f"/proc/{pid}/fd").st_size)  # noqa: PTH116 - as above
    return ProcessUsage(tuple(pids), threads, memory, data, descriptors)


def session_of(pid: int) -> int:
    """Return the session id of a process, or 0 if it is gone."""
    with suppress(OSError, ValueError, IndexError):
        return int(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[SESSION_FIELD])
    return 0


def descendants(root: int) -> list[int]:
    """Return all descendants of `root`, parents first."""
    found: list[int] = []
    queue = [root]
    while queue:
        below = _children(queue.pop(0))
        found += below
        queue += below
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with suppress(OSError):
                found += map(int, _read(f"/proc/{pid}/task/{task}/children").split())
    return found


def _proportional_memory(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError, ValueError, IndexError):
        return int(_read(f"/proc/{pid}/statm").split()[1]) * PAGE_BYTES
    return 0


class OpenFolder(NamedTuple):
    """A folder by a descriptor; the path is for people."""

    path: str
    fd: int


def measure_folders(
    folders: Sequence[str | OpenFolder],
    max_bytes: int,
    max_files: int,
    file_bytes: int | None = None,
    on_file_limit: Callable[[str], None] = lambda _: None,
) -> tuple[int, int]:
    """Return bytes on disk and number of entries; the walk ends once either exceeds its maximum.

    `on_file_limit` is called with each file of `file_bytes` or more. Folders nested deeper than MAX_DEPTH are
    not walked: then the count is more than `max_files`.
    """
    size = count = 0
    for top in folders:
        walk = Walk(top)
        try:
            while walk.step() and size <= max_bytes and count <= max_files:
                for entry in walk.entries():
                    count += 1
                    with suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        size += status.st_blocks * BLOCK_BYTES
                        if file_bytes is not None and status.st_size >= file_bytes:
                            on_file_limit(f"{walk.path}/{entry.name}")
                        if entry.is_dir(follow_symlinks=False):
                            walk.descend_later(entry.name)
                    if count > max_files:
                        break
                if walk.is_too_deep:
                    count = max_files + 1
        finally:
            walk.close()
    return size, count


class Walk:
    """Depth-first walk through all folders below `top`, opened relative to each other, never through a
    link. Links above `top` are followed, unless it is open already."""

    def __init__(self, top: str | OpenFolder) -> None:
        self._top = self.path = top if isinstance(top, str) else top.path
        self._at = None if isinstance(top, str) else top.fd
        self.is_too_deep = False
        self._fds: list[int] = []
        self._paths: list[str] = []
        self._left: list[list[str]] = [[self._top if self._at is None else "."]]

    def step(self) -> bool:
        """Enter the next folder; return False when none is left."""
        while self._left:
            if not self._left[-1]:
                self._left.pop()
                if self._fds:
                    os.close(self._fds.pop())
                    self._paths.pop()
                continue
            name = self._left[-1].pop()
            if len(self._fds) > MAX_DEPTH:
                self.is_too_deep = True
                return True
            try:
                fd = os.open(name, _FOLDER, dir_fd=self._fds[-1] if self._fds else self._at)
            except OSError:
                continue  # removed meanwhile, or not readable
            self.path = f"{self._paths[-1]}/{name}" if self._paths else self._top
            self._fds.append(fd)
            self._paths.append(self.path)
            self._left.append([])
            return True
        return False

    def entries(self) -> Iterator[os.DirEntry[str]]:
        """Yield the entries of the current folder."""
        if not self.is_too_deep:
            with suppress(OSError), os.scandir(self._fds[-1]) as entries:
                yield from entries

    @property
    def fd(self) -> int:
        """Descriptor of the current folder."""
        return self._fds[-1]

    def descend_later(self, name: str) -> None:
        """Queue this subfolder of the current folder."""
        self._left[-1].append(name)

    def close(self) -> None:
        """Close all open folders."""
        for fd in self._fds:
            os.close(fd)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib would double the start-up time
        return file.read()


def format_mib(size: int) -> str:
    """Format a number of bytes as MiB, for people."""
    return f"{size / (1 << 20):,.1f} MiB"
