"""The output of a result stream: stored results and their numbering, warnings, projections of results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from hostler.domain.record import Record
from hostler.domain.usage import add_usage
from hostler_protocol.content import Message, Usage
from hostler_protocol.grants import StateScope
from hostler_protocol.pausing import PendingCall
from hostler_protocol.results import TYPE_OF, AgentRunResult, MessageCompleted
from hostler_protocol.runs import RunStatus

# -- projections: effects of a result outside of the journal --------------------------------------------


class TranscriptWrite(Record):
    """A completed message becomes a transcript item. `message.message_id` is always set.

    Reasoning is for who watches the run; it is left out, so that no history, search or later model has it.
    """

    message: Message

    @classmethod
    def of(cls, message: Message) -> TranscriptWrite:
        """Return the item of a message, without its reasoning."""
        said = message if message.reasoning is None else msgspec.structs.replace(message, reasoning=None)
        return cls(said)


class StateWrite(Record):
    """A state value is written; `value` is its JSON."""

    scope: StateScope
    scope_key: str
    key: str
    value: str


class ArtifactWrite(Record):
    """Inline content becomes an artifact. `sha256` and `size_bytes` are the host's own."""

    artifact_id: str
    artifact_type: str
    content: bytes
    sha256: str
    mime_type: str | None
    name: str | None
    metadata: dict[str, Any]

    @property
    def size_bytes(self) -> int:
        """Length of the content."""
        return len(self.content)


class ArtifactShown(Record):
    """A result names an artifact that the run has already: people may be shown it from then on."""

    artifact_id: str


class ActionRequest(Record):
    """The runner requests a platform action. `refused`: why runner, agent or actor do not allow it."""

    action: str
    target: dict[str, Any] | str | None
    payload: dict[str, Any]
    refused: str | None = None


Projection = TranscriptWrite | StateWrite | ArtifactWrite | ArtifactShown | ActionRequest

# -- how an attempt ends --------------------------------------------------------------------------------


class Ending(Record):
    """The run has ended. `status_code` is None if completed; `error` is the text of `run.failed`."""

    status: RunStatus
    status_code: str | None = None
    error: str | None = None
    finish_reason: str | None = None


class Paused(Record):
    """The attempt has ended and the run waits: a pause requested by the runner (explicit form)."""

    pending: list[PendingCall]
    state: Any
    expires_in: float | None


# -- steps ------------------------------------------------------------------------------------------------


class _Body(msgspec.Struct, omit_defaults=True):
    data: msgspec.Raw
    usage: Usage | None = None
    timestamp: float | None = None


_encoder = msgspec.json.Encoder()


class Stored(msgspec.Struct, frozen=True):
    """One result that the host accepted or made. `data` is its payload as JSON on one line.

    A struct, like `Entry`: creating a frozen dataclass takes eight times as long, and each delta creates one.
    """

    sequence: int
    type: str
    data: bytes
    usage: Usage | None = None
    timestamp: float | None = None
    projection: Projection | None = None
    outcome: Ending | Paused | None = None

    @property
    def is_delta(self) -> bool:
        """Whether it is a delta, which may be committed without a disk sync."""
        return self.type == "message.delta"

    def body(self) -> bytes:
        """Return the journal's JSON: `{"data": ..., "usage"?: ..., "timestamp"?: ...}` on one line."""
        if self.usage is None and self.timestamp is None:
            return b'{"data":' + self.data + b"}"
        return _encoder.encode(_Body(msgspec.Raw(self.data), self.usage, self.timestamp))

    def result(self, run_id: str) -> AgentRunResult:
        """Return the result in its public form."""
        return AgentRunResult(
            run_id=run_id,
            type=self.type,
            sequence=self.sequence,
            data=msgspec.Raw(self.data),
            usage=self.usage,
            timestamp=self.timestamp,
        )


class StoredDeltas(msgspec.Struct, frozen=True):
    """Consecutive deltas received together: the sequence of the first, and the payload of each on one line.

    Nearly all results of a run are deltas, hence this fast path for many at once.
    """

    first: int
    payloads: list[bytes]

    def bodies(self) -> list[bytes]:
        """Return the journal's JSON of each, as in `Stored.body`."""
        return [b'{"data":' + payload + b"}" for payload in self.payloads]


class ResultWarning(Record):
    """A warning for the journal: a result was dropped or is odd. `reason` names field and cause."""

    reason: str
    result_type: str | None = None


Step = Stored | ResultWarning


class Uploaded(Record):
    """An artifact that the run has uploaded and may announce with `artifact.created`."""

    size_bytes: int
    sha256: str
    mime_type: str | None = None
    name: str | None = None


# -- numbering --------------------------------------------------------------------------------------------


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
