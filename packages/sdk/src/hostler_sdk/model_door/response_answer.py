"""Answers of models as `/responses` writes them: items, and the events of a stream. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from hostler_protocol.calls import ModelChunk, ModelReply, ToolCallDelta
from hostler_protocol.content import Usage, text_of
from hostler_sdk.model_door.chat_answer import AnswerHead, event
from hostler_sdk.model_door.problems import DoorError
from hostler_sdk.model_door.reading import Json

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Reasons of chat completions for which an answer is not complete."""


def response(head: AnswerHead, echo: Json, status: str, output: list[Json], **more: Any) -> Json:
    """Return the object of an answer. `echo`: what it repeats of its request."""
    defaults: Json = {
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
    }
    frame = {"id": head.id, "object": "response", "created_at": head.created, "status": status}
    return {**frame, **defaults, **echo, "model": head.model, "output": output, **more}


def whole_response(head: AnswerHead, echo: Json, reply: ModelReply) -> Json:
    """Return a whole answer."""
    reason = _INCOMPLETE.get(reply.finish_reason)
    return response(
        head,
        echo,
        "completed" if reason is None else "incomplete",
        items_of(head, reply),
        incomplete_details=None if reason is None else {"reason": reason},
        usage=None if reply.usage is None else _usage(reply.usage),
    )


def items_of(head: AnswerHead, reply: ModelReply) -> list[Json]:
    """Return the items of an answer: what the model thought, what it said, what it calls."""
    said = reply.message
    text = text_of(said.content)
    items: list[_Item] = []
    if said.reasoning:
        items.append(_Item("rs", len(items), [said.reasoning]))
    if text or not said.tool_calls:
        items.append(_Item("msg", len(items), [text]))
    for call in said.tool_calls:
        function = call.function
        items.append(_Item("fc", len(items), [function.arguments], call.id, function.name))
    return [_done(head, item) for item in items]


@dataclass(slots=True)
class _Item:
    """One item of an answer, which may still be written. `place`: among all items."""

    kind: Literal["rs", "msg", "fc"]
    place: int
    pieces: list[str] = field(default_factory=list)
    call_id: str = ""
    name: str = ""

    @property
    def text(self) -> str:
        """What is written so far."""
        return "".join(self.pieces)


def _item_id(head: AnswerHead, item: _Item) -> str:
    return f"{item.kind}_{head.id.removeprefix('resp_')}{item.place:02d}"


def _begun(head: AnswerHead, item: _Item) -> Json:
    match item.kind:
        case "rs":
            return {"id": _item_id(head, item), "type": "reasoning", "summary": []}
        case "msg":
            return {
                "id": _item_id(head, item),
                "type": "message",
                "status": "in_progress",
                "role": "assistant",
                "content": [],
            }
        case _:
            return {
                "id": _item_id(head, item),
                "type": "function_call",
                "status": "in_progress",
                "call_id": item.call_id,
                "name": item.name,
                "arguments": "",
            }


def _done(head: AnswerHead, item: _Item) -> Json:
    begun = _begun(head, item)
    match item.kind:
        case "rs":
            return begun | {"summary": [_summary(item.text)]}
        case "msg":
            return begun | {"status": "completed", "content": [_part(item.text)]}
        case _:
            return begun | {"status": "completed", "arguments": item.text or "{}"}


def _summary(text: str) -> Json:
    return {"type": "summary_text", "text": text}


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(usage: Usage) -> Json:
    spent, written = usage.input_tokens or 0, usage.output_tokens or 0
    return {
        "input_tokens": spent,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": spent + written if usage.total_tokens is None else usage.total_tokens,
    }


