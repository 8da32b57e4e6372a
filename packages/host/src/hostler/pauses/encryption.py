"""Encryption of pauses at rest: AES-256-GCM, a data key per pause, wrapped by a key that can be rotated.

What is bound to what: a data key to its pause, a sealed value to its pause and field. So nothing that is
copied from one row into another opens there. Wrapping keys come from outside (`env:NAME`, `file:PATH`); the
first is the current one, the others still open what was wrapped before.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hostler.domain.config_mistakes import Mistake
from hostler.domain.pause_sealing import PLAIN, Codec, SealedError
from hostler.secrets.resolver import SecretUnreadableError, resolve_secret
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.ids import canonical_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
"""AES-256."""
NONCE_BYTES = 12
"""The nonce size of GCM. Random nonces are safe for 2^32 values of a key; a pause has about a hundred."""
KEY_ID_BYTES = 8
MAX_KEYS = 16
VERSION = b"\x01"
_WRAP, _VALUE = "key", "value"


class PauseCipher:
    """A `Codec` with wrapping keys, the current one first."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys:
            raise ValueError("a vault needs at least one key")
        self._keys: dict[bytes, AESGCM] = {_key_id(key): _cipher(key) for key in keys}
        self._current = _key_id(keys[0])

    def new_key(self, pause_id: str) -> bytes:
        """A fresh data key, wrapped by the current key."""
        return self._wrap(pause_id, os.urandom(KEY_BYTES))

    def rewrapped(self, pause_id: str, data_key: bytes) -> bytes | None:
        """The same data key under the current key; None where it is under that already."""
        if data_key[1 : 1 + KEY_ID_BYTES] == self._current:
            return None
        return self._wrap(pause_id, self._unwrap(pause_id, data_key))

    def seal(self, pause_id: str, data_key: bytes, field: str, plain: bytes) -> bytes:
        """Seal one value."""
        cipher = _cipher(self._unwrap(pause_id, data_key))
        return VERSION + _encrypt(cipher, plain, _bound(_VALUE, pause_id, field))

    def open(self, pause_id: str, data_key: bytes, field: str, sealed: bytes) -> bytes:
        """Open one value. SealedError without its key, or where a byte of it was altered."""
        if sealed[:1] != VERSION:
            raise SealedError(pause_id, "a newer version sealed it")
        cipher = _cipher(self._unwrap(pause_id, data_key))
        return _decrypt(cipher, sealed[1:], _bound(_VALUE, pause_id, field), pause_id)

    def _wrap(self, pause_id: str, key: bytes) -> bytes:
        wrapped = _encrypt(self._keys[self._current], key, _bound(_WRAP, pause_id, ""))
        return VERSION + self._current + wrapped

    def _unwrap(self, pause_id: str, data_key: bytes) -> bytes:
        if data_key[:1] != VERSION:
            raise SealedError(pause_id, "a newer version sealed it")
        wrapping = self._keys.get(data_key[1 : 1 + KEY_ID_BYTES])
        if wrapping is None:
            raise SealedError(pause_id)
        return _decrypt(wrapping, data_key[1 + KEY_ID_BYTES :], _bound(_WRAP, pause_id, ""), pause_id)


class Locked:
    """The codec of an installation whose keys are not there: nothing opens, and nothing is stored in the
    clear instead.
    """

    def __init__(self, why: str) -> None:
        self._why = why

    def new_key(self, pause_id: str) -> bytes | None:
        """SealedError."""
        raise SealedError(pause_id, self._why)

    def rewrapped(self, pause_id: str, data_key: bytes) -> bytes | None:
        """SealedError."""
        raise SealedError(pause_id, self._why)

    def seal(self, pause_id: str, data_key: bytes, field: str, plain: bytes) -> bytes:
        """SealedError."""
        raise SealedError(pause_id, self._why)

    def open(self, pause_id: str, data_key: bytes, field: str, sealed: bytes) -> bytes:
        """SealedError."""
        raise SealedError(pause_id, self._why)


