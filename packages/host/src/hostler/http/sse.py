"""Committed results as server-sent events: the bytes, no IO.

`id` is the host's sequence, so `Last-Event-ID` resumes exactly; `event` is the result's type and `data` its
JSON, encoded once when it was stored.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

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
"""One event of a stream, for the documentation."""
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


class Piece(NamedTuple):
    """Some events of a stream, as they are and framed as a chunk of HTTP/1.1; `last`: their last sequence."""

    body: bytes
    chunk: bytes
    last: int

    @classmethod
    def of(cls, body: bytes, last: int = 0) -> Piece:
        """Frame `body`."""
        return cls(body, b"%x\r\n%b\r\n" % (len(body), body), last)


COMMENT = Piece.of(b": keep-alive\n\n")


def last_event_id(header: str | None, query: str | None) -> int:
    """The sequence a client has seen last; 0 where it says nothing. InvalidArgumentError otherwise."""
    text = header if header is not None else query
    if text is None or text == "":
        return 0
    # The length first: int() of a text of megabytes is slow.
    if len(text) <= 16 and text.isascii() and text.isdecimal() and int(text) <= MAX_INTEGER:
        return int(text)
    raise InvalidArgumentError(
        f"Last-Event-ID {text[:40]!r} is not the id of an event of this stream: "
        "it is a whole number, the sequence of the last result that was seen"
    )


@lru_cache(256)
def _event_name(result_type: str) -> bytes:
    # A runner names the type; a line end in it would let it write fields of its own.
    return result_type.encode("utf-8", "replace").translate(_LINE_ENDS)


def frame(result: StoredResult) -> bytes:
    """One result as one event. Line ends in its JSON can only be blanks between tokens."""
    data = result.json
    if b"\n" in data or b"\r" in data:
        data = data.translate(_LINE_ENDS)
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (result.sequence, _event_name(result.type), data)


def pieces_of(batch: list[StoredResult]) -> list[Piece]:
    """The events of a batch in pieces of about STREAM_WRITE_BYTES, so that one write stays small."""
    pieces: list[Piece] = []
    waiting: list[bytes] = []
    size = 0
    for result in batch:
        event = frame(result)
        waiting.append(event)
        size += len(event)
        if size >= STREAM_WRITE_BYTES:
            pieces.append(Piece.of(b"".join(waiting), result.sequence))
            waiting, size = [], 0
    if waiting:
        pieces.append(Piece.of(b"".join(waiting), batch[-1].sequence))
    return pieces
