"""Sums over many lives."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from simulation.findings import kinds_of
from simulation.life import Ended
from simulation.occurrences import IN_ALL


@dataclass
class Tally:
    """How many lives there were, how long they were, how many faults came about, and what they showed."""

    lives: int = 0
    bad: int = 0
    seconds: float = 0.0
    callbacks: int = 0
    faults: int = 0
    kinds: dict[str, list[str]] = field(default_factory=dict)
    """Kind of finding -> seeds."""
    began: float = field(default_factory=time.monotonic)

    def add(self, ended: Ended) -> None:
        """Count a life."""
        self.lives += 1
        self.bad += bool(ended.findings)
        self.seconds += ended.seconds
        self.callbacks += ended.callbacks
        self.faults += ended.counts.get(IN_ALL, 0)
        for kind in kinds_of(ended.findings):
            self.kinds.setdefault(kind, []).append(ended.plan.seed)

    def line(self) -> str:
        """Return one line."""
        speed = self.lives / max(1e-9, time.monotonic() - self.began)
        return (
            f"{self.lives:,} lives, {self.bad:,} with findings; {self.seconds / 3600:,.2f} simulated hours,"
            f" {self.callbacks:,} callbacks, {self.faults:,} faults; {speed:.1f} lives/s"
        )
