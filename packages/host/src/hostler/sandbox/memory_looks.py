"""The memory of a sandbox where no control group limits it: measured now and then, so a look and not exact.

The kernel has no sum for it, so it is added up: what processes occupy, pages of shared memory that nobody
maps any more, files in memory, and the buffers of sockets and pipes. Runs in the shim, with only the standard
library.
"""

from __future__ import annotations

import ctypes
import heapq
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cmp_to_key
from typing import Any, NamedTuple

from hostler.sandbox.socket_memory import SocketMemory
from hostler.sandbox.usage import ProcessUsage, has_ended, status_of

INODE_BYTES = 1024
"""What the kernel needs for a file in memory besides its content."""
PIPE_BYTES, FEW_PIPE_BYTES = 64 << 10, 8 << 10
"""Of a pipe, and of one beyond the pages that the kernel lets a user have in pipes."""
PIPES_BYTES = 64 << 20
"""These pages, by default (pipe-user-pages-soft)."""
MAX_GRANTS = 4096
"""The largest mappings that are remembered one by one; the others count like the smallest of these."""
LOOKS_OVER, LOOKS_OVER_BY_NEW = 2, 20
"""Looks in a row that find too much, by processes that the look before saw, or by new ones."""
GRANT_SECONDS = 5.0
"""From a call that is answered until it has been carried out, with room for a busy machine."""
KCMP = {"x86_64": 312, "aarch64": 272}.get(os.uname().machine)
KCMP_MEMORY = 1
_KERNEL_ORDER = {0: 0, 1: -1, 2: 1}
_libc: Any = ctypes.CDLL(None)
_UNNAMED = b"/dev/zero (deleted)\n"
"""The name of shared memory without a file in /proc/PID/maps."""


class TmpUsage(NamedTuple):
    """Files in memory: /tmp and /dev/shm of a sandbox with namespaces."""

    size: int = 0
    files: int = 0


class SharedMappings:
    """Shared memory without a file: its pages stay until the last mapping of any part of it is gone.

    No process needs to map a page that it occupies (MADV_DONTNEED, munmap of all but one page), so what is
    mapped says nothing. It is bounded by what was asked for, and by what the whole machine has of such
    memory.
    """

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._others = 0
        self._latest = 0.0

    def note(self, size: int) -> None:
        """Note a mapping that is about to be made."""
        self._latest = time.monotonic()
        if len(self._sizes) < MAX_GRANTS:
            heapq.heappush(self._sizes, size)
        else:
            heapq.heappushpop(self._sizes, size)
            self._others += 1

    @property
    def most(self) -> int:
        """The most bytes that it can be, without a look."""
        return sum(self._sizes) + self._others * (self._sizes[0] if self._others else 0)

    def bound(self, pids: Sequence[int], threads: int) -> int:
        """Return the most bytes that it can be. `threads`: each may have one call that is not carried out."""
        if not self._sizes:
            return 0
        asked = len(self._sizes) + self._others
        known = [_unnamed(pid) for pid in pids]
        if None in known:
            live = asked  # what it maps is unknown
        else:
            live = len({inode for one in known if one is not None for inode in one})
            if time.monotonic() - self._latest < GRANT_SECONDS:
                live = min(asked, live + threads)
        if live == 0:
            self._sizes.clear()
            self._others = 0
            return 0
        most = sum(heapq.nlargest(live, self._sizes)) + max(0, live - len(self._sizes)) * self._sizes[0]
        return min(most, shared_on_machine())


