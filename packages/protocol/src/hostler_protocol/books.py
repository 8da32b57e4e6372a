"""The books of one connection: the order and credit of a run's results, and the open requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from hostler_protocol.frames import LineSplitter, MessageId
from hostler_protocol.incoming import Broken, Incoming
from hostler_protocol.limits import (
    MAX_INTEGER,
    MAX_MISSING_SEQUENCES,
    MAX_REASON_CHARS,
    PROTOCOL_VERSION,
    REMEMBERED_ENDED_RUNS,
    REMEMBERED_GIVEN_UP,
    Limits,
)
from hostler_protocol.methods import RunStartParams, Side, VersionRange
from hostler_protocol.states import State


@dataclass(slots=True)
class RunFlow:
    """Order and credit of one run's results.

    `live` is False from `run/start` to its answer where an earlier attempt ran on the same connection:
    what comes in between is that attempt's.
    """

    run_id: str
    credit: int
    live: bool = True
    last: int = 0
    missing: set[int] = field(default_factory=set)

    def take_next(self, sequence: int) -> bool:
        """Take the next result where it is in order and within the credit; False: nothing was changed."""
        if sequence != self.last + 1 or self.credit <= 0 or not self.live or sequence > MAX_INTEGER:
            return False
        self.last = sequence
        self.credit -= 1
        return True

    def note(self, sequence: int) -> str | None:
        """Take a sequence number. 'repeated' means drop; 'gap' and 'late' mean warn; None: in order."""
        if sequence == self.last + 1:
            self.last = sequence
            return None
        if sequence > self.last:
            room = MAX_MISSING_SEQUENCES - len(self.missing)
            skipped = range(self.last + 1, sequence)
            self.missing.update(skipped[-room:] if room else ())
            self.last = sequence
            return "gap"
        if sequence in self.missing:
            self.missing.discard(sequence)
            return "late"
        return "repeated"


@dataclass(slots=True)
class Sent:
    """A request of ours that waits for its answer."""

    method: str
    run_id: str | None = None
    start: RunFlow | None = None
    """What a `run/start` starts."""
    pieces: int = 0
    """Pieces of a streaming answer that arrived."""


@dataclass(slots=True)
class Open:
    """A request of the peer that waits for our answer."""

    method: str
    size: int
    run_id: str | None = None
    pieces: int = 0
    """Pieces of a streaming answer that were sent."""

    def holds(self, run_id: str) -> bool:
        """Whether this is a Host API call of that run."""
        return self.run_id == run_id and self.method != "run/start"


class Books:
    """What both directions read and write: the state, the runs and the open requests."""

    def __init__(self, side: Side, limits: Limits | None = None) -> None:
        self.side = side
        self.limits = limits or Limits()
        self.state = State.CONNECTED
        self.foreign_messages = 0
        """Messages of the peer that named a run which is not this connection's."""
        self._lines = LineSplitter(self.limits.max_message_bytes)
        self._offered = VersionRange(min=PROTOCOL_VERSION, max=PROTOCOL_VERSION)
        self._next_id = 0
        self._sent: dict[MessageId, Sent] = {}
        self._given_up: OrderedDict[MessageId, None] = OrderedDict()
        self._open: dict[MessageId, Open] = {}
        self._open_bytes = 0
        self._runs: dict[str, RunFlow] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._out: list[bytes] = []
        self._out_bytes = 0

    @property
    def runs(self) -> frozenset[str]:
        """The runs that are active on this connection."""
        return frozenset(self._runs)

    @property
    def buffered_bytes(self) -> int:
        """Bytes held of a message that has not come to its end."""
        return self._lines.buffered_bytes

    def credit(self, run_id: str) -> int:
        """How many results may still be sent for a run; 0 for an unknown one."""
        flow = self._runs.get(run_id)
        return 0 if flow is None else flow.credit

    def spend_credit(self, run_id: str) -> None:
        """Count one result as sent (plugin side)."""
        if flow := self._runs.get(run_id):
            flow.credit -= 1

    def end_run(self, run_id: str) -> None:
        """Forget a run: it ended, was fenced or could not be started. Late messages are ignored.

        Its open calls can still be answered. `run/start` makes the same id live again.
        """
        if self._runs.pop(run_id, None) is not None:
            self._ended[run_id] = None
            self._ended.move_to_end(run_id)
            while len(self._ended) > REMEMBERED_ENDED_RUNS:
                self._ended.popitem(last=False)

    def has_ended(self, run_id: str) -> bool:
        """Whether a run was active on this connection and is over; the oldest are forgotten."""
        return run_id in self._ended and run_id not in self._runs

    def close(self, reason: str) -> Iterator[Incoming]:
        """The transport is gone, or must go: nothing is sent or received from here on."""
        if self.state is not State.CLOSED:
            self.state = State.CLOSED
            self._lines = LineSplitter(0)
            self._sent.clear()
            self._given_up.clear()
            self._open.clear()
            self._open_bytes = 0
            yield Broken(reason[:MAX_REASON_CHARS])

    def data_to_send(self) -> bytes:
        """Take the bytes of answers that the link made by itself."""
        data = b"".join(self._out)
        self._out.clear()
        self._out_bytes = 0
        return data

    def _park(self, run_id: str) -> None:
        # the calls of a parked run are never answered, so both sides forget them
        self.end_run(run_id)
        for id_ in [id_ for id_, sent in self._sent.items() if sent.run_id == run_id]:
            del self._sent[id_]
        for id_ in [id_ for id_, open_ in self._open.items() if open_.holds(run_id)]:
            self._close_request(id_)

    def _give_up(self, id_: MessageId) -> None:
        if self._sent.pop(id_, None) is not None:
            self._given_up[id_] = None
            while len(self._given_up) > REMEMBERED_GIVEN_UP:
                self._given_up.popitem(last=False)

    def _was_given_up(self, id_: MessageId) -> bool:
        """Whether this is the late answer of a request that was given up; it is forgotten with it."""
        if id_ not in self._given_up:
            return False
        del self._given_up[id_]
        return True

    def _close_request(self, id_: MessageId) -> Open | None:
        open_ = self._open.pop(id_, None)
        if open_ is not None:
            self._open_bytes -= open_.size
        return open_

    def _new_flow(self, start: RunStartParams) -> RunFlow:
        run_id = start.context.run_id
        # an earlier attempt may still be talking: the answer to `run/start` tells the two apart
        waits = self.side is Side.HOST and run_id in self._ended
        flow = self._runs[run_id] = RunFlow(run_id, start.credit, live=not waits)
        return flow

    def _owns(self, run_id: str) -> bool:
        flow = self._runs.get(run_id)
        return flow is not None and flow.live
