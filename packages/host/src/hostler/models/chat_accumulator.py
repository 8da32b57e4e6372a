"""Assemble the answer of a chat completion service from its pieces, within limits. Sans-IO."""

from __future__ import annotations

import logging
from typing import Any, TypeVar

import msgspec

from hostler.models.errors import ModelEndpoint
from hostler.models.limits import (
    MAX_ANSWER_BYTES,
    MAX_PROVIDER_DATA_BYTES,
    MAX_PROVIDER_DATA_DEPTH,
    MAX_TOOL_CALLS,
    MIN_SECRET_CHARS,
)
from hostler.models.provider_data import (
    OF_MESSAGES,
    REASONING,
    FieldAccumulator,
    fields_of_call,
    fields_of_message,
    is_too_deep,
)
from hostler_protocol._base import Lenient
from hostler_protocol.calls import ModelDelta, ModelReply, ToolCallDelta
from hostler_protocol.content import FunctionCall, ModelMessage, ProviderData, ToolCall, Usage
from hostler_protocol.limits import MAX_INTEGER

_log = logging.getLogger(__name__)
_encode = msgspec.json.encode

_Json = dict[str, Any]
_T = TypeVar("_T")


class _Function(Lenient):
    name: str | None = None
    arguments: Any = None  # JSON text; some services send the object itself


class _Call(Lenient):
    index: int | None = None
    id: str | None = None
    function: _Function = _Function()


class _Message(Lenient):
    content: Any = None  # text, null, or a list of parts
    refusal: str | None = None
    tool_calls: list[_Json] | None = None


class _Details(Lenient):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class ChatUsage(Lenient):
    """The token counts in an answer."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None


class ChatAccumulator:
    """Assembles an answer from its pieces, within limits."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self._endpoint = endpoint
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_CallAccumulator] = []
        self._slots: dict[int, int] = {}
        self._size = 0
        self._named: dict[str, list[str]] = {}
        self._gathered = FieldAccumulator()
        self._gathered_bytes = 0

    def add(self, given: _Json) -> ModelDelta | None:
        """Add a piece and return its delta; None if it adds nothing. ModelAnswerError if it is malformed."""
        piece = self._known(given, _Message)
        text, thought = _texts(piece.content)
        text += piece.refusal or ""
        reasoning = thought
        if not given.keys() <= OF_MESSAGES:  # nearly all pieces have only text
            reasoning = self._add_reasoning(given) or thought
            self._gather(self._gathered, fields_of_message(given))
        calls = [self._add_call(n, call) for n, call in enumerate(piece.tool_calls or [])]
        self._grow(len(text.encode()) + len(thought.encode()))
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        if not (text or reasoning or calls):
            return None
        return ModelDelta(content=text or None, reasoning=reasoning or None, tool_calls=calls)

    def reply(self, finish_reason: str | None, usage: ChatUsage | None) -> ModelReply:
        """Return the complete answer."""
        calls = [call.whole(n, self._data(call.fields)) for n, call in enumerate(self._calls)]
        reasoning = "".join(self._reasoning)
        message = ModelMessage(
            role="assistant",
            content="".join(self._text),
            tool_calls=calls,
            reasoning=reasoning or None,
            provider_data=self._data(self._gathered, reasoning),
        )
        reason = finish_reason or ("tool_calls" if calls else "stop")
        return ModelReply(message=message, finish_reason=reason, usage=_usage_of(usage))

    def _known(self, given: _Json, kind: type[_T]) -> _T:
        try:
            return msgspec.convert(given, kind)
        except msgspec.ValidationError as error:
            raise self._endpoint.malformed(str(error)) from error

    def _add_reasoning(self, given: _Json) -> str:
        """Add the reasoning of a piece under each of its names. Some services require even an empty one."""
        reasoning = {name: text for name in REASONING if isinstance(text := given.get(name), str)}
        for name, text in reasoning.items():
            self._named.setdefault(name, []).append(text)
            self._grow(len(text.encode()))
        return next(filter(None, reasoning.values()), "")

    def _gather(self, into: FieldAccumulator, fields: _Json) -> None:
        if not fields or self._gathered_bytes > MAX_PROVIDER_DATA_BYTES:
            return
        self._gathered_bytes += MAX_PROVIDER_DATA_BYTES + 1 if is_too_deep(fields) else len(_encode(fields))
        if self._gathered_bytes <= MAX_PROVIDER_DATA_BYTES:
            into.add(fields)
        else:
            _log.warning(
                "model %r: fields of %s over %s bytes, or nested over %s deep, are not sent back to it",
                self._endpoint.model_id,
                self._endpoint.url,
                MAX_PROVIDER_DATA_BYTES,
                MAX_PROVIDER_DATA_DEPTH,
            )

    def _data(self, collected: FieldAccumulator, reasoning: str | None = None) -> ProviderData | None:
        """Return the fields to send back, unless too large, and the names of a message's reasoning."""
        fields = collected.whole() if self._gathered_bytes <= MAX_PROVIDER_DATA_BYTES else {}
        named = {} if reasoning is None else {name: "".join(parts) for name, parts in self._named.items()}
        fields = fields | {name: text for name, text in named.items() if text != reasoning}
        reasoning_as = [name for name, text in named.items() if text == reasoning]
        if not fields and not reasoning_as:
            return None
        fields = self._clean(fields)
        return ProviderData(source=self._endpoint.source, fields=fields, reasoning_as=reasoning_as)

    def _clean(self, fields: _Json) -> _Json:
        """Return the fields without secrets, as the journal stores them."""
        text = _encode(fields).decode()
        found = [one for one in self._endpoint.secrets if len(one) >= MIN_SECRET_CHARS and one in text]
        if not found:
            return fields
        for secret in found:
            text = text.replace(secret, "***")
        cleaned: _Json = msgspec.json.decode(text)
        return cleaned

    def _add_call(self, position: int, given: _Json) -> ToolCallDelta:
        piece = self._known(given, _Call)
        slot = self._slot_of(piece, position)
        name, arguments = piece.function.name, _as_text(piece.function.arguments)
        call = self._calls[slot]
        self._gather(call.fields, fields_of_call(given))
        call.id = call.id or piece.id
        call.name = call.name or name or ""
        call.arguments.append(arguments)
        self._grow(len(arguments.encode()) + len(name or ""))
        return ToolCallDelta(index=slot, id=piece.id, name=name, arguments=arguments or None)

    def _slot_of(self, piece: _Call, position: int) -> int:
        """Return the position of a piece's call: by its index, unless it has a new id (some send only 0)."""
        index = position if piece.index is None else piece.index
        slot = self._slots.get(index)
        if slot is not None:
            known = self._calls[slot].id
            if not piece.id or not known or piece.id == known:
                return slot
        if len(self._calls) >= MAX_TOOL_CALLS:
            raise self._endpoint.too_many_calls(MAX_TOOL_CALLS)
        self._calls.append(_CallAccumulator())
        self._slots[index] = len(self._calls) - 1
        return self._slots[index]

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > MAX_ANSWER_BYTES:
            raise self._endpoint.too_large(MAX_ANSWER_BYTES)


