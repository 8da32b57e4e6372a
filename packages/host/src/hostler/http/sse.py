"""Committed results as server-sent events: the bytes, no IO.

`id` is the host's sequence, so `Last-Event-ID` resumes exactly; `event` is the result's type and `data` its
JSON, encoded once when it was stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from hostler.http.dialects.placeholders import Filling, filled
from hostler.http.limits import STREAM_WRITE_BYTES
from hostler.journal.feed import StoredResult
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.limits import MAX_INTEGER

EVENT_STREAM = "text/event-stream"
EVENT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]+$"},
        "event": {"type": "string"},
        "data": {"type": "string"},
    },
}
"""JSON Schema of one event of a stream."""
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


class EventChunk(NamedTuple):
    """Some events of a stream. `framed`: `body` as a chunk of HTTP/1.1; `last`: the last sequence."""

    body: bytes
    framed: bytes
    last: int

    @classmethod
    def of(cls, body: bytes, last: int = 0) -> EventChunk:
        """Frame `body`."""
        return cls(body, b"%x\r\n%b\r\n" % (len(body), body), last)

    def filled(self, filling: Filling) -> EventChunk:
        """Return the chunk as the reader with these values gets it."""
        return EventChunk.of(filled(self.body, filling), self.last) if filling else self


COMMENT = EventChunk.of(b": keep-alive\n")
"""A line alone: clients such as OpenAI's take a blank line after an event with an id for another event."""


def last_event_id(header: str | None, query: str | None) -> int:
    """Return the last sequence that a client has seen, 0 if it names none.

    InvalidArgumentError for no number.
    """
    text = header if header is not None else query
    if text is None or text == "":
        return 0
    # The length is checked first: int() of a text of megabytes is slow.
    if len(text) <= 16 and text.isascii() and text.isdecimal() and int(text) <= MAX_INTEGER:
        return int(text)
    raise InvalidArgumentError(
        f"Last-Event-ID {text[:40]!r} is not the id of an event of this stream: "
        "it is a whole number, the sequence of the last result received"
    )


@lru_cache(256)
def event_name(result_type: str) -> bytes:
    """Return the name of an event."""
    # A runner names the type; a line end in it would let the runner inject fields.
    return result_type.encode("utf-8", "replace").translate(_LINE_ENDS)


def frame(result: StoredResult) -> bytes:
    """Frame one result as one event. Line ends in its JSON can only be white space between tokens."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (
        result.sequence,
        event_name(result.type),
        on_one_line(result.json),
    )


def on_one_line(data: bytes) -> bytes:
    """Return JSON without line ends."""
    return data.translate(_LINE_ENDS) if b"\n" in data or b"\r" in data else data


def chunks_of(batch: list[StoredResult]) -> Iterator[EventChunk]:
    """Split the events of a batch into chunks of about STREAM_WRITE_BYTES, so that one write stays small."""
    waiting: list[bytes] = []
    size = 0
    for result in batch:
        event = frame(result)
        waiting.append(event)
        size += len(event)
        if size >= STREAM_WRITE_BYTES:
            yield EventChunk.of(b"".join(waiting), result.sequence)
            waiting, size = [], 0
    if waiting:
        yield EventChunk.of(b"".join(waiting), batch[-1].sequence)
