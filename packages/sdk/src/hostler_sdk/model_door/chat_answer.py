"""Answers of models as `/chat/completions` writes them, whole and in chunks. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from hostler_protocol.calls import ModelChunk, ModelReply, ToolCallDelta
from hostler_protocol.content import Usage, text_of
from hostler_sdk.model_door.reading import Json

DONE = b"data: [DONE]\n\n"


class AnswerHead(NamedTuple):
    """What all parts of an answer carry. `created`: of the run's event, and so the same in a replay."""

    id: str
    created: int
    model: str
    functions: bool = False
    """The answer calls a tool in the older form."""


def completion(head: AnswerHead, reply: ModelReply) -> Json:
    """Return a whole answer."""
    said = reply.message
    message: Json = {"role": "assistant", "content": text_of(said.content) or None, "refusal": None}
    if said.reasoning:
        message["reasoning_content"] = said.reasoning
    if said.tool_calls and head.functions:
        function = said.tool_calls[0].function
        message["function_call"] = {"name": function.name, "arguments": function.arguments}
    elif said.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in said.tool_calls
        ]
    elif message["content"] is None:
        message["content"] = ""
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(head, reply)}
    whole = _frame(head, "chat.completion", [choice])
    return whole if reply.usage is None else whole | {"usage": usage_of(reply.usage)}


class ChatChunks:
    """The chunks of one answer, each a server-sent event."""

    def __init__(self, head: AnswerHead, *, include_usage: bool) -> None:
        self._head = head
        self._include_usage = include_usage
        self._begun: set[int] = set()
        """Indexes of the tool calls whose id and name were sent; clients join what is sent twice."""

    def first(self) -> bytes:
        """Return the chunk that opens the message."""
        return self._chunk({"role": "assistant", "content": ""})

    def piece(self, chunk: ModelChunk) -> bytes:
        """Return the chunk of a piece; empty if it says nothing."""
        delta: Json = {}
        if text := text_of(chunk.delta.content):
            delta["content"] = text
        if chunk.delta.reasoning:
            delta["reasoning_content"] = chunk.delta.reasoning
        calls = [self._call(call) for call in chunk.delta.tool_calls]
        if calls and self._head.functions:
            delta["function_call"] = calls[0]["function"]
        elif calls:
            delta["tool_calls"] = calls
        return self._chunk(delta) if delta else b""

    def last(self, reply: ModelReply) -> bytes:
        """Return the end of the answer."""
        end = self._chunk({}, _reason(self._head, reply))
        if self._include_usage:
            usage = None if reply.usage is None else usage_of(reply.usage)
            end += event(_frame(self._head, "chat.completion.chunk", []) | {"usage": usage})
        return end + DONE

    def _call(self, call: ToolCallDelta) -> Json:
        function: Json = {"arguments": call.arguments or ""}
        if call.index in self._begun:
            return {"index": call.index, "function": function}
        self._begun.add(call.index)
        return {
            "index": call.index,
            "id": call.id or f"call_{call.index}",  # as the host names a call without an id
            "type": "function",
            "function": {"name": call.name or "", **function},
        }

    def _chunk(self, delta: Json, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        whole = _frame(self._head, "chat.completion.chunk", [choice])
        return event(whole | {"usage": None} if self._include_usage else whole)


def _frame(head: AnswerHead, kind: str, choices: list[Json]) -> Json:
    return {"id": head.id, "object": kind, "created": head.created, "model": head.model, "choices": choices}


def _reason(head: AnswerHead, reply: ModelReply) -> str:
    if head.functions and reply.message.tool_calls:
        return "function_call"
    return reply.finish_reason


def event(data: Any, name: str | None = None) -> bytes:
    """Return a server-sent event."""
    start = b"" if name is None else b"event: " + name.encode() + b"\n"
    return start + b"data: " + msgspec.json.encode(data) + b"\n\n"


def usage_of(usage: Usage) -> Json:
    """Return a usage; the unknown is 0, since clients need numbers."""
    spent, written = usage.input_tokens or 0, usage.output_tokens or 0
    whole: Json = {
        "prompt_tokens": spent,
        "completion_tokens": written,
        "total_tokens": spent + written if usage.total_tokens is None else usage.total_tokens,
    }
    if usage.cached_tokens is not None:
        whole["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    if usage.reasoning_tokens is not None:
        whole["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return whole
