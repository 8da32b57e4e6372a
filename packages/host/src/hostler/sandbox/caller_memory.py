"""What there is to know of a process that asks: what lies in its memory, where it stands, what it holds.

Only while it waits for the answer: before and after, its number may be another process's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from hostler.sandbox.usage import DATA_FIELD, PAGE_BYTES

PATH_BYTES = 4096
"""The longest path the kernel takes."""
FIRST_BYTES = 256
"""Read of it at first: nearly all are shorter."""
MOST_MEMORIES = 64
"""Whose memory is kept open, until the next look at the limits, or until they execute something else."""
AT_FDCWD = -100
OWN_ENTRIES = (b"/proc/self/", b"/proc/thread-self/")


class Callers:
    """The processes of one sandbox. `on_closed` hears why the memory of one cannot be read."""

    def __init__(self, on_closed: Callable[[str], None]) -> None:
        self.proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        """As the host sees it: the shim may be about to see another."""
        self._on_closed = on_closed
        self._memories: dict[int, int] = {}

    def absolute(self, pid: int, at: int | None, raw: bytes) -> bytes:
        """A path as it is from the root on; empty where there is none. `at` is a folder's descriptor."""
        if raw.startswith(OWN_ENTRIES):
            return self._through_own_entry(pid, raw)
        if not raw or raw.startswith(b"/"):
            return raw
        folder = self._folder(pid, at)
        return b"" if folder is None else os.fsencode(f"{folder}/") + raw

    def number(self, pid: int, address: int) -> int:
        """A number of 64 bits in its memory; 0 where there is none."""
        return int.from_bytes(self._memory(pid, address, 8)[:8], sys.byteorder)

    def _folder(self, pid: int, at: int | None) -> str | None:
        at = AT_FDCWD if at is None else at & 0xFFFFFFFF
        at = at - (1 << 32) if at >> 31 else at
        link = f"{pid}/cwd" if at == AT_FDCWD else f"{pid}/fd/{at}"
        with suppress(OSError):
            return os.readlink(link, dir_fd=self.proc)
        return None

    def text(self, pid: int, address: int) -> bytes:
        """A string in the caller's memory; empty where there is none, or one too long for the kernel."""
        for size in (FIRST_BYTES, PATH_BYTES):
            text, end, _ = self._memory(pid, address, size).partition(b"\0")
            if end:
                return text
        return b""

    def _memory(self, pid: int, address: int, size: int) -> bytes:
        for _ in range(2):
            memory = self._memories.get(pid)
            if memory is None:
                memory = self._open_memory(pid)
            if memory is None:
                break
            with suppress(OSError, OverflowError):  # nothing is there: the kernel says so to the caller too
                if data := os.pread(memory, size, address):
                    return data
            self.forget(pid)  # of what was executed before
        return b""

    def _open_memory(self, pid: int) -> int | None:
        if len(self._memories) >= MOST_MEMORIES:
            self.turn()
        try:
            memory = os.open(f"{pid}/mem", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc)
        except (FileNotFoundError, ProcessLookupError):
            return None
        except OSError as error:
            self._on_closed(f"which files it opens cannot be told: {error.strerror}")
            return None
        self._memories[pid] = memory
        return memory

    def forget(self, pid: int) -> None:
        """It executes something else."""
        memory = self._memories.pop(pid, None)
        if memory is not None:
            os.close(memory)

    def turn(self) -> None:
        """Keep nobody's memory open for longer: who was there may be gone."""
        for pid in tuple(self._memories):
            self.forget(pid)

    def _through_own_entry(self, pid: int, raw: bytes) -> bytes:
        """What a path through the caller's own entry in /proc leads to, which nobody else can follow."""
        name, _, rest = raw.split(b"/", 3)[3].partition(b"/")
        if name == b"root":
            return b"/" + rest
        if name == b"fd":
            number, _, rest = rest.partition(b"/")
            name += b"/" + number
        elif name != b"cwd":
            return raw
        with suppress(OSError, ValueError):
            found = os.readlink(f"{pid}/{os.fsdecode(name)}", dir_fd=self.proc)
            if found.startswith("/"):
                return os.fsencode(f"{found}/") + rest
        return raw

    def number_inside(self, pid: int) -> int:
        """Its number in the innermost namespace that it is in; 0 where it is gone."""
        with suppress(OSError, ValueError, StopIteration):
            status = os.open(f"{pid}/status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc)
            try:
                lines = os.read(status, PATH_BYTES).splitlines()
            finally:
                os.close(status)
            return int(next(line for line in lines if line.startswith(b"NSpid:")).split()[-1])
        return 0

    def data_of(self, pid: int) -> int | None:
        """Bytes of its memory as the kernel counts them against the limit of one process."""
        with suppress(OSError, ValueError, IndexError):
            statm = os.open(f"{pid}/statm", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc)
            try:
                return int(os.read(statm, 200).split()[DATA_FIELD]) * PAGE_BYTES
            finally:
                os.close(statm)
        return None

    def opened_by(self, pid: int) -> int:
        """How many descriptors it has; 0 before Linux 6.2, which does not say."""
        with suppress(OSError):
            return os.stat(f"{pid}/fd", dir_fd=self.proc).st_size
        return 0
