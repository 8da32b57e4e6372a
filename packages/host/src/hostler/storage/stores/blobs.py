"""Blobs: bytes stored once under their SHA-256 in a folder, with a count of references in the database. Where
content is sealed, under a random name, with a key in the database.

The order keeps references valid: `BlobFolder.put` makes the bytes durable, then a transaction calls
`reference` for each row that refers to them. Deletion runs the other way: `release` in the transaction that
deletes the row, then `collect` removes the file, and the blob's row after it. A crash in between leaves a row
that the next collection finds, or bytes without a row, which `sweep` removes.

A file lock keeps removing and putting the same bytes apart. Between `put` and `reference` the caller holds
the `Blob` that `put` returned: while that object exists, the bytes stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import logging
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from hostler.domain.record import Record
from hostler.storage.port import Database, Row, Tx
from hostler.storage.sealing.envelope import DataKey
from hostler.storage.sql.statements import load
from hostler.storage.stores.blob_files import (
    CHUNK_BYTES,
    BlobWriter,
    as_storage_error,
    check_size,
    pieces,
    sync_folder,
)
from hostler.storage.stores.blob_pins import Pin, Pins
from hostler.storage.stores.blob_reader import BlobReader
from hostler_protocol.limits import MAX_UPLOAD_BYTES

_q = load(__file__)
log = logging.getLogger(__name__)

GRACE_SECONDS = 3600
"""A file without a row is kept this long: from `put` to the transaction takes seconds."""
GC_BATCH = 100
REMOVED_AT_ONCE = 32
"""Blobs removed in one step, whose locks keep puts of the same bytes, and a few others, waiting."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Digest (64 hexadecimal digits) and size of stored bytes.

    A Blob returned by `put` has a pin: its bytes are not removed while the object exists. Sealed bytes have a
    random name, `stored_as`, and a key, which `reference` stores.
    """

    sha256: str
    size_bytes: int
    pin: Pin | None = field(default=None, compare=False, repr=False)
    stored_as: str | None = field(default=None, compare=False)
    key: DataKey | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The name of the bytes in the folder and in references to them."""
        return self.stored_as or self.sha256


class Removed(Record):
    """Number and total size of the blobs that a collection removed."""

    blobs: int
    size_bytes: int


