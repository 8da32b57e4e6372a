"""Sealing (encryption) of the texts of a pause before they are stored: the store's interface.

A `Codec` makes one data key per pause and seals with it; the key is stored wrapped, in the pause's row.
`PLAIN` seals nothing: its data key is None. Deleting the data key of a sealed pause shreds the pause: its
sealed texts, and all copies of them, can never be read again.
"""

from __future__ import annotations

from typing import Protocol

from hostler_protocol.errors import StorageError


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
