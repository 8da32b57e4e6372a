"""The lock on a data directory, for one host at a time.

The kernel releases the lock when its process ends, for any reason. So its holder knows that no other host of
this machine works on this data, the previous one included.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import stat
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import TracebackType

import msgspec

from hostler.host.data_directory import NOTE_NAME, own_database
from hostler_protocol._base import Lenient
from hostler_protocol.errors import ConflictError, StorageError, UnavailableError

_log = logging.getLogger(__name__)

MAX_NOTE_BYTES = 4096
LOCK_TRIES = 50
LOCK_RETRY_SECONDS = 0.01
"""A start tries so often: `read_holder` of another process takes the lock for an instant. At most 0.5 s."""
REMOVAL_WAIT_SECONDS = 10.0
REMOVAL_POLL_SECONDS = 0.05
"""A requested removal waits this long for a gc of another process, and checks at this interval."""


class Holder(Lenient):
    """The note that the holder of the lock writes into it. `url` is set once it serves HTTP."""

    pid: int
    started_at: float
    url: str | None = None
    version: str = ""


class DataDirLock:
    """The lock. Held from `acquire` to `release`, or to the end of the process."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / "lock"
        self._fd: int | None = None

    def acquire(self, holder: Holder) -> None:
        """Take the lock.

        ConflictError, naming the holder, if another process has it; StorageError if it cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            keep_private(self.path.parent)
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(
                f"the data directory {self.path.parent} cannot be used: {error.strerror}; "
                "name another with --data"
            ) from error
        for _ in range(LOCK_TRIES):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                other = read_holder(self.path.parent)
                if other is not None:
                    os.close(fd)
                    raise ConflictError(_in_use(self.path.parent, other)) from None
                time.sleep(
                    LOCK_RETRY_SECONDS
                )  # another process reads the holder, or has not written its note yet
        else:
            os.close(fd)
            raise ConflictError(_in_use(self.path.parent, None))
        self._fd = fd
        self.note(holder)

    def note(self, holder: Holder) -> None:
        """Replace the note of the holder."""
        if self._fd is None:
            raise RuntimeError("the lock is not held")
        text = msgspec.json.encode(holder)
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))

    def release(self) -> None:
        """Release the lock; does nothing if it is not held."""
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


_OWN_FILES = (own_database(Path()).name, NOTE_NAME, "host_id")
"""By one of these a folder is known as a data directory. The lock alone may be what a refused start left."""


def keep_private(data_dir: Path) -> None:
    """Take the rights on a data directory from everyone but its owner, and log that.

    StorageError if it belongs to somebody else, since others could read all facts; and if it is a folder that
    others share (/tmp, a project): closing that would take away what is theirs.
    """
    found = data_dir.stat()
    mode = stat.S_IMODE(found.st_mode)
    if not mode & 0o077:
        return
    if (for_all := bool(mode & stat.S_ISVTX)) or _is_of_others(data_dir):
        why = "is a place for everyone's files" if for_all else "holds other things"
        # closing the first kind would take it away from everyone
        instead = "" if for_all else ", or take the rights of others away (chmod 700)"
        raise StorageError(
            f"the data directory {data_dir} can be used by others (mode {mode:o}) and {why}: "
            f"name a folder of its own with --data{instead}"
        )
    try:
        data_dir.chmod(mode & 0o700)
    except PermissionError as error:
        raise StorageError(
            f"the data directory {data_dir} can be used by others (mode {mode:o}) and belongs to user "
            f"{found.st_uid}: name a folder inside it with --data; that will be private"
        ) from error
    _log.warning(
        "the data directory %s was open to others (mode %o): now it is its owner's alone", data_dir, mode
    )


def _is_of_others(data_dir: Path) -> bool:
    """Tell whether a folder has things in it and none by which a data directory is known."""
    with os.scandir(data_dir) as entries:
        has_things = any(entry.name != "lock" for entry in entries)
    return has_things and not any((data_dir / name).exists() for name in _OWN_FILES)


def _in_use(data_dir: Path, holder: Holder | None) -> str:
    who = "another process" if holder is None else f"process {holder.pid}"
    where = f" at {holder.url}" if holder is not None and holder.url else ""
    return (
        f"the data directory {data_dir} is in use by {who}{where}; "
        "stop it first, or give --data another directory"
    )


def read_holder(data_dir: Path) -> Holder | None:
    """Return the current holder of the lock of a data directory, or None."""
    try:
        fd = os.open(data_dir / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None  # not held: the note is of a host that died
        return msgspec.json.decode(os.pread(fd, MAX_NOTE_BYTES, 0), type=Holder)
    except msgspec.DecodeError:
        return None  # the holder has taken the lock and not written its note yet
    finally:
        os.close(fd)


@contextmanager
def maintenance(data_dir: Path, *, shared: bool) -> Iterator[None]:
    """Exclude backups and removals from each other: many backups, or one process that removes.

    ConflictError if the other kind is in progress.
    """
    with (data_dir / "maintenance.lock").open("ab") as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            other = "a gc or a deletion" if shared else "a backup or another gc"
            raise ConflictError(f"{other} is in progress in {data_dir}: try again when it is done") from None
        yield


class RemovalGate:
    """Excludes backups during the removals of one host, which share one lock."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._lock = contextlib.ExitStack()
        self._removals = 0

    @asynccontextmanager
    async def open(self, *, wait_seconds: float = REMOVAL_WAIT_SECONDS) -> AsyncIterator[None]:
        """Exclude backups. UnavailableError if one is still in progress after `wait_seconds`."""
        give_up_at = time.monotonic() + wait_seconds
        while not self._enter():
            if time.monotonic() >= give_up_at:
                raise UnavailableError(
                    "nothing is deleted while a backup or a gc is in progress: try again when it is done"
                )
            await asyncio.sleep(REMOVAL_POLL_SECONDS)
        try:
            yield
        finally:
            self._removals -= 1
            if not self._removals:
                self._lock.close()

    def _enter(self) -> bool:
        if not self._removals:
            with contextlib.suppress(ConflictError):
                self._lock.enter_context(maintenance(self._data_dir, shared=False))
                self._removals = 1
            return bool(self._removals)
        self._removals += 1
        return True
