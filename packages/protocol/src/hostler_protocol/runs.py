"""Records of runs, messages, events and artifacts, as runners and HTTP clients read them."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar, cast

import msgspec

from hostler_protocol._base import Lenient, Strict
from hostler_protocol.content import ArtifactRef, HistoryMessage, Message, Role, Usage
from hostler_protocol.events import Actor, Conversation, EventRef, Input, Subject

RunStatus = Literal["queued", "claimed", "running", "paused", "completed", "failed", "cancelled", "timeout"]
TERMINAL_STATUSES: frozenset[RunStatus] = frozenset({"completed", "failed", "cancelled", "timeout"})
ACTIVE_STATUSES: frozenset[RunStatus] = frozenset({"claimed", "running"})

T = TypeVar("T")


class Page(Strict, Generic[T]):
    """One page of a list. Cursors are opaque, and valid only for the call and scope they came from."""

    items: list[T]
    next_cursor: str | None = None
    prev_cursor: str | None = None
    has_more: bool = False
    total_count: int | None = None


class TranscriptItem(Strict):
    """One message of a conversation. `content` is its text (at most 4,000 characters)."""

    transcript_id: str
    event_id: str | None
    conversation_id: str | None
    thread_id: str | None
    role: str
    content: str
    content_json: dict[str, Any]
    seq: int
    cursor: str
    created_at: float
    item_type: str = "message"
    artifact_refs: list[ArtifactRef] = []
    metadata: dict[str, Any] = {}

    @property
    def message(self) -> HistoryMessage:
        """The whole message, from `content_json`; only its text if that has an unknown form."""
        try:
            return msgspec.convert(self.content_json, HistoryMessage)
        except msgspec.ValidationError:
            return HistoryMessage(role=cast(Role, self.role), content=self.content)


class HistorySearchResult(Strict):
    """The messages that `history.search` found, best first."""

    items: list[TranscriptItem]
    query: str
    total_count: int


class AgentEventRecord(Strict):
    """One event of the event log, without its payload."""

    event_id: str
    event_type: str
    source: str
    seq: int
    cursor: str
    created_at: float
    workspace_id: str
    event_time: float | None = None
    bot_id: str | None = None
    conversation_id: str | None = None
    thread_id: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None
    actor_name: str | None = None
    subject_type: str | None = None
    subject_id: str | None = None
    input_summary: str = ""
    input_ref: str | None = None
    raw_ref: str | None = None
    metadata: dict[str, Any] = {}


class SteeringInputItem(Lenient):
    """A message that reached an active run. Its parts are those of an AgentRunContext."""

    claimed_run_id: str
    runner_id: str
    claimed_at: float
    event: EventRef
    input: Input
    conversation: Conversation | None = None
    actor: Actor | None = None
    subject: Subject | None = None
    metadata: dict[str, Any] = {}


class ArtifactMetadata(Strict):
    """Metadata of an artifact; never a path of the host."""

    artifact_id: str
    artifact_type: str
    size_bytes: int
    sha256: str
    created_at: float
    mime_type: str | None = None
    name: str | None = None
    source: str | None = None
    conversation_id: str | None = None
    run_id: str | None = None
    runner_id: str | None = None
    expires_at: float | None = None
    metadata: dict[str, Any] = {}


class ArtifactReadResult(Strict):
    """One range of an artifact. `size_bytes` is the size of the artifact, `length` that of the range."""

    artifact_id: str
    size_bytes: int
    offset: int
    length: int
    content_base64: str
    has_more: bool
    mime_type: str | None = None
    file_key: str | None = None


class RunOutput(Strict):
    """The completed assistant messages of a run, and their text joined by line ends."""

    text: str
    messages: list[Message]


class RunRecord(Strict):
    """One run. `cost` in the currency of the models' prices; None if a price is unknown.

    `sequence`: that of its last result so far; a stream after it gives the rest. `cancel_requested_at`: time
    of the first request to cancel the run, made by `cancel_requested_by` (a key's subject, `run:ID`, `host`
    or `clock`); until its status is terminal the run is being cancelled. `retry_of`: the run that it repeats.
    `forked_from` and `forked_at`: the run that it was forked from, and the last step that both share.
    """

    run_id: str
    agent: str
    agent_version: int
    runner_id: str
    status: RunStatus
    attempt: int
    created_at: float
    status_code: str | None = None
    event_id: str | None = None
    conversation_id: str | None = None
    parent_run_id: str | None = None
    started_at: float | None = None
    finished_at: float | None = None
    deadline_at: float | None = None
    cancel_requested_at: float | None = None
    cancel_requested_by: str | None = None
    cancel_reason: str | None = None
    usage: Usage | None = None
    cost: float | None = None
    output: RunOutput | None = None
    sequence: int | None = None
    retry_of: str | None = None
    forked_from: str | None = None
    forked_at: int | None = None


class JournalRecord(Strict):
    """One entry of a run's journal. `at` in UTC epoch seconds; `sequence` if it is a result."""

    position: int
    kind: str
    type: str
    at: float
    data: msgspec.Raw
    attempt: int
    sequence: int | None = None

    @property
    def payload(self) -> Any:
        """`data`, decoded to plain JSON values."""
        return msgspec.json.decode(self.data)
