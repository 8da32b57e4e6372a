"""The result stream: the envelope, and one payload type per result type.

A result is decoded in two steps, envelope first, so that run and sequence are known even if the payload is
invalid or its type unknown.
"""

from __future__ import annotations

import contextlib
from typing import Any, Literal

import msgspec

from hostler_protocol._base import DECODE_ERRORS, Lenient, Sparse, always
from hostler_protocol.content import Message, MessageChunk, Usage
from hostler_protocol.errors import RUN_FAILURES, InvalidArgumentError, RunFailure
from hostler_protocol.limits import MAX_LOG_CHARS, Count
from hostler_protocol.pausing import Executor, FormField, InteractionAction, PendingCall, QuestionKind


def _no_data() -> msgspec.Raw:
    return msgspec.Raw(b"{}")


class AgentRunResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The envelope of a result. A runner counts `sequence` from 1 per attempt, the host from 1 per run."""

    run_id: str
    type: str
    sequence: int
    data: msgspec.Raw = msgspec.field(default_factory=_no_data)
    timestamp: float | None = None
    usage: Usage | None = None


class MessageDelta(Sparse):
    """`message.delta`: a piece of a message, for live delivery."""

    chunk: MessageChunk


class MessageCompleted(Sparse):
    """`message.completed`: a complete message; any number per run."""

    message: Message


class ToolCallStarted(Lenient):
    """`tool.call.started`: telemetry. Kept even if a field has a wrong type, which is read as absent."""

    tool_call_id: str | None = None
    tool_name: str = ""
    parameters: Any = None


class ToolCallCompleted(Lenient):
    """`tool.call.completed`: telemetry. Kept even if a field has a wrong type, which is read as absent."""

    tool_call_id: str | None = None
    tool_name: str = ""
    result: Any = None
    error: Any = None


class ArtifactCreated(Sparse):
    """`artifact.created`: a file with inline content (at most 1 MiB decoded), or an uploaded one by its id.

    The host checks `size_bytes` and `sha256` if they are given.
    """

    artifact_type: str
    artifact_id: str | None = None
    mime_type: str | None = None
    name: str | None = None
    size_bytes: Count | None = None
    sha256: str | None = None
    metadata: dict[str, Any] = {}
    content_base64: str | None = None


class StateUpdated(Sparse):
    """`state.updated`: write a state value; `null` is a value."""

    scope: str
    key: str
    value: Any


class ActionRequested(Sparse):
    """`action.requested`: ask the platform for an action; the host decides whether it is allowed."""

    action: str
    target: dict[str, Any] | str | None = None
    payload: dict[str, Any] = {}


InteractionKind = QuestionKind | Literal["approval", "client_tool", "in_doubt", "budget"]


class InteractionRequested(Sparse):
    """`interaction.requested`: a call waits for people. Made by the host as soon as it does.

    `kind` of a question is that of its `interaction.request` (`form`, `confirmation`, `choice`); of another
    call it is `approval`, `client_tool` or `in_doubt`. Title, description, fields, actions, `expires_in` and
    `fallback_text` of a question are the runner's. `call_id` is the host's id of the call, `tool_call_id` the
    model's. `executor` carries out an approved call. A decision sends `args_hash` back. `expires_at` in UTC
    epoch seconds; null: it does not expire. A later one with the same `call_id` replaces the earlier.
    """

    call_id: str
    kind: InteractionKind
    title: str
    description: str | None = None
    fields: list[FormField] = []
    actions: list[InteractionAction] = []
    expires_in: float | None = None
    fallback_text: str | None = None
    tool_name: str | None = None
    arguments: dict[str, Any] = msgspec.field(default_factory=lambda: {})
    args_hash: str | None = None
    tool_call_id: str | None = None
    executor: Executor = "host"
    expires_at: float | None = always(None)


class LogWritten(Sparse):
    """`log`: an entry of the journal only; never a message. `text` of at most 65,536 characters."""

    level: Literal["debug", "info", "warning", "error"]
    text: str

    def __post_init__(self) -> None:
        if len(self.text) > MAX_LOG_CHARS:
            raise ValueError(f"log text has {len(self.text)} characters; at most {MAX_LOG_CHARS}")


class RunPaused(Sparse):
    """`run.paused`: ends the attempt, but not the run, until the pending calls are decided.

    `expires_in` in seconds, 60 to 2,592,000 (1 minute to 30 days); absent: the tool's policy applies.
    """

    pending: list[PendingCall]
    state: Any = None
    expires_in: float | None = None


class AttemptStarted(Sparse):
    """`attempt.started`, from the host only: readers drop the results after sequence `discard_after`."""

    attempt: Count
    cause: str
    discard_after: Count


class RunCompleted(Sparse):
    """`run.completed`: the run succeeded. Terminal."""

    finish_reason: str = always("stop")
    message: Message | None = None


class RunFailed(Sparse):
    """`run.failed`: the run failed. Terminal. `code` is a dotted name of an open set."""

    code: str
    error: str
    retryable: bool = always(False)

    @classmethod
    def by_host(cls, code: RunFailure, error: str) -> RunFailed:
        """Build the failure that the host writes; `code` determines whether it is retryable."""
        return cls(code=code, error=error, retryable=RUN_FAILURES[code].retryable)


ResultData = (
    MessageDelta
    | MessageCompleted
    | ToolCallStarted
    | ToolCallCompleted
    | ArtifactCreated
    | StateUpdated
    | ActionRequested
    | InteractionRequested
    | LogWritten
    | RunPaused
    | AttemptStarted
    | RunCompleted
    | RunFailed
)

RESULT_TYPES: dict[str, type[ResultData]] = {
    "message.delta": MessageDelta,
    "message.completed": MessageCompleted,
    "tool.call.started": ToolCallStarted,
    "tool.call.completed": ToolCallCompleted,
    "artifact.created": ArtifactCreated,
    "state.updated": StateUpdated,
    "action.requested": ActionRequested,
    "interaction.requested": InteractionRequested,
    "log": LogWritten,
    "run.paused": RunPaused,
    "attempt.started": AttemptStarted,
    "run.completed": RunCompleted,
    "run.failed": RunFailed,
}
HOST_ONLY_RESULTS = frozenset({"attempt.started", "interaction.requested"})
"""Types of results that only the host may send."""
LOOSE_RESULTS = frozenset({"tool.call.started", "tool.call.completed"})
"""Types of telemetry: kept as received if the payload is a JSON object."""
TERMINAL_RESULTS = frozenset({"run.completed", "run.failed"})
TYPE_OF: dict[type[ResultData], str] = {cls: name for name, cls in RESULT_TYPES.items()}

_decoders: dict[str, msgspec.json.Decoder[Any]] = {
    name: msgspec.json.Decoder(cls) for name, cls in RESULT_TYPES.items()
}
_encoder = msgspec.json.Encoder()


def decode_data(result_type: str, data: bytes | msgspec.Raw) -> ResultData:
    """Decode a payload by its type.

    Raises InvalidArgumentError if the type is unknown or the payload invalid; it names field and reason.
    """
    decoder = _decoders.get(result_type)
    if decoder is None:
        raise InvalidArgumentError(
            f"unknown result type {result_type!r}; known are {', '.join(RESULT_TYPES)}"
        )
    try:
        decoded: ResultData = decoder.decode(data)
    except DECODE_ERRORS as error:
        if result_type in LOOSE_RESULTS and (loose := _loosely(RESULT_TYPES[result_type], data)) is not None:
            return loose
        raise InvalidArgumentError(f"{result_type}: {error}") from error
    return decoded


def _loosely(kind: type[ResultData], data: bytes | msgspec.Raw) -> ResultData | None:
    """Read the fields that have the right type; None if the payload is not a JSON object."""
    try:
        members = msgspec.json.decode(data)
    except DECODE_ERRORS:
        return None
    if not isinstance(members, dict):
        return None
    taken: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.name in members:
            with contextlib.suppress(msgspec.ValidationError):
                taken[field.name] = msgspec.convert(members[field.name], field.type)
    return kind(**taken)


def result_of(
    run_id: str,
    sequence: int,
    data: ResultData,
    *,
    timestamp: float | None = None,
    usage: Usage | None = None,
) -> AgentRunResult:
    """Build the envelope around a payload."""
    return AgentRunResult(
        run_id=run_id,
        type=TYPE_OF[type(data)],
        sequence=sequence,
        data=msgspec.Raw(_encoder.encode(data)),
        timestamp=timestamp,
        usage=usage,
    )
