"""The form of sealed values: a mark, the id of the key, then nonce and ciphertext (AES-256-GCM).

A sealed text is text again, so that columns keep their types. A value is bound to its key and the name of its
column: moved to another column it does not open. The mark is a control character, with which no JSON begins;
the key id is random.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import time
from typing import TYPE_CHECKING, Literal

from hostler_protocol.errors import StorageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MARK = "\x02"
BYTES_MARK = b"\x02hs1"
TIME_BYTES, RANDOM_BYTES = 5, 7
"""The id of a key rises with time, to 16 ms, so that new rows are neighbours in every index. With 56 random
bits no two keys of an installation share an id, and nobody guesses one."""
KEY_ID_CHARS = 16
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_IN_ORDER = str.maketrans(_BASE64, "".join(sorted("-_0123456789" + _BASE64[:52])))
"""Base64 with an alphabet that sorts like the bytes."""
SECRET_BYTES = 32
NONCE_BYTES = 12
"""Random nonces are safe for 2^32 values of a key; a key seals what one event, run or journal stores."""
_TEXT_HEAD = len(MARK) + KEY_ID_CHARS
_BYTES_HEAD = len(BYTES_MARK) + KEY_ID_CHARS

Way = Literal["random", "equal"]
"""`equal`: equal values of a key and column become the same text, so that keys of rows stay comparable."""


class SealedError(StorageError):
    """A stored value cannot be opened: its key is not there, was erased, or its bytes were altered."""

    retryable = False


class KeyMissingError(SealedError):
    """A stored key is under one that this host lacks: what it seals is there for a host that has it."""


class DataKey:
    """A key that seals values, with its id. Its representation does not show it."""

    __slots__ = ("_cipher", "key_id", "secret")

    def __init__(self, key_id: str, secret: bytes) -> None:
        self.key_id = key_id
        self.secret = secret
        self._cipher: AESGCM | None = None

    def seal(self, label: bytes, plain: str | bytes, way: Way = "random") -> str | bytes:
        """Seal a text as text, or bytes as bytes. `label`: the column."""
        data = plain.encode("utf-8", "surrogatepass") if isinstance(plain, str) else plain
        nonce = (
            os.urandom(NONCE_BYTES) if way == "random" else self.digest(label + b"\0" + data)[:NONCE_BYTES]
        )
        sealed = nonce + self._opened().encrypt(nonce, data, label)
        if isinstance(plain, str):
            return f"{MARK}{self.key_id}{binascii.b2a_base64(sealed, newline=False).decode('ascii')}"
        return BYTES_MARK + self.key_id.encode("ascii") + sealed

    def open(self, label: bytes, sealed: str | bytes) -> str | bytes:
        """Return what was sealed. SealedError."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an optional extra

        try:
            if isinstance(sealed, str):
                data = binascii.a2b_base64(sealed[_TEXT_HEAD:], strict_mode=True)
            else:
                data = sealed[_BYTES_HEAD:]
            plain = self._opened().decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], label)
        except (InvalidTag, ValueError, binascii.Error):
            raise SealedError("a stored value was altered, or moved from another column") from None
        return plain.decode("utf-8", "surrogatepass") if isinstance(sealed, str) else plain

    def seal_chunk(self, nonce: bytes, plain: bytes) -> bytes:
        """Seal one part of what this key seals alone; no two parts may have the same nonce."""
        return self._opened().encrypt(nonce, plain, b"file")

    def open_chunk(self, nonce: bytes, sealed: bytes) -> bytes:
        """Return what `seal_chunk` sealed. SealedError."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an optional extra

        try:
            return self._opened().decrypt(nonce, sealed, b"file")
        except (InvalidTag, ValueError):
            raise SealedError("a sealed file was altered or cut off") from None

    def digest(self, data: bytes) -> bytes:
        """Return a digest that only this key can make."""
        return hmac.digest(self.secret, b"hostler digest\0" + data, hashlib.sha256)

    def _opened(self) -> AESGCM:
        if self._cipher is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an optional extra

            self._cipher = AESGCM(self.secret)
        return self._cipher


def new_data_key() -> DataKey:
    """Return a random key with a random id."""
    return DataKey(new_key_id(), os.urandom(SECRET_BYTES))


def new_key_id() -> str:
    """Return a new id, of letters, digits, `-` and `_`."""
    rising = (time.time_ns() >> 24).to_bytes(8)[-TIME_BYTES:]
    return base64.b64encode(rising + os.urandom(RANDOM_BYTES)).decode("ascii").translate(_IN_ORDER)


def key_id_in(value: object) -> str | None:
    """Return the key that a stored value is sealed with; None if it is not sealed."""
    if isinstance(value, str):
        return value[len(MARK) : _TEXT_HEAD] if value[:1] == MARK and len(value) > _TEXT_HEAD else None
    if isinstance(value, bytes) and value.startswith(BYTES_MARK):
        return value[len(BYTES_MARK) : _BYTES_HEAD].decode("ascii", "replace")
    return None


def head_of(key_id: str) -> str:
    """Return how the texts that a key sealed begin."""
    return MARK + key_id


def bytes_head_of(key_id: str) -> bytes:
    """Return how the bytes that a key sealed begin."""
    return BYTES_MARK + key_id.encode("ascii")
