"""Bytes <-> messages: JSON-RPC 2.0 objects, newline-delimited on streams, one per frame elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from hostler_protocol.limits import OVERSIZE_HEAD_BYTES

MessageId = int | str

_NULL = msgspec.Raw(b"null")


class Request(msgspec.Struct, frozen=True):
    """A request: `params` undecoded."""

    id: MessageId
    method: str
    params: msgspec.Raw = _NULL


class Notification(msgspec.Struct, frozen=True):
    """A notification: `params` undecoded."""

    method: str
    params: msgspec.Raw = _NULL


class Response(msgspec.Struct, frozen=True):
    """The answer to a request of ours."""

    id: MessageId
    result: msgspec.Raw = _NULL


class ErrorResponse(msgspec.Struct, frozen=True):
    """A refused request. `id` is None where the peer could not tell which."""

    id: MessageId | None
    code: int
    message: str
    data: msgspec.Raw | None = None


class Malformed(msgspec.Struct, frozen=True):
    """A frame that is no JSON-RPC message. `id` where it still could be read."""

    reason: str
    id: MessageId | None = None


class Oversized(msgspec.Struct, frozen=True):
    """A frame over the limit, with what its first 64 KiB told of it."""

    size: int
    id: MessageId | None = None
    method: str | None = None
    run_id: str | None = None


Frame = Request | Notification | Response | ErrorResponse
Parsed = Frame | Malformed | Oversized


class _Error(msgspec.Struct, omit_defaults=True):
    code: int
    message: str
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Wire(msgspec.Struct, omit_defaults=True):
    jsonrpc: str
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: _Error | msgspec.UnsetType = msgspec.UNSET


_decoder = msgspec.json.Decoder(_Wire)
_encoder = msgspec.json.Encoder()


def parse(line: bytes | bytearray | memoryview) -> Frame | Malformed:  # noqa: PLR0911 - one return per kind
    """Parse one frame. Never raises: noise gives `Malformed`."""
    try:
        wire = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Malformed(f"not a JSON-RPC message: {error}")
    if wire.jsonrpc != "2.0":
        return Malformed(f'"jsonrpc" is {wire.jsonrpc!r}; expected "2.0"', _id(wire))
    unset = msgspec.UNSET
    if wire.method is not unset:
        if wire.result is not unset or wire.error is not unset:
            return Malformed("a message has a method or a result, not both", _id(wire))
        params = _NULL if wire.params is unset else msgspec.Raw(bytes(wire.params))
        if wire.id is unset:
            return Notification(wire.method, params)
        if wire.id is None:
            return Malformed("a request's id is a string or a number")
        return Request(wire.id, wire.method, params)
    if wire.error is not unset:
        if wire.result is not unset:
            return Malformed("a response has a result or an error, not both", _id(wire))
        data = None if wire.error.data is unset else msgspec.Raw(bytes(wire.error.data))
        return ErrorResponse(_id(wire), wire.error.code, wire.error.message, data)
    if wire.result is not unset:
        if not isinstance(wire.id, int | str):
            return Malformed("a response needs the id of its request")
        return Response(wire.id, msgspec.Raw(bytes(wire.result)))
    return Malformed("a message needs a method, a result or an error", _id(wire))


def _id(wire: _Wire) -> MessageId | None:
    return wire.id if isinstance(wire.id, int | str) else None


def encode(frame: Frame) -> bytes:
    """Encode one frame as JSON, without a line end."""
    match frame:
        case Request(id=id_, method=method, params=params):
            wire = _Wire(jsonrpc="2.0", id=id_, method=method, params=params)
        case Notification(method=method, params=params):
            wire = _Wire(jsonrpc="2.0", method=method, params=params)
        case Response(id=id_, result=result):
            wire = _Wire(jsonrpc="2.0", id=id_, result=result)
        case ErrorResponse(id=error_id, code=code, message=message, data=data):
            detail = _Error(code, message) if data is None else _Error(code, message, data)
            wire = _Wire(jsonrpc="2.0", id=error_id, error=detail)
    return _encoder.encode(wire)


def raw(value: Any) -> msgspec.Raw:
    """Encode any value for a `params` or `result` field."""
    return value if isinstance(value, msgspec.Raw) else msgspec.Raw(_encoder.encode(value))


class LineSplitter:
    """Cuts a byte stream into lines, whatever way the bytes arrive; never keeps more than the limit.

    A longer line is reported once, at its end, with its size and its first bytes.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None  # set while an oversized line is being skipped

    @property
    def buffered_bytes(self) -> int:
        """Bytes held of an unfinished line."""
        return sum(map(len, self._parts))

    def feed(self, data: bytes) -> Iterator[bytes | Oversized]:
        """Take bytes in; give each finished line, without its end. Empty lines are skipped."""
        start = 0
        while True:
            end = data.find(b"\n", start)
            if end < 0:
                break
            yield from self._finish(data[start:end])
            start = end + 1
        self._keep(data[start:])

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._head is not None or not part:
            return
        self._parts.append(part)
        if self._size > self.max_bytes:
            self._head = b"".join(self._parts)[:OVERSIZE_HEAD_BYTES]
            self._parts = []
        elif len(self._parts) > 1024:  # byte-by-byte arrival must not hold an object per byte
            self._parts = [b"".join(self._parts)]

    def _finish(self, part: bytes) -> Iterator[bytes | Oversized]:
        self._keep(part)
        parts, size, head = self._parts, self._size, self._head
        self._parts, self._size, self._head = [], 0, None
        if head is not None:
            yield describe_oversized(head, size)
        elif line := (parts[0] if len(parts) == 1 else b"".join(parts)).strip(b" \t\r"):
            yield line


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


def describe_oversized(head: bytes, size: int) -> Oversized:
    """Find id, method and params.run_id in the beginning of a message too large to parse."""
    found: dict[str, Any] = {}
    path: list[str] = []
    key: str | None = None
    expect_value = False
    for match in _TOKEN.finditer(head):
        token = match.group()
        if token in b"{[":
            path.append(key or "")
            key, expect_value = None, False
        elif token in b"}]":
            if path:
                path.pop()
            key, expect_value = None, False
        elif token == b":":
            expect_value = True
        elif token == b",":
            key, expect_value = None, False
        elif expect_value:
            where = (*path[1:], key)
            if where in (("id",), ("method",), ("params", "run_id")):
                found.setdefault("/".join(map(str, where)), _scalar(token))
            expect_value = False
        else:
            text = _scalar(token)
            key = text if isinstance(text, str) else None
    id_, method, run_id = found.get("id"), found.get("method"), found.get("params/run_id")
    return Oversized(
        size,
        id_ if isinstance(id_, int | str) and not isinstance(id_, bool) else None,
        method if isinstance(method, str) else None,
        run_id if isinstance(run_id, str) else None,
    )


def _scalar(token: bytes) -> Any:
    try:
        return msgspec.json.decode(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
