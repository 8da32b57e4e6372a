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
DATA_FIELD = 5
"""Index in /proc/PID/statm: private writable memory, in pages."""
SESSION_FIELD = 3
"""Index in /proc/PID/stat, counted after the name."""
OPEN_TRIES = 3
EACCES, ELOOP = 13, 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ProcessUsage(NamedTuple):
    """Totals over processes; `processes` includes threads, `memory` counts shared memory once per process,
    and includes page tables, huge pages and what was swapped out.

    `data` is the most writable memory of one process, `descriptors` the most descriptors of one, and
    `all_descriptors` those of all.
    """

    pids: tuple[int, ...]
    processes: int
    memory: int
    data: int = 0
    descriptors: int = 0
    all_descriptors: int = 0


def measure_processes(root: int, skipped: int) -> ProcessUsage:
    """Measure all processes below `root`, leaving out the first `skipped` ones, which are not the sandbox's
    own.

    With `root` 0, /proc is that of the sandbox's namespace: all processes but its init count.
    """
    if root:
        pids = descendants(root)[skipped:]
    else:
        pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())[1:]  # noqa: PTH208
    threads = memory = data = most = descriptors = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            fields = status_of(pid)
            threads += fields.get(b"Threads", 0)
            memory += 1024 * sum(fields.get(name, 0) for name in _OCCUPIED)
            data = max(data, 1024 * (fields.get(b"VmData", 0) + fields.get(b"VmStk", 0)))
            held = descriptors_of(pid)
            most, descriptors = max(most, held), descriptors + held
    return ProcessUsage(tuple(pids), threads, memory, data, most, descriptors)


_OCCUPIED = (b"VmRSS", b"VmPTE", b"VmSwap", b"HugetlbPages")


def status_of(pid: int) -> dict[bytes, int]:
    """Return the numbers in /proc/PID/status by name; sizes in KiB. Raises OSError."""
    fields: dict[bytes, int] = {}
    for line in _read(f"/proc/{pid}/status").splitlines():
        name, _, value = line.partition(b":")
        number = value.split(None, 1)[:1]
        if number and number[0].isdigit():
            fields[name] = int(number[0])
    return fields


def descriptors_of(pid: int) -> int:
    """Return how many descriptors a process has. Raises OSError."""
    folder = f"/proc/{pid}/fd"
    size = os.stat(folder).st_size  # noqa: PTH116 - pathlib would double the start-up time
    return size or len(os.listdir(folder))  # noqa: PTH208 - before Linux 6.2


def session_of(pid: int) -> int:
    """Return the session id of a process, or 0 if it is gone."""
    with suppress(OSError, ValueError, IndexError):
        return int(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[SESSION_FIELD])
    return 0


def has_ended(pid: int) -> bool:
    """Whether a process has ended or is about to: it has no memory any more, and nobody may look into it."""
    with suppress(OSError):
        return b"VmSize" not in status_of(pid)
    return True


def descendants(root: int, proc: int | None = None) -> list[int]:
    """Return all descendants of `root`, parents first. `proc`: a descriptor of the /proc whose ids are
    meant."""
    own = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if proc is None else None
    try:
        found: list[int] = []
        queue = [root]
        while queue:
            below = _children(queue.pop(0), own if proc is None else proc)
            found += below
            queue += below
        return found
    finally:
        if own is not None:
            os.close(own)


def _children(pid: int, proc: int | None) -> list[int]:
    """Return the children of a process. By descriptor: the /proc of this process may be another one, in which
    not even /proc/self exists."""
    found: list[int] = []
    with suppress(OSError):
        tasks = os.open(f"{pid}/task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=proc)
        try:
            for task in os.listdir(tasks):  # noqa: PTH208
                with suppress(OSError):
                    found += map(int, _read_at(tasks, f"{task}/children").split())
        finally:
            os.close(tasks)
    return found


def _read_at(folder: int, path: str) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        parts = []
        while part := os.read(file, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


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

    Files count by what is allocated, once for all of their names. `on_file_limit` is called with each file of
    `file_bytes` or more. What cannot be looked into (folders nested deeper than MAX_DEPTH, or closed even to
    their owner) makes the count more than `max_files`.
    """
    size = count = 0
    linked: set[tuple[int, int]] = set()
    for top in folders:
        walk = Walk(top)
        try:
            while walk.step() and size <= max_bytes and count <= max_files:
                for entry in walk.entries():
                    count += 1
                    with suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        if entry.is_dir(follow_symlinks=False):
                            walk.descend_later(entry.name)
                        elif status.st_nlink > 1:
                            one = (status.st_dev, status.st_ino)
                            if one in linked:
                                continue
                            linked.add(one)
                        size += status.st_blocks * BLOCK_BYTES
                        if file_bytes is not None and status.st_size >= file_bytes:
                            on_file_limit(f"{walk.path}/{entry.name}")
                    if count > max_files:
                        break
            if walk.is_incomplete:
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
        self.is_incomplete = False
        """A folder was nested too deep, or could not be opened."""
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
                self.is_incomplete = True
                continue
            at = self._fds[-1] if self._fds else self._at
            try:
                fd = _open_folder(name, at)
            except (FileNotFoundError, NotADirectoryError):
                continue  # removed meanwhile
            except OSError as error:
                if error.errno == ELOOP:
                    continue  # replaced by a link
                self.is_incomplete = True
                continue
            self.path = f"{self._paths[-1]}/{name}" if self._paths else self._top
            self._fds.append(fd)
            self._paths.append(self.path)
            self._left.append([])
            return True
        return False

    def entries(self) -> Iterator[os.DirEntry[str]]:
        """Yield the entries of the current folder."""
        try:
            with os.scandir(self._fds[-1]) as entries:
                yield from entries
        except OSError:
            self.is_incomplete = True

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


def _open_folder(name: str, at: int | None) -> int:
    """Open a folder for reading; one that its owner has closed to itself is opened up. Raises OSError."""
    with suppress(PermissionError):
        return os.open(name, _FOLDER, dir_fd=at)
    for _ in range(OPEN_TRIES):  # its owner may close it again
        folder = os.open(name, _PLACE, dir_fd=at)
        try:
            os.chmod(f"/proc/self/fd/{folder}", 0o700)  # noqa: PTH101  by descriptor: never through a link
        finally:
            os.close(folder)
        with suppress(PermissionError):
            return os.open(name, _FOLDER, dir_fd=at)
    raise PermissionError(EACCES, "it is closed to its owner", name)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib would double the start-up time
        return file.read()


def format_mib(size: int) -> str:
    """Format a number of bytes as MiB, for people."""
    return f"{size / (1 << 20):,.1f} MiB"
