"""Locks of files between simulated processes, which share the thread and the process of the world."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from typing import IO

from hostler.simulation.loop import MustWaitError, SimulatedProcess, current_process

Flock = Callable[[IO[bytes] | int, int], None]


class FileLocks:
    """`fcntl.flock` of a world. `real` is that of the operating system.

    A process that has to wait for a lock is tried again later by its thread. The locks of a process are
    released at its death; one that is frozen keeps them.
    """

    def __init__(self, real: Flock) -> None:
        self._real = real
        self._held: dict[int, tuple[SimulatedProcess, tuple[int, int]]] = {}
        """Descriptors that were locked last by a process, and the files that they were then."""
        self._known: set[SimulatedProcess] = set()

    def flock(self, file: IO[bytes] | int, operation: int) -> None:
        """Lock or unlock a file; see fcntl. MustWaitError where the operating system would wait."""
        descriptor = file if isinstance(file, int) else file.fileno()
        try:
            self._real(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            if operation & fcntl.LOCK_NB:
                raise
            raise MustWaitError(f"another process holds the lock of descriptor {descriptor}") from None
        self._held.pop(descriptor, None)  # of a file that was closed since
        process = current_process()
        if process is not None:
            self._held[descriptor] = (process, _file_of(descriptor))
            if process not in self._known:
                self._known.add(process)
                process.at_death.append(lambda: self._release(process))

    def _release(self, process: SimulatedProcess) -> None:
        for descriptor, (owner, file) in list(self._held.items()):
            if owner is process:
                del self._held[descriptor]
                if _file_of(descriptor) == file:
                    self._real(descriptor, fcntl.LOCK_UN)


def _file_of(descriptor: int) -> tuple[int, int]:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return -1, -1  # closed
    return status.st_dev, status.st_ino
