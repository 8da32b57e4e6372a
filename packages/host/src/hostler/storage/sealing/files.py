"""Sealed files: a head, chunks of 64 KiB sealed one by one, and the SHA-256 of all of it.

A key seals one file, so the number of a chunk is its nonce, and the last chunk is marked: a chunk that is
missing, altered or in another place does not open. Ranges are read without the rest. The digest at the end is
for backups, which check files without keys.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from hostler.storage.sealing.envelope import KEY_ID_CHARS, NONCE_BYTES, DataKey, SealedError
from hostler_protocol.limits import KIB

MAGIC = b"\x02hostler file 1\n"
HEAD_BYTES = len(MAGIC) + KEY_ID_CHARS
CHUNK_BYTES = 64 * KIB
TAG_BYTES = 16
DIGEST_BYTES = 32
_STORED = CHUNK_BYTES + TAG_BYTES


class FileSealer:
    """Turns the bytes of a file into those of its sealed form, as they come."""

    def __init__(self, key: DataKey) -> None:
        self._key = key
        self._rest = bytearray()
        self._number = 0
        self._digest = hashlib.sha256()
        self._head = MAGIC + key.key_id.encode("ascii")

    def add(self, piece: bytes) -> bytes:
        """Return the bytes to write after `piece`; a last full chunk is kept back, as it may be the last."""
        self._rest += piece
        written = bytearray()
        if self._number == 0 and len(self._rest) > CHUNK_BYTES:
            written += self._head
        while len(self._rest) > CHUNK_BYTES:
            written += self._chunk(bytes(self._rest[:CHUNK_BYTES]), is_last=False)
            del self._rest[:CHUNK_BYTES]
        self._digest.update(written)
        return bytes(written)

    def finish(self) -> bytes:
        """Return the bytes that end the file."""
        written = b"" if self._number else self._head
        written += self._chunk(bytes(self._rest), is_last=True)
        self._digest.update(written)
        return written + self._digest.digest()

    def _chunk(self, plain: bytes, *, is_last: bool) -> bytes:
        sealed = self._key.seal_chunk(_nonce(self._number, is_last=is_last), plain)
        self._number += 1
        return sealed


def key_id_of(path: Path) -> str | None:
    """Return the key that sealed a file; None if it is not sealed."""
    with path.open("rb", buffering=0) as file:
        return key_id_in_file(file.fileno())


def key_id_in_file(descriptor: int) -> str | None:
    """Return the key that sealed an open file; None if it is not sealed."""
    head = _pread(descriptor, HEAD_BYTES, 0)
    if len(head) < HEAD_BYTES or not head.startswith(MAGIC):
        return None
    return head[len(MAGIC) :].decode("ascii", "replace")


def plain_size(stored: int) -> int:
    """Return the number of bytes in a sealed file of `stored` bytes. SealedError if no file has that size."""
    body = stored - HEAD_BYTES - DIGEST_BYTES
    chunks = -(-body // _STORED)
    if chunks < 1 or body - chunks * TAG_BYTES < 0:
        raise SealedError("a sealed file is cut off")
    return body - chunks * TAG_BYTES


def read_sealed(path: Path, key: DataKey, offset: int, length: int) -> bytes:
    """Return at most `length` bytes of a sealed file from `offset` on. SealedError if it was altered."""
    with path.open("rb", buffering=0) as file:
        size = plain_size(os.fstat(file.fileno()).st_size)
        last = max(0, -(-size // CHUNK_BYTES) - 1)
        end = min(size, offset + length)
        parts: list[bytes] = []
        number = offset // CHUNK_BYTES
        while number * CHUNK_BYTES < end or (size == 0 and number == 0 and not parts):
            stored = min(_STORED, size - number * CHUNK_BYTES + TAG_BYTES)
            sealed = _pread(file.fileno(), stored, HEAD_BYTES + number * _STORED)
            plain = key.open_chunk(_nonce(number, is_last=number == last), sealed)
            start = number * CHUNK_BYTES
            parts.append(plain[max(0, offset - start) : end - start])
            number += 1
        return b"".join(parts)


def is_whole(path: Path) -> bool:
    """Whether a sealed file has the digest at its end that its bytes have. No key is needed."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        left = os.fstat(file.fileno()).st_size - DIGEST_BYTES
        while left > 0 and (chunk := file.read(min(left, 1024 * KIB))):
            digest.update(chunk)
            left -= len(chunk)
        return left == 0 and file.read() == digest.digest()


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(NONCE_BYTES - 1) + bytes([is_last])


def _pread(descriptor: int, length: int, offset: int) -> bytes:
    parts: list[bytes] = []
    while length > 0 and (part := os.pread(descriptor, length, offset)):
        parts.append(part)
        offset, length = offset + len(part), length - len(part)
    return b"".join(parts)
