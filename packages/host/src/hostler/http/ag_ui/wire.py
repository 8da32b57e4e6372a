"""The events of AG-UI as they are on the wire (protocol 1.0), and what a frame of a stream looks like."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hostler_protocol._base import Sparse, always

PROTOCOL_VERSION = "1.0"


class Wire(Sparse, rename="camel"):
    """A value on the wire: camel case, and nothing that holds its default."""


def _screaming(name: str) -> str:
    """Return `RunStarted` as `RUN_STARTED`."""
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name).lstrip("_")


class Event(Wire, tag_field="type", tag=_screaming):
    """One event. Its type is the name of its class."""


class TokenUsage(Wire):
    """Tokens of a run. An absent number is unknown."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_input_tokens: int | None = None


class Interrupt(Wire):
    """What a run waits for. `expires_at`: ISO 8601."""

    id: str
    reason: str
    message: str | None = None
    tool_call_id: str | None = None
    response_schema: dict[str, Any] | None = None
    expires_at: str | None = None
    metadata: dict[str, Any] | None = None


class Success(Wire, tag_field="type", tag="success"):
    """The run completed, perhaps with calls that the application answers."""

    pending_tool_call_ids: list[str] = []


class Interrupted(Wire, tag_field="type", tag="interrupt"):
    """The run waits."""

    interrupts: list[Interrupt]


class Cancelled(Wire, tag_field="type", tag="cancelled"):
    """The run was stopped."""


Outcome = Success | Interrupted | Cancelled


class RunStarted(Event):
    """A run begins."""

    thread_id: str
    run_id: str
    protocol_version: str | None = None
    parent_run_id: str | None = None


class RunFinished(Event):
    """A run ended, and did not fail."""

    thread_id: str
    run_id: str
    outcome: Outcome | None = None
    usage: list[TokenUsage] = []


class RunError(Event):
    """A run failed, or never began."""

    message: str
    code: str | None = None
    usage: list[TokenUsage] = []
    metadata: dict[str, Any] | None = None


class ReasoningStart(Event):
    """A span of reasoning begins."""

    message_id: str


class ReasoningMessageStart(Event):
    """The text of a span of reasoning begins."""

    message_id: str
    role: Literal["reasoning"] = always("reasoning")


class ReasoningMessageContent(Event):
    """More reasoning."""

    message_id: str
    delta: str


class ReasoningMessageEnd(Event):
    """The text of a span of reasoning is over."""

    message_id: str


class ReasoningEnd(Event):
    """A span of reasoning is over."""

    message_id: str


class TextMessageStart(Event):
    """A message begins, or goes on."""

    message_id: str
    role: Literal["assistant"] = always("assistant")


class TextMessageContent(Event):
    """More text of a message."""

    message_id: str
    delta: str


class TextMessageEnd(Event):
    """A message is over."""

    message_id: str
    metadata: dict[str, Any] | None = None


class ToolCallStart(Event):
    """A tool is called."""

    tool_call_id: str
    tool_call_name: str


class ToolCallArgs(Event):
    """The arguments of a call, as JSON text."""

    tool_call_id: str
    delta: str


class ToolCallEnd(Event):
    """The arguments are complete."""

    tool_call_id: str


class ToolCallResult(Event):
    """What a tool returned."""

    message_id: str
    tool_call_id: str
    content: str
    role: Literal["tool"] = always("tool")
    metadata: dict[str, Any] | None = None


class StateSnapshot(Event):
    """The whole state."""

    snapshot: Any


class StateDelta(Event):
    """Changes of the state, as JSON Patch."""

    delta: list[dict[str, Any]]


class MessagesSnapshot(Event):
    """The messages of the thread."""

    messages: list[dict[str, Any]]


class ActivitySnapshot(Event):
    """Something to show that is no text, such as a file."""

    message_id: str
    activity_type: str
    content: dict[str, Any]


class Custom(Event):
    """Something of Hostler's own."""

    name: str
    value: Any


encode = msgspec.json.Encoder(enc_hook=str).encode
"""Details of errors may be of any type; they are written as text."""


def frame(event: Event, event_id: str | None = None) -> bytes:
    """Frame an event for a stream; `event_id` is what `Last-Event-ID` continues after."""
    if event_id is None:
        return b"data: %b\n\n" % encode(event)
    return b"id: %b\ndata: %b\n\n" % (event_id.encode("ascii"), encode(event))
