"""Opaque page cursors: signed, and good only for the call and scope they were issued for.

A cursor is base64url without padding of: two bytes that name the call, four that name the scope, the
position as JSON, and 16 bytes of HMAC-SHA256. The signature covers call and scope in full; the six bytes in
front only tell a cursor that is used in the wrong place from one that is damaged.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Any

import msgspec

from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.ids import canonical_json

KEY_BYTES = 32
MAC_BYTES = 16
"""128 bits: guessing one takes longer than anything a cursor opens is worth, and items carry one each."""
MAX_CURSOR_CHARS = 1024
"""Ours stay below 100 characters, and below 600 where a position holds a key of 255 characters in ASCII."""
_CALL_BYTES = 2
_SCOPE_BYTES = 4
_PLACE_BYTES = _CALL_BYTES + _SCOPE_BYTES

Position = int | str | list[int | str]
"""Where a page ended: a sequence, a key, or a sort key of several parts."""
_position = msgspec.json.Decoder(Position)


class ScopedCursors:
    """Issues and reads the cursors of one call in one scope."""

    def __init__(self, mac: hmac.HMAC, place: bytes, api: str) -> None:
        self._mac = mac
        self._place = place
        self._api = api

    def issue(self, position: Position) -> str:
        """The cursor for `position`; only `A-Za-z0-9_-`."""
        body = self._place + msgspec.json.encode(position)
        return base64.urlsafe_b64encode(body + self._sign(body)).rstrip(b"=").decode()

    def read(self, cursor: str, name: str = "cursor") -> Position:
        """The position of a cursor that was issued here.

        InvalidArgumentError for any other text; it calls the cursor by the parameter's `name` and says why.
        """
        raw = _decoded(cursor)
        if raw is None or len(raw) <= _PLACE_BYTES + MAC_BYTES:
            raise InvalidArgumentError(f"{name} is not a cursor: send one that a page returned, unchanged")
        body, signature = raw[:-MAC_BYTES], raw[-MAC_BYTES:]
        if hmac.compare_digest(signature, self._sign(body)):
            position: Position = _position.decode(body[_PLACE_BYTES:])
            return position
        if body[:_CALL_BYTES] != self._place[:_CALL_BYTES]:
            raise InvalidArgumentError(f"{name} was issued for another call than {self._api}")
        if body[:_PLACE_BYTES] != self._place:
            raise InvalidArgumentError(
                f"{name} was issued for another scope (such as a conversation): begin again without it"
            )
        raise InvalidArgumentError(f"{name} is damaged, or not of this installation: begin again without it")

    def read_sequence(self, cursor: str, name: str = "cursor") -> int:
        """`read`, for calls whose positions are sequences."""
        position = self.read(cursor, name)
        if not isinstance(position, int):
            raise InvalidArgumentError(f"{name} does not hold a sequence: begin again without it")
        return position

    def read_text(self, cursor: str, name: str = "cursor") -> str:
        """`read`, for calls whose positions are keys."""
        position = self.read(cursor, name)
        if not isinstance(position, str):
            raise InvalidArgumentError(f"{name} does not hold a key: begin again without it")
        return position

    def read_place(self, cursor: str, name: str = "cursor") -> tuple[int, str]:
        """`read`, for lists that are ordered by a time and an id."""
        match self.read(cursor, name):
            case [int() as at, str() as id_]:
                return at, id_
            case _:
                raise InvalidArgumentError(
                    f"{name} does not hold a place in this list: begin again without it"
                )

    def _sign(self, body: bytes) -> bytes:
        mac = self._mac.copy()
        mac.update(body)
        return mac.digest()[:MAC_BYTES]


class Cursors:
    """The cursors of this installation. `key` is 32 random bytes that stay the same across restarts."""

    def __init__(self, key: bytes) -> None:
        if len(key) < KEY_BYTES:
            raise ValueError(f"a cursor key has {KEY_BYTES} bytes, not {len(key)}")
        self._mac = hmac.new(key, b"hostler cursor 1", hashlib.sha256)

    def scoped(self, api: str, scope: Any) -> ScopedCursors:
        """The cursors of call `api` in `scope`: any JSON that names what the pages are cut from."""
        call = hashlib.sha256(api.encode()).digest()
        where = hashlib.sha256(canonical_json(scope)).digest()
        mac = self._mac.copy()
        mac.update(call + where)
        return ScopedCursors(mac, call[:_CALL_BYTES] + where[:_SCOPE_BYTES], api)


def _decoded(cursor: str) -> bytes | None:
    """The bytes of a cursor in its one spelling: no padding, no other alphabet, no stray bits."""
    if len(cursor) > MAX_CURSOR_CHARS:
        return None
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):  # ValueError: characters beyond ASCII
        return None
    return raw if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() == cursor else None