class LiveCipher:
    """The codec as configured right now."""

    def __init__(self) -> None:
        self._codec: Codec = PLAIN

    def replace(self, codec: Codec) -> None:
        """Use another codec; the keys of what is sealed must be among its keys."""
        self._codec = codec

    def new_key(self, pause_id: str) -> bytes | None:
        """See `Codec`."""
        return self._codec.new_key(pause_id)

    def rewrapped(self, pause_id: str, data_key: bytes) -> bytes | None:
        """See `Codec`."""
        return self._codec.rewrapped(pause_id, data_key)

    def seal(self, pause_id: str, data_key: bytes, field: str, plain: bytes) -> bytes:
        """See `Codec`."""
        return self._codec.seal(pause_id, data_key, field, plain)

    def open(self, pause_id: str, data_key: bytes, field: str, sealed: bytes) -> bytes:
        """See `Codec`."""
        return self._codec.open(pause_id, data_key, field, sealed)


def open_vault(references: Sequence[str], environment: Mapping[str, str] | None = None) -> Codec:
    """The codec for the keys named by `references` (`env:NAME`, `file:PATH`); `PLAIN` for none.

    InvalidArgumentError names the reference that is wrong, never a key; also where the extra is missing.
    """
    if not references:
        return PLAIN
    if len(references) > MAX_KEYS:
        raise InvalidArgumentError(f"pause_key: {len(references)} keys; at most {MAX_KEYS} are possible")
    keys = [_key_of(reference, environment) for reference in references]
    if len(set(keys)) != len(keys):
        raise InvalidArgumentError("pause_key: the same key stands there twice")
    try:
        return PauseCipher(keys)
    except ImportError as error:
        raise InvalidArgumentError(
            "pause_key: encryption needs an extra that is not installed: pip install 'hostler[encryption]'"
        ) from error


def vault_mistake(references: Sequence[str]) -> Mistake | None:
    """Return the mistakes in the keys of pauses; a key that cannot be read now is a warning."""
    try:
        open_vault(references)
    except SecretUnreadableError as error:
        return Mistake("", error.message.removeprefix("pause_key: "), "warning")
    except InvalidArgumentError as error:
        return Mistake("", error.message.removeprefix("pause_key: "))
    return None


def _key_of(reference: str, environment: Mapping[str, str] | None) -> bytes:
    if not reference.startswith(("env:", "file:")):
        raise InvalidArgumentError("pause_key: a key is named by env:NAME or file:PATH, never written out")
    try:
        text = resolve_secret(reference, environment) or ""
    except InvalidArgumentError as error:
        raise type(error)(f"pause_key: {error.message}") from None
    for decode in (bytes.fromhex, _from_base64):
        try:
            key = decode(text)
        except (ValueError, binascii.Error):
            continue
        if len(key) == KEY_BYTES:
            return key
    raise InvalidArgumentError(
        f"pause_key: {reference} holds no key: 32 bytes are expected, as 64 hexadecimal digits or in base64 "
        "(`openssl rand -base64 32` makes one)"
    )


def _from_base64(text: str) -> bytes:
    standard = text.replace("-", "+").replace("_", "/")
    return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)


def _key_id(key: bytes) -> bytes:
    """Which key it is, without saying what it is."""
    return hashlib.sha256(b"hostler pause key\x00" + key).digest()[:KEY_ID_BYTES]


def _cipher(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an optional extra

    return AESGCM(key)


def _bound(use: str, pause_id: str, field: str) -> bytes:
    return canonical_json(["hostler pause", use, pause_id, field])


def _encrypt(cipher: AESGCM, plain: bytes, bound: bytes) -> bytes:
    nonce = os.urandom(NONCE_BYTES)
    return nonce + cipher.encrypt(nonce, plain, bound)


def _decrypt(cipher: AESGCM, sealed: bytes, bound: bytes, pause_id: str) -> bytes:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an optional extra

    try:
        return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound)
    except (InvalidTag, ValueError):
        raise SealedError(pause_id, "what is stored was altered, or belongs to another pause") from None
