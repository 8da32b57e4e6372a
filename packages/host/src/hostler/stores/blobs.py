"""Blobs: bytes by their SHA-256, each stored once, in a folder; and in the database who names them.

The order that keeps facts true: `BlobFolder.put` makes the bytes durable, then a transaction calls
`reference` for each thing that names them. Letting go is the other way round: `release` in the transaction
that deletes the name, and much later `collect` removes the file. A crash in between leaves at most bytes that
nobody names; `sweep` removes those.

Removing and putting the same bytes exclude each other by a file lock, and putting bytes that are there
already makes their file young again: who has put has GRACE_SECONDS to name it in a transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hostler.ports import Database, Tx
from hostler.sql.statements import load
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError, StorageError
from hostler_protocol.ids import new_id
from hostler_protocol.limits import KIB, MAX_UPLOAD_BYTES

_q = load(__file__)
T = TypeVar("T")

CHUNK_BYTES = 256 * KIB
"""How much of a blob is in memory at once, for each reader or writer."""
GRACE_SECONDS = 3600
"""A file nobody names is kept this long: from `put` to its transaction takes seconds."""
DISK_THREADS = 4
"""Operations on disk at once; further ones wait for a thread."""
GC_BATCH = 100

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Blob:
    """What `put` stored: the digest (64 hexadecimal digits) and size of the bytes."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Removed:
    """What a collection freed."""

    blobs: int
    size_bytes: int


