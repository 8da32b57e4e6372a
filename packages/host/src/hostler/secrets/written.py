"""Secrets that are written out in entries, sealed: the text that an entry has in their place.

A sealed secret names the key that sealed it, and is bound to its place: in another entry or field it does not
open. The keys are stored wrapped by a master key (`storage/stores/written_keys.py`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import NamedTuple

from hostler.domain.secret_refs import SEALED, is_sealed
from hostler.secrets.key_ring import KeyRing, KeyRingError, LiveKeyRing, new_key, open_sealed, seal
from hostler.secrets.known_values import remember
from hostler.secrets.resolver import SecretUnreadableError
from hostler_protocol.ids import canonical_json

NO_MASTER_KEY = "the stored secret is encrypted, and no `master_key` is configured, which would open it"


class SecretPlace(NamedTuple):
    """Where a secret is written out: a field of a model, or of the `config` of an agent."""

    workspace_id: str
    kind: str
    name: str
    field: str


class WrittenSecrets:
    """Seals and opens with the keys as they are now. `open` may be called from any thread."""

    def __init__(self, key_ring: LiveKeyRing) -> None:
        self._key_ring = key_ring
        self._wrapped: Mapping[str, bytes] = {}

    def under(self, key_ring: LiveKeyRing) -> WrittenSecrets:
        """Return the same under other master keys."""
        other = WrittenSecrets(key_ring)
        other.replace(self._wrapped)
        return other

    def replace(self, wrapped: Mapping[str, bytes]) -> None:
        """Use these keys, each wrapped by a master key, by id."""
        self._wrapped = wrapped

    def knows(self, text: str) -> bool:
        """Whether the key of a sealed secret is among the stored ones that were read last."""
        return _parts(text)[0] in self._wrapped

    def current(self) -> str | None:
        """Return the id of the key to seal with; None if there is no key that opens. KeyRingError."""
        ring = self._key_ring.ring
        return (
            None
            if ring is None
            else next((id_ for id_ in sorted(self._wrapped) if self._opens(ring, id_)), None)
        )

    def new_key(self, key_id: str) -> bytes:
        """Return a new key, wrapped by the current master key. KeyRingError."""
        ring = self._key_ring.ring
        if ring is None:
            raise KeyRingError(NO_MASTER_KEY)
        return ring.wrap(_bound_key(key_id), new_key())

    def rewrapped(self, key_id: str) -> bytes | None:
        """Return a key under the current master key; None if it is, or does not open. KeyRingError."""
        ring = self._key_ring.ring
        if ring is None or not self._opens(ring, key_id):
            return None
        return ring.rewrap(_bound_key(key_id), self._wrapped[key_id])

    def seal(self, key_id: str, place: SecretPlace, secret: str) -> str:
        """Return the text that an entry has in place of a secret. KeyRingError."""
        sealed = seal(self._key(key_id), _bound(place), secret.encode("utf-8", "surrogatepass"))
        return f"{SEALED}{key_id}:{base64.b64encode(sealed).decode('ascii')}"

    def open(self, place: SecretPlace, text: str) -> str:
        """Return a secret; a text that is not sealed is the secret itself. SecretUnreadableError."""
        if not is_sealed(text):
            return text
        key_id, sealed = _parts(text)
        try:
            data = base64.b64decode(sealed, validate=True)
            secret = open_sealed(self._key(key_id), _bound(place), data).decode("utf-8", "surrogatepass")
        except KeyRingError as error:
            raise SecretUnreadableError(error.message) from error
        except (binascii.Error, ValueError):
            raise SecretUnreadableError("the stored secret was altered") from None
        remember(secret)
        return secret

    def why_closed(self, text: str) -> str | None:
        """Return why a sealed secret cannot be opened now, or None."""
        try:
            self._key(_parts(text)[0])
        except KeyRingError as error:
            return error.message
        return None

    def _key(self, key_id: str) -> bytes:
        ring = self._key_ring.ring
        if ring is None:
            raise KeyRingError(NO_MASTER_KEY)
        if key_id not in self._wrapped:
            raise KeyRingError(
                "the key that sealed the stored secret exists no longer: write the secret again"
            )
        return ring.unwrap(_bound_key(key_id), self._wrapped[key_id])

    def _opens(self, ring: KeyRing, key_id: str) -> bool:
        try:
            ring.unwrap(_bound_key(key_id), self._wrapped[key_id])
        except KeyRingError:
            return False
        return True


def _parts(text: str) -> tuple[str, str]:
    """Return the id of the key, and what it sealed."""
    key_id, _, sealed = text.removeprefix(SEALED).partition(":")
    return key_id, sealed


def _bound(place: SecretPlace) -> bytes:
    return canonical_json(["hostler written secret", *place])


def _bound_key(key_id: str) -> bytes:
    return canonical_json(["hostler key of written secrets", key_id])
