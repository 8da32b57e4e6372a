"""Decoder of JSON values one after the other, with or without line ends: bytes in, values out. No IO."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hostler_sdk.services.failures import ServiceFailure
from hostler_sdk.services.limits import MAX_LINE_BYTES

_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')
_OPENING = frozenset(b"{[")
_QUOTE = ord('"')
_BLANK = b" \t\r\n\xef\xbb\xbf"


class JsonSequenceDecoder:
    """Takes pieces, cut anywhere, and returns the objects and arrays that are complete.

    JSON lines are such a sequence too. Raises ServiceFailure for what is not JSON, and for a value over the
    limit.
    """

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()
        self._seen = 0
        self._depth = 0
        self._in_text = False

    @property
    def is_between(self) -> bool:
        """Whether nothing of a value has come that is not complete."""
        return not self._rest.strip(_BLANK)

    def feed(self, piece: bytes) -> list[Any]:
        """Take a piece, and return the values that it completes."""
        self._rest += piece
        values: list[Any] = []
        while (end := self._next_end()) is not None:
            values.append(_decoded(bytes(self._rest[:end])))
            del self._rest[:end]
            self._seen = 0
        if len(self._rest) > self._max_bytes:
            raise ServiceFailure(
                "answer_too_long", f"one JSON value has over {self._max_bytes:,} bytes, the maximum"
            )
        return values

    def _next_end(self) -> int | None:
        """Scan on, and return where the value that began ends; None: not yet."""
        if not self._depth and (head := bytes(self._rest[:64]).lstrip(_BLANK)) and head[0] not in _OPENING:
            raise ServiceFailure("response_invalid", f"its answer is not JSON: it begins with {_shown(head)}")
        while True:
            pattern = _INSIDE if self._in_text else _OUTSIDE
            found = pattern.search(self._rest, self._seen)
            if found is None:
                self._seen = len(self._rest)
                return None
            byte = self._rest[found.start()]
            self._seen = found.end()
            if self._in_text and byte != _QUOTE:  # a backslash, and what it escapes
                if self._seen == len(self._rest):
                    self._seen = found.start()
                    return None
                self._seen += 1
            elif byte == _QUOTE:
                self._in_text = not self._in_text
            else:
                self._depth += 1 if byte in _OPENING else -1
                if self._depth == 0:
                    return self._seen


def _decoded(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text.strip(_BLANK))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ServiceFailure("response_invalid", f"its answer is not JSON: {error}") from None


def _shown(head: bytes) -> str:
    return repr(head[:24].decode(errors="replace"))