class BlobFolder:
    """Content-addressed files under `root`; several processes may share it.

    `root/ab/cd/abcd...` holds a blob, `root/tmp` what is being written, `root/locks` one lock file per first
    two digits.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tmp = root / "tmp"
        self._locks = root / "locks"
        for folder in (root, self._tmp, self._locks):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._threads = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="hostler-blobs")

    def close(self) -> None:
        """Wait for what is running; nothing can be asked afterwards."""
        self._threads.shutdown()

    # -- writing --------------------------------------------------------------------------------------------

    async def put(self, content: bytes | AsyncIterator[bytes], *, max_bytes: int = MAX_UPLOAD_BYTES) -> Blob:
        """Store bytes; durable when this returns. The same bytes again cost no space.

        PayloadTooLargeError past `max_bytes`, StorageError where the disk does not take them; neither leaves
        anything behind, nor does cancellation.
        """
        if isinstance(content, bytes):
            _check_size(len(content), max_bytes)
            return await self._in_thread(lambda: self._put_whole(content))
        writer = _Writer(self._tmp)
        try:
            async for chunk in content:
                for piece in _pieces(chunk):
                    _check_size(writer.size + len(piece), max_bytes)
                    await self._in_thread(lambda piece=piece: writer.write(piece))  # type: ignore[misc]
            return await self._in_thread(lambda: self._keep(writer))
        finally:
            await asyncio.shield(self._in_thread(writer.discard))

    def _put_whole(self, content: bytes) -> Blob:
        sha256 = hashlib.sha256(content).hexdigest()
        if self._renew(blob := Blob(sha256, len(content))):
            return blob
        writer = _Writer(self._tmp)
        try:
            for piece in _pieces(content):
                writer.write(piece)
            return self._keep(writer)
        finally:
            writer.discard()

    def _renew(self, blob: Blob) -> bool:
        """Make a blob that is there young again; whether it is there, whole."""
        path = self._path(blob.sha256)
        with self._locked(blob.sha256), contextlib.suppress(FileNotFoundError):
            if path.stat().st_size == blob.size_bytes:
                os.utime(path)
                return True
        return False

    def _keep(self, writer: _Writer) -> Blob:
        """Give a finished file its name, unless its bytes have one."""
        blob = writer.finish()
        if self._renew(blob):
            return blob
        path = self._path(blob.sha256)
        with _as_storage_error(f"cannot store {blob.size_bytes:,} bytes"), self._locked(blob.sha256):
            for folder in (path.parent.parent, path.parent):
                if not folder.exists():
                    folder.mkdir(mode=0o700, exist_ok=True)
                    _sync_folder(folder.parent)
            writer.path.replace(path)
            _sync_folder(path.parent)
        return blob

    # -- reading --------------------------------------------------------------------------------------------

    async def read(self, sha256: str, offset: int = 0, length: int = CHUNK_BYTES) -> bytes:
        """The bytes from `offset` on, at most `length`; short only at the end of the blob.

        StorageError where the blob is missing.
        """
        check_range(offset, length)
        path = self._path(sha256)
        return await self._in_thread(lambda: _read(path, offset, length))

    async def stream(
        self, sha256: str, offset: int = 0, length: int | None = None, *, verify: bool = False
    ) -> AsyncIterator[bytes]:
        """The bytes of a range (None: to the end) in chunks, one of which is in memory.

        `verify`, for whole blobs only: StorageError at the end if the bytes are not those of the digest.
        """
        if verify and (offset or length is not None):
            raise InvalidArgumentError("only a whole blob can be verified")
        check_range(offset, 0 if length is None else length)
        digest = hashlib.sha256()
        while length is None or length > 0:
            asked = CHUNK_BYTES if length is None else min(CHUNK_BYTES, length)
            chunk = await self.read(sha256, offset, asked)
            if verify:
                digest.update(chunk)
            if chunk:
                yield chunk
            if len(chunk) < asked:
                break
            offset += len(chunk)
            length = None if length is None else length - len(chunk)
        if verify and digest.hexdigest() != sha256:
            raise StorageError(f"blob {sha256} is damaged: its bytes have digest {digest.hexdigest()}")

    async def size(self, sha256: str) -> int:
        """How many bytes a blob has. StorageError where it is missing."""
        path = self._path(sha256)

        def stat() -> int:
            with _as_storage_error(f"cannot read blob {sha256}"):
                return path.stat().st_size

        return await self._in_thread(stat)

    # -- removing -------------------------------------------------------------------------------------------

    async def remove_unused(self, sha256: str, *, older_than: float = GRACE_SECONDS) -> bool:
        """Remove a blob that nothing names, unless somebody put it within `older_than` seconds."""
        path = self._path(sha256)

        def remove() -> bool:
            with self._locked(sha256), contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime <= time.time() - older_than:
                    path.unlink()
                    return True
            return False

        return await self._in_thread(remove)

    async def remove_abandoned(self, *, older_than: float = GRACE_SECONDS) -> int:
        """Remove files that a crash left half written; how many."""

        def remove() -> int:
            removed = 0
            for entry in os.scandir(self._tmp):
                with contextlib.suppress(FileNotFoundError):
                    if entry.stat().st_mtime <= time.time() - older_than:
                        Path(entry.path).unlink()
                        removed += 1
            return removed

        return await self._in_thread(remove)

    async def old_blobs(self, *, older_than: float = GRACE_SECONDS) -> AsyncIterator[list[str]]:
        """The digests of all blobs not put within `older_than` seconds, in lists of one subfolder each."""
        for first in range(256):
            folder = self._root / f"{first:02x}"
            digests = await self._in_thread(lambda folder=folder: _old_files(folder, older_than))  # type: ignore[misc]
            if digests:
                yield digests

    # -- inside ---------------------------------------------------------------------------------------------

    def _path(self, sha256: str) -> Path:
        if not _SHA256.fullmatch(sha256):
            raise ValueError(f"{sha256!r} is not a SHA-256 in lower-case hexadecimal digits")
        return self._root / sha256[:2] / sha256[2:4] / sha256

    @contextlib.contextmanager
    def _locked(self, sha256: str) -> Iterator[None]:
        """Exclude other threads and processes from the blobs that begin like this one."""
        with (self._locks / sha256[:2]).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


class _Writer:
    """One file being written, hashed as it goes.

    Its steps run on threads and cannot be cancelled, so `discard` may come beside one: they take turns, and
    what comes after it does nothing.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / new_id()
        self.size = 0
        self._hash = hashlib.sha256()
        self._file: int | None = None
        self._discarded = False
        self._turn = threading.Lock()

    def write(self, piece: bytes) -> None:
        with self._turn, _as_storage_error(f"cannot store {self.size + len(piece):,} bytes"):
            self._hash.update(piece)
            self.size += len(piece)
            left = memoryview(piece)
            while left and not self._discarded:
                left = left[os.write(self._opened(), left) :]

    def finish(self) -> Blob:
        """Make the bytes durable under the temporary name."""
        with self._turn, _as_storage_error(f"cannot store {self.size:,} bytes"):
            if not self._discarded:
                os.fsync(self._opened())
                self._close()
            return Blob(self._hash.hexdigest(), self.size)

    def discard(self) -> None:
        """Remove the file, unless it has become a blob."""
        with self._turn:
            self._discarded = True
            self._close()
            self.path.unlink(missing_ok=True)

    def _opened(self) -> int:
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        return self._file

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


