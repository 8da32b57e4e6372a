"""Results: the items that a runner yields. Each function builds one."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from hostler_protocol.content import ArtifactRef, Content, ContentElement, Message, MessageChunk, Usage
from hostler_protocol.json_values import fields_problem, is_text, json_problem
from hostler_protocol.limits import MAX_REASONING_CHARS
from hostler_protocol.pausing import PendingCall, expiry_misfit
from hostler_protocol.results import (
    TERMINAL_RESULTS,
    TYPE_OF,
    ActionRequested,
    ArtifactCreated,
    LogWritten,
    MessageCompleted,
    MessageDelta,
    ResultData,
    RunCompleted,
    RunFailed,
    RunPaused,
    StateUpdated,
    ToolCallCompleted,
    ToolCallStarted,
)

LogLevel = Literal["debug", "info", "warning", "error"]
ContentLike = str | Sequence[ContentElement | Mapping[str, Any]]
"""A text, or a list of content elements: types of the protocol, or mappings like
`{"type": "image_url", "image_url": {"url": "https://..."}}`."""

_ENDS_ATTEMPT = TERMINAL_RESULTS | {"run.paused"}
_T = TypeVar("_T")


class Result(msgspec.Struct, frozen=True):
    """One item of a run's result stream: its wire type, its payload, and the tokens used, if known.

    Built by the functions of this module; build it directly only for a type that this SDK does not know.
    """

    type: str
    data: ResultData | dict[str, Any]
    usage: Usage | None = None

    def __post_init__(self) -> None:
        """Raise TypeError, with the place, for a value that JSON cannot carry unchanged."""
        problem = self.problem()
        if problem is not None:
            raise TypeError(problem)

    def problem(self) -> str | None:
        """Return a sentence on a value of the payload that JSON cannot carry, or None."""
        data = self.data
        if type(data) is MessageDelta and data.chunk.reasoning is None:
            content = data.chunk.content
            if type(content) is str and is_text(content):
                return None  # nearly every result
        named = msgspec.structs.asdict(data) if isinstance(data, msgspec.Struct) else {"data": data}
        problem = fields_problem(named)
        return problem and f"{self.type}: {problem}"

    @property
    def ends_attempt(self) -> bool:
        """Whether this result ends the attempt: the host drops later ones."""
        return self.type in _ENDS_ATTEMPT


def _result(data: ResultData, usage: Usage | None = None) -> Result:
    return Result(TYPE_OF[type(data)], data, usage)


def _shaped(value: Any, kind: type[_T] | Any, what: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise TypeError(f"{what}: {error}") from error


def content_of(content: Any, what: str) -> Content:
    """Return checked message content. Raises TypeError; `what` names the caller in its message."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        return [_shaped(element, ContentElement, what) for element in content]
    raise TypeError(
        f"{what} takes text or a list of content elements, not {type(content).__name__} {content!r:.80}"
    )


def utf8(content: str, what: str) -> bytes:
    """Encode text as UTF-8. Raises TypeError if it cannot be; `what` names the caller in its message."""
    problem = json_problem(content, "content")
    if problem is not None:
        raise TypeError(f"{what}: {problem}")
    return content.encode()


def _checked_reasoning(text: str | None, what: str) -> str | None:
    if text is not None and not isinstance(text, str):
        raise TypeError(f"{what}: reasoning is text, not {type(text).__name__} {text!r:.80}")
    if text is not None and len(text) > MAX_REASONING_CHARS:
        raise TypeError(
            f"{what}: reasoning has {len(text):,} characters; at most {MAX_REASONING_CHARS:,}: shorten it"
        )
    return text or None


def without_reasoning(result: Result) -> Result | None:
    """Return a result for a host that takes no reasoning; None for a piece that has nothing else."""
    match result.data:
        case MessageDelta(chunk=chunk) if chunk.reasoning is not None:
            if not chunk.content:
                return None
            data: ResultData = MessageDelta(chunk=msgspec.structs.replace(chunk, reasoning=None))
        case MessageCompleted(message=said) if said.reasoning is not None:
            data = MessageCompleted(message=msgspec.structs.replace(said, reasoning=None))
        case RunCompleted(message=last) if last is not None and last.reasoning is not None:
            data = msgspec.structs.replace(result.data, message=msgspec.structs.replace(last, reasoning=None))
        case _:
            return result
    return Result(result.type, data, result.usage)


def delta(text: ContentLike = "", message_id: str | None = None, *, reasoning: str | None = None) -> Result:
    """Send a piece of a message for live display. Send the complete text with `message` afterwards.

    `reasoning`: a piece of the model's thinking, for who watches the run. A host that takes none is not sent
    it.
    """
    chunk = MessageChunk(
        role="assistant",
        content=content_of(text, "delta()"),
        message_id=message_id,
        reasoning=_checked_reasoning(reasoning, "delta()"),
    )
    return _result(MessageDelta(chunk=chunk))