class _CallAccumulator:
    __slots__ = ("arguments", "fields", "id", "name")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self.arguments: list[str] = []
        self.fields = FieldAccumulator()

    def whole(self, number: int, data: ProviderData | None) -> ToolCall:
        arguments = "".join(self.arguments) or "{}"
        function = FunctionCall(name=self.name, arguments=arguments)
        return ToolCall(id=self.id or f"call_{number}", function=function, provider_data=data)


def _as_text(arguments: Any) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return msgspec.json.encode(arguments).decode()


def _texts(content: Any) -> tuple[str, str]:
    """Return text and reasoning of a content field: text, null, or a list of text and thinking parts."""
    if isinstance(content, str):
        return content, ""
    if not isinstance(content, list):
        return "", ""
    parts = [part for part in content if isinstance(part, dict)]
    text = "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    thought = "".join(_texts(part.get("thinking"))[0] for part in parts)
    return text, thought


def _usage_of(usage: ChatUsage | None) -> Usage | None:
    if usage is None:
        return None
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    cached = prompt.cached_tokens if prompt else None
    given, made = _count(usage.prompt_tokens), _count(usage.completion_tokens)
    total = _count(usage.total_tokens)
    if total is None and given is not None and made is not None:
        total = _count(given + made)
    return Usage(
        input_tokens=given,
        output_tokens=made,
        total_tokens=total,
        cached_tokens=_count(usage.prompt_cache_hit_tokens if cached is None else cached),
        reasoning_tokens=_count(completion.reasoning_tokens if completion else None),
    )


def _count(tokens: int | None) -> int | None:
    """Return a service's number of tokens as one that can be summed; below 0 it is unknown.

    A negative number would give back what a budget has counted.
    """
    return None if tokens is None or tokens < 0 else min(tokens, MAX_INTEGER)