# -- references -------------------------------------------------------------------------------------------


def reference(tx: Tx, blob: Blob) -> None:
    """One more thing names the blob."""
    tx.run(_q.reference, sha256=blob.sha256, size_bytes=blob.size_bytes, now=tx.now)


def release(tx: Tx, sha256: str) -> None:
    """One thing less names the blob; after the last one, `collect` may remove it."""
    tx.run(_q.release, sha256=sha256, now=tx.now)


def references(tx: Tx, sha256: str) -> int:
    """How many things name the blob."""
    row = tx.one(_q.refs, sha256=sha256)
    return 0 if row is None else int(row["refs"])


async def collect(database: Database, folder: BlobFolder, *, grace_seconds: float = GRACE_SECONDS) -> Removed:
    """Remove blobs that nothing has named for `grace_seconds`.

    The row goes first: should the file survive a crash after that, `sweep` finds it.
    """
    removed = Removed(0, 0)

    def forget(tx: Tx) -> list[Blob]:
        before = tx.now - round(grace_seconds * 1000)
        rows = tx.all(_q.unreferenced, before=before, limit=GC_BATCH)
        doomed = [Blob(row["sha256"], row["size_bytes"]) for row in rows]
        return [blob for blob in doomed if tx.run(_q.forget, sha256=blob.sha256, before=before)]

    while True:
        forgotten = await database.write(forget)
        for blob in forgotten:
            if await folder.remove_unused(blob.sha256, older_than=grace_seconds):
                removed = Removed(removed.blobs + 1, removed.size_bytes + blob.size_bytes)
        if not forgotten:
            return removed


async def sweep(database: Database, folder: BlobFolder, *, grace_seconds: float = GRACE_SECONDS) -> int:
    """Remove files that no row knows: what crashes left; how many."""
    removed = await folder.remove_abandoned(older_than=grace_seconds)
    async for digests in folder.old_blobs(older_than=grace_seconds):
        for start in range(0, len(digests), GC_BATCH):
            batch = digests[start : start + GC_BATCH]
            for sha256 in await database.read(lambda tx, batch=batch: _unknown(tx, batch)):  # type: ignore[misc]
                removed += await folder.remove_unused(sha256, older_than=grace_seconds)
    return removed


def _unknown(tx: Tx, digests: Iterable[str]) -> list[str]:
    return [sha256 for sha256 in digests if tx.one(_q.known, sha256=sha256) is None]


# -- bytes ------------------------------------------------------------------------------------------------


def check_range(offset: int, length: int) -> None:
    """InvalidArgumentError for a range that cannot be."""
    if offset < 0 or length < 0:
        raise InvalidArgumentError(f"offset {offset} and length {length} may not be negative")


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise PayloadTooLargeError(f"the content has more than the {max_bytes:,} bytes it may have")


def _pieces(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), CHUNK_BYTES):
        yield content[start : start + CHUNK_BYTES]


def _read(path: Path, offset: int, length: int) -> bytes:
    with _as_storage_error(f"cannot read blob {path.name}"), path.open("rb", buffering=0) as file:
        parts: list[bytes] = []
        while length > 0:
            part = os.pread(file.fileno(), length, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return b"".join(parts)


def _old_files(folder: Path, older_than: float) -> list[str]:
    limit = time.time() - older_than
    found: list[str] = []
    with contextlib.suppress(FileNotFoundError):
        for second in os.scandir(folder):
            found += (
                entry.name
                for entry in os.scandir(second.path)
                if _SHA256.fullmatch(entry.name) and entry.stat().st_mtime <= limit
            )
    return found


def _sync_folder(folder: Path) -> None:
    """Make names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _as_storage_error(doing: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise StorageError(f"{doing}: the file is missing from the blob folder") from error
    except OSError as error:
        raise StorageError(f"{doing}: {error.strerror}; check the disk and its free space") from error
