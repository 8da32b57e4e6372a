"""Checkpoints of SQLite's write-ahead log, on a thread of their own: they keep the log short.

The format of the log: https://sqlite.org/fileformat2.html#walformat
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias

CHECKPOINT_BYTES = 16 * 1024 * 1024
"""A longer write-ahead log is copied into the database file, in the background."""
KEPT_LOG_BYTES = 2 * CHECKPOINT_BYTES
"""Size to which the log file is truncated when the log restarts: syncing overwritten pages takes little more
than half the time of syncing a growing file. Twice, since the log grows while it is copied."""
_HEADER, _FRAME_HEADER = 32, 24
_PAGE_SIZE, _SALTS, _FRAME_SALTS = slice(8, 12), slice(16, 24), 8


class Log:
    """The file of the write-ahead log.

    The log restarts at the beginning of the file, with new salts each time.
    """

    def __init__(self, database: Path) -> None:
        self._path = f"{database}-wal"
        self._fd = -1

    def reaches(self, size: int) -> bool:
        """Whether the log has grown beyond `size` bytes since its last restart."""
        try:
            if self._fd < 0:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            header = os.pread(self._fd, _HEADER, 0)
            frame = _FRAME_HEADER + int.from_bytes(header[_PAGE_SIZE], "big")
            salts = os.pread(self._fd, 8, _HEADER + size // frame * frame + _FRAME_SALTS)
        except OSError:  # not there yet, or unreadable: the commit before it is valid all the same
            return False
        return len(salts) == 8 and salts == header[_SALTS]

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Checkpoints(Protocol):
    """What a writer needs of its checkpointer. See `Checkpointer`."""

    def after_commit(self) -> bool:
        """Start a checkpoint if the log is long enough; return whether `finish` is due."""

    def finish(self, connection: sqlite3.Connection) -> None:
        """Do the last short step, between two transactions of the writer."""

    def close(self) -> None:
        """End."""


MakeCheckpointer: TypeAlias = "Callable[[Path, Callable[[Path], sqlite3.Connection]], Checkpoints]"


class Checkpointer:
    """Copies the log into the database file, so that no commit has to.

    A passive checkpoint on a separate thread does the bulk while the writer goes on. A last short step
    between two transactions copies what was written meanwhile; after it the log restarts at its beginning.
    """

    def __init__(self, path: Path, connect: Callable[[Path], sqlite3.Connection]) -> None:
        self._path = path
        self._connect = connect
        self._log = Log(path)
        self._due = threading.Event()
        self._done = threading.Event()
        self._closing = False
        self._next_bytes = CHECKPOINT_BYTES
        self._thread = threading.Thread(target=self._main, name="hostler-checkpointer", daemon=True)
        self._thread.start()

    def after_commit(self) -> bool:
        """Start a checkpoint if the log is long enough; return whether `finish` is due.

        Called by the writer.
        """
        if self._done.is_set():
            return True
        if not self._log.reaches(CHECKPOINT_BYTES):
            self._next_bytes = CHECKPOINT_BYTES
        elif not self._due.is_set() and self._log.reaches(self._next_bytes):
            # readers may keep the log from restarting: it grows, and the next try is a quarter later
            self._next_bytes += CHECKPOINT_BYTES // 4
            self._due.set()
        return False

    def finish(self, connection: sqlite3.Connection) -> None:
        """Do the last short step, between two transactions of the writer's `connection`."""
        self._done.clear()
        with contextlib.suppress(sqlite3.Error):  # a reader or a full disk: the next checkpoint repeats it
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Stop the thread."""
        self._closing = True
        self._due.set()
        self._thread.join()
        self._log.close()

    def _main(self) -> None:
        connection: sqlite3.Connection | None = None
        while self._due.wait():
            self._due.clear()  # before `_closing` is read, so that no request to close is missed
            if self._closing:
                break
            # a full disk, no file descriptor left: the next one may find space
            with contextlib.suppress(sqlite3.Error):
                connection = connection or self._connect(self._path)
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._done.set()
        if connection is not None:
            connection.close()
