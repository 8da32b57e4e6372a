"""The lock on a data directory: one host at a time, and the proof that the one before is gone.

The kernel drops the lock with the process, however it ends; so whoever holds it knows that no other host
of this machine is working on these facts.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import TracebackType

import msgspec

from hostler_protocol._base import Lenient
from hostler_protocol.errors import ConflictError, StorageError, UnavailableError

MAX_NOTE_BYTES = 4096
PEEKS = 50
PEEK_SECONDS = 0.01
"""Looking who holds the lock takes it for an instant: a host starting just then waits, 0.5 s at most."""
REMOVAL_WAIT_SECONDS = 10.0
REMOVAL_POLL_SECONDS = 0.05
"""A removal on request waits this long for a gc of another process to end, and looks this often."""


class Holder(Lenient):
    """What the holder of the lock wrote about itself. `url` is set once it serves HTTP."""

    pid: int
    started_at: float
    url: str | None = None
    version: str = ""


class DataDirLock:
    """Held from `acquire` to `release`, or to the end of the process."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / "lock"
        self._fd: int | None = None

    def acquire(self, holder: Holder) -> None:
        """Take the lock.

        ConflictError naming the holder where another process has it; StorageError where the folder
        cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(
                f"the data directory {self.path.parent} cannot be used: {error.strerror}; "
                "name another with --data"
            ) from error
        for _ in range(PEEKS):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                first = read_holder(self.path.parent)
                if first is not None:
                    os.close(fd)
                    raise ConflictError(_in_use(self.path.parent, first)) from None
                time.sleep(PEEK_SECONDS)  # somebody only looked who holds it, or is about to say
        else:
            os.close(fd)
            raise ConflictError(_in_use(self.path.parent, None))
        self._fd = fd
        self.note(holder)

    def note(self, holder: Holder) -> None:
        """Write anew what the holder says of itself."""
        if self._fd is None:
            raise RuntimeError("the lock is not held")
        text = msgspec.json.encode(holder)
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))

    def release(self) -> None:
        """Give the lock up; harmless where it is not held."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> DataDirLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _in_use(data_dir: Path, first: Holder | None) -> str:
    who = "another process" if first is None else f"process {first.pid}"
    where = f" at {first.url}" if first is not None and first.url else ""
    return (
        f"the data directory {data_dir} is in use by {who}{where}; "
        "stop it first, or give --data another directory"
    )


def read_holder(data_dir: Path) -> Holder | None:
    """Who holds the lock of a data directory right now; None where nobody does."""
    try:
        fd = os.open(data_dir / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None  # nobody holds it: what is written there is of a host that died
        return msgspec.json.decode(os.pread(fd, MAX_NOTE_BYTES, 0), type=Holder)
    except msgspec.DecodeError:
        return None  # caught between taking the lock and writing the note
    finally:
        os.close(fd)


@contextmanager
def maintenance(data_dir: Path, *, shared: bool) -> Iterator[None]:
    """Keep backups and removals apart: many backups, or one gc or host that removes.

    ConflictError where the other is at work.
    """
    with (data_dir / "maintenance.lock").open("ab") as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            other = "a gc or a deletion" if shared else "a backup or another gc"
            raise ConflictError(f"{other} is at work in {data_dir}: try again when it is done") from None
        yield


class RemovalGate:
    """Keeps the removals of one host apart from backups: they may be at work together, with one lock."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._lock = contextlib.ExitStack()
        self._inside = 0

    @asynccontextmanager
    async def open(self, *, wait_seconds: float = REMOVAL_WAIT_SECONDS) -> AsyncIterator[None]:
        """Keep backups from beginning. UnavailableError where one is still at work after `wait_seconds`."""
        until = time.monotonic() + wait_seconds
        while not self._enter():
            if time.monotonic() >= until:
                raise UnavailableError(
                    "nothing is deleted while a backup or a gc is at work: try again when it is done"
                )
            await asyncio.sleep(REMOVAL_POLL_SECONDS)
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._lock.close()

    def _enter(self) -> bool:
        if not self._inside:
            with contextlib.suppress(ConflictError):
                self._lock.enter_context(maintenance(self._data_dir, shared=False))
                self._inside = 1
            return bool(self._inside)
        self._inside += 1
        return True
