"""Read facts of a process that waits in a traced call: paths in its memory, its folders, its usage.

Only valid while the process waits: before and after, the process id may be another process's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from hostler.sandbox.usage import DATA_FIELD, PAGE_BYTES, descendants

PATH_BYTES = 4096
"""The kernel's maximum length of a path."""
FIRST_READ_BYTES = 256
"""How much of a path is read first; nearly all are shorter."""
MAX_OPEN_MEMORIES = 64
"""Processes whose memory stays open until the next check of the limits or their next execve."""
AT_FDCWD = -100
OWN_ENTRIES = (b"/proc/self/", b"/proc/thread-self/")


class CallerMemory:
    """Memory of the processes of a sandbox. `on_unreadable` is called with the reason if it cannot be
    read."""

    def __init__(self, on_unreadable: Callable[[str], None]) -> None:
        self.proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        """The host's /proc, opened before the shim may enter another PID namespace."""
        self._on_unreadable = on_unreadable
        self._memories: dict[int, int] = {}

    def absolute_path(self, pid: int, at: int | None, raw: bytes) -> bytes:
        """Return an absolute path; empty if there is none. `at` is the descriptor of a relative path's
        folder."""
        if raw.startswith(OWN_ENTRIES):
            return self._resolve_own_entry(pid, raw)
        if not raw or raw.startswith(b"/"):
            return raw
        folder = self._folder(pid, at)
        return b"" if folder is None else os.fsencode(f"{folder}/") + raw

    def read_bytes(self, pid: int, address: int, size: int) -> bytes:
        """Read bytes at an address; empty if unreadable."""
        return self._read_memory(pid, address, size)[:size]

    def read_number(self, pid: int, address: int) -> int:
        """Read 64 bits at an address as a number; 0 if unreadable."""
        return int.from_bytes(self._read_memory(pid, address, 8)[:8], sys.byteorder)

    def _folder(self, pid: int, at: int | None) -> str | None:
        at = AT_FDCWD if at is None else at & 0xFFFFFFFF
        at = at - (1 << 32) if at >> 31 else at
        link = f"{pid}/cwd" if at == AT_FDCWD else f"{pid}/fd/{at}"
        with suppress(OSError):
            return os.readlink(link, dir_fd=self.proc)
        return None

    def read_string(self, pid: int, address: int) -> bytes:
        """Read a string at an address; empty if unreadable or too long for the kernel."""
        for size in (FIRST_READ_BYTES, PATH_BYTES):
            read_string, end, _ = self._read_memory(pid, address, size).partition(b"\0")
            if end:
                return read_string
        return b""

    def _read_memory(self, pid: int, address: int, size: int) -> bytes:
        for _ in range(2):
            memory = self._memories.get(pid)
            if memory is None:
                memory = self._open_memory(pid)
            if memory is None:
                break
            with suppress(OSError, OverflowError):  # nothing is there: the kernel refuses the call as well
                if data := os.pread(memory, size, address):
                    return data
            self.forget(pid)  # of the program before an execve
        return b""

    def _open_memory(self, pid: int) -> int | None:
        if len(self._memories) >= MAX_OPEN_MEMORIES:
            self.close_all()
        try:
            memory = os.open(f"{pid}/mem", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc)
        except (FileNotFoundError, ProcessLookupError):
            return None
        except OSError as error:
            self._on_unreadable(f"the files it opens cannot be reported: {error.strerror}")
            return None
        self._memories[pid] = memory
        return memory

    def forget(self, pid: int) -> None:
        """Close the memory of a process, which executes another program."""
        memory = self._memories.pop(pid, None)
        if memory is not None:
            os.close(memory)

    def close_all(self) -> None:
        """Close the memory of all processes: some may be gone."""
        for pid in tuple(self._memories):
            self.forget(pid)

    def _resolve_own_entry(self, pid: int, raw: bytes) -> bytes:
        """Resolve a path through the caller's own entry in /proc, which only the caller itself can follow."""
        name, _, rest = raw.split(b"/", 3)[3].partition(b"/")
        if name == b"root":
            return b"/" + rest
        if name == b"fd":
            read_number, _, rest = rest.partition(b"/")
            name += b"/" + read_number
        elif name != b"cwd":
            return raw
        with suppress(OSError, ValueError):
            found = os.readlink(f"{pid}/{os.fsdecode(name)}", dir_fd=self.proc)
            if found.startswith("/"):
                return os.fsencode(f"{found}/") + rest
        return raw

    def namespace_pid(self, pid: int) -> int:
        """Return the process id in its innermost namespace; 0 if it is gone."""
        with suppress(OSError, ValueError, StopIteration):
            status = os.open(f"{pid}/status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc)
            try:
                lines = os.read(status, PATH_BYTES).splitlines()
            finally:
                os.close(status)
            return int(next(line for line in lines if line.startswith(b"NSpid:")).split()[-1])
        return 0

    def pids_below(self, first: int) -> dict[int, int]:
        """Return the ids of the processes below one, by those in their innermost namespace."""
        return {self.namespace_pid(pid): pid for pid in descendants(first, self.proc)}

    def data_bytes(self, pid: int) -> int | None:
        """Return its private writable memory in bytes, as counted against the limit of a process."""
        with suppress(OSError, ValueError, IndexError):
            statm = os.open(f"{pid}/statm", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc)
            try:
                return int(os.read(statm, 200).split()[DATA_FIELD]) * PAGE_BYTES
            finally:
                os.close(statm)
        return None

    def descriptor_count(self, pid: int) -> int:
        """Return the number of its descriptors; 0 before Linux 6.2."""
        with suppress(OSError):
            return os.stat(f"{pid}/fd", dir_fd=self.proc).st_size
        return 0
