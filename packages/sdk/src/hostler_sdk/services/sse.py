"""Decoder of server-sent events, as the WHATWG describes them: bytes in, events out. No IO."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from hostler_sdk.services.failures import ServiceFailure
from hostler_sdk.services.items import Item
from hostler_sdk.services.json_values import parse_json, reason_in, shortened
from hostler_sdk.services.limits import MAX_LINE_BYTES

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event. `event` is empty if none is named; `data` are the data lines, joined by line ends."""

    event: str
    data: str


class SseDecoder:
    """Takes pieces of a stream, cut anywhere. Raises ServiceFailure for a line or event over the limit.

    Unlike a browser, `finish` returns an event whose blank line is missing: some services leave out the last.
    """

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()
        self._seen = 0
        self._after_cr = False
        self._begun = False
        self._event = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        """Take a piece, and return the events that it completes."""
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        self._rest += piece
        start = 0
        events: list[ServerEvent] = []
        while (found := _LINE_END.search(self._rest, max(start, self._seen))) is not None:
            events += self._line(bytes(self._rest[start : found.start()]))
            start = self._seen = found.end()
            self._after_cr = found.group() == b"\r" and start == len(self._rest)
        del self._rest[:start]
        self._seen = len(self._rest)
        if len(self._rest) > self._max_bytes:
            raise self._too_long()
        return iter(events)

    def finish(self) -> Iterator[ServerEvent]:
        """End the stream, and return the last event if it lacks its blank line."""
        rest = bytes(self._rest)
        self._rest.clear()
        events = [*self._line(rest), *self._line(b"")] if rest else self._line(b"")
        return iter(events)

    def _line(self, line: bytes) -> list[ServerEvent]:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        self._size += len(line)
        if len(line) > self._max_bytes or self._size > self._max_bytes:
            raise self._too_long()
        try:
            name, _, value = line.decode().partition(":")
        except UnicodeDecodeError as error:
            raise ServiceFailure("response_invalid", f"its stream is not UTF-8: {error.reason}") from None
        value = value.removeprefix(" ")
        if name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
        return []

    def _dispatch(self) -> list[ServerEvent]:
        found = [ServerEvent(self._event, "\n".join(self._data))] if self._data else []
        self._event, self._data, self._size = "", [], 0
        return found

    def _too_long(self) -> ServiceFailure:
        return ServiceFailure(
            "answer_too_long", f"one event of its stream has over {self._max_bytes:,} bytes, the maximum"
        )


class SseParser:
    """Base of parsers of services that stream server-sent events with a JSON object in each."""

    def __init__(self) -> None:
        self._decoder = SseDecoder()

    @abstractmethod
    def take(self, event: str, data: dict[str, object]) -> Iterator[Item]:
        """Return the items of one event; `event` is empty if the stream names none."""

    def body(self, data: dict[str, object]) -> Iterator[Item]:
        """Return the items of an answer that is one JSON object instead of a stream: by default an error."""
        said = reason_in(data)
        raise ServiceFailure(
            "service_error", f"it answered with an error instead of a stream: {shortened(said)}"
        )

    def plain(self, event: ServerEvent) -> Iterator[Item] | None:
        """Return the items of an event without a JSON object, like `[DONE]`; None: it has to be one."""
        return iter(()) if event.data.strip() in ("", "[DONE]") else None

    def feed(self, data: bytes) -> Iterator[Item]:
        """Take a piece of the answer."""
        for event in self._decoder.feed(data):
            yield from self._event(event)

    def finish(self) -> Iterator[Item]:
        """End the answer. What cannot be read at its end was cut off, so that the answer is not done."""
        for event in self._decoder.finish():
            try:
                msgspec.json.decode(event.data)
            except msgspec.DecodeError:
                return
            yield from self._event(event)

    def _event(self, event: ServerEvent) -> Iterator[Item]:
        items = self.plain(event)
        if items is None:
            items = self.take(event.event, parse_json(event.data))
        return items
