"""The framing of LangBot's plugin wire: one JSON object a line, large ones in chunks. Pure.

A message of over 16 KiB is sent as `chunk_start`, `chunk_data` lines and `chunk_end`. Lines that are no JSON
object are ignored, since a plugin may print to the same standard output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""A message, in bytes of UTF-8: the limit of LangBot's SDK on both sides. A line may not be longer either."""
CHUNK_BYTES = 16 * 1024
"""A message of more bytes is sent in chunks of at most so many, as LangBot's SDK does. A line with a chunk,
whose quotes are escaped once more, stays below the 64 KiB that the SDK reads at once."""
MAX_CHUNKS = 4096
"""Lines of one chunked message; a peer that sends smaller pieces than that is hostile."""

_HALF = re.compile("[\ud800-\udfff]")


class FramingError(Exception):
    """The peer broke the framing; the connection cannot go on. The text says how."""


class MessageTooLarge(Exception):  # noqa: N818 - names the fact
    """A message is over MAX_MESSAGE_BYTES and was not sent."""


class _Chunked:
    """A chunked message that is being received."""

    def __init__(self, header: dict[str, Any]) -> None:
        total = header.get("total_size")
        if isinstance(total, bool) or not isinstance(total, int) or not 0 <= total <= MAX_MESSAGE_BYTES:
            raise FramingError(
                f"a chunked message states the size {str(total)[:40]!r}; at most {MAX_MESSAGE_BYTES:,} bytes"
            )
        self.total = total
        self.received = 0
        self.parts: list[str] = []

    def add(self, line: dict[str, Any]) -> None:
        """Take a `chunk_data` line. Raises FramingError."""
        text = line.get("data")
        if not isinstance(text, str):
            raise FramingError("a chunk has no text")
        if line.get("offset") != self.received:
            raise FramingError(f"a chunk begins at {str(line.get('offset'))[:40]}, not at {self.received}")
        self.received += len(text.encode("utf-8", "surrogatepass"))
        self.parts.append(text)
        if self.received > self.total:
            raise FramingError(f"a chunked message has more than the {self.total:,} bytes that it stated")
        if len(self.parts) > MAX_CHUNKS:
            raise FramingError(f"a chunked message comes in over {MAX_CHUNKS:,} chunks")

    def whole(self) -> str:
        """Return the text at `chunk_end`. Raises FramingError if some of it is missing."""
        if self.received != self.total:
            raise FramingError(f"a chunked message has {self.received:,} of the {self.total:,} bytes stated")
        return "".join(self.parts)


class FrameReader:
    """Takes bytes, cut anywhere, and returns the messages."""

    def __init__(self) -> None:
        self.ignored = 0
        """Lines that were no message."""
        self._buffer = bytearray()
        self._searched = 0
        self._chunked: _Chunked | None = None

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the messages that are complete. Raises FramingError, after which nothing may follow."""
        self._buffer += data
        while (end := self._buffer.find(b"\n", self._searched)) >= 0:
            self._check_length(end)
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            message = self._take(line)
            if message is not None:
                yield message
        self._searched = len(self._buffer)
        self._check_length(self._searched)

    @staticmethod
    def _check_length(length: int) -> None:
        if length > MAX_MESSAGE_BYTES:
            raise FramingError(f"a line has over {MAX_MESSAGE_BYTES:,} bytes")

    def _take(self, line: bytes) -> dict[str, Any] | None:
        found = _object_of(line)
        if found is None:
            self.ignored += bool(line.strip())
            return None
        match found.get("type"):
            case "chunk_start" if "action" not in found and "code" not in found:
                if self._chunked is not None:
                    raise FramingError("a chunked message begins within another one")
                self._chunked = _Chunked(found)
            case "chunk_data" if self._chunked is not None:
                self._chunked.add(found)
            case "chunk_end" if self._chunked is not None:
                text, self._chunked = self._chunked.whole(), None
                whole = _object_of(text)
                self.ignored += whole is None
                return whole
            case _ if "action" in found or "code" in found:
                return found
            case _:
                self.ignored += 1
        return None


def _object_of(line: bytes | str) -> dict[str, Any] | None:
    """Return a JSON object; None for any other text."""
    try:
        text = line.decode() if isinstance(line, bytes) else line
        found = json.loads(text, parse_constant=_no_number)
        if isinstance(found, dict):
            return _repaired(found) if "\\ud" in text.lower() or _HALF.search(text) else found
    except (ValueError, RecursionError):
        pass
    return None


def _no_number(_: str) -> None:
    """NaN and infinities, which Python's encoder writes and JSON does not have, become null."""


def _repaired(value: Any) -> Any:
    """Return the value with halves of surrogate pairs, which UTF-8 cannot encode, as question marks."""
    if isinstance(value, str):
        return _HALF.sub("?", value)
    if isinstance(value, list):
        return [_repaired(one) for one in value]
    if isinstance(value, dict):
        return {_repaired(key): _repaired(one) for key, one in value.items()}
    return value


def encode(message: dict[str, Any]) -> bytes:
    """Return the lines of a message of plain JSON values. Raises MessageTooLarge."""
    body = json.dumps(message, allow_nan=False)  # ASCII, so that it can be cut anywhere
    if len(body) > MAX_MESSAGE_BYTES:
        raise MessageTooLarge(
            f"it has {len(body):,} bytes as JSON; at most {MAX_MESSAGE_BYTES:,} are possible"
        )
    if len(body) <= CHUNK_BYTES:
        return body.encode() + b"\n"
    lines = [json.dumps({"type": "chunk_start", "total_size": len(body)})]
    lines += [
        json.dumps({"type": "chunk_data", "data": body[start : start + CHUNK_BYTES], "offset": start})
        for start in range(0, len(body), CHUNK_BYTES)
    ]
    lines.append(json.dumps({"type": "chunk_end"}))
    return "".join(f"{line}\n" for line in lines).encode()
