"""From what a chat completion service answers to the host's model replies. Sans-IO: bytes in, values out.

Services differ in small ways; what is known of them is read here and nowhere else.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.models.errors import Endpoint
from hostler.models.limits import MAX_ANSWER_BYTES, MAX_SSE_EVENT_BYTES, MAX_STREAM_BYTES, MAX_TOOL_CALLS
from hostler.models.sse import SseError, SseParser
from hostler_protocol._base import Lenient
from hostler_protocol.calls import ModelChunk, ModelDelta, ModelReply, ToolCallDelta
from hostler_protocol.content import FunctionCall, ModelMessage, ToolCall, Usage


class _Function(Lenient):
    name: str | None = None
    arguments: Any = None  # JSON text; some services send the object itself


class _Call(Lenient):
    index: int | None = None
    id: str | None = None
    function: _Function = _Function()


class _Message(Lenient):
    content: Any = None  # text, null, or a list of parts
    reasoning_content: str | None = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Lenient):
    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None


class _Details(Lenient):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(Lenient):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None


class _Answer(Lenient):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_answers = msgspec.json.Decoder(_Answer)


def read_answer(body: bytes | str, endpoint: Endpoint) -> ModelReply:
    """A whole answer. ModelAnswerError where it is none; the service's own error where it reports one."""
    answer = _decoded(body, endpoint)
    if not answer.choices or (message := answer.choices[0].message) is None:
        raise endpoint.malformed("the answer has no choices[0].message")
    whole = _Assembly(endpoint)
    whole.add(message)
    return whole.reply(answer.choices[0].finish_reason, answer.usage)


class ChatStream:
    """One streamed answer: bytes in, chunks out; `finish` gives the whole once the bytes have ended."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._events = SseParser(MAX_SSE_EVENT_BYTES)
        self._whole = _Assembly(endpoint)
        self._bytes = 0
        self._finish_reason: str | None = None
        self._usage: _Usage | None = None
        self.done = False
        """The service said that nothing follows."""

    @property
    def answered(self) -> bool:
        """Whether the answer is whole, though the service may still have its usage to say."""
        return self.done or self._finish_reason is not None

    def receive(self, data: bytes) -> list[ModelChunk]:
        """The chunks that these bytes complete. Raises the service's own error, or why the stream is bad."""
        self._bytes += len(data)
        if self._bytes > MAX_STREAM_BYTES:
            raise self._endpoint.too_large(MAX_STREAM_BYTES)
        chunks = []
        try:
            for event in self._events.receive(data):
                if self.done:
                    break
                if event.data.strip() == "[DONE]":
                    self.done = True
                elif (chunk := self.take_event(event.data)) is not None:
                    chunks.append(chunk)
        except SseError as error:
            raise self._endpoint.malformed(str(error)) from error
        return chunks

    def take_event(self, data: str) -> ModelChunk | None:
        """What one event's data adds; None where that is nothing."""
        answer = _decoded(data, self._endpoint)
        self._usage = answer.usage or self._usage
        if not answer.choices:
            return None
        choice = answer.choices[0]
        self._finish_reason = choice.finish_reason or self._finish_reason
        piece = choice.delta or choice.message
        delta = None if piece is None else self._whole.add(piece)
        return None if delta is None else ModelChunk(delta=delta)

    def finish(self) -> ModelReply:
        """The whole answer. ModelBrokenStreamError where the bytes ended before the answer did."""
        if not self.answered:
            raise self._endpoint.broken("the stream ended before the answer did")
        return self._whole.reply(self._finish_reason, self._usage)


