"""What the processes below one process use, and what folders hold, as /proc and the files say.

Runs in the keeper's process, with nothing but the standard library.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
BLOCK_BYTES = 512
"""In which the kernel counts the size of files."""
THREADS_FIELD = 17
"""In /proc/PID/stat, after the name."""
SESSION_FIELD = 3
"""The same."""
DATA_FIELD = 5
"""In /proc/PID/statm: private memory that can be written, in pages."""


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

    `on_full` hears of each file that has `file_bytes` or more.
    """
    size = count = 0
    queue = list(folders)
    while queue and size <= most_bytes and count <= most_files:
        with suppress(OSError), os.scandir(queue.pop()) as entries:
            for entry in entries:
                count += 1
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    size += status.st_blocks * BLOCK_BYTES
                    if file_bytes is not None and status.st_size >= file_bytes:
                        on_full(entry.path)
                    if entry.is_dir(follow_symlinks=False):
                        queue.append(entry.path)
                if count > most_files:
                    break
    return size, count


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib would double the start-up time
        return file.read()
