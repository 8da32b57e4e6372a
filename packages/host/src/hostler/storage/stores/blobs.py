"""Blobs: bytes by their SHA-256, each stored once, in a folder; and in the database who names them.

The order that keeps facts true: `BlobFolder.put` makes the bytes durable, then a transaction calls
`reference` for each thing that names them. Letting go is the other way round: `release` in the transaction
that deletes the name, then `collect` removes the file, and the row after it. A crash in between leaves a row
that the next collection finds, or bytes that no row knows, which `sweep` removes.

Removing and putting the same bytes exclude each other by a file lock. Whoever has put bytes and not named
them yet holds the `Blob` that `put` gave: as long as it is held, the bytes stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TypeVar

from hostler.storage.port import Database, Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores.blob_files import (
    CHUNK_BYTES,
    SHA256,
    Writer,
    as_storage_error,
    old_files,
    pieces,
    read_range,
    sync_folder,
)
from hostler.storage.stores.blob_pins import Pin, Pins
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError, StorageError
from hostler_protocol.limits import MAX_UPLOAD_BYTES

_q = load(__file__)
T = TypeVar("T")

GRACE_SECONDS = 3600
"""A file that no row knows is kept this long: from `put` to its transaction takes seconds."""
DISK_THREADS = 4
"""Operations on disk at once; further ones wait for a thread."""
GC_BATCH = 100
REMOVED_AT_ONCE = 32
"""Blobs that one step removes: nobody puts the same bytes meanwhile, and few others."""


@dataclass(frozen=True, slots=True)
class Blob:
    """What `put` stored: the digest (64 hexadecimal digits) and size of the bytes.

    The bytes of one that `put` gave are not removed while it is held.
    """

    sha256: str
    size_bytes: int
    pin: Pin | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Removed:
    """What a collection freed."""

    blobs: int
    size_bytes: int


class BlobFolder:
    """Content-addressed files under `root`; several processes may share it.

    `root/ab/cd/abcd...` holds a blob, `root/tmp` what is being written, `root/locks` one lock file per first
    two digits, `root/pins` what was put and is still held.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tmp = root / "tmp"
        self._locks = root / "locks"
        for folder in (root, self._tmp, self._locks):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._pins = Pins(root / "pins", self._locks / "pins")
        self._removing = asyncio.Lock()
        self._removals: set[asyncio.Task[list[Blob]]] = set()
        self._threads = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="hostler-blobs")

    async def settle(self) -> None:
        """Wait for removals whose callers were cancelled."""
        await asyncio.gather(*self._removals, return_exceptions=True)

    def close(self) -> None:
        """Wait for what is running; nothing can be asked afterwards."""
        self._threads.shutdown()
        self._pins.close()

    # -- writing --------------------------------------------------------------------------------------------

    async def put(self, content: bytes | AsyncIterator[bytes], *, max_bytes: int = MAX_UPLOAD_BYTES) -> Blob:
        """Store bytes; durable when this returns. The same bytes again cost no space.

        PayloadTooLargeError past `max_bytes`, StorageError where the disk does not take them; neither leaves
        anything behind, nor does cancellation.
        """
        if isinstance(content, bytes):
            _check_size(len(content), max_bytes)
            return await self._in_thread(lambda: self._put_whole(content))
        writer = Writer(self._tmp)
        try:
            async for chunk in content:
                for piece in pieces(chunk):
                    _check_size(writer.size + len(piece), max_bytes)
                    await self._in_thread(lambda piece=piece: writer.write(piece))  # type: ignore[misc]
            return await self._in_thread(lambda: self._keep(writer))
        finally:
            await asyncio.shield(self._in_thread(writer.discard))

    def _put_whole(self, content: bytes) -> Blob:
        sha256 = hashlib.sha256(content).hexdigest()
        if (known := self._renew(sha256, len(content))) is not None:
            return known
        writer = Writer(self._tmp)
        try:
            for piece in pieces(content):
                writer.write(piece)
            return self._keep(writer)
        finally:
            writer.discard()

    def _renew(self, sha256: str, size_bytes: int) -> Blob | None:
        """Pin a blob that is there, and make it young again; None where it is not there, whole."""
        path = self._path(sha256)
        with self._locked(sha256), contextlib.suppress(FileNotFoundError):
            if path.stat().st_size == size_bytes:
                os.utime(path)
                return self._pinned(sha256, size_bytes)
        return None

    def _pinned(self, sha256: str, size_bytes: int) -> Blob:
        """To be called while its lock is held."""
        with as_storage_error(f"cannot store {size_bytes:,} bytes"):
            return Blob(sha256, size_bytes, self._pins.take(sha256))

    def _keep(self, writer: Writer) -> Blob:
        """Give a finished file its name, unless its bytes have one."""
        sha256 = writer.finish()
        if (known := self._renew(sha256, writer.size)) is not None:
            return known
        path = self._path(sha256)
        with as_storage_error(f"cannot store {writer.size:,} bytes"), self._locked(sha256):
            for folder in (path.parent.parent, path.parent):
                if not folder.exists():
                    folder.mkdir(mode=0o700, exist_ok=True)
                    sync_folder(folder.parent)
            pinned = self._pinned(sha256, writer.size)
            writer.path.replace(path)
            sync_folder(path.parent)
            return pinned

    # -- reading --------------------------------------------------------------------------------------------

    async def read(self, sha256: str, offset: int = 0, length: int = CHUNK_BYTES) -> bytes:
        """The bytes from `offset` on, at most `length`; short only at the end of the blob.

        StorageError where the blob is missing.
        """
        check_range(offset, length)
        path = self._path(sha256)
        return await self._in_thread(lambda: read_range(path, offset, length))

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
            with as_storage_error(f"cannot read blob {sha256}"):
                return path.stat().st_size

        return await self._in_thread(stat)

    # -- removing -------------------------------------------------------------------------------------------

    async def remove_unused(self, sha256: str, *, older_than: float = GRACE_SECONDS) -> bool:
        """Remove a blob that no row knows, unless it was put within `older_than` seconds, or is held."""
        path = self._path(sha256)

        def remove() -> bool:
            with self._locked(sha256), contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime <= time.time() - older_than and sha256 not in self._pins.held():
                    path.unlink()
                    return True
            return False

        return await self._in_thread(remove)

    async def remove_confirmed(
        self,
        blobs: Sequence[Blob],
        confirm: Callable[[list[Blob]], Awaitable[list[Blob]]],
        forget: Callable[[list[Blob]], Awaitable[object]],
    ) -> list[Blob]:
        """Remove those blobs that nobody holds and `confirm` gives back, then call `forget` with them.

        Nobody puts them from before `confirm` until after `forget`. What was begun is finished although the
        caller is cancelled. StorageError where a file cannot be removed; then none is forgotten.
        """

        async def remove() -> list[Blob]:
            async with self._removing:  # one at a time: whoever has the locks waits for nobody who wants them
                locks = await asyncio.to_thread(self._lock_all, blobs)
                try:
                    held = await asyncio.to_thread(self._pins.held)
                    doomed = await confirm([blob for blob in blobs if blob.sha256 not in held])
                    if doomed:
                        await asyncio.to_thread(self._unlink, doomed)
                        await forget(doomed)
                    return doomed
                finally:
                    for lock in locks:
                        lock.close()

        task = asyncio.create_task(remove())
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)
        return await asyncio.shield(task)

    def _lock_all(self, blobs: Sequence[Blob]) -> list[IO[bytes]]:
        """Take the locks of some blobs, always in the same order."""
        locks: list[IO[bytes]] = []
        for first in sorted({blob.sha256[:2] for blob in blobs}):
            lock = (self._locks / first).open("wb")
            locks.append(lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
        return locks

    def _unlink(self, blobs: Sequence[Blob]) -> None:
        """Remove files, durably."""
        paths = [self._path(blob.sha256) for blob in blobs]
        with as_storage_error("cannot remove what was deleted"):
            for path in paths:
                path.unlink(missing_ok=True)
            for folder in {path.parent for path in paths}:
                if folder.exists():
                    sync_folder(folder)

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
            digests = await self._in_thread(lambda folder=folder: old_files(folder, older_than))  # type: ignore[misc]
            if digests:
                yield digests

    # -- inside ---------------------------------------------------------------------------------------------

    def _path(self, sha256: str) -> Path:
        if not SHA256.fullmatch(sha256):
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


# -- references -------------------------------------------------------------------------------------------


def reference(tx: Tx, blob: Blob) -> None:
    """One more thing names the blob."""
    tx.run(_q.reference, sha256=blob.sha256, size_bytes=blob.size_bytes, now=tx.now)


def release(tx: Tx, sha256: str) -> None:
    """One thing less names the blob; after the last one, `collect` removes it."""
    tx.run(_q.release, sha256=sha256, now=tx.now)


def references(tx: Tx, sha256: str) -> int:
    """How many things name the blob."""
    row = tx.one(_q.refs, sha256=sha256)
    return 0 if row is None else int(row["refs"])


async def collect(database: Database, folder: BlobFolder) -> Removed:
    """Remove all blobs that nothing names and nobody is about to name."""
    removed = Removed(0, 0)
    after: Row = {"unreferenced_at": 0, "sha256": ""}
    last = await database.read(lambda tx: tx.one(_q.last_unreferenced))
    until = None if last is None else last["unreferenced_at"]
    while until is not None:
        page = {"after": after["unreferenced_at"], "after_sha256": after["sha256"], "until": until}
        rows = await database.read(
            lambda tx, page=page: tx.all(_q.unreferenced, **page, limit=REMOVED_AT_ONCE)  # type: ignore[misc]
        )
        if not rows:
            break
        gone = await remove(database, folder, [Blob(row["sha256"], row["size_bytes"]) for row in rows])
        removed = Removed(removed.blobs + gone.blobs, removed.size_bytes + gone.size_bytes)
        after = rows[-1]
    return removed


async def remove(database: Database, folder: BlobFolder, candidates: Sequence[Blob]) -> Removed:
    """Remove those of a few blobs that nothing names and nobody is about to name.

    The row goes last: after a crash in between the next collection finds it.
    """

    def unnamed(tx: Tx, blobs: list[Blob]) -> list[Blob]:
        return [blob for blob in blobs if tx.run(_q.doom, sha256=blob.sha256, now=tx.now)]

    def forget(tx: Tx, blobs: list[Blob]) -> int:
        return sum(tx.run(_q.forget, sha256=blob.sha256) for blob in blobs)

    gone = await folder.remove_confirmed(
        candidates,
        # a transaction that syncs: what let go of them is durable before they are removed
        lambda blobs: database.write(lambda tx: unnamed(tx, blobs)),
        lambda blobs: database.write(lambda tx: forget(tx, blobs)),
    )
    return Removed(len(gone), sum(blob.size_bytes for blob in gone))


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
