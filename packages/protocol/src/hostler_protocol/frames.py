"""Bytes and messages: JSON-RPC 2.0 objects, one per line on streams, one per frame on WebSockets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.limits import MAX_MESSAGE_ID_CHARS, MAX_REASON_CHARS
from hostler_protocol.oversize import MessageId, Oversized, OversizedScanner

__all__ = [
    "ErrorResponse",
    "Frame",
    "LineSplitter",
    "Malformed",
    "MessageId",
    "Notification",
    "Oversized",
    "Parsed",
    "Request",
    "Response",
    "describe_oversized",
    "encode",
    "encode_request",
    "encode_response",
    "parse",
    "raw",
]

_NULL = msgspec.Raw(b"null")
_NO_PARAMS = msgspec.Raw(b"{}")
_INT64 = range(-(2**63), 2**63)
_BLANKS = b" \t\r"
_ENDS = _BLANKS + b"\n"


class Request(msgspec.Struct, frozen=True):
    """A request. `params` are undecoded."""

    id: MessageId
    method: str
    params: msgspec.Raw = _NO_PARAMS


class Notification(msgspec.Struct, frozen=True):
    """A notification. `params` are undecoded."""

    method: str
    params: msgspec.Raw = _NO_PARAMS


class Response(msgspec.Struct, frozen=True):
    """The answer to a request. `result` is undecoded."""

    id: MessageId
    result: msgspec.Raw = _NULL


class ErrorResponse(msgspec.Struct, frozen=True):
    """The refusal of a request. `id` is None if the peer could not read it."""

    id: MessageId | None
    code: int
    message: str
    data: msgspec.Raw | None = None


class Malformed(msgspec.Struct, frozen=True):
    """A frame that is not a JSON-RPC message. `id` if it could be read."""

    reason: str
    id: MessageId | None = None


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
    error: _Error | msgspec.UnsetType | None = msgspec.UNSET


_decoder = msgspec.json.Decoder(_Wire)
_UNSET = msgspec.UNSET
_ESCAPE = (  # compiled on its first use: every plugin pays for what is done at import
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\."
)
_encoder = msgspec.json.Encoder()


def parse(line: bytes | bytearray | memoryview) -> Frame | Malformed:
    """Parse one frame. Never raises: an invalid frame gives `Malformed`.

    Half a surrogate pair, which JSON can write but UTF-8 cannot, is read as U+FFFD: a plugin that cuts a text
    within a character must not lose its connection.
    """
    try:
        wire = _decode(line)
    except DECODE_ERRORS as error:
        return Malformed(f"not a JSON-RPC message: {_why(str(error), line)}")
    if wire.jsonrpc != "2.0":
        return Malformed(f'"jsonrpc" is {wire.jsonrpc[:20]!r}; expected "2.0"')
    if not _fits(wire.id):
        return Malformed(
            f"a request id is a string of at most {MAX_MESSAGE_ID_CHARS} characters or a 64-bit integer"
        )
    # what is taken out of a line of bytes may refer to it; another buffer may be written again
    lasting = type(line) is bytes
    return _answer_in(wire, lasting) if wire.method is _UNSET else _question_in(wire, wire.method, lasting)


def _decode(line: bytes | bytearray | memoryview) -> _Wire:
    try:
        return _decoder.decode(line)
    except DECODE_ERRORS:
        whole = re.sub(_ESCAPE, _without_halves, bytes(line), flags=re.DOTALL)
        if whole == line:
            raise
        return _decoder.decode(whole)


def _why(said: str, line: bytes | bytearray | memoryview) -> str:
    """Say why a line is not JSON; names NaN and Infinity, which many libraries write and JSON lacks."""
    place = re.search(r"\(byte (\d+)\)", said)
    for number in ("NaN", "Infinity"):
        if place and bytes(line).startswith(number.encode(), int(place[1])):
            return f"byte {place[1]}: JSON has no {number}; write null"
    return said[:MAX_REASON_CHARS]


def _without_halves(escape: re.Match[bytes]) -> bytes:
    return escape[0] if escape["half"] is None else rb"\ufffd"


def _fits(id_: MessageId | msgspec.UnsetType | None) -> bool:
    # an id is repeated in the answer, and the encoder refuses integers over 64 bits
    if isinstance(id_, str):
        return len(id_) <= MAX_MESSAGE_ID_CHARS
    return not isinstance(id_, int) or id_ in _INT64


def _question_in(wire: _Wire, method: str, lasting: bool) -> Request | Notification | Malformed:
    if wire.result is not _UNSET or isinstance(wire.error, _Error):
        return Malformed("a message has a method or a result, not both", _id(wire))
    params = wire.params
    if params is _UNSET:
        params = _NO_PARAMS
    elif not lasting:
        params = params.copy()
    if wire.id is _UNSET:
        return Notification(method, params)
    if wire.id is None:
        return Malformed("a request's id is a string or a number")
    return Request(wire.id, method, params)


def _answer_in(wire: _Wire, lasting: bool) -> Response | ErrorResponse | Malformed:
    if isinstance(wire.error, _Error):
        if wire.result is not _UNSET:
            return Malformed("a response has a result or an error, not both", _id(wire))
        raw_data = wire.error.data
        data = msgspec.Raw(bytes(raw_data)) if isinstance(raw_data, msgspec.Raw) else None
        return ErrorResponse(_id(wire), wire.error.code, wire.error.message, data)
    if isinstance(wire.result, msgspec.Raw):
        if not isinstance(wire.id, (int, str)):
            return Malformed("a response needs the id of its request")
        return Response(wire.id, wire.result if lasting else wire.result.copy())
    return Malformed("a message needs a method, a result or an error", _id(wire))


def _id(wire: _Wire) -> MessageId | None:
    return wire.id if isinstance(wire.id, (int, str)) else None


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


def encode_request(id_: MessageId, method: str, params: msgspec.Raw) -> bytes:
    """Encode a request, as `encode` does."""
    return _encoder.encode(_Wire("2.0", id_, method, params))


def encode_response(id_: MessageId, result: msgspec.Raw) -> bytes:
    """Encode the answer to a request, as `encode` does."""
    return _encoder.encode(_Wire("2.0", id_, _UNSET, _UNSET, result))


def raw(value: Any) -> msgspec.Raw:
    """Encode any value for a `params` or `result` field."""
    return value if isinstance(value, msgspec.Raw) else msgspec.Raw(_encoder.encode(value))


class LineSplitter:
    """Cuts a byte stream into lines, however the bytes arrive. Buffers at most `max_bytes`.

    A longer line is reported once, at its end, as `Oversized`.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._buffer = bytearray()
        self._size = 0
        self._scanner: OversizedScanner | None = None  # set while an oversized line is being skipped

    @property
    def buffered_bytes(self) -> int:
        """Bytes buffered of an unfinished line."""
        return len(self._buffer)

    def whole_line(self, data: bytes) -> bytes | None:
        """Return the line that `data` is, without its end, if it is exactly one; else None: `feed` it.

        Nearly all messages but results come so.
        """
        size = len(data)
        if self._buffer or self._scanner is not None or data.find(b"\n") != size - 1 or size > self.max_bytes:
            return None
        return data.strip(_ENDS) or None

    def feed(self, data: bytes) -> Iterator[bytes | Oversized]:
        """Take bytes, and yield each finished line without its end. Empty lines are skipped."""
        *ended, rest = data.split(b"\n")
        whole = not self._buffer and self._scanner is None
        for part in ended:
            # the common case: the line came in one piece
            fits = whole and len(part) <= self.max_bytes
            line = part.strip(_BLANKS) if fits else self._finish(part)
            whole = True
            if line:
                yield line
        if rest:
            self._keep(rest)

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._scanner is not None:
            self._scanner.feed(part)
            return
        self._buffer += part
        if self._size > self.max_bytes:
            self._scanner = OversizedScanner()
            self._scanner.feed(self._buffer)
            self._buffer = bytearray()

    def _finish(self, part: bytes) -> bytes | Oversized:
        self._keep(part)
        line, size, scanner = self._buffer, self._size, self._scanner
        self._buffer, self._size, self._scanner = bytearray(), 0, None
        return bytes(line).strip(_BLANKS) if scanner is None else scanner.found(size)


def describe_oversized(frame: bytes) -> Oversized:
    """Find id, method and `params.run_id` of a whole message that is too large to parse."""
    scanner = OversizedScanner()
    scanner.feed(frame)
    return scanner.found(len(frame))