class BlobFolder(BlobReader):
    """Files under `root`, named by content or, if they are sealed, at random; several processes may share it.

    `root/ab/cd/abcd...` is a blob. `root/tmp` contains files being written, `root/locks` one lock file per
    first two digits, `root/pins` the pins.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._tmp = root / "tmp"
        self._locks = root / "locks"
        for folder in (root, self._tmp, self._locks):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._pins = Pins(root / "pins", self._locks / "pins")
        self._removing = asyncio.Lock()
        self._removals: set[asyncio.Task[Any]] = set()

    async def settle(self) -> None:
        """Wait for removals that are still running although nobody waits for them."""
        await asyncio.gather(*self._removals, return_exceptions=True)

    def own(self, removal: asyncio.Task[Any]) -> None:
        """Keep a removal that nobody waits for, until it is over or `settle` is called."""
        self._removals.add(removal)
        removal.add_done_callback(self._over)

    def _over(self, removal: asyncio.Task[Any]) -> None:
        self._removals.discard(removal)
        if not removal.cancelled() and (error := removal.exception()) is not None:
            log.warning("files that nothing names remain until the next collection: %s", error)

    def close(self) -> None:
        """Wait for running operations, then close; the folder cannot be used afterwards."""
        self._threads.shutdown()
        self._pins.close()

    # -- writing --------------------------------------------------------------------------------------------

    async def put(self, content: bytes | AsyncIterator[bytes], *, max_bytes: int = MAX_UPLOAD_BYTES) -> Blob:
        """Store bytes and return their Blob; they are durable on return. Known bytes take no more space.

        PayloadTooLargeError above `max_bytes`, StorageError if the disk does not accept them. Neither an
        error nor cancellation leaves a file.
        """
        key = None if self.keys is None else self.keys.new()
        if isinstance(content, bytes):
            check_size(len(content), max_bytes)
            return await self._in_thread(lambda: self._put_whole(content, key))
        writer = BlobWriter(self._tmp, key)
        try:
            async for chunk in content:
                for piece in pieces(chunk):
                    check_size(writer.size + len(piece), max_bytes)
                    await self._in_thread(lambda piece=piece: writer.write(piece))  # type: ignore[misc]
            return await self._in_thread(lambda: self._keep(writer))
        finally:
            await asyncio.shield(self._in_thread(writer.discard))

    def _put_whole(self, content: bytes, key: DataKey | None) -> Blob:
        sha256 = hashlib.sha256(content).hexdigest()
        if key is None and (known := self._renew(sha256, len(content))) is not None:
            return known
        writer = BlobWriter(self._tmp, key)
        try:
            for piece in pieces(content):
                writer.write(piece)
            return self._keep(writer)
        finally:
            writer.discard()

    def _renew(self, sha256: str, size_bytes: int) -> Blob | None:
        """Pin a complete blob and reset its age; None if it does not exist in full."""
        path = self._path(sha256)
        with self._locked(sha256), contextlib.suppress(FileNotFoundError):
            if path.stat().st_size == size_bytes:
                os.utime(path)
                return self._pinned(Blob(sha256, size_bytes))
        return None

    def _pinned(self, blob: Blob) -> Blob:
        """Pin a blob. The caller holds its lock."""
        with as_storage_error(f"cannot store {blob.size_bytes:,} bytes"):
            return replace(blob, pin=self._pins.take(blob.name))

    def _keep(self, writer: BlobWriter) -> Blob:
        """Move a finished file to its final name, unless the blob exists."""
        sha256 = writer.finish()
        if writer.key is None and (known := self._renew(sha256, writer.size)) is not None:
            return known
        # a name that tells nothing of the content: equal bytes are stored as often as they are put
        stored_as = None if writer.key is None else secrets.token_hex(32)
        blob = Blob(sha256, writer.size, stored_as=stored_as, key=writer.key)
        path = self._path(blob.name)
        with as_storage_error(f"cannot store {writer.size:,} bytes"), self._locked(blob.name):
            for folder in (path.parent.parent, path.parent):
                if not folder.exists():
                    folder.mkdir(mode=0o700, exist_ok=True)
                    sync_folder(folder.parent)
            pinned = self._pinned(blob)
            writer.path.replace(path)
            sync_folder(path.parent)
            return pinned

    async def seal(self, name: str, key: DataKey) -> None:
        """Seal a plain blob in its place; readers see the one or the other."""
        path = self._path(name)

        def seal() -> None:
            writer = BlobWriter(self._tmp, key)
            try:
                with self._locked(name), as_storage_error(f"cannot seal blob {name}"):
                    if not path.exists():
                        return
                    with path.open("rb") as file:
                        while piece := file.read(CHUNK_BYTES):
                            writer.write(piece)
                    writer.finish()
                    writer.path.replace(path)
                    sync_folder(path.parent)
            finally:
                writer.discard()

        await self._in_thread(seal)

    # -- removing -------------------------------------------------------------------------------------------

    async def remove_unused(self, sha256: str, *, older_than: float = GRACE_SECONDS) -> bool:
        """Remove a blob without a row, unless it is pinned or was put within `older_than` seconds."""
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
        """Remove the unpinned blobs that `confirm` returns, then call `forget` with them.

        Their locks prevent a put from before `confirm` until after `forget`. A removal that has begun is
        finished even if the caller is cancelled. StorageError if a file cannot be removed; then `forget` is
        not called.
        """

        async def remove() -> list[Blob]:
            async with self._removing:  # one at a time: two removals that hold locks would block each other
                locks = await asyncio.to_thread(self._lock_all, blobs)
                try:
                    held = await asyncio.to_thread(self._pins.held)
                    doomed = await confirm([blob for blob in blobs if blob.name not in held])
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
        """Take the locks of the blobs, always in the same order."""
        locks: list[IO[bytes]] = []
        for first in sorted({blob.name[:2] for blob in blobs}):
            lock = (self._locks / first).open("wb")
            locks.append(lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
        return locks

    def _unlink(self, blobs: Sequence[Blob]) -> None:
        """Remove files durably."""
        paths = [self._path(blob.name) for blob in blobs]
        with as_storage_error("cannot remove the files of deleted data"):
            for path in paths:
                path.unlink(missing_ok=True)
            for folder in {path.parent for path in paths}:
                if folder.exists():
                    sync_folder(folder)

    async def remove_abandoned(self, *, older_than: float = GRACE_SECONDS) -> int:
        """Remove partial files that a crash left; return their number."""

        def remove() -> int:
            removed = 0
            for entry in os.scandir(self._tmp):
                with contextlib.suppress(FileNotFoundError):
                    if entry.stat().st_mtime <= time.time() - older_than:
                        Path(entry.path).unlink()
                        removed += 1
            return removed

        return await self._in_thread(remove)

    # -- inside ---------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _locked(self, sha256: str) -> Iterator[None]:
        """Lock the blobs with the same first two digits against other threads and processes."""
        with (self._locks / sha256[:2]).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


# -- references -------------------------------------------------------------------------------------------


def reference(tx: Tx, blob: Blob) -> None:
    """Count one more reference to the blob."""
    if blob.stored_as is not None:
        tx.adopt(key_name(blob.name), blob.key)
    tx.run(_q.reference, sha256=blob.name, size_bytes=blob.size_bytes, now=tx.now)


def release(tx: Tx, sha256: str) -> None:
    """Count one reference less; `collect` removes the blob after the last one."""
    tx.run(_q.release, sha256=sha256, now=tx.now)


def next_names(tx: Tx, after: str, limit: int) -> list[str]:
    """Return the names of the next blobs."""
    return [row["sha256"] for row in tx.all(_q.names, after=after, limit=limit)]


def references(tx: Tx, sha256: str) -> int:
    """Return the number of references to the blob."""
    row = tx.one(_q.refs, sha256=sha256)
    return 0 if row is None else int(row["refs"])


async def collect(database: Database, folder: BlobFolder) -> Removed:
    """Remove all blobs without a reference or pin."""
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
    """Remove those of `candidates` that have no reference or pin; they need not have a row.

    The row is deleted last: after a crash in between the next collection finds it.
    """

    def unreferenced(tx: Tx, blobs: list[Blob]) -> list[Blob]:
        return [
            blob
            for blob in blobs
            if tx.run(_q.doom, sha256=blob.name, now=tx.now) or tx.one(_q.known, sha256=blob.name) is None
        ]

    def forget(tx: Tx, blobs: list[Blob]) -> int:
        for blob in blobs:
            tx.destroy("", key_name(blob.name))
        return sum(tx.run(_q.forget, sha256=blob.name) for blob in blobs)

    gone = await folder.remove_confirmed(
        candidates,
        # a synced transaction: the releases are durable before the files are removed
        lambda blobs: database.write(lambda tx: unreferenced(tx, blobs)),
        lambda blobs: database.write(lambda tx: forget(tx, blobs)),
    )
    return Removed(len(gone), sum(blob.size_bytes for blob in gone))


async def discard(database: Database, folder: BlobFolder, put: Sequence[Blob]) -> None:
    """Remove bytes that were put and are not going to be named, unless others name equal ones."""
    for blob in put:
        if blob.pin is not None:
            blob.pin.release()
    for start in range(0, len(put), REMOVED_AT_ONCE):
        await remove(database, folder, put[start : start + REMOVED_AT_ONCE])


def discard_later(database: Database, folder: BlobFolder, put: Sequence[Blob]) -> None:
    """Discard bytes in the background; what is left after a crash is collected later."""
    folder.own(asyncio.create_task(discard(database, folder, put)))


async def sweep(database: Database, folder: BlobFolder, *, grace_seconds: float = GRACE_SECONDS) -> int:
    """Remove files without a row, which crashes left; return their number."""
    removed = await folder.remove_abandoned(older_than=grace_seconds)
    async for digests in folder.old_blobs(older_than=grace_seconds):
        for start in range(0, len(digests), GC_BATCH):
            batch = digests[start : start + GC_BATCH]
            for sha256 in await database.read(lambda tx, batch=batch: _unknown(tx, batch)):  # type: ignore[misc]
                removed += await folder.remove_unused(sha256, older_than=grace_seconds)
    return removed


def _unknown(tx: Tx, digests: Iterable[str]) -> list[str]:
    return [sha256 for sha256 in digests if tx.one(_q.known, sha256=sha256) is None]


def key_name(name: str) -> str:
    """Return the name of the key of a sealed blob."""
    return f"blob:{name}"
