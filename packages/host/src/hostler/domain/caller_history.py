"""Messages that the sender of an event kept itself: the history of a new conversation. Pure.

Clients of models send a whole conversation with each request. The host takes what comes before the last
message as the history of a conversation that begins with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import msgspec

from hostler.domain.events import Event
from hostler.domain.ingest import InlineContent, extract_inline, refs_in
from hostler.domain.keys import MAX_ID_CHARS
from hostler_protocol.content import Content, HistoryMessage, Role
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.ids import digest
from hostler_protocol.limits import MAX_INPUT_TEXT_BYTES, MIB

MAX_MESSAGES = 1_000
"""A model reads no more; longer conversations are kept by the host, where only the new message is sent."""
MAX_BYTES = 4 * MIB
"""All messages as JSON, inline content included: as much as one request over HTTP may have."""
MAX_CALLS = 128
"""Tool calls of one message, a limit of common services."""
METADATA = {"from": "caller"}
"""Metadata of each item: what an assistant said there is what the caller says that it said."""

_ROLES = frozenset(get_args(Role))


def with_history(
    event: Event, inline: list[InlineContent], history: Sequence[HistoryMessage]
) -> tuple[Event, list[InlineContent], list[HistoryMessage]]:
    """Return an event that brings a history, all inline files of both, and the messages as they are stored.

    The digest of the event covers its history: the same event with another one is a conflict.
    InvalidArgumentError, PayloadTooLargeError.
    """
    if not history:
        return event, inline, []
    check_history(history, event.envelope)
    whole = digest([event.request_digest, msgspec.to_builtins(list(history))])
    messages, of_history = _to_store(history)
    return msgspec.structs.replace(event, request_digest=whole), [*inline, *of_history], messages


def check_history(history: Sequence[HistoryMessage], envelope: EventEnvelope) -> None:
    """Check an event's history. InvalidArgumentError or PayloadTooLargeError names the message."""
    if envelope.event_type != "message.received":
        raise InvalidArgumentError(f"history: an event {envelope.event_type} has none; messages have")
    if envelope.conversation_id is None:
        raise InvalidArgumentError("history: the event needs a conversation_id, of a new conversation")
    if len(history) > MAX_MESSAGES:
        raise PayloadTooLargeError(f"history has {len(history):,} messages; at most {MAX_MESSAGES:,}")
    total = 0
    for number, message in enumerate(history):
        size = len(msgspec.json.encode(message))
        text = size - _inline_size(message.content)
        if text > MAX_INPUT_TEXT_BYTES:
            raise PayloadTooLargeError(
                f"history[{number}] has {text:,} bytes of JSON without its files; at most "
                f"{MAX_INPUT_TEXT_BYTES:,}"
            )
        total += size
        wrong = _misfit(message) or _wrong_name(message)
        if wrong is not None:
            raise InvalidArgumentError(f"history[{number}]: {wrong}")
    if total > MAX_BYTES:
        raise PayloadTooLargeError(f"history has {total:,} bytes of JSON; at most {MAX_BYTES:,}")


def _misfit(message: HistoryMessage) -> str | None:
    """Return why role and calls of a message do not fit together, or None."""
    if message.role not in _ROLES:
        return f"role {message.role!r:.60}: expected one of {', '.join(sorted(_ROLES))}"
    if message.tool_calls and message.role != "assistant":
        return f"tool_calls are an assistant's, not those of role {message.role}"
    if len(message.tool_calls) > MAX_CALLS:
        return f"{len(message.tool_calls)} tool_calls; at most {MAX_CALLS}"
    if (message.tool_call_id is None) == (message.role == "tool"):
        return "tool_call_id names the call that a message of role tool answers, and no other has it"
    return None


def _wrong_name(message: HistoryMessage) -> str | None:
    ids = [call.id for call in message.tool_calls]
    if len(set(ids)) < len(ids):
        return "two tool_calls have one id"
    names = [message.tool_call_id, message.name, message.message_id]
    for name in (*names, *ids, *(call.function.name for call in message.tool_calls)):
        if name is not None and not 1 <= len(name) <= MAX_ID_CHARS:
            return f"{name[:60]!r}: ids and names have 1 to {MAX_ID_CHARS} characters"
    return None


def _inline_size(content: Content) -> int:
    if isinstance(content, str):
        return 0
    return sum(
        len(getattr(element, "image_base64", "") or getattr(element, "file_base64", "") or "")
        for element in content
    )


def _to_store(history: Sequence[HistoryMessage]) -> tuple[list[HistoryMessage], list[InlineContent]]:
    """Return the messages as they are stored, inline files replaced by references, and these files.

    What a model's service needs back with its own messages is left out: it was not made here, and the host
    vouches for it towards the service.
    """
    kept: list[HistoryMessage] = []
    inline: list[InlineContent] = []
    for number, message in enumerate(history):
        content = message.content
        if not isinstance(content, str):
            content, found = extract_inline(content, f"history[{number}].content")
            inline += found
        calls = [msgspec.structs.replace(call, provider_data=None) for call in message.tool_calls]
        refs = refs_in([] if isinstance(content, str) else content, message.artifact_refs)
        kept.append(
            msgspec.structs.replace(
                message, content=content, tool_calls=calls, artifact_refs=refs, reasoning=None
            )
        )
    return kept, inline
