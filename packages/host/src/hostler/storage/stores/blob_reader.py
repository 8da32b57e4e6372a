"""Reads the blobs of a folder: plain ones, and sealed ones whose keys are known."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

from hostler.storage.sealing.envelope import DataKey
from hostler.storage.sealing.files import key_id_in_file, key_id_of, plain_size, read_sealed
from hostler.storage.stores.blob_files import (
    CHUNK_BYTES,
    SHA256,
    SealedWith,
    as_storage_error,
    old_files,
    read_plain,
    read_range,
    subfolders,
)
from hostler_protocol.errors import InvalidArgumentError, StorageError

T = TypeVar("T")
DISK_THREADS = 4
"""Operations on disk at once; further ones wait for a thread."""


class BlobKeys(Protocol):
    """The keys of sealed blobs (`sealing.blob_keys`)."""

    def new(self) -> DataKey | None:
        """Return a key for new bytes, or None if nothing is sealed. SealedError if keys cannot be read."""

    def known(self, key_id: str) -> DataKey | None:
        """Return a key that was opened before."""

    async def find(self, key_id: str) -> DataKey | None:
        """Return a key; None if there is none. SealedError if it does not open."""


class BlobReader:
    """Reads files under `root`, which are named as `BlobFolder` says."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.keys: BlobKeys | None = None
        """The keys of sealed blobs, once they are known."""
        self._threads = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="hostler-blobs")

    async def read(self, name: str, offset: int = 0, length: int = CHUNK_BYTES) -> bytes:
        """Return at most `length` bytes from `offset` on; fewer only at the end of the blob.

        StorageError if the blob is missing.
        """
        check_range(offset, length)
        path = self._path(name)
        if self.keys is None:
            return await self._in_thread(lambda: read_range(path, offset, length))
        found = await self._in_thread(lambda: self._read_known(path, offset, length))
        if isinstance(found, bytes):
            return found
        key = await self.keys.find(found.key_id)
        if key is None:  # the content of a plain file may look like a sealed one
            return await self._in_thread(lambda: read_range(path, offset, length))
        return await self._in_thread(lambda: _read_sealed(path, key, offset, length))

    def _read_known(self, path: Path, offset: int, length: int) -> bytes | SealedWith:
        """Read a plain file, or a sealed one whose key was opened before."""
        found = read_plain(path, offset, length, key_id_in_file)
        if isinstance(found, bytes) or self.keys is None:
            return found
        key = self.keys.known(found.key_id)
        return found if key is None else _read_sealed(path, key, offset, length)

    async def key_id(self, name: str) -> str | None:
        """Return the key that sealed a blob; None if it is plain. StorageError if it is missing."""
        path = self._path(name)
        return await self._in_thread(lambda: _key_id_of(path))

    async def stream(
        self, name: str, offset: int = 0, length: int | None = None, *, verify: bool = False
    ) -> AsyncIterator[bytes]:
        """Yield the bytes of a range (None: to the end), holding one chunk in memory.

        `verify`, for whole blobs only: raise StorageError at the end if the bytes do not match the digest
        that names them. Sealed bytes are verified in any case.
        """
        if verify and (offset or length is not None):
            raise InvalidArgumentError("only a whole blob can be verified")
        check_range(offset, 0 if length is None else length)
        verify = verify and not await self._is_sealed(name)
        digest = hashlib.sha256()
        while length is None or length > 0:
            size = CHUNK_BYTES if length is None else min(CHUNK_BYTES, length)
            chunk = await self.read(name, offset, size)
            if verify:
                digest.update(chunk)
            if chunk:
                yield chunk
            if len(chunk) < size:
                break
            offset += len(chunk)
            length = None if length is None else length - len(chunk)
        if verify and digest.hexdigest() != name:
            raise StorageError(f"blob {name} is damaged: its bytes have digest {digest.hexdigest()}")

    async def size(self, name: str) -> int:
        """Return the number of bytes of a blob. StorageError if it is missing."""
        path = self._path(name)

        def stat() -> int:
            with as_storage_error(f"cannot read blob {name}"):
                return path.stat().st_size

        stored = await self._in_thread(stat)
        return plain_size(stored) if await self._is_sealed(name) else stored

    async def _is_sealed(self, name: str) -> bool:
        if self.keys is None:
            return False
        key_id = await self.key_id(name)
        return key_id is not None and await self.keys.find(key_id) is not None

    async def old_blobs(self, *, older_than: float) -> AsyncIterator[list[str]]:
        """Yield the digests of blobs last put over `older_than` seconds ago, one list per subfolder."""
        for folder in await self._in_thread(lambda: subfolders(self._root)):
            digests = await self._in_thread(lambda folder=folder: old_files(folder, older_than))  # type: ignore[misc]
            if digests:
                yield digests

    def _path(self, name: str) -> Path:
        if not SHA256.fullmatch(name):
            raise ValueError(f"{name!r} is not a SHA-256 in lower-case hexadecimal digits")
        return self._root / name[:2] / name[2:4] / name

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _key_id_of(path: Path) -> str | None:
    with as_storage_error(f"cannot read blob {path.name}"):
        return key_id_of(path)


def _read_sealed(path: Path, key: DataKey, offset: int, length: int) -> bytes:
    with as_storage_error(f"cannot read blob {path.name}"):
        return read_sealed(path, key, offset, length)


def check_range(offset: int, length: int) -> None:
    """Raise InvalidArgumentError for a negative offset or length."""
    if offset < 0 or length < 0:
        raise InvalidArgumentError(f"offset {offset} and length {length} may not be negative")
