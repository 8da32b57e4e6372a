"""SQLite's write-ahead log, copied into the database file beside the writer: no longer than it has to be.

The format of the log that is read here: https://sqlite.org/fileformat2.html#walformat
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

CHECKPOINT_BYTES = 16 * 1024 * 1024
"""A write-ahead log longer than this is copied into the database file, in the background."""
KEPT_LOG_BYTES = 2 * CHECKPOINT_BYTES
"""What the file keeps when the log starts again at its beginning: writing over what is there is synced in
little more than half the time of a file that grows. Twice, since the log goes on while it is copied."""
_HEADER, _FRAME_HEADER = 32, 24
_PAGE_SIZE, _SALTS, _FRAME_SALTS = slice(8, 12), slice(16, 24), 8


class Log:
    """The file of the write-ahead log. It starts anew at its beginning, each time with other salts."""

    def __init__(self, database: Path) -> None:
        self._path = f"{database}-wal"
        self._fd = -1

    def reaches(self, size: int) -> bool:
        """Whether what was written since the log last started again is longer than `size` bytes."""
        try:
            if self._fd < 0:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            header = os.pread(self._fd, _HEADER, 0)
            frame = _FRAME_HEADER + int.from_bytes(header[_PAGE_SIZE], "big")
            salts = os.pread(self._fd, 8, _HEADER + size // frame * frame + _FRAME_SALTS)
        except OSError:  # not there yet, or not to be read: asked after a commit, which stands all the same
            return False
        return len(salts) == 8 and salts == header[_SALTS]

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Checkpointer:
    """Copies the log into the database file, so that commits never have to.

    A passive checkpoint on a thread of its own does the bulk beside the writer. What was written meanwhile
    is left for a last short step between two transactions, after which the log starts again at its beginning.
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
        """See how long the log is; whether it is time for `finish`. Called by the writer."""
        if self._done.is_set():
            return True
        if not self._log.reaches(CHECKPOINT_BYTES):
            self._next_bytes = CHECKPOINT_BYTES
        elif not self._due.is_set() and self._log.reaches(self._next_bytes):
            # Where readers keep it from starting again it goes on growing: it is tried again a while later.
            self._next_bytes += CHECKPOINT_BYTES // 4
            self._due.set()
        return False

    def finish(self, connection: sqlite3.Connection) -> None:
        """The last short step, between two transactions of the writer's `connection`."""
        self._done.clear()
        with contextlib.suppress(sqlite3.Error):  # a reader or a full disk: it comes again
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Stop the thread."""
        self._closing = True
        self._due.set()
        self._thread.join()
        self._log.close()

    def _main(self) -> None:
        connection = self._connect(self._path)
        with contextlib.closing(connection):
            while self._due.wait():
                self._due.clear()  # before looking: a wish to close is never cleared unseen
                if self._closing:
                    return
                with contextlib.suppress(sqlite3.Error):  # a full disk: the next one may find space
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                self._done.set()
