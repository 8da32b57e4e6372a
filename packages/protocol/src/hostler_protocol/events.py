"""One event as a run sees it: the AgentRunContext and its parts.

Inbound values are lenient: unknown keys are ignored, so that a newer host can serve an older runner.
Times are UTC epoch seconds.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hostler_protocol._base import Lenient
from hostler_protocol.content import ArtifactRef, ContentElement
from hostler_protocol.grants import Resources
from hostler_protocol.pausing import Continuation

TriggerSource = Literal["platform", "webui", "api", "webhook", "scheduler", "system", "host_adapter"]
InlinePolicyMode = Literal["none", "current_event", "recent_tail", "summary_tail"]


class Trigger(Lenient):
    """What made the run start."""

    type: str = "unknown"
    source: TriggerSource = "api"
    timestamp: float | None = None


class EventRef(Lenient):
    """The event a run serves; `data` is small, a large payload lies behind `raw_ref`."""

    event_id: str = ""
    event_type: str = "unknown"
    source: str = "api"
    event_time: float | None = None
    source_event_type: str | None = None
    raw_ref: str | None = None
    data: dict[str, Any] = {}


class Conversation(Lenient):
    """Where the event happened."""

    conversation_id: str | None = None
    thread_id: str | None = None
    launcher_type: str | None = None
    launcher_id: str | None = None
    sender_id: str | None = None
    bot_id: str | None = None
    workspace_id: str | None = None
    session_id: str | None = None


class Actor(Lenient):
    """Who did it. Stated by the source; never an authentication."""

    actor_type: str = "user"
    actor_id: str | None = None
    actor_name: str | None = None
    metadata: dict[str, Any] = {}


class Subject(Lenient):
    """What it was done to."""

    subject_type: str
    subject_id: str | None = None
    data: dict[str, Any] = {}


class Input(Lenient):
    """What the agent is given. `text` is always inline; large files are artifact references."""

    text: str | None = None
    contents: list[ContentElement] = []
    attachments: list[ArtifactRef] = []


class Delivery(Lenient):
    """Where answers go and what that surface can do. `max_message_size` in characters."""

    surface: str = "api"
    reply_target: dict[str, Any] | str | None = None
    supports_streaming: bool = True
    supports_edit: bool = False
    supports_reaction: bool = False
    max_message_size: int | None = None
    platform_capabilities: dict[str, Any] = {}


class InlinePolicy(Lenient):
    """How much history the context holds. This host always says `current_event`."""

    mode: InlinePolicyMode = "current_event"
    delivered_count: int = 1
    source_total_count: int | None = None
    messages_complete: bool = False
    reason: str | None = None


class AvailableApis(Lenient):
    """Which host calls the grant opens."""

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
    """How the runner reaches what the context does not hold."""

    conversation_id: str | None = None
    thread_id: str | None = None
    latest_cursor: str | None = None
    event_seq: int | None = None
    transcript_seq: int | None = None
    has_history_before: bool = False
    inline_policy: InlinePolicy = InlinePolicy()
    available_apis: AvailableApis = AvailableApis()


class StateSnapshot(Lenient):
    """The enabled state scopes as they were when the run started: key -> JSON value."""

    conversation: dict[str, Any] = {}
    actor: dict[str, Any] = {}
    subject: dict[str, Any] = {}
    runner: dict[str, Any] = {}


class Runtime(Lenient):
    """About the host and this run. `trace_id` is the W3C trace id (32 hexadecimal digits)."""

    host_version: str = ""
    trace_id: str = ""
    deadline_at: float | None = None
    metadata: dict[str, Any] = {}


class Adapter(Lenient):
    """One-off, JSON-safe values of the entry the event came through, such as `params`."""

    extra: dict[str, Any] = {}


class AgentRunContext(Lenient):
    """Everything a runner is given at its start. Never history, never prompts.

    A host always sends `trigger` and `event`; only `run_id` is demanded of it.
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
    """What a source hands to the host (AgentEventEnvelope).

    Everything but `event_type` and `input` may be left out; `agent` names the agent that is meant.
    A source without globally unique ids leaves `event_id` out and gets one from the digest of
    what identifies the delivery.
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
