"""The runs of one connection: order and credit of their results, and the ids of runs that have ended."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from hostler_protocol.errors import RunFailure
from hostler_protocol.incoming import ResultArrived, RunBroken, Warned
from hostler_protocol.limits import MAX_INTEGER, MAX_MISSING_SEQUENCES, REMEMBERED_ENDED_RUNS
from hostler_protocol.methods import Side
from hostler_protocol.refusals import brief, result_too_large
from hostler_protocol.results import AgentRunResult


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

    def take(
        self, result: AgentRunResult, size: int, max_bytes: int, left_out: str | None = None
    ) -> list[ResultArrived | Warned] | RunBroken:
        """Count a result in any order, of `size` bytes. Return its events, or how it breaks the run.

        `left_out` says what was wrong with its usage.
        """
        if self.credit <= 0:
            return self._broken("runner.protocol", "more results were sent than the host had credited")
        self.credit -= 1
        if size > max_bytes:
            return self._broken("payload_too_large", result_too_large(size, max_bytes))
        sequence, previous = result.sequence, self.last
        if not 1 <= sequence <= MAX_INTEGER:
            reason = "a sequence starts at 1, rises by 1 and stays below 2**53"
            return self._broken("runner.protocol", reason)
        order = self.note(sequence)
        if order == "repeated":
            return [self._warning(f"result {sequence} repeated: dropped")]
        events: list[ResultArrived | Warned] = []
        if order is not None:
            what = "a gap" if order == "gap" else "a late result"
            events.append(self._warning(f"{what}: sequence {sequence} after {previous}"))
        if left_out is not None:
            events.append(self._warning(brief(f"result {sequence}: {left_out}")))
        # `data` points into the receive buffer; copied so that a stored result does not keep the buffer
        copied = msgspec.structs.replace(result, data=msgspec.Raw(bytes(result.data)))
        return [*events, ResultArrived(copied, size)]

    def note(self, sequence: int) -> str | None:
        """Count a sequence. Return None if it is next, 'gap' or 'late' to warn, or 'repeated' to drop it."""
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

    def _broken(self, code: RunFailure, reason: str) -> RunBroken:
        return RunBroken(self.run_id, code, reason)

    def _warning(self, reason: str) -> Warned:
        return Warned(reason, self.run_id)


class RunFlows:
    """The active runs of one side's connection by id, and the ids of those last ended."""

    def __init__(self, side: Side) -> None:
        self.active: dict[str, RunFlow] = {}
        self._side = side
        self._ended: OrderedDict[str, None] = OrderedDict()

    def begin(self, run_id: str, credit: int) -> RunFlow:
        """Add a run. For the host, it is not live yet if an earlier attempt of it may still be sending."""
        live = self._side is Side.PLUGIN or run_id not in self._ended
        flow = self.active[run_id] = RunFlow(run_id, credit, live)
        return flow

    def started(self, flow: RunFlow) -> None:
        """Note that `run/start` was answered: messages from now on are from this attempt."""
        if self.active.get(flow.run_id) is flow:
            flow.live = True

    def refused(self, flow: RunFlow) -> None:
        """Note that `run/start` was refused."""
        if self.active.get(flow.run_id) is flow:
            self.end(flow.run_id)

    def take(
        self, result: AgentRunResult, size: int, max_bytes: int, left_out: str | None
    ) -> Sequence[ResultArrived | Warned | RunBroken]:
        """Take a result of an active run; see `RunFlow.take`. A run that breaks the rules is ended."""
        events = self.active[result.run_id].take(result, size, max_bytes, left_out)
        if isinstance(events, RunBroken):
            self.end(result.run_id)
            return (events,)
        return events

    def broken(self, run_id: str, code: RunFailure, reason: str) -> RunBroken:
        """End a run that breaks the rules, and return the event."""
        self.end(run_id)
        return RunBroken(run_id, code, reason)

    def owns(self, run_id: str) -> bool:
        """Whether the peer may name this run in its messages."""
        flow = self.active.get(run_id)
        return flow is not None and flow.live

    def credit(self, run_id: str) -> int:
        """Return how many results may still be sent for a run; 0 for an unknown one."""
        flow = self.active.get(run_id)
        return 0 if flow is None else flow.credit

    def add_credit(self, run_id: str, results: int) -> None:
        """Let a run send further results. An unknown run is ignored."""
        if flow := self.active.get(run_id):
            flow.credit += results

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