class _Assembly:
    """Puts an answer together from its pieces, within its bounds."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_GrowingCall] = []
        self._slots: dict[int, int] = {}
        self._size = 0

    def add(self, piece: _Message) -> ModelDelta | None:
        """Take a piece; gives what it adds, None where that is nothing."""
        text, thought = _texts(piece.content)
        text += piece.refusal or ""
        reasoning = piece.reasoning_content or (piece.reasoning if isinstance(piece.reasoning, str) else "")
        reasoning = reasoning or thought
        calls = [self._add_call(n, call) for n, call in enumerate(piece.tool_calls or [])]
        self._grow(len(text.encode()) + len(reasoning.encode()))
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        if not (text or reasoning or calls):
            return None
        return ModelDelta(content=text or None, reasoning=reasoning or None, tool_calls=calls)

    def reply(self, finish_reason: str | None, usage: _Usage | None) -> ModelReply:
        """The whole answer."""
        calls = [call.whole(number) for number, call in enumerate(self._calls)]
        message = ModelMessage(
            role="assistant",
            content="".join(self._text),
            tool_calls=calls,
            reasoning="".join(self._reasoning) or None,
        )
        reason = finish_reason or ("tool_calls" if calls else "stop")
        return ModelReply(message=message, finish_reason=reason, usage=_usage_of(usage))

    def _add_call(self, position: int, piece: _Call) -> ToolCallDelta:
        slot = self._slot_of(piece, position)
        name, arguments = piece.function.name, _as_text(piece.function.arguments)
        call = self._calls[slot]
        call.id = call.id or piece.id
        call.name = call.name or name or ""
        call.arguments.append(arguments)
        self._grow(len(arguments.encode()) + len(name or ""))
        return ToolCallDelta(index=slot, id=piece.id, name=name, arguments=arguments or None)

    def _slot_of(self, piece: _Call, position: int) -> int:
        """Where a piece belongs: by its index, though a new id there is a new call (some only say 0)."""
        index = position if piece.index is None else piece.index
        slot = self._slots.get(index)
        if slot is not None:
            known = self._calls[slot].id
            if not piece.id or not known or piece.id == known:
                return slot
        if len(self._calls) >= MAX_TOOL_CALLS:
            raise self._endpoint.too_many_calls(MAX_TOOL_CALLS)
        self._calls.append(_GrowingCall())
        self._slots[index] = len(self._calls) - 1
        return self._slots[index]

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > MAX_ANSWER_BYTES:
            raise self._endpoint.too_large(MAX_ANSWER_BYTES)


class _GrowingCall:
    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self.arguments: list[str] = []

    def whole(self, number: int) -> ToolCall:
        arguments = "".join(self.arguments) or "{}"
        return ToolCall(
            id=self.id or f"call_{number}", function=FunctionCall(name=self.name, arguments=arguments)
        )


def _decoded(data: bytes | str, endpoint: Endpoint) -> _Answer:
    try:
        answer = _answers.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # ValidationError is a DecodeError
        raise endpoint.malformed(f"{error}; it begins {_beginning(data)!r}") from error
    if answer.error:
        raise endpoint.reported(answer.error)
    return answer


def _beginning(data: bytes | str) -> str:
    return data[:80].decode("utf-8", "replace") if isinstance(data, bytes) else data[:80]


def _as_text(arguments: Any) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return msgspec.json.encode(arguments).decode()


def _texts(content: Any) -> tuple[str, str]:
    """Text and reasoning of a content field: text, null, or a list of parts of type text and thinking."""
    if isinstance(content, str):
        return content, ""
    if not isinstance(content, list):
        return "", ""
    parts = [part for part in content if isinstance(part, dict)]
    text = "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    thought = "".join(_texts(part.get("thinking"))[0] for part in parts)
    return text, thought


def _usage_of(usage: _Usage | None) -> Usage | None:
    if usage is None:
        return None
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    cached = prompt.cached_tokens if prompt else None
    total = usage.total_tokens
    if total is None and usage.prompt_tokens is not None and usage.completion_tokens is not None:
        total = usage.prompt_tokens + usage.completion_tokens
    return Usage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=total,
        cached_tokens=usage.prompt_cache_hit_tokens if cached is None else cached,
        reasoning_tokens=completion.reasoning_tokens if completion else None,
    )
