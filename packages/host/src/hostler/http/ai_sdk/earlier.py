"""The messages before the last one of a chat: the history of a conversation that is new to the host."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from hostler.http.ai_sdk.chat_request import RETURNED, ChatRequest, UIMessage
from hostler.http.ai_sdk.files import element_of
from hostler.http.dialects.files import content_of
from hostler_protocol.content import (
    FunctionCall,
    HistoryMessage,
    ToolCall,
)


def earlier_messages(chat: ChatRequest, addresses: Collection[str]) -> list[HistoryMessage]:
    """Return what a chat has before its last message. InvalidArgumentError for a part that cannot be read.

    `addresses`: of this host, whose files are artifacts.
    """
    return [
        said
        for number, message in enumerate(chat.messages[:-1])
        for said in _said(message, f"messages[{number}]", addresses)
    ]


def _said(message: UIMessage, place: str, addresses: Collection[str]) -> Iterator[HistoryMessage]:
    """Yield a message, with its tool calls, and then what came of them."""
    shown = [
        element_of(part, f"{place}.parts[{number}]", addresses)
        for number, part in enumerate(message.parts)
        if part.get("type") in ("text", "file")
    ]
    calls = [part for part in message.parts if _is_call(part)]
    if shown or calls:
        tool_calls = [
            ToolCall(
                id=part["toolCallId"],
                function=FunctionCall(name=_tool_name(part), arguments=_json(part.get("input"))),
            )
            for part in calls
        ]
        yield HistoryMessage(role=message.role, content=content_of(shown), tool_calls=tool_calls)
    for part in calls:
        outcome = part.get("output") if part["state"] == "output-available" else part.get("errorText")
        text = outcome if isinstance(outcome, str) else _json(outcome)
        yield HistoryMessage(role="tool", content=text, tool_call_id=part["toolCallId"])


def _is_call(part: dict[str, Any]) -> bool:
    """Whether a part is a call of a tool that has returned."""
    named = isinstance(part.get("toolCallId"), str) and isinstance(part.get("type"), str)
    return named and bool(_tool_name(part)) and part.get("state") in RETURNED


def _tool_name(part: dict[str, Any]) -> str:
    if part["type"] == "dynamic-tool":
        name = part.get("toolName")
        return name if isinstance(name, str) else ""
    return str(part["type"]).removeprefix("tool-") if part["type"].startswith("tool-") else ""


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
