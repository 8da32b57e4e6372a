"""Files of blobs: written in pieces under a temporary name, synced, read in ranges."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hostler.domain.record import Record
from hostler.storage.sealing.envelope import DataKey
from hostler.storage.sealing.files import FileSealer
from hostler_protocol.errors import PayloadTooLargeError, StorageError
from hostler_protocol.ids import new_id
from hostler_protocol.limits import KIB

CHUNK_BYTES = 256 * KIB
"""Bytes of a blob in memory at once, for each reader or writer."""
_FIRST = re.compile("[0-9a-f]{2}")
SHA256 = re.compile(r"[0-9a-f]{64}")


class BlobWriter:
    """One file being written, hashed as it goes, and sealed with `key` if there is one.

    Its steps run on threads and cannot be cancelled, so `discard` may be called during one: a lock orders
    them, and steps after `discard` do nothing.
    """

    def __init__(self, folder: Path, key: DataKey | None = None) -> None:
        self.path = folder / new_id()
        self.size = 0
        self.key = key
        self._sealer = None if key is None else FileSealer(key)
        self._hash = hashlib.sha256()
        self._file: int | None = None
        self._discarded = False
        self._turn = threading.Lock()

    def write(self, piece: bytes) -> None:
        """Append bytes. StorageError if the disk does not accept them."""
        with self._turn, as_storage_error(f"cannot store {self.size + len(piece):,} bytes"):
            self._hash.update(piece)
            self.size += len(piece)
            self._append(piece if self._sealer is None else self._sealer.add(piece))

    def _append(self, data: bytes) -> None:
        left = memoryview(data)
        while left and not self._discarded:
            left = left[os.write(self._opened(), left) :]

    def finish(self) -> str:
        """Make the bytes durable under the temporary name and return the digest of the content."""
        with self._turn, as_storage_error(f"cannot store {self.size:,} bytes"):
            if not self._discarded:
                if self._sealer is not None:
                    self._append(self._sealer.finish())
                os.fsync(self._opened())
                self._close()
            return self._hash.hexdigest()

    def discard(self) -> None:
        """Remove the file unless it has become a blob."""
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


def pieces(content: bytes) -> Iterator[bytes]:
    """Yield the bytes in chunks of CHUNK_BYTES."""
    for start in range(0, len(content), CHUNK_BYTES):
        yield content[start : start + CHUNK_BYTES]


def read_range(path: Path, offset: int, length: int) -> bytes:
    """Return at most `length` bytes of a file from `offset` on. StorageError if the file is missing."""
    found = read_plain(path, offset, length, lambda _: None)
    if not isinstance(found, bytes):
        raise TypeError("a plain file has no key")
    return found


class SealedWith(Record):
    """A file is sealed, with the key of this id."""

    key_id: str


def read_plain(
    path: Path, offset: int, length: int, key_id_in: Callable[[int], str | None]
) -> bytes | SealedWith:
    """Return a range of a plain file, or the key of a sealed one. It is opened once: it may be sealed now."""
    with as_storage_error(f"cannot read blob {path.name}"), path.open("rb", buffering=0) as file:
        if (key_id := key_id_in(file.fileno())) is not None:
            return SealedWith(key_id)
        parts: list[bytes] = []
        while length > 0:
            part = os.pread(file.fileno(), length, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return b"".join(parts)


def subfolders(root: Path) -> list[Path]:
    """Return the folders of blobs, one for each first two digits of those that are there."""
    return sorted(Path(entry.path) for entry in os.scandir(root) if _FIRST.fullmatch(entry.name))


def old_files(folder: Path, older_than: float) -> list[str]:
    """Return the names of blobs, two folders below, that were last put over `older_than` seconds ago."""
    limit = time.time() - older_than
    found: list[str] = []
    with contextlib.suppress(FileNotFoundError):
        for second in os.scandir(folder):
            found += (
                entry.name
                for entry in os.scandir(second.path)
                if SHA256.fullmatch(entry.name) and entry.stat().st_mtime <= limit
            )
    return found


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def as_storage_error(doing: str) -> Iterator[None]:
    """Raise errors of the disk as StorageError; `doing` begins the message."""
    try:
        yield
    except FileNotFoundError as error:
        raise StorageError(f"{doing}: the file is missing from the blob folder") from error
    except OSError as error:
        raise StorageError(f"{doing}: {error.strerror}; check the disk and its free space") from error


def check_size(size: int, max_bytes: int) -> None:
    """Raise PayloadTooLargeError if content is larger than allowed."""
    if size > max_bytes:
        raise PayloadTooLargeError(f"the content has more than the allowed {max_bytes:,} bytes")
