"""Working folders for the commands and files of a conversation, or of one run.

A folder is `<data>/workspaces/ab/<digest>/`: commands see `files/`, the rest is the host's. The name is a
digest of the owner, so that no id can lead to another owner's folder.

Users of a folder hold a shared lock on it. Removal takes the lock exclusively and moves the folder away
before it releases the lock, so a folder in use is never removed, not even by another process of this machine.
Commands in one folder run one at a time (`turn`): with two, it would be unclear which one exceeded the quota.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from hostler.domain.record import Record
from hostler.domain.working_folders import FolderOwner, WorkingFolderSettings
from hostler.sandbox.project_quotas import release
from hostler.tools.workspaces.tree import WorkTree
from hostler.tools.workspaces.tree_removal import FolderUsage, remove_tree, try_remove_tree
from hostler_protocol.errors import PayloadTooLargeError, StorageError
from hostler_protocol.ids import new_id

T = TypeVar("T")

_log = logging.getLogger(__name__)
THREADS = 4
"""Disk operations at once; others wait for a thread."""
UNFINISHED_SECONDS = 3600
"""When to remove what a crash left incomplete."""
_TRIES = 20
"""Retries if a folder is removed while it is being locked."""


class StoredFolder(Record):
    """A folder on disk. `owner` is None if a crash left it incomplete."""

    key: str
    owner: FolderOwner | None
    used_at: float
    """UTC epoch seconds of the last start or end of work in it."""


class Swept(Record):
    """The result of a removal."""

    folders: int = 0
    size_bytes: int = 0


class WorkingFolder:
    """A folder in use, which is not removed until its `use` ends."""

    def __init__(self, container: Path, owner: FolderOwner, settings: WorkingFolderSettings) -> None:
        self.owner = owner
        self.path = container / "files"
        """The part that commands see."""
        self.notes = container / "notes"
        """The host's own notes, invisible to commands."""
        self.tree = WorkTree(self.path, container / "staging")
        self.settings = settings

    @property
    def most(self) -> FolderUsage:
        """The maximum of its content."""
        return FolderUsage(self.settings.disk_bytes, self.settings.max_files)

    def room(self) -> FolderUsage:
        """Return what still fits. Blocks. Raises PayloadTooLargeError if it is full, StorageError if the disk
        is."""
        most, free = self.most, self.free_bytes()
        used = self.tree.measure(most=most)
        left = FolderUsage(most.size_bytes - used.size_bytes, most.files - used.files)
        if not used.whole or left.size_bytes < 0 or left.files < 0:
            raise self.full(used)
        return FolderUsage(min(left.size_bytes, free), left.files)

    def free_bytes(self) -> int:
        """Return the disk space above the reserve. Blocks. Raises StorageError if there is none."""
        found = os.statvfs(self.path)
        free = found.f_bavail * found.f_frsize
        if free <= self.settings.spare_bytes:
            raise StorageError(
                f"the disk of the working folders has {free:,} bytes left, of which "
                f"{self.settings.spare_bytes:,} stay free"
            )
        return free - self.settings.spare_bytes

    def full(self, used: FolderUsage | None = None) -> PayloadTooLargeError:
        """Return the error for a full folder."""
        most, held = self.most, ""
        if used is not None and used.whole:
            held = f" and holds {used.size_bytes:,} in {used.files:,}"
        return PayloadTooLargeError(
            f"the working folder may hold {most.size_bytes:,} bytes in {most.files:,} files and folders"
            f"{held}: remove what is no longer needed",
            limit_bytes=most.size_bytes,
        )


