"""The context of a run, and records of the host, in LangBot's form. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hostler_langbot.attachments import input_of, reference_of
from hostler_langbot.messages import content_out
from hostler_sdk.types import (
    AgentRunContext,
    ContentElement,
    JournalRecord,
    Page,
    RunRecord,
    SteeringInputItem,
    TranscriptItem,
)

MODEL_OPERATIONS = frozenset({"invoke", "stream", "rerank", "count_tokens"})
"""Operations of models that LangBot's SDK has names for; it refuses a context with others."""
MESSAGES = frozenset({"message.received"})
EXTERNAL_ID = "external.conversation_id"
SOURCES = frozenset({"platform", "webui", "api", "scheduler", "system", "host_adapter"})


def context_of(given: AgentRunContext, inlined: Mapping[str, ContentElement] | None = None) -> dict[str, Any]:
    """Return the context that a plugin gets.

    `inlined`: content elements to send in place of stored files, by the id of the artifact.
    """
    context = plain(given.context)
    context["available_apis"] = {**context.get("available_apis", {}), "prompt_get": True}
    found = {
        "run_id": given.run_id,
        "trigger": _trigger(given),
        "event": _event(given.event),
        "input": input_of(given.input, inlined),
        "delivery": _delivery(given),
        "resources": _resources(given),
        "context": context,
        "state": _state(given),
        "runtime": {
            "langbot_version": given.runtime.host_version or None,
            "trace_id": given.runtime.trace_id or None,
            "deadline_at": given.runtime.deadline_at,
            "metadata": {
                **given.runtime.metadata,
                "streaming_supported": given.delivery.supports_streaming,
                "component_kind": "Runner",
            },
        },
        "config": given.config,
        "metadata": given.metadata,
    }
    for field in ("conversation", "actor", "subject"):
        if (value := getattr(given, field)) is not None:
            found[field] = plain(value)
    if given.actor is None and given.conversation is not None and given.event.event_type in MESSAGES:
        # LangBot's messages have a sender, and services tie a conversation of theirs to one user
        found["actor"] = {"actor_type": "user", "actor_id": given.conversation.conversation_id}
    if given.adapter is not None:
        found["adapter"] = {"extra": given.adapter.extra}
    return found


def _state(given: AgentRunContext) -> dict[str, Any]:
    """Return the state of each scope.

    A host presets `external.conversation_id` with the conversation's own id. It is left out: plugins take
    what is there for an id that their service gave out, and ask it to continue that conversation.
    """
    found = {scope: getattr(given.state, scope) for scope in ("conversation", "actor", "subject", "runner")}
    own = given.conversation.conversation_id if given.conversation is not None else None
    conversation = found["conversation"]
    if own is not None and conversation.get(EXTERNAL_ID) == own:
        found["conversation"] = {key: value for key, value in conversation.items() if key != EXTERNAL_ID}
    return found


def _trigger(given: AgentRunContext) -> dict[str, Any]:
    source = given.trigger.source
    return {
        "type": given.trigger.type,
        "source": source if source in SOURCES else "api",
        "timestamp": seconds(given.trigger.timestamp),
    }


def _event(event: Any) -> dict[str, Any]:
    found: dict[str, Any] = plain(event)
    found["event_time"] = seconds(event.event_time)
    found["raw_ref"] = None if event.raw_ref is None else {"ref_id": event.raw_ref}
    return found


def _delivery(given: AgentRunContext) -> dict[str, Any]:
    found: dict[str, Any] = plain(given.delivery)
    target = found.get("reply_target")
    if isinstance(target, str):
        found["reply_target"] = {"target": target}
    return found


def _resources(given: AgentRunContext) -> dict[str, Any]:
    found: dict[str, Any] = plain(given.resources)
    for model in found.get("models", []):
        model["operations"] = [one for one in model.get("operations", []) if one in MODEL_OPERATIONS]
    found["models"] = [model for model in found.get("models", []) if model["operations"]]
    return found


def seconds(moment: float | None) -> int | None:
    """Return a time in whole seconds, which is what LangBot's SDK accepts."""
    return None if moment is None else int(moment)


def plain(value: Any) -> Any:
    """Return structs of the protocol as plain JSON values."""
    return msgspec.to_builtins(value)


# -- records ---------------------------------------------------------------------------------------


def transcript_of(item: TranscriptItem) -> dict[str, Any]:
    """Return a message of the history."""
    found: dict[str, Any] = plain(item)
    found.pop("artifact_refs", None)
    message = item.message
    return {
        **found,
        "event_id": item.event_id or "",
        "content_json": {"role": message.role, "content": content_out(message.content)},
        "attachment_refs": [reference_of(ref) for ref in item.artifact_refs],
        "created_at": seconds(item.created_at),
    }


def event_record_of(record: Any) -> dict[str, Any]:
    """Return a record of the event log."""
    return {
        **plain(record),
        "event_time": seconds(record.event_time),
        "created_at": seconds(record.created_at),
    }


def run_of(record: RunRecord) -> dict[str, Any]:
    """Return the record of a run."""
    return {
        "run_id": record.run_id,
        "event_id": record.event_id,
        "agent_id": record.agent,
        "runner_id": record.runner_id,
        "conversation_id": record.conversation_id,
        "status": record.status,
        "status_reason": record.status_code,
        "created_at": seconds(record.created_at),
        "started_at": seconds(record.started_at),
        "finished_at": seconds(record.finished_at),
        "deadline_at": seconds(record.deadline_at),
        "cancel_requested_at": seconds(record.cancel_requested_at),
        "usage": None if record.usage is None else plain(record.usage),
        "cost": None if record.cost is None else {"total": record.cost},
        "metadata": {"attempt": record.attempt, "agent_version": record.agent_version},
    }


def run_event_of(record: JournalRecord, run_id: str) -> dict[str, Any]:
    """Return an entry of a run's journal."""
    payload = record.payload
    return {
        "id": record.position,
        "run_id": run_id,
        "sequence": record.sequence if record.sequence is not None else 0,
        "type": record.type,
        "data": payload if isinstance(payload, dict) else {"value": payload},
        "created_at": seconds(record.at),
        "source": record.kind,
        "metadata": {"attempt": record.attempt, "position": record.position},
    }


def page_of(page: Page[Any], items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a page with these items."""
    return {
        "items": list(items),
        "next_cursor": page.next_cursor,
        "prev_cursor": page.prev_cursor,
        "has_more": page.has_more,
        "total_count": page.total_count,
    }


def steering_of(item: SteeringInputItem) -> dict[str, Any]:
    """Return a message that reached the run while it works."""
    found = {
        "claimed_run_id": item.claimed_run_id,
        "runner_id": item.runner_id,
        "claimed_at": seconds(item.claimed_at),
        "event": _event(item.event),
        "input": input_of(item.input),
        "metadata": item.metadata,
    }
    for field in ("conversation", "actor", "subject"):
        if (value := getattr(item, field)) is not None:
            found[field] = plain(value)
    return found
