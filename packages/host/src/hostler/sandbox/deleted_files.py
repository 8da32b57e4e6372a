"""Files of a sandbox that have no name any more and still take up disk: open, or mapped.

Runs in the shim, with only the standard library.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress

from hostler.sandbox.usage import BLOCK_BYTES, OpenFolder, has_ended

DELETED = " (deleted)"
Place = tuple[int, int]
"""Device and inode."""


class DeletedFiles:
    """The files without a name below the writable folders of one sandbox."""

    def __init__(self, folders: Sequence[OpenFolder]) -> None:
        self._devices = {os.fstat(folder.fd).st_dev for folder in folders}
        self._paths = tuple(f"{folder.path}/" for folder in folders)
        self._seen: dict[Place, int] = {}
        """The most bytes seen of mapped files, which may be mapped in part only."""
        self.unreadable: tuple[int, ...] = ()
        """Processes that cannot be looked into."""
        self.queued = 0
        """Descriptors that wait in sockets."""

    def measure(self, pids: Sequence[int]) -> tuple[int, int]:
        """Return their bytes on disk, and their number."""
        found: dict[Place, int] = {}
        mapped: dict[Place, int] = {}
        unreadable = []
        self.queued = 0
        for pid in pids:
            try:
                self._add_open(pid, found)
                self._add_mapped(pid, mapped)
            except PermissionError:
                if not has_ended(pid):
                    unreadable.append(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
        self.unreadable = tuple(unreadable)
        self._seen = {place: max(size, self._seen.get(place, 0)) for place, size in mapped.items()}
        for place, size in self._seen.items():
            found.setdefault(place, size)
        return sum(found.values()), len(found)

    def _add_open(self, pid: int, found: dict[Place, int]) -> None:
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - pathlib would double the start-up time
            with suppress(FileNotFoundError, ProcessLookupError, ValueError):
                path = f"/proc/{pid}/fd/{name}"
                target = os.readlink(path)  # noqa: PTH115 - as above
                if target.startswith("socket:"):
                    self.queued += _queued_in(pid, name)
                elif target.endswith(DELETED):
                    self._add(os.stat(path), found)  # noqa: PTH116 - as above

    def _add_mapped(self, pid: int, mapped: dict[Place, int]) -> None:
        sizes: dict[Place, int] = {}
        with open(f"/proc/{pid}/maps", "rb") as file:  # noqa: PTH123
            for raw in file:
                if not raw.endswith(b" (deleted)\n"):
                    continue
                span, _, _, device, inode, path = os.fsdecode(raw).split(None, 5)
                major, _, minor = device.partition(":")
                place = (os.makedev(int(major, 16), int(minor, 16)), int(inode))
                if place[0] not in self._devices and not path.startswith(self._paths):
                    continue
                with suppress(OSError):  # only for the privileged: the file itself
                    status = os.stat(f"/proc/{pid}/map_files/{span}")  # noqa: PTH116
                    if status.st_nlink == 0:
                        mapped[status.st_dev, status.st_ino] = status.st_blocks * BLOCK_BYTES
                    continue
                first, _, last = span.partition("-")
                sizes[place] = sizes.get(place, 0) + int(last, 16) - int(first, 16)
        for place, size in sizes.items():
            mapped[place] = max(size, mapped.get(place, 0))

    def _add(self, status: os.stat_result, found: dict[Place, int]) -> None:
        if status.st_nlink == 0 and stat.S_ISREG(status.st_mode) and status.st_dev in self._devices:
            found[status.st_dev, status.st_ino] = status.st_blocks * BLOCK_BYTES


def _queued_in(pid: int, name: str) -> int:
    with open(f"/proc/{pid}/fdinfo/{name}") as file:  # noqa: PTH123 - as above
        for line in file:
            if line.startswith("scm_fds:"):  # since Linux 5.16
                return int(line.split()[1])
    return 0
