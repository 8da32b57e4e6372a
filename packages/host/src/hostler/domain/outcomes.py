"""What a result stream gives out: stored results, warnings, and what follows from a result elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from hostler_protocol.content import Message, Usage
from hostler_protocol.grants import StateScope
from hostler_protocol.pausing import PendingCall
from hostler_protocol.results import AgentRunResult
from hostler_protocol.runs import RunStatus

# -- projections: what a result does beside standing in the journal -------------------------------------


@dataclass(frozen=True, slots=True)
class TranscriptWrite:
    """A completed message becomes a transcript item. `message.message_id` is always set."""

    message: Message


@dataclass(frozen=True, slots=True)
class StateWrite:
    """A state value is written; `value` is its JSON."""

    scope: StateScope
    scope_key: str
    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class ArtifactWrite:
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


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """A platform action was asked for; `granted` says whether the run may ask for it at all."""

    action: str
    target: dict[str, Any] | str | None
    payload: dict[str, Any]
    granted: bool


Projection = TranscriptWrite | StateWrite | ArtifactWrite | ActionRequest

# -- how an attempt ends --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ending:
    """The run is over. `status_code` is None when completed; `error` is the sentence of `run.failed`."""

    status: RunStatus
    status_code: str | None = None
    error: str | None = None
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Paused:
    """The attempt is over, the run waits: the explicit form of a pause."""

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

    A struct, as `Entry` is: a frozen dataclass takes eight times as long to make, and each delta makes one.
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
        """Whether it may wait for a group that commits without a disk sync."""
        return self.type == "message.delta"

    def body(self) -> bytes:
        """What the journal stores: `{"data": ..., "usage"?: ..., "timestamp"?: ...}` on one line."""
        if self.usage is None and self.timestamp is None:
            return b'{"data":' + self.data + b"}"
        return _encoder.encode(_Body(msgspec.Raw(self.data), self.usage, self.timestamp))

    def result(self, run_id: str) -> AgentRunResult:
        """What everybody outside the plugin sees."""
        return AgentRunResult(
            run_id=run_id,
            type=self.type,
            sequence=self.sequence,
            data=msgspec.Raw(self.data),
            usage=self.usage,
            timestamp=self.timestamp,
        )


class StoredDeltas(msgspec.Struct, frozen=True):
    """Consecutive deltas that came together: the sequence of the first, and the payload of each on one line.

    What nearly all results of a run are, hence the short way for many at once.
    """

    first: int
    payloads: list[bytes]

    def bodies(self) -> list[bytes]:
        """What the journal stores of each, as `Stored.body`."""
        return [b'{"data":' + payload + b"}" for payload in self.payloads]


@dataclass(frozen=True, slots=True)
class Warned:
    """Something was dropped or is odd; `reason` names field and cause. Kept in the journal."""

    reason: str
    result_type: str | None = None


Step = Stored | Warned


@dataclass(frozen=True, slots=True)
class Uploaded:
    """An artifact that the run uploaded itself and may announce with `artifact.created`."""

    size_bytes: int
    sha256: str
    mime_type: str | None = None
    name: str | None = None
