"""The runs of one connection: the order and the credit of their results, and which of them are over."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from hostler_protocol.limits import MAX_INTEGER, MAX_MISSING_SEQUENCES, REMEMBERED_ENDED_RUNS


@dataclass(slots=True)
class RunFlow:
    """Order and credit of one run's results.

    `live` is False from `run/start` to its answer where an earlier attempt ran on the same connection: what
    comes in between is from that attempt.
    """

    run_id: str
    credit: int
    live: bool = True
    last: int = 0
    missing: set[int] = field(default_factory=set)

    def take_next(self, sequence: int) -> bool:
        """Take the next result where it is in order and within the credit. False: nothing was changed."""
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


class RunFlows:
    """The active runs by id, and the last that have ended."""

    def __init__(self) -> None:
        self.active: dict[str, RunFlow] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()

    def begin(self, run_id: str, credit: int, *, may_overlap: bool) -> RunFlow:
        """Add a run. `may_overlap`: an earlier attempt of it may still send until `run/start` is answered."""
        live = not (may_overlap and run_id in self._ended)
        flow = self.active[run_id] = RunFlow(run_id, credit, live)
        return flow

    def owns(self, run_id: str) -> bool:
        """Whether the peer may send something about this run."""
        flow = self.active.get(run_id)
        return flow is not None and flow.live

    def end(self, run_id: str) -> None:
        """Forget an active run but for its id; of the ended ones the oldest are forgotten wholly."""
        if self.active.pop(run_id, None) is not None:
            self._ended[run_id] = None
            self._ended.move_to_end(run_id)
            while len(self._ended) > REMEMBERED_ENDED_RUNS:
                self._ended.popitem(last=False)

    def was_active(self, run_id: str) -> bool:
        """Whether the run has ended on this connection, perhaps before another attempt began here."""
        return run_id in self._ended
