"""The numbering of a run's results, and what attempts of a run share."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from hostler.domain.outcomes import Ending, Paused, Projection, Stored
from hostler.domain.usage import add_usage
from hostler_protocol.content import Usage
from hostler_protocol.results import TYPE_OF, AgentRunResult, MessageCompleted


@dataclass(slots=True)
class StreamState:
    """State shared by all attempts; after a restart of the host, read from the run and its transcript."""

    sequence: int = 0
    """The last host sequence that was assigned."""
    kept_sequence: int = 0
    """The sequence of the last `message.completed`."""
    produced: bool = False
    """Whether the run produced anything but deltas, logs and telemetry."""
    complete_ids: set[str] = field(default_factory=set)
    """Ids of completed messages."""
    usage: Usage | None = None

    def store(
        self,
        result_type: str,
        data: bytes,
        result: AgentRunResult | None = None,
        projection: Projection | None = None,
        outcome: Ending | Paused | None = None,
    ) -> Stored:
        """Assign the next sequence. Without `result` the host made the stored one."""
        self.sequence += 1
        usage, timestamp = (None, None) if result is None else (result.usage, result.timestamp)
        return Stored(self.sequence, result_type, data, usage, timestamp, projection, outcome)

    def reserve(self, count: int) -> int:
        """Assign the next `count` sequences to results that are made later. Returns the first."""
        first = self.sequence + 1
        self.sequence += count
        return first

    def take_back(self, stored: Stored, kept_sequence: int) -> None:
        """Take back the sequence of a result just received, which may already be in the journal."""
        self.sequence -= 1
        if stored.type == TYPE_OF[MessageCompleted]:
            self.kept_sequence = kept_sequence

    def renumber(self, stored: Stored) -> Stored:
        """Assign the next sequence to a result whose sequence was taken back."""
        self.sequence += 1
        if stored.type == TYPE_OF[MessageCompleted]:
            self.kept_sequence = self.sequence
        return msgspec.structs.replace(stored, sequence=self.sequence)

    def add_usage(self, usage: Usage | None) -> None:
        """Add the usage of one result."""
        self.usage = add_usage(self.usage, usage)
