"""Usage and cost of a run over all of its attempts."""

from __future__ import annotations

from decimal import Decimal

from hostler.domain.outcomes import StreamState
from hostler.domain.usage import Used, add_usage
from hostler_protocol.content import Usage


class RunMeter:
    """Adds up the model calls of one attempt.

    `before`: usage and cost of earlier attempts. `reported`: the state of the attempt's result stream, which
    has the usage that the runner reports.
    """

    def __init__(self, before: Used, reported: StreamState) -> None:
        self._before = before
        self._reported = reported
        self.usage: Usage | None = None
        self.cost = Decimal(before.cost or 0)
        self.measured = False

    def add(self, usage: Usage | None, cost: Decimal | None) -> None:
        """Count one model call."""
        self.measured = True
        self.usage = add_usage(self.usage, usage)
        self.cost += cost or 0

    def used(self) -> Used:
        """Return what the host measured over all attempts; without a model call here, what was reported."""
        before = self._before.usage
        if not self.measured:
            return Used(add_usage(before, self._reported.usage))
        return Used(add_usage(before, self.usage), str(self.cost) if self.cost else None)
