"""Encryption of pauses at rest: a data key per pause, wrapped by the keys of `pause_key`.

What is bound to what: a data key to its pause, a sealed value to its pause and field. So nothing that is
copied from one row into another opens there. Wrapping and sealing are those of `secrets/key_ring.py`; keys
come from outside (`env:NAME`, `file:PATH`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from hostler.domain.config_mistakes import Mistake
from hostler.domain.pause_sealing import PLAIN, Codec, SealedError
from hostler.secrets.key_references import read_keys
from hostler.secrets.key_ring import (
    KeyRing,
    KeyRingError,
    UnknownKeyError,
    new_key,
    open_sealed,
    seal,
    without_extra,
)
from hostler.secrets.resolver import SecretUnreadableError
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.ids import canonical_json

SETTING = "pause_key"
_WRAP, _VALUE = "key", "value"


class PauseCipher:
    """A `Codec` with wrapping keys, the current one first."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._ring = KeyRing(keys)

    def new_key(self, pause_id: str) -> bytes:
        """A fresh data key, wrapped by the current key."""
        return self._ring.wrap(_bound(_WRAP, pause_id, ""), new_key())

    def rewrapped(self, pause_id: str, data_key: bytes) -> bytes | None:
        """The same data key under the current key; None where it is under that already."""
        with _sealed(pause_id):
            return self._ring.rewrap(_bound(_WRAP, pause_id, ""), data_key)

    def seal(self, pause_id: str, data_key: bytes, field: str, plain: bytes) -> bytes:
        """Seal one value."""
        with _sealed(pause_id):
            return seal(self._unwrap(pause_id, data_key), _bound(_VALUE, pause_id, field), plain)

    def open(self, pause_id: str, data_key: bytes, field: str, sealed: bytes) -> bytes:
        """Open one value. SealedError without its key, or where a byte of it was altered."""
        with _sealed(pause_id):
            return open_sealed(self._unwrap(pause_id, data_key), _bound(_VALUE, pause_id, field), sealed)

    def _unwrap(self, pause_id: str, data_key: bytes) -> bytes:
        return self._ring.unwrap(_bound(_WRAP, pause_id, ""), data_key)


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
    keys = read_keys(SETTING, references, environment)
    try:
        return PauseCipher(keys)
    except ImportError as error:
        raise InvalidArgumentError(without_extra(SETTING)) from error


def vault_mistake(references: Sequence[str]) -> Mistake | None:
    """Return the mistakes in the keys of pauses; a key that cannot be read now is a warning."""
    try:
        open_vault(references)
    except SecretUnreadableError as error:
        return Mistake("", error.message.removeprefix(f"{SETTING}: "), "warning")
    except InvalidArgumentError as error:
        return Mistake("", error.message.removeprefix(f"{SETTING}: "))
    return None


def _bound(use: str, pause_id: str, field: str) -> bytes:
    return canonical_json(["hostler pause", use, pause_id, field])


@contextmanager
def _sealed(pause_id: str) -> Iterator[None]:
    """Name the pause in what goes wrong with its keys."""
    try:
        yield
    except UnknownKeyError:
        raise SealedError(pause_id) from None
    except KeyRingError as error:
        raise SealedError(pause_id, error.message) from None
