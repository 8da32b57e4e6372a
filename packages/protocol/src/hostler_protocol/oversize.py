"""Find id, method and run of a message that is too large to be parsed.

The scanner reads the message's JSON in pieces as they arrive, and keeps none of them. Members may come in any
order, so it reads to the end of the message unless it has found enough earlier. It skips deep nesting and
long strings, and reads a bounded number of tokens.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.limits import MAX_OVERSIZED_TOKENS

MessageId = int | str

_LONGEST_SCALAR_BYTES = 1024
"""A longer string or number is neither id nor method nor run."""
# Possessive quantifiers: an unterminated string must not be tried again from each of its quotes.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{}\[\]:,]|[^\s{}\[\]:,"]++', re.DOTALL)
_DEEP = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{\[]++|[}\]]++', re.DOTALL)
_STRING_REST = re.compile(rb'(?:[^"\\]++|\\.)*+"?', re.DOTALL)


class Oversized(msgspec.Struct, frozen=True):
    """A message over the limit: its size in bytes, and its id, method and run if they were found."""

    size: int
    id: MessageId | None = None
    method: str | None = None
    run_id: str | None = None


class OversizedScanner:
    """Finds `id`, `method` and `params.run_id`: `feed` the message, then call `found`."""

    def __init__(self) -> None:
        self._budget = MAX_OVERSIZED_TOKENS
        self._carry = b""  # a token that the last piece cut
        self._in_string = False  # inside a string too long to matter
        self._depth = 0
        self._outer: str | None = None  # the member of the message we are in
        self._key: str | None = None  # the last string that may turn out to be a key
        self._expect_value = False
        self._found: dict[str, Any] = {}

    @property
    def done(self) -> bool:
        """Whether reading on cannot find more."""
        found = self._found
        if self._budget <= 0:
            return True
        if "method" not in found:
            return False
        return "id" in found or (found["method"] == "run/result" and "run_id" in found)

    def feed(self, piece: bytes | bytearray) -> None:
        """Read one piece of the message."""
        if self.done:
            return
        data = self._carry + piece
        self._carry = b""
        at = 0
        while at < len(data) and not self.done:
            if self._in_string:
                at = self._skip_string(data, at)
                continue
            pattern = _TOKEN if self._depth <= 2 else _DEEP
            match = pattern.search(data, at)
            if match is None:
                return
            token, at = match.group(), match.end()
            self._budget -= 1
            if _is_cut(token, at == len(data)):
                self._keep_cut(data[match.start() :])
                return
            self._take(token)

    def found(self, size: int) -> Oversized:
        """Return what was found. `size` of the whole message in bytes."""
        id_, method, run_id = (self._found.get(name) for name in ("id", "method", "run_id"))
        return Oversized(
            size,
            id_ if isinstance(id_, int | str) and not isinstance(id_, bool) else None,
            method if isinstance(method, str) else None,
            run_id if isinstance(run_id, str) else None,
        )

    def _keep_cut(self, rest: bytes) -> None:
        if len(rest) <= _LONGEST_SCALAR_BYTES:
            self._carry = rest
        elif rest[:1] == b'"':
            self._in_string = True
            self._carry = b"\\" if _ends_in_escape(rest) else b""
        else:
            self._carry = rest[:1]  # a number or a word that long is noise; what remains of it is too

    def _skip_string(self, data: bytes, at: int) -> int:
        match = _STRING_REST.match(data, at)
        end = at if match is None else match.end()
        if match is not None and match.group().endswith(b'"') and _closed(b'"' + match.group()):
            self._in_string = False
            self._key, self._expect_value = None, False
        elif end < len(data):  # a lone backslash at the cut
            self._carry = data[end:]
            return len(data)
        return end

    def _take(self, token: bytes) -> None:
        first = token[:1]
        if first in b"{[":
            self._depth += len(token)
            self._key, self._expect_value = None, False
        elif first in b"}]":
            self._depth -= len(token)
            self._key, self._expect_value = None, False
        elif self._depth > 2:
            return
        elif first == b":":
            self._expect_value = True
            if self._depth == 1:
                self._outer = self._key
        elif first == b",":
            self._key, self._expect_value = None, False
        elif self._expect_value:
            self._take_value(token)
            self._expect_value = False
        else:
            text = _scalar(token)
            self._key = text if isinstance(text, str) else None

    def _take_value(self, token: bytes) -> None:
        if self._depth == 1 and self._key in {"id", "method"}:
            self._found.setdefault(self._key or "", _scalar(token))
        elif self._depth == 2 and self._outer == "params" and self._key == "run_id":
            self._found.setdefault("run_id", _scalar(token))


def _is_cut(token: bytes, at_end: bool) -> bool:
    if token[:1] == b'"':
        return not _closed(token)  # also where a lone backslash follows as the last byte
    return at_end and token[:1] not in b"{}[]:,"


def _ends_in_escape(text: bytes) -> bool:
    return (len(text) - len(text.rstrip(b"\\"))) % 2 == 1


def _closed(string: bytes) -> bool:
    return len(string) > 1 and string.endswith(b'"') and not _ends_in_escape(string[:-1])


def _scalar(token: bytes) -> Any:
    if len(token) > _LONGEST_SCALAR_BYTES:
        return None
    try:
        return msgspec.json.decode(token)
    except DECODE_ERRORS:
        return None
