"""Build the context that a run starts with, from facts that are already read."""

from __future__ import annotations

from typing import Any, cast, get_args

import msgspec

from hostler.domain.agents import DeliveryPolicy
from hostler.domain.record import Record
from hostler_protocol.events import (
    Adapter,
    AgentRunContext,
    AvailableApis,
    ContextAccess,
    Conversation,
    Delivery,
    EventEnvelope,
    EventRef,
    InlinePolicy,
    Input,
    Runtime,
    StateSnapshot,
    Trigger,
    TriggerSource,
)
from hostler_protocol.grants import Resources

_SOURCES = frozenset(get_args(TriggerSource))


class Position(Record):
    """The run's position in the logs. `latest_cursor` is signed for the run's own history."""

    event_seq: int | None
    transcript_seq: int | None
    latest_cursor: str | None
    has_history_before: bool


def build_context(
    *,
    run_id: str,
    attempt: int,
    envelope: EventEnvelope,
    given: Input,
    resources: Resources,
    primary_model: str | None,
    apis: AvailableApis,
    position: Position,
    state: dict[str, dict[str, Any]],
    config: dict[str, Any],
    host_version: str,
    trace_id: str,
    deadline_at: float | None,
    policy: DeliveryPolicy,
) -> AgentRunContext:
    """Build the context of one attempt. `given` is the event's input with small files put inline.

    `primary_model`: the first granted model that the configuration selects.
    """
    source = envelope.source if envelope.source in _SOURCES else "platform"
    return AgentRunContext(
        run_id=run_id,
        attempt=attempt,
        trigger=Trigger(
            type=envelope.event_type, source=cast(TriggerSource, source), timestamp=envelope.event_time
        ),
        event=event_ref_of(envelope),
        conversation=conversation_of(envelope),
        actor=envelope.actor,
        subject=envelope.subject,
        input=given,
        delivery=_delivery(envelope, policy),
        resources=resources,
        context=ContextAccess(
            conversation_id=envelope.conversation_id,
            thread_id=envelope.thread_id,
            latest_cursor=position.latest_cursor,
            event_seq=position.event_seq,
            transcript_seq=position.transcript_seq,
            has_history_before=position.has_history_before,
            inline_policy=InlinePolicy(mode="current_event", delivered_count=1),
            available_apis=apis,
        ),
        state=_snapshot(state),
        runtime=Runtime(
            host_version=host_version,
            trace_id=trace_id,
            deadline_at=deadline_at,
            metadata=_runtime_metadata(resources, primary_model),
        ),
        config=config,
        adapter=Adapter(extra={"params": envelope.data["params"]}) if "params" in envelope.data else None,
        metadata=envelope.metadata,
    )


def event_ref_of(envelope: EventEnvelope) -> EventRef:
    """Return the event in the form that runners get."""
    return EventRef(
        event_id=envelope.event_id or "",
        event_type=envelope.event_type,
        source=envelope.source,
        event_time=envelope.event_time,
        source_event_type=envelope.source_event_type,
        raw_ref=envelope.raw_ref,
        data=envelope.data,
    )


def conversation_of(envelope: EventEnvelope) -> Conversation:
    """Return the event's conversation in the form that runners get."""
    return Conversation(
        conversation_id=envelope.conversation_id,
        thread_id=envelope.thread_id,
        launcher_type=envelope.launcher_type,
        launcher_id=envelope.launcher_id,
        sender_id=envelope.sender_id,
        bot_id=envelope.bot_id,
        workspace_id=envelope.workspace_id,
        session_id=envelope.session_id,
    )


def _delivery(envelope: EventEnvelope, policy: DeliveryPolicy) -> Delivery:
    """Return the capabilities of the surface, narrowed by the agent's delivery policy."""
    delivery = envelope.delivery or Delivery(surface=envelope.source)
    sizes = [size for size in (policy.max_message_size, delivery.max_message_size) if size is not None]
    return msgspec.structs.replace(
        delivery,
        reply_target=delivery.reply_target if policy.enable_reply else None,
        supports_streaming=delivery.supports_streaming and policy.enable_streaming,
        max_message_size=min(sizes, default=None),
    )


def _snapshot(state: dict[str, dict[str, Any]]) -> StateSnapshot:
    return StateSnapshot(
        conversation=state.get("conversation", {}),
        actor=state.get("actor", {}),
        subject=state.get("subject", {}),
        runner=state.get("runner", {}),
    )


def _runtime_metadata(resources: Resources, primary_model: str | None) -> dict[str, Any]:
    """Return `model_context_window_tokens`: the primary model's window, absent if it is not known.

    A runner that uses a fallback reads the window from that model's resource. Without a selected model it is
    the smallest known window, since the runner may use any granted model.
    """
    windows = {
        model.model_id: model.context_window_tokens
        for model in resources.models
        if model.model_type == "llm" and model.context_window_tokens
    }
    window = min(windows.values(), default=None) if primary_model is None else windows.get(primary_model)
    return {} if window is None else {"model_context_window_tokens": window}
