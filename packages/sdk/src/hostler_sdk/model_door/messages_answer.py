"""Answers of models as `/messages` writes them, whole and as the events of a stream. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from hostler_protocol.calls import ModelChunk, ModelReply, ToolCallDelta
from hostler_protocol.content import Usage, text_of
from hostler_sdk.model_door.chat_answer import AnswerHead, event
from hostler_sdk.model_door.problems import DoorError, anthropic_fields
from hostler_sdk.model_door.reading import Json

_REASONS = {"length": "max_tokens", "content_filter": "refusal"}
"""Reasons of chat completions, as Anthropic's; any other one is the end of a turn."""
Kind = Literal["thinking", "text", "tool_use"]


class CallIds:
    """Ids of calls, each given out once: programs take a second call of one id for the first.

    Services that give no ids, or count them anew in each answer, repeat them. `used`: those of the request's
    messages.
    """

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used = set(used)

    def unique(self, call_id: str) -> str:
        """Return an id that no other call has, which follows from what was asked."""
        found, number = call_id, 1
        while found in self._used:
            number += 1
            found = f"{call_id}_{number}"
        self._used.add(found)
        return found


def whole_message(head: AnswerHead, reply: ModelReply, *, thinks: bool, ids: CallIds) -> Json:
    """Return a whole answer. DoorError if the model called a tool with what is no JSON object."""
    said = reply.message
    content: list[Json] = []
    if said.reasoning and thinks:
        content.append({"type": "thinking", "thinking": said.reasoning, "signature": head.id})
    if text := text_of(said.content):
        content.append(_text(text))
    for call in said.tool_calls:
        name, given = call.function.name, arguments_of(call.function.name, call.function.arguments)
        content.append({"type": "tool_use", "id": ids.unique(call.id), "name": name, "input": given})
    return _message(head, content, stop_reason=_reason(reply), usage=_usage(reply.usage))


def arguments_of(name: str, text: str) -> Json:
    """Return the arguments of a call. DoorError where the model wrote what is no JSON object."""
    try:
        given = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        given = None
    if not isinstance(given, dict):
        text = f"the model called {name!r:.100} with arguments that are no JSON object: {text!r:.200}"
        raise DoorError(502, text, "model_failed", retry=True)
    return given


@dataclass(slots=True)
class _Block:
    """A block of the answer. What comes while another call is written is `held` until that one is over."""

    kind: Kind
    call_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)


class MessageEvents:
    """The events of one answer, of one block after the other, as Anthropic's clients expect.

    Calls of tools may come by turns: the first is sent as it is written, the others when the answer is over.
    """

    def __init__(self, head: AnswerHead, *, thinks: bool, ids: CallIds) -> None:
        self._head = head
        self._ids = ids
        self._thinks = thinks
        self._place = -1
        self._open: _Block | None = None
        self._late: dict[tuple[Kind, int], _Block] = {}
        self._call: int | None = None
        """Index of the call that is being written, in the model's answer."""

    def first(self) -> bytes:
        """Return the event that opens the answer."""
        return event({"type": "message_start", "message": _message(self._head, [])}, "message_start")

    def piece(self, chunk: ModelChunk) -> bytes:
        """Return the events of a piece; empty if it says nothing."""
        events = b""
        if chunk.delta.reasoning and self._thinks:
            events += self._grow("thinking", chunk.delta.reasoning)
        if text := text_of(chunk.delta.content):
            events += self._grow("text", text)
        for call in chunk.delta.tool_calls:
            events += self._grow("tool_use", call.arguments or "", call)
        return events

    def last(self, reply: ModelReply) -> bytes:
        """Return the events that end the answer. DoorError as for `arguments_of`."""
        events = self._close()
        for block in self._late.values():
            events += self._begin(block) + self._more(block, "".join(block.held)) + self._close()
        delta = {"stop_reason": _reason(reply), "stop_sequence": None}
        end = {"type": "message_delta", "delta": delta, "usage": _usage(reply.usage)}
        return events + event(end, "message_delta") + event({"type": "message_stop"}, "message_stop")

    def failed(self, error: DoorError) -> bytes:
        """Return the event of an answer that broke off."""
        return event(anthropic_fields(error), "error")

    # -- blocks -----------------------------------------------------------------------------------

    def _grow(self, kind: Kind, text: str, call: ToolCallDelta | None = None) -> bytes:
        index = 0 if call is None else call.index
        opened = self._open
        if self._call is not None and (kind != "tool_use" or index != self._call):
            self._hold(kind, index, text, call)
            return b""
        if opened is not None and opened.kind == kind:
            return self._more(opened, text)
        block = self._block(kind, call)
        self._call = None if call is None else index
        return self._close() + self._begin(block) + self._more(block, text)

    def _hold(self, kind: Kind, index: int, text: str, call: ToolCallDelta | None) -> None:
        block = self._late.get((kind, index))
        if block is None:
            block = self._late[kind, index] = self._block(kind, call)
        block.held.append(text)

    def _block(self, kind: Kind, call: ToolCallDelta | None) -> _Block:
        if call is None:
            return _Block(kind)
        named = call.id or f"call_{call.index}"  # as the host names one without an id
        return _Block(kind, self._ids.unique(named), call.name or "")

    def _begin(self, block: _Block) -> bytes:
        self._place += 1
        self._open = block
        match block.kind:
            case "thinking":
                begun: Json = {"type": "thinking", "thinking": "", "signature": ""}
            case "text":
                begun = _text("")
            case "tool_use":
                begun = {"type": "tool_use", "id": block.call_id, "name": block.name, "input": {}}
        return self._event("content_block_start", content_block=begun)

    def _more(self, block: _Block, text: str) -> bytes:
        if not text:
            return b""
        match block.kind:
            case "thinking":
                return self._delta(type="thinking_delta", thinking=text)
            case "text":
                return self._delta(type="text_delta", text=text)
            case "tool_use":
                block.pieces.append(text)
                return self._delta(type="input_json_delta", partial_json=text)

    def _close(self) -> bytes:
        block, self._open = self._open, None
        if block is None:
            return b""
        events = b""
        if block.kind == "thinking":
            events += self._delta(type="signature_delta", signature=self._head.id)
        if block.kind == "tool_use":
            arguments_of(block.name, "".join(block.pieces))
        return events + self._event("content_block_stop")

    def _delta(self, **delta: Any) -> bytes:
        return self._event("content_block_delta", delta=delta)

    def _event(self, kind: str, **fields: Any) -> bytes:
        return event({"type": kind, "index": self._place, **fields}, kind)


def _text(text: str) -> Json:
    return {"type": "text", "text": text, "citations": None}


def _message(
    head: AnswerHead, content: list[Json], *, stop_reason: str | None = None, usage: Json | None = None
) -> Json:
    return {
        "id": head.id,
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage or _usage(None),
    }


def _reason(reply: ModelReply) -> str:
    if reply.message.tool_calls and reply.finish_reason not in _REASONS:
        return "tool_use"
    return _REASONS.get(reply.finish_reason, "end_turn")


def _usage(usage: Usage | None) -> Json:
    """Return a usage; the unknown is 0, since clients need numbers. Cached tokens are not counted twice."""
    usage = usage or Usage()
    cached = usage.cached_tokens or 0
    return {
        "input_tokens": max((usage.input_tokens or 0) - cached, 0),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.output_tokens or 0,
    }