class WorkingFolders:
    """All working folders below `root`; several processes may share it."""

    def __init__(self, root: Path, settings: WorkingFolderSettings | None = None) -> None:
        self._root = root
        self._aside = root / "removed"
        self.settings = settings or WorkingFolderSettings()
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="hostler-folders")

    def configure(self, settings: WorkingFolderSettings) -> None:
        """Change the settings, for existing folders too."""
        self.settings = settings

    def close(self) -> None:
        """Wait for running operations; no others can be started."""
        self._threads.shutdown()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run a blocking disk operation."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    # -- using ----------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def use(self, owner: FolderOwner) -> AsyncIterator[WorkingFolder]:
        """Open the owner's folder, created if missing; it is not removed within the block."""
        opening = asyncio.ensure_future(self.in_thread(lambda: self._open(owner)))
        try:
            lock = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_late)
            raise
        try:
            yield WorkingFolder(self._container(owner.key), owner, self.settings)
        finally:
            with contextlib.suppress(OSError):
                os.utime(lock)
            os.close(lock)

    @contextlib.asynccontextmanager
    async def turn(self, owner: FolderOwner, of: str = "commands") -> AsyncIterator[None]:
        """Wait for exclusive use of the owner's folder within this process; first come, first served.

        `of` names the queue: commands and changes of files do not wait for each other.
        """
        key = f"{of} {owner.key}"
        lock, waiting = self._turns.get(key, (asyncio.Lock(), 0))
        self._turns[key] = (lock, waiting + 1)
        try:
            async with lock:
                yield
        finally:
            _, waiting = self._turns[key]
            if waiting == 1:
                del self._turns[key]
            else:
                self._turns[key] = (lock, waiting - 1)

    def _open(self, owner: FolderOwner) -> int:
        container = self._container(owner.key)
        try:
            for _ in range(_TRIES):
                container.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._check_count(container)
                with contextlib.suppress(FileExistsError):
                    container.mkdir(mode=0o700)
                lock = _locked(container, fcntl.LOCK_SH)
                if lock is None:
                    continue
                try:
                    os.utime(lock)
                    self._furnish(container, owner)
                except BaseException:
                    os.close(lock)
                    raise
                return lock
        except OSError as error:
            raise StorageError(
                f"the working folder cannot be made: {error.strerror}; check the disk and its free space"
            ) from error
        raise StorageError("the working folder is removed again and again while it is opened")

    def _check_count(self, container: Path) -> None:
        most = self.settings.max_folders
        if not container.exists() and sum(1 for _ in self._containers()) >= most:
            raise StorageError(
                f"this host has {most:,} working folders, the most it may: sweep what is old (`hostler gc`), "
                "or raise working_folders.max_folders"
            )

    def _furnish(self, container: Path, owner: FolderOwner) -> None:
        about = container / "about.json"
        if about.exists():
            return
        for name in ("files", "staging", "notes"):
            (container / name).mkdir(mode=0o700, exist_ok=True)
        written = container / f"staging/{new_id()}"
        written.write_bytes(msgspec.json.encode(owner))
        written.replace(about)

    # -- removing -------------------------------------------------------------------------------------------

    async def found(self) -> list[StoredFolder]:
        """Return every folder on this disk."""
        return await self.in_thread(lambda: list(self._found()))

    async def remove(self, key: str) -> Swept:
        """Remove a folder unless it is in use."""
        return await self.in_thread(lambda: self._remove(key))

    async def sweep(self, is_orphan: Callable[[FolderOwner], Awaitable[bool]]) -> Swept:
        """Remove folders unused for longer than they are kept, and those no run can use again."""
        folders, size = 0, 0
        for held in await self.found():
            if await self._may_go(held, is_orphan):
                swept = await self.remove(held.key)
                folders, size = folders + swept.folders, size + swept.size_bytes
        await self.in_thread(self._remove_leftovers)
        return Swept(folders, size)

    async def _may_go(self, held: StoredFolder, is_orphan: Callable[[FolderOwner], Awaitable[bool]]) -> bool:
        age = time.time() - held.used_at
        if held.owner is None:
            return age > UNFINISHED_SECONDS
        return age > self.settings.keep_days * 86_400 or await is_orphan(held.owner)

    def _remove(self, key: str) -> Swept:
        container = self._container(key)
        try:
            lock = _locked(container, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return Swept()
        if lock is None:
            return Swept()
        self._aside.mkdir(mode=0o700, exist_ok=True)
        aside = self._aside / new_id()
        try:
            container.rename(aside)
        finally:
            os.close(lock)
        size = WorkTree(aside / "files", aside).measure().size_bytes
        _release(aside)
        try_remove_tree(aside)
        return Swept(1, size)

    def _remove_leftovers(self) -> None:
        """Remove remains of a crash: folders moved away, and unfinished files."""
        with contextlib.suppress(FileNotFoundError):
            for aside in list(self._aside.iterdir()):
                with contextlib.suppress(OSError):
                    _release(aside)
                    remove_tree(aside)
        before = time.time() - UNFINISHED_SECONDS
        for container in self._containers():
            with contextlib.suppress(OSError):
                for left in (container / "staging").iterdir():
                    if left.lstat().st_mtime < before:
                        remove_tree(left)

    def _found(self) -> Iterator[StoredFolder]:
        for container in self._containers():
            try:
                used_at = (container / "lock").stat().st_mtime
            except FileNotFoundError:
                with contextlib.suppress(OSError):
                    yield StoredFolder(container.name, None, container.stat().st_mtime)
                continue
            yield StoredFolder(container.name, _owner_in(container), used_at)

    def _containers(self) -> Iterator[Path]:
        for first in sorted(_names(self._root)):
            if len(first) == 2:
                for name in sorted(_names(self._root / first)):
                    yield self._root / first / name

    def _container(self, key: str) -> Path:
        return self._root / key[:2] / key


def _release(container: Path) -> None:
    try:
        release(container / "files")
    except OSError as error:
        _log.warning("%s: its quota cannot be removed: %s", container, error)


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _owner_in(container: Path) -> FolderOwner | None:
    """Return the owner recorded in the folder if it matches the folder's name."""
    try:
        owner = msgspec.json.decode((container / "about.json").read_bytes(), type=FolderOwner)
    except (OSError, msgspec.DecodeError):
        return None
    return owner if owner.key == container.name else None


def _locked(container: Path, how: int) -> int | None:
    """Return a descriptor that holds the folder's lock; None if the folder was removed meanwhile."""
    try:
        lock = os.open(container / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, how)
        there = (container / "lock").stat()
        held = os.fstat(lock)
        if (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino):
            return lock
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    return None


def _close_late(opening: asyncio.Future[int]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        os.close(opening.result())
