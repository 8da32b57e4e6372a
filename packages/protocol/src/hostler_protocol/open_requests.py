"""Tables of the requests of one connection that wait for an answer: our own, and the peer's."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from hostler_protocol.frames import MessageId
from hostler_protocol.limits import REMEMBERED_GIVEN_UP
from hostler_protocol.run_flows import RunFlow


@dataclass(slots=True)
class OwnRequest:
    """A request that we made. `start` is the run that a `run/start` starts."""

    method: str
    run_id: str | None = None
    start: RunFlow | None = None
    pieces: int = 0
    """Pieces of a streaming answer received so far."""


@dataclass(slots=True)
class PeerRequest:
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

    def give_up(self, id_: MessageId) -> None:
        """Close a request whose answer is no longer needed. An unknown id is ignored."""
        if self.open.pop(id_, None) is not None:
            self.given_up[id_] = None
            while len(self.given_up) > REMEMBERED_GIVEN_UP:
                self.given_up.popitem(last=False)

    def was_given_up(self, id_: MessageId) -> bool:
        """Whether a request was given up. True only once per id: a second answer is an error of the peer."""
        if id_ not in self.given_up:
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
    """The requests of the peer by id."""

    def __init__(self) -> None:
        self.open: dict[MessageId, PeerRequest] = {}
        self.bytes = 0

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

    def forget_run(self, run_id: str) -> None:
        """Close the calls of a parked run: they are never answered. Its `run/start` is no call."""
        calls = [id_ for id_, one in self.open.items() if one.run_id == run_id and one.method != "run/start"]
        for id_ in calls:
            self.close(id_)

    def clear(self) -> None:
        """Drop all: the connection is over."""
        self.open.clear()
        self.bytes = 0
