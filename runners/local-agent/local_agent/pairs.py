"""Calls of tools in a history that its client kept: each goes with its result, as services demand. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler_sdk.types import ModelMessage


def in_pairs(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Leave out calls without a result and results without a call.

    Clients cut their histories where they like, and services refuse a request with half a pair. The results
    of a message's calls are those that follow it at once.
    """
    kept: list[ModelMessage] = []
    for place, message in enumerate(messages):
        if message.role == "tool":  # taken with its call
            continue
        results = _results(messages, place)
        calls = [call for call in message.tool_calls if call.id in results]
        if message.content or calls:
            whole = msgspec.structs.replace(message, tool_calls=calls)
            kept += [whole, *(results[call.id] for call in calls)]
    return kept


def _results(messages: Sequence[ModelMessage], place: int) -> dict[str, ModelMessage]:
    """Return the results that follow a message with calls, by the id of their call."""
    found: dict[str, ModelMessage] = {}
    if not messages[place].tool_calls:
        return found
    for message in messages[place + 1 :]:
        if message.role != "tool":
            break
        found.setdefault(message.tool_call_id or "", message)
    return found
