"""Registered files: artifacts whose bytes stay in place, in folders that the operator allowed.

A path is resolved once, when it is registered. Each read opens it from the root of the file system, every
folder relative to the one before and never through a symbolic link, so a link that is put there between the
check and the read has no effect. The opened file is compared with the registered one: its size always, and
the digest of the whole file if inode or times have changed. A changed file is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from hostler.storage.stores.blob_files import CHUNK_BYTES
from hostler.storage.stores.blob_reader import check_range
from hostler.storage.stores.blobs import Blob
from hostler_protocol.errors import InvalidArgumentError, StorageError

T = TypeVar("T")

MAX_REMEMBERED = 4_096
"""Files whose content was found unchanged although their times changed: each is digested only once."""
_THREADS = 2
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not block
SYSTEM_FOLDERS = ("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr")


class Stamp(msgspec.Struct, frozen=True):
    """Identifies a file and its state without reading it. Times in nanoseconds."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


class RegisteredFile(msgspec.Struct, frozen=True):
    """A registered file: its real path, digest and stamp. Never leaves the host."""

    path: str
    sha256: str
    stamp: Stamp

    @property
    def blob(self) -> Blob:
        """Digest and size."""
        return Blob(self.sha256, self.stamp.size)


def encode_registered(file: RegisteredFile) -> str:
    """Encode a registered file as JSON for the database."""
    return msgspec.json.encode(file).decode()


def decode_registered(text: str) -> RegisteredFile:
    """Decode the JSON of `encode_registered`."""
    return msgspec.json.decode(text, type=RegisteredFile)


class RegisteredFiles:
    """Registers files in allowed folders and reads them.

    `roots` are the allowed folders. InvalidArgumentError for system folders, the home folder and `private`
    folders (the host's own data), and for folders that contain one of them.
    """

    def __init__(self, roots: Sequence[Path], *, private: Sequence[Path] = ()) -> None:
        self._private = [Path(os.path.realpath(folder)) for folder in private]
        self._roots = [self._checked_root(root) for root in roots]
        self._unchanged: OrderedDict[tuple[str, str, Stamp], None] = OrderedDict()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="hostler-registered")

    def close(self) -> None:
        """Wait for running operations, then stop the threads."""
        self._threads.shutdown()

    async def register(self, path: Path) -> RegisteredFile:
        """Check a file and compute its digest.

        InvalidArgumentError if it is no ordinary file in an allowed folder, or changes meanwhile.
        """
        return await self._in_thread(lambda: self._register(path))

    async def read(self, file: RegisteredFile, offset: int, length: int) -> bytes:
        """Return at most `length` bytes from `offset` on; fewer only at the end.

        StorageError if the file is gone, is no longer in an allowed folder, or has changed.
        """
        check_range(offset, length)
        return await self._in_thread(lambda: self._read(file, offset, length))

    # -- inside, on a thread --------------------------------------------------------------------------------

    def _register(self, path: Path) -> RegisteredFile:
        try:
            real = Path(os.path.realpath(path))
        except OSError as error:  # a folder of the path was replaced meanwhile
            raise InvalidArgumentError(f"{path} cannot be registered: {error.strerror or error}") from error
        if not self._is_allowed(real):
            raise InvalidArgumentError(
                f"{path} is in no allowed folder; allowed are: {', '.join(map(str, self._roots)) or 'none'}"
            )
        try:
            with _opened(real) as descriptor:
                before = _stamp(descriptor)
                sha256 = _digest(descriptor)
                if _stamp(descriptor) != before:
                    raise InvalidArgumentError(f"{path} is being written: register it when it is finished")
        except OSError as error:
            raise InvalidArgumentError(f"{path} cannot be registered: {error.strerror or error}") from error
        return RegisteredFile(str(real), sha256, before)

    def _read(self, file: RegisteredFile, offset: int, length: int) -> bytes:
        if not self._is_allowed(Path(file.path)):
            raise StorageError("the file of this artifact is no longer in an allowed folder")
        try:
            with _opened(Path(file.path)) as descriptor:
                before = _stamp(descriptor)
                self._check_unchanged(file, descriptor, before)
                content = _pread(descriptor, offset, length)
                if _stamp(descriptor) != before:
                    raise StorageError("the file of this artifact changed while it was read")
        except OSError as error:
            raise StorageError(
                f"the file of this artifact cannot be read where it was registered: {error.strerror or error}"
            ) from error
        return content

    def _check_unchanged(self, file: RegisteredFile, descriptor: int, now: Stamp) -> None:
        if now == file.stamp:
            return
        known = (file.path, file.sha256, now)
        if known in self._unchanged:
            self._unchanged.move_to_end(known)
            return
        if now.size != file.stamp.size or _digest(descriptor) != file.sha256:
            raise StorageError("the file of this artifact has changed since it was registered")
        self._unchanged[known] = None
        if len(self._unchanged) > MAX_REMEMBERED:
            self._unchanged.popitem(last=False)

    def _is_allowed(self, real: Path) -> bool:
        if ".." in real.parts or any(real.is_relative_to(folder) for folder in self._private):
            return False
        return any(real.is_relative_to(root) and real != root for root in self._roots)

    def _checked_root(self, root: Path) -> Path:
        real = Path(os.path.realpath(root))
        if not real.is_dir():
            raise InvalidArgumentError(f"{root} is not a folder")
        if len(real.parts) == 1 or real.parts[1] in SYSTEM_FOLDERS:
            raise InvalidArgumentError(f"{root} is a system folder: name a folder of your own files")
        for kept in (Path(os.path.realpath(Path.home())), *self._private):
            if kept.is_relative_to(real):
                raise InvalidArgumentError(
                    f"{root} contains {kept}, which is private: name a folder inside it"
                )
        if any(real.is_relative_to(folder) for folder in self._private):
            raise InvalidArgumentError(f"{root} is part of the host's own data: name another folder")
        return real

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


@contextlib.contextmanager
def _opened(real: Path) -> Iterator[int]:
    """Open the ordinary file at a path; OSError if a part of the path is a link or no folder."""
    *folders, name = real.parts[1:]
    at = os.open("/", _DIRECTORY)
    try:
        for folder in folders:
            below = os.open(folder, _DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        descriptor = os.open(name, _FILE, dir_fd=at)
    finally:
        os.close(at)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not an ordinary file")
        yield descriptor
    finally:
        os.close(descriptor)


def _stamp(descriptor: int) -> Stamp:
    status = os.fstat(descriptor)
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _digest(descriptor: int) -> str:
    digest = hashlib.sha256()
    offset = 0
    while chunk := os.pread(descriptor, CHUNK_BYTES, offset):
        digest.update(chunk)
        offset += len(chunk)
    return digest.hexdigest()


def _pread(descriptor: int, offset: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length > 0 and (part := os.pread(descriptor, length, offset)):
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return b"".join(parts)
