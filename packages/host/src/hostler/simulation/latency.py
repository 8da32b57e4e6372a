"""How long things take in a simulated world."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(slots=True)
class Latency:
    """Durations in seconds, drawn from one stream. Most are short; one of a hundred is long."""

    chance: random.Random
    scale: float = 1.0

    def _draw(self, typical: float) -> float:
        chance = self.chance
        seconds = chance.expovariate(1.0) * typical * self.scale
        if chance.random() < 0.01:
            seconds *= 100
        return seconds + 1e-6

    def read(self) -> float:
        """A read of the database."""
        return self._draw(0.000_4)

    def write(self) -> float:
        """A transaction with its sync, from the moment at which its first job is queued."""
        return self._draw(0.002)

    def wake(self) -> float:
        """From a commit to the moment at which its callers go on."""
        return self._draw(0.000_1)

    def thread(self) -> float:
        """What is handed to a thread."""
        return self._draw(0.000_5)

    def message(self) -> float:
        """A message between two processes of one machine."""
        return self._draw(0.000_2)

    def network(self) -> float:
        """A message between two machines."""
        return self._draw(0.002)

    def start(self) -> float:
        """The start of a process."""
        return self._draw(0.15)