class MemoryLooks:
    """The memory of all processes of one sandbox."""

    def __init__(self) -> None:
        self.shared = SharedMappings()
        self.sockets = SocketMemory()
        self.tmp = TmpUsage()
        self.pids_here: Callable[[], Mapping[int, int]] | None = None
        """Returns the ids that processes have for the kernel's calls, where /proc shows others."""
        self._files_before: int | None = None
        self._before: frozenset[int] = frozenset()
        self._occupied: dict[int, int] = {}
        """Of each process with memory of its own, at the last exact look."""
        self._over = 0
        self._over_by_old = 0

    def look_at_tmp(self, root: int) -> None:
        """Measure the files in memory below the root folder of the sandbox, a descriptor. The first time
        nothing has run in it yet, and what is there belongs to its mounts."""
        size = files = 0
        for path in ("tmp", "dev/shm"):
            with suppress(OSError):
                folder = os.open(path, os.O_PATH | os.O_CLOEXEC, dir_fd=root)
                try:
                    own = os.fstat(folder).st_dev != os.stat(f"/{path}").st_dev  # noqa: PTH116
                    found = os.statvfs(folder)
                finally:
                    os.close(folder)
                if not own:
                    continue  # that of the machine
                size += (found.f_blocks - found.f_bfree) * found.f_frsize
                files += max(0, found.f_files - found.f_ffree)
        if self._files_before is None:
            self._files_before = files
        self.tmp = TmpUsage(size, max(0, files - self._files_before))

    def rough(self, usage: ProcessUsage) -> int:
        """Return at least what is occupied, from numbers that cost little."""
        return usage.memory + self.shared.most + self.tmp.size + self._kernel(usage)

    def exact(self, usage: ProcessUsage) -> int:
        """Return what is occupied, shared memory counted once; slower."""
        private = mapped = 0
        self._occupied.clear()
        pids = sorted(usage.pids, key=lambda pid: pid not in self._before)  # of equal ones the older counts
        for pid in distinct_memories(pids, None if self.pids_here is None else self.pids_here()):
            found = _proportional(pid)
            private, mapped = private + found[0], mapped + found[1]
            self._occupied[pid] = sum(found)
        # files in memory may be mapped as well, and count once
        shared = self.shared.bound(usage.pids, usage.processes) + self.tmp.size
        return private + max(mapped, shared) + self._kernel(usage)

    def is_over(self, usage: ProcessUsage, exact: int, most: int) -> bool:
        """Whether a sandbox is over its limit, now that `exact` bytes were found in it.

        A process that is about to execute a program shares the memory of its parent. Where it cannot be
        compared both count with it: so what is over only with processes that are new has to be so again and
        again.
        """
        before, self._before = self._before, frozenset(usage.pids)
        if exact <= most:
            self._over = self._over_by_old = 0
            return False
        self._over += 1
        by_old = exact - sum(size for pid, size in self._occupied.items() if pid not in before)
        self._over_by_old = self._over_by_old + 1 if by_old > most else 0
        return self._over_by_old >= LOOKS_OVER or self._over >= LOOKS_OVER_BY_NEW

    def _kernel(self, usage: ProcessUsage) -> int:
        pipes = usage.all_descriptors
        buffers = min(pipes * PIPE_BYTES, PIPES_BYTES + pipes * FEW_PIPE_BYTES)
        return self.tmp.files * INODE_BYTES + self.sockets.look(usage.pids) + buffers


def distinct_memories(pids: Sequence[int], here: Mapping[int, int] | None = None) -> list[int]:
    """Return the first process of each memory: one that is to execute a program has its parent's until then,
    and others may share it, too (CLONE_VM). `here`: see MemoryLooks.pids_here. What the kernel does not
    compare counts as distinct.
    """
    if KCMP is None:
        return list(pids)

    def compare(first: int, second: int) -> int:
        if here is not None:
            first, second = here.get(first, 0), here.get(second, 0)
        return _KERNEL_ORDER.get(_libc.syscall(KCMP, first, second, KCMP_MEMORY, 0, 0), -1)

    position = {pid: number for number, pid in enumerate(pids)}
    found: list[int] = []
    for pid in sorted(pids, key=cmp_to_key(compare)):
        if found and compare(found[-1], pid) == 0:
            found[-1] = min(found[-1], pid, key=position.__getitem__)
        else:
            found.append(pid)
    return found


def _proportional(pid: int) -> tuple[int, int]:
    """Return the private and the shared memory of a process, each page in proportion."""
    private = mapped = 0
    with suppress(OSError, ValueError, IndexError):
        fields = status_of(pid)
        private = 1024 * sum(fields.get(name, 0) for name in (b"VmPTE", b"HugetlbPages"))
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123
            for line in file:
                name, _, value = line.partition(b":")
                if name in (b"Pss", b"SwapPss"):
                    private += 1024 * int(value.split()[0])
                elif name == b"Pss_Shmem":
                    mapped += 1024 * int(value.split()[0])
        return private - mapped, mapped
    with suppress(OSError, ValueError, IndexError):
        return private + 1024 * status_of(pid).get(b"VmRSS", 0), 0
    return private, mapped


def _unnamed(pid: int) -> set[bytes] | None:
    """Return the numbers of shared memory without a file that a process maps; None if it cannot be read."""
    found: set[bytes] = set()
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:  # noqa: PTH123
            for line in file:
                if line.endswith(_UNNAMED):
                    found.add(line.split()[4])
    except PermissionError:
        return set() if has_ended(pid) else None
    except OSError:
        return None
    return found


def shared_on_machine() -> int:
    """Return the shared memory of the whole machine, files in memory included."""
    with suppress(OSError, ValueError), open("/proc/meminfo", "rb") as file:  # noqa: PTH123
        for line in file:
            if line.startswith(b"Shmem:"):
                return int(line.split()[1]) * 1024
    return 1 << 62