def message(
    content: ContentLike,
    artifact_refs: Sequence[str | ArtifactRef | Mapping[str, Any]] = (),
    *,
    message_id: str | None = None,
    usage: Usage | Mapping[str, int] | None = None,
    reasoning: str | None = None,
) -> Result:
    """Send a complete message of the assistant; any number per run.

    `reasoning` is how the model came to it, at most 65,536 characters, for who watches the run: it is in no
    history. A host that takes none is not sent it.

    `artifact_refs` are ids or references of artifacts. `usage` is the number of tokens used, as in a model's
    reply. Raises TypeError for content of another type.
    """
    refs = [
        ArtifactRef(artifact_id=ref) if isinstance(ref, str) else _shaped(ref, ArtifactRef, "message()")
        for ref in artifact_refs
    ]
    whole = Message(
        role="assistant",
        content=content_of(content, "message()"),
        artifact_refs=refs,
        message_id=message_id,
        reasoning=_checked_reasoning(reasoning, "message()"),
    )
    return _result(MessageCompleted(message=whole), _usage(usage))


def tool_started(tool_call_id: str, tool_name: str, parameters: Any = None) -> Result:
    """Report the start of a tool call, for display. `ctx.tools.call` needs no such report."""
    return _result(ToolCallStarted(tool_call_id=tool_call_id, tool_name=tool_name, parameters=parameters))


def tool_completed(tool_call_id: str, tool_name: str, result: Any = None, error: Any = None) -> Result:
    """Report the end of a tool call with its result or error, for display."""
    return _result(
        ToolCallCompleted(tool_call_id=tool_call_id, tool_name=tool_name, result=result, error=error)
    )


def artifact(
    type: str,  # noqa: A002 - the published name
    content: bytes | str | None = None,
    name: str | None = None,
    mime_type: str | None = None,
    *,
    artifact_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Result:
    """Send a file that the run made: inline content of at most 1 MiB, text as UTF-8.

    For larger content, use `ctx.artifacts.upload` and pass its id as `artifact_id`. `type` is a name of your
    choice, like `file` or `report`. Raises TypeError without content and id.
    """
    if content is None and artifact_id is None:
        raise TypeError("artifact() needs content, or the artifact_id that ctx.artifacts.upload gave")
    if isinstance(content, str):
        mime_type = mime_type or "text/plain; charset=utf-8"
    data = utf8(content, "artifact()") if isinstance(content, str) else content
    return _result(
        ArtifactCreated(
            artifact_type=type,
            artifact_id=artifact_id,
            mime_type=mime_type,
            name=name,
            metadata=dict(metadata or {}),
            content_base64=None if data is None else base64.b64encode(data).decode(),
        )
    )


def state_updated(scope: str, key: str, value: Any) -> Result:
    """Write a state value, in order with the other results. Scopes and limits are those of `ctx.states`."""
    return _result(StateUpdated(scope=scope, key=key, value=value))


def action(
    name: str, target: Mapping[str, Any] | str | None = None, payload: Mapping[str, Any] | None = None
) -> Result:
    """Ask the platform for an action; the host decides whether it is allowed."""
    wanted = dict(target) if isinstance(target, Mapping) else target
    return _result(ActionRequested(action=name, target=wanted, payload=dict(payload or {})))


def log(text: str, level: LogLevel = "info") -> Result:
    """Write an entry to the run's journal, at most 65,536 characters. It is never shown as a message."""
    return _result(LogWritten(level=level, text=text))


def paused(
    pending: Sequence[PendingCall | Mapping[str, Any]], state: Any = None, expires_in: float | None = None
) -> Result:
    """End the attempt until the pending calls are decided.

    The run then starts again with the decisions and this `state` in `ctx.continuation`. `expires_in` is the
    time people have, in seconds, from 60 to 2,592,000 (30 days); None: the tool's policy applies. Raises
    ValueError for another number. `ctx.ask` and `ctx.tools.call` wait by themselves and do not need it.
    """
    if (misfit := expiry_misfit(expires_in)) is not None:
        raise ValueError(f"paused(): {misfit}")
    calls = [_shaped(call, PendingCall, "paused()") for call in pending]
    return _result(RunPaused(pending=calls, state=state, expires_in=expires_in))


def completed(
    finish_reason: str = "stop",
    message: ContentLike | Message | None = None,
    usage: Usage | Mapping[str, int] | None = None,
) -> Result:
    """End the run successfully. Optional: the host completes a run that finishes without it."""
    last = (
        message
        if message is None or isinstance(message, Message)
        else Message(role="assistant", content=content_of(message, "completed()"))
    )
    return _result(RunCompleted(finish_reason=finish_reason, message=last), _usage(usage))


def failed(code: str, error: str, retryable: bool = False) -> Result:
    """End the run as failed. `code` is a dotted name like `weather.unreachable`; `error` is for people.

    `retryable`: whether the same event may succeed in another run.
    """
    return _result(RunFailed(code=code, error=error, retryable=retryable))


def _usage(usage: Usage | Mapping[str, int] | None) -> Usage | None:
    """Check a usage. Raises TypeError for a wrong type; unknown keys are left out with a warning."""
    if usage is None or isinstance(usage, Usage):
        return usage
    known = Usage.__struct_fields__
    others = ", ".join(repr(key) for key in usage if key not in known)
    if others:
        text = f"usage: {others:.200} are left out; known are {', '.join(known)}"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    checked: Usage = _shaped({key: usage[key] for key in known if key in usage}, Usage, "usage")
    return checked
