"""The key ring: the master keys, which wrap the keys that seal data (AES-256-GCM), and sealing with those.

What is wrapped or sealed is bound to its place (`bound`): copied to another one, it does not open there. The
first key of a ring is the current one, the others still open what was wrapped before. A wrapped key names the
key that wrapped it, so that what is left under an old one can be counted.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hostler.domain.config_mistakes import Mistake
from hostler.secrets.key_command import PREFIX, missing_program
from hostler.secrets.key_references import KEY_BYTES, check_kind, read_keys
from hostler.secrets.resolver import SecretUnreadableError
from hostler_protocol.errors import InvalidArgumentError, StorageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SETTING = "master_key"
NONCE_BYTES = 12
"""The nonce size of GCM. Random nonces are safe for 2^32 values of a key."""
KEY_ID_BYTES = 8
VERSION = b"\x01"
SEALED_OVERHEAD = len(VERSION) + NONCE_BYTES + 16
"""Bytes that sealing adds: version, nonce and tag."""


class KeyRingError(StorageError):
    """No key of the ring opens this, its bytes were altered, or a newer version made it."""


class UnknownKeyError(KeyRingError):
    """This was wrapped with a key that the ring does not have."""


class KeyRing:
    """Wrapping keys (32 bytes each), the current one first. Immutable."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"a key ring needs at least one key, of {KEY_BYTES} bytes")
        self._keys: dict[bytes, AESGCM] = {key_id(key): _cipher(key) for key in keys}
        self._current = key_id(keys[0])

    @property
    def current_id(self) -> str:
        """The id of the current key, in hexadecimal digits; it does not tell the key."""
        return self._current.hex()

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all keys, the current one first."""
        return [key.hex() for key in self._keys]

    def with_older(self, other: KeyRing) -> KeyRing:
        """Return a ring that wraps with the current key of this one, and also opens what `other` opens."""
        ring = KeyRing.__new__(KeyRing)
        ring._keys, ring._current = {**self._keys, **other._keys}, self._current
        return ring

    def wrap(self, bound: bytes, key: bytes) -> bytes:
        """Wrap a key with the current key: version, key id, nonce, ciphertext."""
        return VERSION + self._current + _encrypt(self._keys[self._current], bound, key)

    def unwrap(self, bound: bytes, wrapped: bytes) -> bytes:
        """Return the wrapped key. KeyRingError."""
        _check_version(wrapped)
        wrapping = self._keys.get(wrapped_by(wrapped))
        if wrapping is None:
            raise UnknownKeyError(f"none of the keys opens it: it is under key {wrapped_by(wrapped).hex()}")
        return _decrypt(wrapping, bound, wrapped[1 + KEY_ID_BYTES :])

    def is_current(self, wrapped: bytes) -> bool:
        """Whether this is wrapped with the current key."""
        return wrapped[:1] == VERSION and wrapped_by(wrapped) == self._current

    def rewrap(self, bound: bytes, wrapped: bytes) -> bytes | None:
        """Wrap the same key with the current key; None if it already is. KeyRingError."""
        return None if self.is_current(wrapped) else self.wrap(bound, self.unwrap(bound, wrapped))


def seal(key: bytes, bound: bytes, plain: bytes) -> bytes:
    """Seal bytes with a key of 32 bytes: version, nonce, ciphertext."""
    return VERSION + _encrypt(_cipher(key), bound, plain)


def open_sealed(key: bytes, bound: bytes, sealed: bytes) -> bytes:
    """Open sealed bytes. KeyRingError."""
    _check_version(sealed)
    return _decrypt(_cipher(key), bound, sealed[1:])


def new_key() -> bytes:
    """Return a fresh random key."""
    return os.urandom(KEY_BYTES)


def key_id(key: bytes) -> bytes:
    """Return which key it is, without telling the key."""
    # the label is that of the first keys there were; another one would orphan what they wrapped
    return hashlib.sha256(b"hostler pause key\x00" + key).digest()[:KEY_ID_BYTES]


def wrapped_by(wrapped: bytes) -> bytes:
    """Return the id of the key that wrapped this."""
    return wrapped[1 : 1 + KEY_ID_BYTES]


class Locked:
    """The state of an installation whose master keys cannot be read: nothing opens, and nothing is stored in
    the clear instead.
    """

    def __init__(self, why: str) -> None:
        self.why = why


class LiveKeyRing:
    """The key ring as configured right now."""

    def __init__(self) -> None:
        self._ring: KeyRing | Locked | None = None

    def replace(self, ring: KeyRing | Locked | None) -> None:
        """Use another ring, or none."""
        self._ring = ring

    @property
    def ring(self) -> KeyRing | None:
        """The ring; None if no master key is configured. KeyRingError if its keys cannot be read."""
        if isinstance(self._ring, Locked):
            raise KeyRingError(f"the master key cannot be read: {self._ring.why}")
        return self._ring

    @property
    def locked(self) -> str | None:
        """Why the keys cannot be read; None if they can, or none is configured."""
        return self._ring.why if isinstance(self._ring, Locked) else None


def open_key_ring(references: Sequence[str], environment: Mapping[str, str] | None = None) -> KeyRing | None:
    """Return the ring of the keys named by references; None for none. Blocks for `command:` references.

    InvalidArgumentError names the reference that is wrong, never a key; also where the extra is missing.
    """
    if not references:
        return None
    keys = read_keys(SETTING, references, environment, commands=True)
    try:
        return KeyRing(keys)
    except ImportError as error:
        raise InvalidArgumentError(without_extra(SETTING)) from error


def key_ring_mistake(references: Sequence[str]) -> Mistake | None:
    """Return the mistake in the references; a key that cannot be read now is a warning. No command is run."""
    try:
        for reference in references:
            check_kind(SETTING, reference, commands=True)
            if reference.startswith(PREFIX) and (missing := missing_program(reference)) is not None:
                return Mistake("", missing, "warning")
        others = [reference for reference in references if not reference.startswith(PREFIX)]
        if len(set(references)) != len(references):
            return Mistake("", "the same key stands there twice")
        open_key_ring(others)
    except SecretUnreadableError as error:
        return Mistake("", error.message.removeprefix(f"{SETTING}: "), "warning")
    except InvalidArgumentError as error:
        return Mistake("", error.message.removeprefix(f"{SETTING}: "))
    return None


def without_extra(setting: str) -> str:
    """Return the message for an installation that cannot encrypt."""
    return f"{setting}: encryption needs an extra that is not installed: pip install 'hostler[encryption]'"


def _check_version(sealed: bytes) -> None:
    if sealed[:1] != VERSION:
        raise KeyRingError("a newer version sealed it")


def _cipher(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an optional extra

    return AESGCM(key)


def _encrypt(cipher: AESGCM, bound: bytes, plain: bytes) -> bytes:
    nonce = os.urandom(NONCE_BYTES)
    return nonce + cipher.encrypt(nonce, plain, bound)


def _decrypt(cipher: AESGCM, bound: bytes, sealed: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an optional extra

    try:
        return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound)
    except (InvalidTag, ValueError):
        raise KeyRingError("what is stored was altered, or belongs to another place") from None
