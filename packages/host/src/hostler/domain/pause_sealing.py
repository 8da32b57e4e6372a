"""Sealing (encryption) of the texts of a pause before they are stored: the store's interface.

A `Codec` makes one data key per pause and seals with it; the key is stored wrapped, in the pause's row.
`PLAIN` seals nothing: its data key is None. Deleting the data key of a sealed pause shreds the pause: its
sealed texts, and all copies of them, can never be read again.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Protocol

from hostler_protocol.errors import StorageError

MARK = "\x01sealed:"
"""Prefix of a sealed text. No JSON begins like this."""


class Codec(Protocol):
    """Seals and opens bytes. `data_key` is always the wrapped key; bytes sealed for one pause and field
    cannot be opened as those of another.
    """

    def new_key(self, pause_id: str) -> bytes | None:
        """Return a new wrapped data key, or None if nothing is sealed."""

    def rewrapped(self, pause_id: str, data_key: bytes) -> bytes | None:
        """Return the data key wrapped with the current wrapping key; None if it already is."""

    def seal(self, pause_id: str, data_key: bytes, field: str, plain: bytes) -> bytes:
        """Seal bytes."""

    def open(self, pause_id: str, data_key: bytes, field: str, sealed: bytes) -> bytes:
        """Open sealed bytes. SealedError if that is not possible."""


class Plain:
    """The codec of installations that seal nothing."""

    def new_key(self, pause_id: str) -> bytes | None:
        """None."""
        return None

    def rewrapped(self, pause_id: str, data_key: bytes) -> bytes | None:
        """None: there is no wrapping key."""
        return None

    def seal(self, pause_id: str, data_key: bytes, field: str, plain: bytes) -> bytes:
        """SealedError: a pause that has a data key must not store plain texts."""
        raise SealedError(pause_id)

    def open(self, pause_id: str, data_key: bytes, field: str, sealed: bytes) -> bytes:
        """SealedError: there is no key."""
        raise SealedError(pause_id)


class SealedError(StorageError):
    """A pause is sealed with a key that this host does not have, or its stored data was altered."""

    def __init__(self, pause_id: str, why: str = "none of the keys in pause_key opens it") -> None:
        super().__init__(f"pause {pause_id} is sealed: {why}")


PLAIN: Codec = Plain()


@dataclass(frozen=True, slots=True)
class Box:
    """Seals and opens the texts of one pause; without a data key they stay plain."""

    codec: Codec
    pause_id: str
    data_key: bytes | None

    @classmethod
    def new(cls, codec: Codec, pause_id: str) -> Box:
        """Make the box of a new pause; its `data_key` must be stored in the pause's row."""
        return cls(codec, pause_id, codec.new_key(pause_id))

    def seal(self, field: str, plain: bytes | None) -> bytes | None:
        """Seal bytes for a column."""
        if plain is None or self.data_key is None:
            return plain
        return self.codec.seal(self.pause_id, self.data_key, field, plain)

    def open(self, field: str, stored: bytes | None) -> bytes | None:
        """Open the bytes of a column that `seal` made."""
        if stored is None or self.data_key is None:
            return stored
        return self.codec.open(self.pause_id, self.data_key, field, bytes(stored))

    def seal_text(self, field: str, plain: str | None) -> str | None:
        """Seal a text for a column."""
        if plain is None or self.data_key is None:
            return plain
        sealed = self.codec.seal(self.pause_id, self.data_key, field, plain.encode())
        return MARK + base64.b64encode(sealed).decode("ascii")

    def open_text(self, field: str, stored: str | None) -> str | None:
        """Open a text of a column that `seal_text` made. None: there is none, or it was shredded."""
        if stored is None or not stored.startswith(MARK):
            return stored
        if self.data_key is None:
            return None
        sealed = base64.b64decode(stored.removeprefix(MARK))
        return self.codec.open(self.pause_id, self.data_key, field, sealed).decode()


__all__ = ["PLAIN", "Box", "Codec", "Plain", "SealedError"]
