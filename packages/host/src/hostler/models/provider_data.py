"""Fields that a service requires back with its answers in later requests, like signatures of reasoning. Pure.

Thinking models refuse a request that repeats an answer without these fields. Each service has its own. So all
fields but a few known to be useless are assembled from their pieces, and sent back unchanged to the service
and model that made them, and to no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hostler.models.limits import MAX_PROVIDER_DATA_DEPTH
from hostler_protocol.content import ModelMessage, ToolCall

REASONING = ("reasoning_content", "reasoning")
"""Field names of reasoning as text."""
OF_MESSAGES = frozenset({"role", "content", "tool_calls", "tool_call_id", "name", "index", "function_call"})
OF_CALLS = frozenset({"index", "id", "type", "function"})
OF_FUNCTIONS = frozenset({"name", "arguments"})
"""The fields of messages, tool calls and functions that all services know."""
_NEVER_SENT_BACK = frozenset({"annotations", "audio", "citations", "executed_tools", "images", "refusal"})
"""Fields of answers that are large, or that the same services refuse in a request."""
_GROWING = frozenset({"text", "thinking", "summary", "content", *REASONING})
"""Strings that are streamed in pieces, so that two equal ones are two pieces."""
_CONSTANT = frozenset({"type", "id", "format", "role", "name"})
"""Strings that are repeated, not continued."""


class FieldAccumulator:
    """Assembles the fields of one message or tool call from its pieces, in order."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[dict[str, Any]] = []

    def add(self, fields: dict[str, Any]) -> None:
        """Add the fields of a piece."""
        self._pieces.append(fields)

    def whole(self) -> dict[str, Any]:
        """Return the assembled fields, without empty ones like `{"refusal": null}`."""
        joined = _joined_objects(self._pieces) if self._pieces else {}
        return {name: value for name, value in joined.items() if not _is_void(value)}


def fields_of_message(piece: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a message, or a piece of it, to send back, except reasoning as text."""
    return {
        name: value
        for name, value in piece.items()
        if value is not None
        and name not in OF_MESSAGES
        and name not in _NEVER_SENT_BACK
        and not (name in REASONING and isinstance(value, str))
    }


def fields_of_call(piece: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a tool call to send back; extra fields of its function are under `function`."""
    found = {name: value for name, value in piece.items() if value is not None and name not in OF_CALLS}
    function = piece.get("function")
    if isinstance(function, Mapping):
        more = {n: value for n, value in function.items() if value is not None and n not in OF_FUNCTIONS}
        if more:
            found["function"] = more
    return found


def for_source(messages: Sequence[ModelMessage], source: str) -> list[ModelMessage]:
    """Return the messages for one service and model: without the fields of others."""
    return [_of_source(message, source) for message in messages]


def sent_back(message: ModelMessage) -> dict[str, Any]:
    """Return the fields to send back with a message, besides those of every message."""
    data = message.provider_data
    if data is None or message.role != "assistant":
        return {}
    fields = {name: value for name, value in data.fields.items() if name not in OF_MESSAGES}
    return fields | {name: message.reasoning or "" for name in data.reasoning_as if name in REASONING}


def sent_back_call(call: ToolCall) -> dict[str, Any]:
    """Return the fields to send back with a tool call, with its complete function."""
    function: dict[str, Any] = {"name": call.function.name, "arguments": call.function.arguments}
    if call.provider_data is None:
        return {"function": function}
    fields = call.provider_data.fields
    more = fields.get("function")
    if isinstance(more, Mapping):
        function = {**more, **function}
    return {name: value for name, value in fields.items() if name not in OF_CALLS} | {"function": function}


def _of_source(message: ModelMessage, source: str) -> ModelMessage:
    def is_foreign(one: ModelMessage | ToolCall) -> bool:
        return one.provider_data is not None and one.provider_data.source != source

    if is_foreign(message):
        message = msgspec.structs.replace(message, provider_data=None)
    if any(map(is_foreign, message.tool_calls)):
        calls = [
            msgspec.structs.replace(call, provider_data=None) if is_foreign(call) else call
            for call in message.tool_calls
        ]
        message = msgspec.structs.replace(message, tool_calls=calls)
    return message


def is_too_deep(value: Any) -> bool:
    """Return whether lists and objects are nested more deeply than the limit for fields sent back."""
    level = [value]
    for _ in range(MAX_PROVIDER_DATA_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, list | dict)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return any(isinstance(one, list | dict) for one in level)


def _is_void(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_void, value.values()))
    if isinstance(value, list):
        return all(map(_is_void, value))
    return value is None or value == ""


# -- joining pieces: strings are appended, objects and lists joined by field and item ---------------------


def _joined(name: str, pieces: list[Any]) -> Any:
    if len(pieces) == 1:
        return pieces[0]
    if all(isinstance(piece, str) for piece in pieces):
        return _joined_text(name, pieces)
    if all(isinstance(piece, dict) for piece in pieces):
        return _joined_objects(pieces)
    if all(isinstance(piece, list) for piece in pieces):
        return _joined_lists(name, pieces)
    return pieces[-1]


def _joined_text(name: str, pieces: list[str]) -> str:
    is_repeated = name not in _GROWING and pieces.count(pieces[0]) == len(pieces)
    if name in _CONSTANT or is_repeated:
        return next(filter(None, reversed(pieces)), "")
    return "".join(pieces)


def _joined_objects(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    fields: dict[str, list[Any]] = {}
    for piece in pieces:
        for name, value in piece.items():
            known = fields.setdefault(name, [])
            if value is not None:
                known.append(value)
    return {name: _joined(name, values) if values else None for name, values in fields.items()}


def _joined_lists(name: str, pieces: list[list[Any]]) -> list[Any]:
    """Join lists. An object continues the one with its index and type in an earlier piece."""
    if name == "thinking_blocks":
        return _joined_blocks([item for piece in pieces for item in piece])
    items: list[list[Any]] = []
    places: dict[Any, tuple[int, int]] = {}
    for number, piece in enumerate(pieces):
        for item in piece:
            key = _key_of(item)
            place, last_piece = places.get(key, (len(items), number))
            if key is None or last_piece == number:
                place = len(items)
                items.append([item])
            elif isinstance(item, dict):
                items[place].append(item)
            if key is not None:
                places[key] = place, number
    return [_joined("", found) for found in items]


def _key_of(item: Any) -> Any:
    """Return the key by which a later item continues this one; None if none can."""
    if isinstance(item, dict):
        index = item.get("index")
        return (index, str(item.get("type"))) if isinstance(index, int) else None
    return item if isinstance(item, str) else None


def _joined_blocks(pieces: list[Any]) -> list[Any]:
    """Join reasoning blocks without an index, as LiteLLM sends them: a block continues until it is signed."""
    blocks: list[list[Any]] = []
    is_open = False
    for piece in pieces:
        thinks = isinstance(piece, dict) and piece.get("type") == "thinking"
        if thinks and is_open:
            blocks[-1].append(piece)
        else:
            blocks.append([piece])
        is_open = thinks and not piece.get("signature")
    return [_joined("", found) for found in blocks]
