"""The frames of Lark's long connections, written by hand: `pbbp2.Frame` of Protocol Buffers, version 2.

1 SeqID, 2 LogID (uint64), 3 service, 4 method (int32), 5 headers of 1 key and 2 value, 6 payload_encoding,
7 payload_type, 8 payload, 9 LogIDNew.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

CONTROL, DATA = 0, 1


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _bytes(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


@dataclass(slots=True)
class WireFrame:
    """One frame."""

    method: int
    headers: dict[str, str]
    payload: bytes = b""
    seq: int = 1
    log: int = 7
    service: int = 33554678
    extra: dict[int, bytes] = field(default_factory=dict)

    def encode(self) -> bytes:
        numbers = ((1, self.seq), (2, self.log), (3, self.service), (4, self.method))
        head = b"".join(_number(number, value) for number, value in numbers)
        headers = b"".join(
            _bytes(5, _bytes(1, key.encode()) + _bytes(2, value.encode()))
            for key, value in self.headers.items()
        )
        return head + headers + (_bytes(8, self.payload) if self.payload else b"")

    def json(self) -> Any:
        return json.loads(self.payload)


def decode(content: bytes) -> WireFrame:
    """Read a frame."""
    numbers: dict[int, int] = {}
    headers: dict[str, str] = {}
    payload = b""
    for number, value in _fields(content):
        if isinstance(value, int):
            numbers[number] = value
        elif number == 5:
            pair = dict(_fields(value))
            headers[pair[1].decode()] = pair[2].decode()  # type: ignore[union-attr]
        elif number == 8:
            payload = value
    assert {1, 2, 3, 4} <= set(numbers), "a required field is missing"
    return WireFrame(numbers[4], headers, payload, numbers[1], numbers[2], numbers[3])


def _fields(content: bytes) -> list[tuple[int, int | bytes]]:
    found: list[tuple[int, int | bytes]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = content[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(content):
        tag = varint()
        if tag & 7 == 0:
            found.append((tag >> 3, varint()))
            continue
        assert tag & 7 == 2, "an unknown kind of field"
        length = varint()
        found.append((tag >> 3, content[at : at + length]))
        at += length
    return found
