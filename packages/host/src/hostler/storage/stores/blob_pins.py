"""Pins: protect blobs that were put but have no reference yet, across all processes that share a folder.

A pin is an empty file. It exists while its `Pin` object does and no longer than its process: each process has
its own folder with a locked file, which the kernel unlocks when the process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

from hostler_protocol.ids import new_id

_ALIVE = "alive"


class Pin:
    """Keeps a blob from being removed while this object exists, unless it is released before."""

    def __init__(self, path: Path) -> None:
        self._release = weakref.finalize(self, _unlink, path)
        self._release.atexit = False

    def release(self) -> None:
        """Protect the blob no more: what was put is not going to be named."""
        self._release()


class Pins:
    """The pins of a blob folder, below `root`; `lock` is a file next to it."""

    def __init__(self, root: Path, lock: Path) -> None:
        self._root = root
        self._lock = lock
        self._own: Path | None = None
        self._alive: int | None = None
        self._numbers = itertools.count()
        self._turn = threading.Lock()
        root.mkdir(mode=0o700, exist_ok=True)

    def take(self, sha256: str) -> Pin:
        """Pin a blob. OSError if the disk is full."""
        path = self._folder() / f"{sha256}.{next(self._numbers)}"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return Pin(path)

    def held(self) -> set[str]:
        """Return the digests that are pinned now. Removes the folders of ended processes."""
        found: set[str] = set()
        with self._locked():
            for entry in os.scandir(self._root):
                folder = Path(entry.path)
                if folder != self._own and not _is_alive(folder):
                    shutil.rmtree(folder, ignore_errors=True)
                    continue
                found |= {pin.name.partition(".")[0] for pin in os.scandir(folder) if pin.name != _ALIVE}
        return found

    def close(self) -> None:
        """Remove all pins of this process."""
        with self._turn:
            if self._own is None or self._alive is None:
                return
            with self._locked():  # another process may be reading the folder
                shutil.rmtree(self._own, ignore_errors=True)
            os.close(self._alive)
            self._own = self._alive = None

    def _folder(self) -> Path:
        with self._turn:
            if self._own is None:
                folder = self._root / new_id()
                with self._locked():  # no process takes it for a folder of an ended one
                    folder.mkdir(mode=0o700)
                    self._alive = os.open(
                        folder / _ALIVE, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
                    )
                    fcntl.flock(self._alive, fcntl.LOCK_EX)
                self._own = folder
            return self._own

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock.open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _is_alive(folder: Path) -> bool:
    """Whether the process of a folder still runs."""
    try:
        with (folder / _ALIVE).open("rb") as alive:
            fcntl.flock(alive, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):  # a pin that stays is removed after its process has ended
        path.unlink()
