"""What a program leaves out of the model's answers when it sends them back, kept for one run.

Services want parts of an answer back that OpenAI's interface has no fields for, like signatures of a model's
thinking. Programs send only text and calls of tools: by these the answer is found again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import msgspec

from hostler_protocol.content import ModelMessage, ToolCall, text_of
from hostler_protocol.ids import digest
from hostler_sdk.model_door.limits import MAX_REMEMBERED_ANSWERS, MAX_REMEMBERED_BYTES


class AnswerMemory:
    """The answers with hidden parts, at most 256 of 8 MiB; the oldest go first."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, tuple[ModelMessage, int]] = OrderedDict()
        self._bytes = 0

    def add(self, message: ModelMessage) -> None:
        """Keep an answer if it has hidden parts."""
        hidden = (
            message.reasoning or message.provider_data or any(c.provider_data for c in message.tool_calls)
        )
        if not hidden:
            return
        key, size = _key_of(message), len(msgspec.json.encode(message))
        self._bytes -= self._answers.pop(key, (message, 0))[1]
        self._answers[key] = (message, size)
        self._bytes += size
        while len(self._answers) > MAX_REMEMBERED_ANSWERS or self._bytes > MAX_REMEMBERED_BYTES:
            self._bytes -= self._answers.popitem(last=False)[1][1]

    def complete(self, messages: Sequence[ModelMessage]) -> list[ModelMessage]:
        """Return the messages, with the hidden parts of known answers."""
        return [self._complete(one) if one.role == "assistant" else one for one in messages]

    def _complete(self, message: ModelMessage) -> ModelMessage:
        found = self._answers.get(_key_of(message)) if self._answers else None
        if found is None:
            return message
        known = found[0]
        calls = [
            msgspec.structs.replace(call, provider_data=own.provider_data)
            for call, own in zip(message.tool_calls, known.tool_calls, strict=True)
        ]
        return msgspec.structs.replace(
            message, reasoning=known.reasoning, provider_data=known.provider_data, tool_calls=calls
        )


def _key_of(message: ModelMessage) -> str:
    """Return what identifies an answer: its text and its calls, however their JSON is written."""
    return digest([text_of(message.content), [_key_of_call(call) for call in message.tool_calls]])


def _key_of_call(call: ToolCall) -> list[Any]:
    try:
        arguments = msgspec.json.decode(call.function.arguments)
    except (msgspec.DecodeError, RecursionError):
        arguments = call.function.arguments
    return [call.function.name, arguments]
