"""The stream of a Coze chat: server-sent events whose names are in their `event:` lines. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hostler_sdk.services import (
    Done,
    Item,
    Note,
    ServerEvent,
    ServiceFailure,
    Session,
    Spent,
    SseParser,
    Task,
    Text,
    ToolEnd,
    ToolStart,
    number_in,
    object_in,
    text_in,
    usage_of,
)

REFUSED_KEYS = frozenset({4100, 4101, 700012006})
"""Codes for a token that is wrong, expired or lacks a permission."""
BUSY = frozenset({4013, 4028, 5000, 720702222})
"""Codes for limits and for errors of Coze itself."""
MAX_TOOL_CHARS = 4_000
_NEWS = frozenset({"conversation.chat.in_progress", "conversation.audio.delta"})
_SILENT_TYPES = frozenset({"verbose", "follow_up", "knowledge", "question", ""})


class CozeStream(SseParser):
    """One answer. A chat may have several messages of the bot; they are joined by a blank line."""

    def __init__(self) -> None:
        super().__init__()
        self._message = ""
        self._streamed: set[str] = set()
        self._wrote = False

    def plain(self, event: ServerEvent) -> Iterator[Item] | None:
        """Return nothing for the last event, whose data is a JSON text."""
        return iter(()) if event.event == "done" else super().plain(event)

    def body(self, data: dict[str, object]) -> Iterator[Item]:
        """Raise the error that Coze answers with status 200."""
        raise coze_error(data)

    def take(self, event: str, data: dict[str, object]) -> Iterator[Item]:
        """Return the items of one event."""
        match event:
            case "conversation.chat.created":
                yield Session("conversation_id", text_in(data, "conversation_id"))
                yield Task(text_in(data, "id"))
            case "conversation.message.delta":
                yield from self._delta(data)
            case "conversation.message.completed":
                yield from self._message_completed(data)
            case "conversation.chat.completed":
                yield Session("conversation_id", text_in(data, "conversation_id"))
                names = "input_count", "output_count", "token_count"
                if found := usage_of(object_in(data, "usage"), *names):
                    yield Spent(found)
                yield Done()
            case "conversation.chat.failed":
                raise coze_error(object_in(data, "last_error"))
            case "conversation.chat.requires_action":
                raise ServiceFailure(
                    "service_error",
                    "the bot of Coze wants a tool's result from its caller; use a bot without such tools",
                )
            case "error":
                raise coze_error(data)
            case _ if event not in _NEWS:
                yield Note(f"Coze sent an unknown event: {event:.60}")

    def _delta(self, data: Mapping[str, Any]) -> Iterator[Item]:
        if text_in(data, "type") == "answer" and (piece := text_in(data, "content")):
            id_ = text_in(data, "id")
            self._streamed.add(id_)
            yield from self._piece(id_, piece)

    def _message_completed(self, data: Mapping[str, Any]) -> Iterator[Item]:
        kind, id_, content = text_in(data, "type"), text_in(data, "id"), text_in(data, "content")
        match kind:
            case "answer" if id_ not in self._streamed and content:
                yield from self._piece(id_, content)
            case "answer":
                pass
            case "function_call":
                yield ToolStart(id_, "coze.function_call", content[:MAX_TOOL_CHARS])
            case "tool_output" | "tool_response":
                yield ToolEnd(id_, "coze.function_call", content[:MAX_TOOL_CHARS])
            case _ if kind not in _SILENT_TYPES:
                yield Note(f"Coze sent a message of an unknown type: {kind:.60}")

    def _piece(self, id_: str, text: str) -> Iterator[Item]:
        if self._wrote and id_ != self._message:
            yield Text("\n\n")
        self._message, self._wrote = id_, True
        yield Text(text)


def coze_error(data: Mapping[str, Any]) -> ServiceFailure:
    """Return the failure for an error of Coze; its code is 0 where all is well."""
    code = number_in(data, "code") or number_in(data, "error_code") or 0
    said = text_in(data, "msg") or text_in(data, "error_message") or "it gives no reason"
    if code in REFUSED_KEYS:
        return ServiceFailure(
            "auth_error",
            f"Coze refused the token ({code}): {said:.300}; check config `api-key`, its permissions, and "
            "`api-base`",
        )
    return ServiceFailure(
        "service_error",
        f"Coze reported an error ({code}): {said:.300}; look the code up in Coze's documentation",
        retryable=code in BUSY,
    )
