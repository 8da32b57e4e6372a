"""The AgentRunContext, an event as its run sees it, and the EventEnvelope, an event as its source sends it.

Parts of a context are lenient: unknown keys are ignored, so that a newer host can serve an older runner.
Times are UTC epoch seconds.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hostler_protocol._base import Lenient, Sparse
from hostler_protocol.content import ArtifactRef, ContentElement
from hostler_protocol.grants import Resources
from hostler_protocol.pausing import Continuation

TriggerSource = Literal["platform", "webui", "api", "webhook", "scheduler", "system", "host_adapter"]
InlinePolicyMode = Literal["none", "current_event", "recent_tail", "summary_tail"]


class Trigger(Lenient):
    """The cause of the run's start."""

    type: str = "unknown"
    source: TriggerSource = "api"
    timestamp: float | None = None


class EventRef(Lenient):
    """The event that a run serves. `data` is small; `raw_ref` refers to a large payload."""

    event_id: str = ""
    event_type: str = "unknown"
    source: str = "api"
    event_time: float | None = None
    source_event_type: str | None = None
    raw_ref: str | None = None
    data: dict[str, Any] = {}


class Conversation(Lenient):
    """The conversation in which the event happened."""

    conversation_id: str | None = None
    thread_id: str | None = None
    launcher_type: str | None = None
    launcher_id: str | None = None
    sender_id: str | None = None
    bot_id: str | None = None
    workspace_id: str | None = None
    session_id: str | None = None


class Actor(Lenient):
    """The author of the event, as its source states it; never an authentication."""

    actor_type: str = "user"
    actor_id: str | None = None
    actor_name: str | None = None
    metadata: dict[str, Any] = {}


class Subject(Lenient):
    """The object of the event, such as a reaction's message."""

    subject_type: str
    subject_id: str | None = None
    data: dict[str, Any] = {}


class CallerTool(Sparse):
    """A tool that the sender of an event carries out itself. `parameters` is JSON Schema, of an object.

    A call of it waits as `client_tool` until the sender says what came of it.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class Input(Lenient):
    """The input of the agent. `text` is always inline; large files are artifact references.

    `tools` are those of the sender. A run finds them in its `resources`; its own `input` has none.
    """

    text: str | None = None
    contents: list[ContentElement] = []
    attachments: list[ArtifactRef] = []
    tools: list[CallerTool] = []


class Delivery(Lenient):
    """Destination of the answers, and what its surface supports. `max_message_size` in characters."""

    surface: str = "api"
    reply_target: dict[str, Any] | str | None = None
    supports_streaming: bool = True
    supports_edit: bool = False
    supports_reaction: bool = False
    max_message_size: int | None = None
    platform_capabilities: dict[str, Any] = {}


class InlinePolicy(Lenient):
    """How much history the context holds. This host always sends `current_event`."""

    mode: InlinePolicyMode = "current_event"
    delivered_count: int = 1
    source_total_count: int | None = None
    messages_complete: bool = False
    reason: str | None = None


class AvailableApis(Lenient):
    """The host calls that the grant allows."""

    history_page: bool = False
    history_search: bool = False
    event_get: bool = False
    event_page: bool = False
    artifact_metadata: bool = False
    artifact_read: bool = False
    state: bool = False
    storage: bool = False
    steering_pull: bool = False
    run_get: bool = False
    run_list: bool = False
    run_events_page: bool = False
    run_cancel: bool = False


class ContextAccess(Lenient):
    """How the runner reads what the context does not hold."""

    conversation_id: str | None = None
    thread_id: str | None = None
    latest_cursor: str | None = None
    event_seq: int | None = None
    transcript_seq: int | None = None
    has_history_before: bool = False
    inline_policy: InlinePolicy = InlinePolicy()
    available_apis: AvailableApis = AvailableApis()


class StateSnapshot(Lenient):
    """The enabled state scopes when the run started: key to JSON value."""

    conversation: dict[str, Any] = {}
    actor: dict[str, Any] = {}
    subject: dict[str, Any] = {}
    runner: dict[str, Any] = {}


class Runtime(Lenient):
    """Facts of the host and the run. `trace_id` is the W3C trace id (32 hexadecimal digits)."""

    host_version: str = ""
    trace_id: str = ""
    deadline_at: float | None = None
    metadata: dict[str, Any] = {}


class Adapter(Lenient):
    """Values of the surface that the event came through, such as `params`, for this run only."""

    extra: dict[str, Any] = {}


class AgentRunContext(Lenient):
    """Everything that a runner gets at its start. It never holds history or prompts.

    A host always sends `trigger` and `event`; only `run_id` is required.
    """

    run_id: str
    trigger: Trigger = Trigger()
    event: EventRef = EventRef()
    attempt: int = 1
    conversation: Conversation | None = None
    actor: Actor | None = None
    subject: Subject | None = None
    input: Input = Input()
    delivery: Delivery = Delivery()
    resources: Resources = Resources()
    context: ContextAccess = ContextAccess()
    state: StateSnapshot = StateSnapshot()
    runtime: Runtime = Runtime()
    config: dict[str, Any] = {}
    continuation: Continuation | None = None
    adapter: Adapter | None = None
    metadata: dict[str, Any] = {}


class EventEnvelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event as its source sends it to the host (AgentEventEnvelope).

    Only `event_type` and `input` are required; `agent` names the agent that shall serve it. A source without
    globally unique ids leaves `event_id` out; the host then derives one from the digest of the fields that
    identify the delivery.
    """

    event_type: str
    input: Input
    event_id: str | None = None
    agent: str | None = None
    event_time: float | None = None
    source: str = "api"
    source_event_type: str | None = None
    source_event_id: str | None = None
    bot_id: str | None = None
    workspace_id: str | None = None
    conversation_id: str | None = None
    thread_id: str | None = None
    launcher_type: str | None = None
    launcher_id: str | None = None
    sender_id: str | None = None
    session_id: str | None = None
    actor: Actor | None = None
    subject: Subject | None = None
    delivery: Delivery | None = None
    raw_ref: str | None = None
    data: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
