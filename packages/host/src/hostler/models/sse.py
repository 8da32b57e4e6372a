"""Parse server-sent events. Sans-IO: bytes in, cut anywhere, and events out."""

from __future__ import annotations

import re

from hostler.domain.record import Record

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class SseError(ValueError):
    """The bytes are not an event stream, or one event is too large."""


class ServerSentEvent(Record):
    """One event: its data lines, joined by line feeds, and its name."""

    data: str
    event: str = "message"


class SseParser:
    """Parses `text/event-stream` as in the HTML standard. `max_event_bytes` limits the buffer."""

    def __init__(self, max_event_bytes: int) -> None:
        self._limit = max_event_bytes
        self._line = bytearray()
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._event = b""
        self._skip_line_feed = False
        self._started = False

    def receive(self, data: bytes) -> list[ServerSentEvent]:
        """Parse bytes and return the events that they complete. SseError; the parser is then unusable."""
        if self._skip_line_feed and data:
            self._skip_line_feed = False
            data = data.removeprefix(b"\n")
        if b"\n" not in data and b"\r" not in data:
            self._line += data
            self._check_size()
            return []
        self._skip_line_feed = data.endswith(b"\r")
        *lines, rest = _LINE_END.split(data)
        lines[0] = bytes(self._line) + lines[0]
        self._line = bytearray(rest)
        events = [event for line in lines if (event := self._take(line)) is not None]
        self._check_size()
        return events

    def _take(self, line: bytes) -> ServerSentEvent | None:
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._data_bytes += len(value) + 1
            self._check_size()
        elif name == b"event":
            self._event = value
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        lines, name = self._data, self._event
        self._data, self._data_bytes, self._event = [], 0, b""
        if not lines:
            return None
        try:
            return ServerSentEvent(b"\n".join(lines).decode(), name.decode() or "message")
        except UnicodeDecodeError as error:
            raise SseError(f"an event is not UTF-8: {error}") from error

    def _check_size(self) -> None:
        if len(self._line) + self._data_bytes > self._limit:
            raise SseError(f"one event is larger than {self._limit:,} bytes")
