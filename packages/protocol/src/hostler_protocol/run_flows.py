"""The runs of one connection: order and credit of their results, and the ids of runs that have ended."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from hostler_protocol.limits import MAX_INTEGER, MAX_MISSING_SEQUENCES, REMEMBERED_ENDED_RUNS


@dataclass(slots=True)
class RunFlow:
    """Order and credit of one run's results.

    `live` is False between `run/start` and its answer if an earlier attempt of the run was on the same
    connection: messages that arrive in between are from that attempt.
    """

    run_id: str
    credit: int
    live: bool = True
    last: int = 0
    missing: set[int] = field(default_factory=set)

    def take_next(self, sequence: int) -> bool:
        """Count the next result. Change nothing and return False if it is out of order or over the credit."""
        if sequence != self.last + 1 or self.credit <= 0 or not self.live or sequence > MAX_INTEGER:
            return False
        self.last = sequence
        self.credit -= 1
        return True

    def note(self, sequence: int) -> str | None:
        """Count a result. Return None if it is in order, 'gap' or 'late' to warn, 'repeated' to drop it."""
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


class RunFlows:
    """The active runs by id, and the ids of those last ended."""

    def __init__(self) -> None:
        self.active: dict[str, RunFlow] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()

    def begin(self, run_id: str, credit: int, *, may_overlap: bool) -> RunFlow:
        """Add a run. `may_overlap`: an earlier attempt may still send until `run/start` is answered."""
        live = not (may_overlap and run_id in self._ended)
        flow = self.active[run_id] = RunFlow(run_id, credit, live)
        return flow

    def owns(self, run_id: str) -> bool:
        """Whether the peer may name this run in its messages."""
        flow = self.active.get(run_id)
        return flow is not None and flow.live

    def end(self, run_id: str) -> None:
        """Remove an active run, and remember its id. An unknown id is ignored."""
        if self.active.pop(run_id, None) is not None:
            self._ended[run_id] = None
            self._ended.move_to_end(run_id)
            while len(self._ended) > REMEMBERED_ENDED_RUNS:
                self._ended.popitem(last=False)

    def was_active(self, run_id: str) -> bool:
        """Whether an attempt of the run has ended on this connection; another one may be active."""
        return run_id in self._ended
