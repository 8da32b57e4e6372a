"""What the processes below one process use, and what folders hold, as /proc and the files say.

Runs in the shim's process, with nothing but the standard library.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MAX_DEPTH = 200
"""Folders within each other; each keeps a descriptor open while it is walked through."""
BLOCK_BYTES = 512
"""In which the kernel counts the size of files."""
THREADS_FIELD = 17
"""In /proc/PID/stat, after the name."""
SESSION_FIELD = 3
"""The same."""
DATA_FIELD = 5
"""In /proc/PID/statm: private memory that can be written, in pages."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Measured(NamedTuple):
    """`processes` counts threads; `memory` counts what several share for each of them.

    `data` is the most that one process can write to of its memory, `opened` the most descriptors of one (0
    before Linux 6.2, which does not say).
    """

    pids: tuple[int, ...]
    processes: int
    memory: int
    data: int = 0
    opened: int = 0

    def exact_memory(self) -> int:
        """What is shared counts once; it takes longer."""
        return sum(_proportional(pid) for pid in self.pids)


def measure_processes(root: int, skipped: int) -> Measured:
    """All processes below `root`, without the first ones, which are not the sandbox's own.

    Where `root` is 0, /proc is the one of the sandbox's namespace: all but its first process count.
    """
    if root:
        pids = descendants(root)[skipped:]
    else:
        pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())[1:]  # noqa: PTH208
    threads = memory = data = opened = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            threads += int(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[THREADS_FIELD])
            pages = _read(f"/proc/{pid}/statm").split()
            memory += int(pages[1]) * PAGE_BYTES
            data = max(data, int(pages[DATA_FIELD]) * PAGE_BYTES)
            opened = max(opened, os.stat(f"/proc/{pid}/fd").st_size)  # noqa: PTH116 - as above
    return Measured(tuple(pids), threads, memory, data, opened)


def session_of(pid: int) -> int:
    """The session a process is in; 0 where it is gone."""
    with suppress(OSError, ValueError, IndexError):
        return int(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[SESSION_FIELD])
    return 0


def descendants(root: int) -> list[int]:
    """All processes below `root`, those nearest to it first."""
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


def _proportional(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError, ValueError, IndexError):
        return int(_read(f"/proc/{pid}/statm").split()[1]) * PAGE_BYTES
    return 0


def measure_folders(
    folders: list[str],
    most_bytes: int,
    most_files: int,
    file_bytes: int | None = None,
    on_full: Callable[[str], None] = lambda _: None,
) -> tuple[int, int]:
    """Bytes on disk and number of entries; the walk ends where either is over what is asked about.

    `on_full` hears of each file that has `file_bytes` or more. Folders over MAX_DEPTH deep are not walked
    through: they count as more files than are asked about.
    """
    size = count = 0
    for top in folders:
        walk = Walk(top)
        try:
            while walk.step() and size <= most_bytes and count <= most_files:
                for entry in walk.entries():
                    count += 1
                    with suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        size += status.st_blocks * BLOCK_BYTES
                        if file_bytes is not None and status.st_size >= file_bytes:
                            on_full(f"{walk.path}/{entry.name}")
                        if entry.is_dir(follow_symlinks=False):
                            walk.note(entry.name)
                    if count > most_files:
                        break
                if walk.is_too_deep:
                    count = most_files + 1
        finally:
            walk.close()
    return size, count


class Walk:
    """A way through all folders below one, each opened relative to the one above and never through a link."""

    def __init__(self, top: str) -> None:
        self.path = top
        self.is_too_deep = False
        self._fds: list[int] = []
        self._paths: list[str] = []
        self._left: list[list[str]] = [[top]]

    def step(self) -> bool:
        """Go into the next folder; False when there is none."""
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
                fd = os.open(name, _FOLDER, dir_fd=self._fds[-1] if self._fds else None)
            except OSError:
                continue  # gone meanwhile, or closed by its owner
            self.path = f"{self._paths[-1]}/{name}" if self._paths else name
            self._fds.append(fd)
            self._paths.append(self.path)
            self._left.append([])
            return True
        return False

    def entries(self) -> Iterator[os.DirEntry[str]]:
        """What is in the folder."""
        if not self.is_too_deep:
            with suppress(OSError), os.scandir(self._fds[-1]) as entries:
                yield from entries

    @property
    def fd(self) -> int:
        """The folder."""
        return self._fds[-1]

    def note(self, name: str) -> None:
        """Go into this folder of it later."""
        self._left[-1].append(name)

    def close(self) -> None:
        """Close what is open."""
        for fd in self._fds:
            os.close(fd)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib would double the start-up time
        return file.read()
