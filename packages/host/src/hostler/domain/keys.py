"""Check the form of ids, keys and values from outside."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

import msgspec

from hostler_protocol.calls import STATE_KEY_ALIASES
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.limits import MAX_JSON_DEPTH, MAX_KEY_CHARS, MAX_STATE_VALUE_BYTES

MAX_ID_CHARS = 512
"""Any id. Ids of platforms are far shorter; index entries must stay small."""


def check_id(name: str, value: str) -> None:
    """Check an id's length and that it has no NUL. InvalidArgumentError names the field."""
    if not value or len(value) > MAX_ID_CHARS:
        raise InvalidArgumentError(f"{name} has {len(value)} characters; 1 to {MAX_ID_CHARS} are expected")
    if "\x00" in value:
        raise InvalidArgumentError(f"{name} holds a NUL character")


def state_key_of(key: str) -> str:
    """Check a state key and return its stored form, with its alias resolved."""
    check_key("key", key)
    return STATE_KEY_ALIASES.get(key, key)


def check_key(name: str, key: str) -> None:
    """Check a state or storage key: 1 to 255 Unicode scalar values without NUL. InvalidArgumentError."""
    if not 1 <= len(key) <= MAX_KEY_CHARS:
        raise InvalidArgumentError(f"{name} has {len(key)} characters; 1 to {MAX_KEY_CHARS} are expected")
    if "\x00" in key:
        raise InvalidArgumentError(f"{name} holds a NUL character")
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{name} holds half a surrogate pair at {error.start}") from error


def state_value_of(value: Any) -> str:
    """Return the JSON of a state value. InvalidArgumentError, PayloadTooLargeError over 256 KiB."""
    check_depth("value", value)
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:  # incl. UnicodeEncodeError, EncodeError
        raise InvalidArgumentError(f"value is not JSON: {error}") from error
    if len(encoded) > MAX_STATE_VALUE_BYTES:
        raise PayloadTooLargeError(
            f"value has {len(encoded):,} bytes of JSON; at most {MAX_STATE_VALUE_BYTES:,} are allowed: "
            "put it into an artifact and keep its id",
            limit_bytes=MAX_STATE_VALUE_BYTES,
        )
    return encoded.decode()


def check_depth(name: str, value: Any) -> None:
    """Check that JSON data is nested at most 128 deep. InvalidArgumentError."""
    level = [value]
    for _ in range(MAX_JSON_DEPTH + 1):
        level = [inner for one in level if isinstance(one, list | dict) for inner in _inside(one)]
        if not level:
            return
    raise InvalidArgumentError(f"{name} is nested more than {MAX_JSON_DEPTH} deep")


def _inside(value: list[Any] | dict[str, Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def base64_of(name: str, text: str, limit_bytes: int) -> bytes:
    """Decode strict base64 to at most `limit_bytes`. InvalidArgumentError, PayloadTooLargeError."""
    if len(text) > (limit_bytes + 2) // 3 * 4:
        raise PayloadTooLargeError(
            f"{name} decodes to about {len(text) * 3 // 4:,} bytes; at most {limit_bytes:,} are allowed",
            limit_bytes=limit_bytes,
        )
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgumentError(f"{name} is not base64: {error}") from None
    if len(data) > limit_bytes:
        raise PayloadTooLargeError(
            f"{name} decodes to {len(data):,} bytes; at most {limit_bytes:,} are allowed",
            limit_bytes=limit_bytes,
        )
    return data


def base64_size(name: str, text: str) -> int:
    """Return the decoded size of a base64 text, from its length alone. InvalidArgumentError."""
    if len(text) % 4:
        raise InvalidArgumentError(f"{name} is not base64: its length is no multiple of 4")
    return len(text) // 4 * 3 - len(text[-2:]) + len(text[-2:].rstrip("="))
