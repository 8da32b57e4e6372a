"""Shorten long texts. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler_sdk.types import ModelMessage, ToolCall, text_of
from local_agent.budget import given_back


def shortened(text: str, most: int) -> str:
    """Return beginning and end of a text that is longer than `most` characters."""
    if len(text) <= most:
        return text
    head, tail = most * 3 // 4, most - most * 3 // 4
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[... {left_out:,} characters left out ...]\n{text[len(text) - tail :]}"


def short_message(message: ModelMessage, most: int) -> ModelMessage:
    """Shorten a tool's result, or each call of an answer, to about `most` characters. Other messages stay."""
    if message.tool_calls:
        calls = [_short_call(call, most) for call in message.tool_calls]
        return msgspec.structs.replace(message, tool_calls=calls)
    if message.role == "tool":
        return msgspec.structs.replace(message, content=shortened(text_of(message.content), most))
    return message


def characters_of(message: ModelMessage) -> int:
    """Count the characters of a message's text, its calls, and the service's data."""
    calls = sum(len(call.function.arguments) + len(call.function.name) for call in message.tool_calls)
    return calls + given_back(message) + len(text_of(message.content))


def _short_call(call: ToolCall, most: int) -> ToolCall:
    arguments = _short_arguments(call.function.arguments, most)
    return msgspec.structs.replace(call, function=msgspec.structs.replace(call.function, arguments=arguments))


def _short_arguments(arguments: str, most: int) -> str:
    """Shorten arguments of a past call to about `most` characters, as JSON of the same form if possible."""
    if len(arguments) <= most:
        return arguments
    text = msgspec.json.encode(_short_texts(msgspec.json.decode(arguments), most // 2)).decode()
    if len(text) <= most:
        return text
    return msgspec.json.encode({"left_out": shortened(arguments, most // 2)}).decode()


def _short_texts(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return shortened(value, most)
    if isinstance(value, dict):
        return {name: _short_texts(one, most) for name, one in value.items()}
    return [_short_texts(one, most) for one in value] if isinstance(value, list) else value
