"""How the texts of a pause are sealed before they reach a table, as the store sees it.

A `Codec` makes one data key per pause and seals with it; the key itself is stored wrapped, in the pause's
row. `PLAIN` seals nothing: its data key is None. Deleting the data key of a sealed pause shreds it: what is
sealed can never be read again, wherever copies of it lie.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Protocol

from hostler_protocol.errors import StorageError

MARK = "\x01sealed:"
"""How a sealed text begins. No JSON begins like this."""


class Codec(Protocol):
    """Seals and opens. `data_key` is always the wrapped form; bytes sealed for one pause and field cannot be
    opened as those of another.
    """

    def new_key(self, pause_id: str) -> bytes | None:
        """A fresh data key, wrapped; None: nothing is sealed."""

    def rewrapped(self, pause_id: str, data_key: bytes) -> bytes | None:
        """The same data key under the current wrapping key; None where it is under that already."""

    def seal(self, pause_id: str, data_key: bytes, field: str, plain: bytes) -> bytes:
        """Seal bytes."""

    def open(self, pause_id: str, data_key: bytes, field: str, sealed: bytes) -> bytes:
        """Open what `seal` gave. SealedError where that is not possible."""


class Plain:
    """The codec of installations that seal nothing."""

    def new_key(self, pause_id: str) -> bytes | None:
        """None."""
        return None

    def rewrapped(self, pause_id: str, data_key: bytes) -> bytes | None:
        """None: the key is known to nobody here."""
        return None

    def seal(self, pause_id: str, data_key: bytes, field: str, plain: bytes) -> bytes:
        """SealedError: a pause that has a data key must not get plain texts."""
        raise SealedError(pause_id)

    def open(self, pause_id: str, data_key: bytes, field: str, sealed: bytes) -> bytes:
        """SealedError."""
        raise SealedError(pause_id)


class SealedError(StorageError):
    """A pause is sealed with a key that this host does not have, or what is stored was altered."""

    def __init__(self, pause_id: str, why: str = "none of the keys in pause_key opens it") -> None:
        super().__init__(f"pause {pause_id} is sealed: {why}")


PLAIN: Codec = Plain()


@dataclass(frozen=True, slots=True)
class Box:
    """The texts of one pause: sealed where it has a data key, as they are where it has none."""

    codec: Codec
    pause_id: str
    data_key: bytes | None

    @classmethod
    def new(cls, codec: Codec, pause_id: str) -> Box:
        """The box of a pause that opens now; its `data_key` belongs into the pause's row."""
        return cls(codec, pause_id, codec.new_key(pause_id))

    def seal(self, field: str, plain: bytes | None) -> bytes | None:
        """Bytes for a column."""
        if plain is None or self.data_key is None:
            return plain
        return self.codec.seal(self.pause_id, self.data_key, field, plain)

    def open(self, field: str, stored: bytes | None) -> bytes | None:
        """Bytes out of a column that `seal` filled."""
        if stored is None or self.data_key is None:
            return stored
        return self.codec.open(self.pause_id, self.data_key, field, bytes(stored))

    def seal_text(self, field: str, plain: str | None) -> str | None:
        """A text for a column."""
        if plain is None or self.data_key is None:
            return plain
        sealed = self.codec.seal(self.pause_id, self.data_key, field, plain.encode())
        return MARK + base64.b64encode(sealed).decode("ascii")

    def open_text(self, field: str, stored: str | None) -> str | None:
        """A text out of a column that `seal_text` filled. None: there is none, or it was shredded."""
        if stored is None or not stored.startswith(MARK):
            return stored
        if self.data_key is None:
            return None
        sealed = base64.b64decode(stored.removeprefix(MARK))
        return self.codec.open(self.pause_id, self.data_key, field, sealed).decode()


__all__ = ["PLAIN", "Box", "Codec", "Plain", "SealedError"]
