"""Tables of the requests of one connection that wait for an answer: our own, and the peer's."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from hostler_protocol.errors import (
    JSONRPC_FAULT,
    JSONRPC_INVALID_REQUEST,
    HostlerError,
    InvalidArgumentError,
    RateLimitedError,
)
from hostler_protocol.frames import MessageId
from hostler_protocol.incoming import Refused, StreamArrived, Warned
from hostler_protocol.limits import MAX_OPEN_REQUEST_BYTES, MAX_OPEN_REQUESTS, REMEMBERED_GIVEN_UP
from hostler_protocol.methods import StreamNote
from hostler_protocol.run_flows import RunFlow


class OwnRequest(msgspec.Struct):
    """A request that we made. `start` is the run that a `run/start` starts."""

    method: str
    run_id: str | None = None
    start: RunFlow | None = None
    pieces: int = 0
    """Pieces of a streaming answer received so far."""


class PeerRequest(msgspec.Struct):
    """A request of the peer; `size` of its parameters in bytes."""

    method: str
    size: int
    run_id: str | None = None
    pieces: int = 0
    """Pieces of a streaming answer sent so far."""


class OwnRequests:
    """Our open requests by id, and the ids of those last given up, whose late answers are dropped."""

    def __init__(self) -> None:
        self.open: dict[MessageId, OwnRequest] = {}
        self.given_up: OrderedDict[MessageId, None] = OrderedDict()

    def take_piece(self, note: StreamNote) -> StreamArrived | Warned | Refused | None:
        """Take a piece of a streaming answer. After a gap the request is refused, and closed.

        Return None if the request is not open: it was given up.
        """
        request = self.open.get(note.id)
        if request is None:
            return None
        if note.index < request.pieces:
            return Warned(f"piece {note.index} of the answer to {request.method} repeated: dropped")
        if note.index > request.pieces:
            del self.open[note.id]
            text = f"piece {request.pieces} of the answer to {request.method} never arrived"
            return Refused(note.id, request.method, HostlerError(text))
        request.pieces += 1
        return StreamArrived(note.id, note.index, msgspec.Raw(bytes(note.chunk)))

    def give_up(self, id_: MessageId) -> None:
        """Close a request whose answer is no longer needed. An unknown id is ignored."""
        if self.open.pop(id_, None) is not None:
            self.given_up[id_] = None
            while len(self.given_up) > REMEMBERED_GIVEN_UP:
                self.given_up.popitem(last=False)

    def was_given_up(self, id_: MessageId | None) -> bool:
        """Whether a request was given up. True only once per id: a second answer is an error of the peer."""
        if id_ is None or id_ not in self.given_up:
            return False
        del self.given_up[id_]
        return True

    def forget_run(self, run_id: str) -> None:
        """Close the calls of a parked run: they are never answered."""
        for id_ in [id_ for id_, sent in self.open.items() if sent.run_id == run_id]:
            del self.open[id_]

    def clear(self) -> None:
        """Drop all: the connection is over."""
        self.open.clear()
        self.given_up.clear()


class PeerRequests:
    """The open requests of the peer by id, within MAX_OPEN_REQUESTS and MAX_OPEN_REQUEST_BYTES."""

    def __init__(self) -> None:
        self.open: dict[MessageId, PeerRequest] = {}
        self.bytes = 0

    def refusal(self, id_: MessageId, size: int) -> tuple[int, HostlerError] | None:
        """Return the JSON-RPC code and the error if another request cannot be added; None if it can."""
        if id_ in self.open:
            text = f"request id {id_!r} is still open; ids must be unique"
            return JSONRPC_INVALID_REQUEST, InvalidArgumentError(text)
        # a single request is accepted whatever its size, which the message size bounds
        if len(self.open) >= MAX_OPEN_REQUESTS or (self.open and self.bytes + size > MAX_OPEN_REQUEST_BYTES):
            text = f"{len(self.open)} requests of {self.bytes:,} bytes are open; wait for answers first"
            return JSONRPC_FAULT, RateLimitedError(text, 1.0)
        return None

    def add(self, id_: MessageId, request: PeerRequest) -> None:
        """Add a request that will be answered."""
        self.open[id_] = request
        self.bytes += request.size

    def close(self, id_: MessageId) -> PeerRequest | None:
        """Remove a request, to answer or drop it. Return None if it is not open."""
        request = self.open.pop(id_, None)
        if request is not None:
            self.bytes -= request.size
        return request

    def of_run(self, run_id: str) -> list[MessageId]:
        """Return the open calls of a run. Its `run/start` is no call."""
        return [id_ for id_, one in self.open.items() if one.run_id == run_id and one.method != "run/start"]

    def forget_run(self, run_id: str) -> None:
        """Close the calls of a parked run: they are never answered."""
        for id_ in self.of_run(run_id):
            self.close(id_)

    def clear(self) -> None:
        """Drop all: the connection is over."""
        self.open.clear()
        self.bytes = 0
