"""A disk that loses what was not synced, commits at a time, and that can be slow, full or defective."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hostler.storage.sql.checkpoints import Checkpoints
from hostler.storage.sql.session import CommitUnknownError, ConnectionLostError
from hostler.storage.sql.sqlite import SqliteDriver, SqliteSession, translated
from hostler_protocol.errors import StorageError


@dataclass(eq=False)
class SimulatedDisk:
    """The disk under one SQLite database. The log is never checkpointed, so that it can be cut anywhere."""

    path: Path
    full: bool = False
    """Every commit fails, as it does without free space."""
    stall_seconds: float = 0.0
    """How much longer each commit takes."""
    clock: Callable[[], float] | None = None
    """UTC epoch seconds of the server, for a database that several machines share; None: their own."""
    defects: int = 0
    """How many of the next commits fail with an I/O error."""
    breaks: list[float] = field(default_factory=list)
    """For the next commits: how long after a commit the host gives up to ask the server what became of it.
    It happened, and the host does not know."""
    commits: int = 0
    failed: int = 0
    """Commits that failed with an I/O error."""
    unheard: int = 0
    """Commits that happened, and whose host does not know it."""
    late_seconds: float = 0.0
    """How much later the host hears of the commit at hand."""
    _lengths: list[int] = field(default_factory=list)
    """Lengths of the log after each commit that was not synced yet, oldest first."""
    _synced: int = 0
    """The length of the log at the last sync."""

    @property
    def _log(self) -> Path:
        return self.path.with_name(self.path.name + "-wal")

    def opened(self) -> None:
        """Note that a host begins to write. The log is new if the last one closed it in order."""
        if not self._log.exists():
            self._lengths, self._synced = [], 0

    def committed(self, *, synced: bool) -> None:
        """Note a commit."""
        self.commits += 1
        length = os.stat(f"{self.path}-wal").st_size  # noqa: PTH116  after each commit; a Path costs as much again
        if synced:
            self._synced = length
            self._lengths.clear()
        else:
            self._lengths.append(length)

    def fail(self) -> bool:
        """Whether the commit at hand fails."""
        if self.defects:
            self.defects -= 1
            self.failed += 1
            return True
        return False

    def break_off(self) -> bool:
        """Whether the connection breaks before the answer to the commit at hand."""
        if self.breaks:
            self.late_seconds = self.breaks.pop(0)
            self.unheard += 1
            return True
        return False

    def mend(self) -> None:
        """End all that is wrong."""
        self.full, self.stall_seconds, self.defects = False, 0.0, 0
        self.breaks.clear()

    def closed(self) -> None:
        """Note that a host has closed the database in order, which syncs all."""
        self._lengths, self._synced = [], self._log.stat().st_size if self._log.exists() else 0

    def lose_power(self, chance: random.Random) -> int:
        """Drop some of the commits that were not synced, newest first; return how many.

        Sessions of before must not be used again: they see the files of before.
        """
        if not self._log.exists():
            return 0  # the last session was closed in order, which syncs everything
        kept = chance.randint(0, len(self._lengths))
        length = self._lengths[kept - 1] if kept else self._synced
        lost = len(self._lengths) - kept
        content, log = self.path.read_bytes(), self._log.read_bytes()[:length]
        for file in (self.path, self._log, self.path.with_name(self.path.name + "-shm")):
            file.unlink(missing_ok=True)
        self.path.write_bytes(content)
        self._log.write_bytes(log)
        self._lengths, self._synced = [], length
        return lost


class _NoCheckpoints:
    def after_commit(self) -> bool:
        return False

    def finish(self, connection: sqlite3.Connection) -> None:
        pass

    def close(self) -> None:
        pass


class SimulatedDriver(SqliteDriver):
    """SQLite on a simulated disk; `shared`: several hosts use it at once, as they do with a server."""

    def __init__(self, disk: SimulatedDisk, *, shared: bool) -> None:
        super().__init__(disk.path, lambda *_: _NoCheckpoints())
        self.shared = shared
        self._disk = disk

    def open_writer(self) -> SqliteSession:
        """Open the writing session."""
        self._disk.opened()
        return _WritingSession(self._disk)

    def open_reader(self) -> SqliteSession:
        """Open a reading session."""
        return _Session(self._disk, None)

    def truncate_log(self) -> bool:
        """Do nothing: what a power cut takes is known by the frames of the log."""
        return True

    def close(self) -> None:
        """Close the database in order."""
        super().close()
        self._disk.closed()


class _Session(SqliteSession):
    def __init__(self, disk: SimulatedDisk, checkpointer: Checkpoints | None) -> None:
        super().__init__(disk.path, checkpointer)
        self._disk = disk

    def begin(self, *, synced: bool) -> int:
        own = super().begin(synced=synced)
        return own if self._disk.clock is None else int(self._disk.clock() * 1000)


class _WritingSession(_Session):
    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__(disk, _NoCheckpoints())
        self._synced = True

    def begin(self, *, synced: bool) -> int:
        if self._disk.full:
            raise ConnectionLostError("no space left on the simulated disk; nothing was written")
        self._synced = synced
        return super().begin(synced=synced)

    def commit(self) -> None:
        if self._disk.full:
            raise StorageError("no space left on the simulated disk: nothing was written")
        if self._disk.fail():
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise translated(error, self._disk.path)
        super().commit()
        self._disk.committed(synced=self._synced)
        if self._disk.break_off():
            raise CommitUnknownError(
                "the connection broke; whether the last writes were committed is not known"
            )