class ResponseEvents:
    """The events of one streamed answer, in the order that clients expect, numbered from 0.

    An item is opened when its first piece comes. Reasoning and text are closed when another item begins;
    calls, whose pieces may come by turns, at the end.
    """

    def __init__(self, head: AnswerHead, echo: Json) -> None:
        self._head = head
        self._echo = echo
        self._number = 0
        self._items: list[_Item] = []
        self._open: dict[tuple[str, int], _Item] = {}
        """By kind, and the index of a call in the model's answer."""

    def first(self) -> bytes:
        """Return the events that open the answer."""
        begun = response(self._head, self._echo, "in_progress", [])
        created = self._event("response.created", response=begun)
        return created + self._event("response.in_progress", response=begun)

    def piece(self, chunk: ModelChunk) -> bytes:
        """Return the events of a piece."""
        events = b""
        if chunk.delta.reasoning:
            events += self._grow("rs", chunk.delta.reasoning)
        if text := text_of(chunk.delta.content):
            events += self._grow("msg", text)
        for call in chunk.delta.tool_calls:
            events += self._grow("fc", call.arguments or "", call)
        return events

    def last(self, reply: ModelReply) -> bytes:
        """Return the events that close the answer."""
        events = b"" if self._items else self._grow("msg", "")  # an empty answer is an empty message
        events += b"".join(self._close(key) for key in list(self._open))
        whole = self.whole(reply)
        kind = "response.completed" if whole["status"] == "completed" else "response.incomplete"
        return events + self._event(kind, response=whole)

    def whole(self, reply: ModelReply) -> Json:
        """Return the whole answer, with the items that were sent."""
        output = [_done(self._head, item) for item in self._items]
        return whole_response(self._head, self._echo, reply) | {"output": output}

    def failed(self, error: DoorError) -> bytes:
        """Return the event of an answer that broke off."""
        still_open = list(self._open.values())
        output = [_done(self._head, item) for item in self._items if item not in still_open]
        fault = {"code": "server_error", "message": error.message}
        broken = response(self._head, self._echo, "failed", output, error=fault)
        return self._event("response.failed", response=broken)

    # -- items ------------------------------------------------------------------------------------

    def _grow(self, kind: Literal["rs", "msg", "fc"], text: str, call: ToolCallDelta | None = None) -> bytes:
        """Add text to the open item of a kind; open one if there is none."""
        key = (kind, 0 if call is None else call.index)
        item, events = self._open.get(key), b""
        if item is None:
            events += b"".join(self._close(one) for one in list(self._open) if one[0] != "fc")
            item = self._open[key] = _Item(kind, len(self._items))
            self._items.append(item)
            if call is not None:
                item.call_id = call.id or f"call_{call.index}"  # as the host names a call without an id
            item.name = call.name or "" if call is not None else ""
            events += self._added(item)
        elif call is not None:
            item.name = item.name or call.name or ""
        if not text:
            return events
        item.pieces.append(text)
        if kind == "rs":
            grown = self._at(item, "response.reasoning_summary_text.delta", summary_index=0, delta=text)
        elif kind == "msg":
            grown = self._at(item, "response.output_text.delta", content_index=0, delta=text, logprobs=[])
        else:
            grown = self._at(item, "response.function_call_arguments.delta", delta=text)
        return events + grown

    def _added(self, item: _Item) -> bytes:
        begun = _begun(self._head, item)
        events = self._event("response.output_item.added", output_index=item.place, item=begun)
        if item.kind == "rs":
            events += self._at(
                item, "response.reasoning_summary_part.added", summary_index=0, part=_summary("")
            )
        elif item.kind == "msg":
            events += self._at(item, "response.content_part.added", content_index=0, part=_part(""))
        return events

    def _close(self, key: tuple[str, int]) -> bytes:
        item = self._open.pop(key)
        text = item.text
        if item.kind == "rs":
            closed = self._at(item, "response.reasoning_summary_text.done", summary_index=0, text=text)
            closed += self._at(
                item, "response.reasoning_summary_part.done", summary_index=0, part=_summary(text)
            )
        elif item.kind == "msg":
            closed = self._at(item, "response.output_text.done", content_index=0, text=text, logprobs=[])
            closed += self._at(item, "response.content_part.done", content_index=0, part=_part(text))
        else:
            arguments = text or "{}"
            closed = self._at(
                item, "response.function_call_arguments.done", name=item.name, arguments=arguments
            )
        done = _done(self._head, item)
        return closed + self._event("response.output_item.done", output_index=item.place, item=done)

    def _at(self, item: _Item, kind: str, **fields: Any) -> bytes:
        return self._event(kind, item_id=_item_id(self._head, item), output_index=item.place, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        data = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return event(data, kind)
