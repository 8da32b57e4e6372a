"""Read the answers of chat completion services as model replies. Sans-IO: bytes in, values out.

Services differ in details; these are handled here and nowhere else.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.models.chat_accumulator import ChatAccumulator, ChatUsage
from hostler.models.errors import ModelEndpoint
from hostler.models.limits import MAX_BYTES_WITHOUT_EVENT, MAX_SSE_EVENT_BYTES, MAX_STREAM_BYTES
from hostler.models.sse import SseError, SseParser
from hostler_protocol._base import DECODE_ERRORS, Lenient
from hostler_protocol.calls import ModelChunk, ModelReply


class _Choice(Lenient):
    message: dict[str, Any] | None = None  # not decoded: a service may require unknown fields later
    delta: dict[str, Any] | None = None
    finish_reason: str | None = None


class _Answer(Lenient):
    choices: list[_Choice] | None = None
    usage: ChatUsage | None = None
    error: Any = None


_answers = msgspec.json.Decoder(_Answer)


def read_answer(body: bytes | str, endpoint: ModelEndpoint) -> ModelReply:
    """Read a complete answer. ModelAnswerError, or the error that the service reports."""
    answer = _decoded(body, endpoint)
    if not answer.choices or (message := answer.choices[0].message) is None:
        raise endpoint.malformed("the answer has no choices[0].message")
    whole = ChatAccumulator(endpoint)
    whole.add(message)
    return whole.reply(answer.choices[0].finish_reason, answer.usage)


class ChatStream:
    """A streamed answer: bytes in, chunks out. `finish` returns the complete answer at the end."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self._endpoint = endpoint
        self._events = SseParser(MAX_SSE_EVENT_BYTES)
        self._whole = ChatAccumulator(endpoint)
        self._bytes = 0
        self._idle_bytes = 0
        """Since the last event."""
        self._finish_reason: str | None = None
        self._usage: ChatUsage | None = None
        self.done = False
        """The service has sent its end mark."""

    @property
    def answered(self) -> bool:
        """Whether the answer is complete; the service may still send its usage."""
        return self.done or self._finish_reason is not None

    def receive(self, data: bytes) -> list[ModelChunk]:
        """Return the chunks that these bytes complete. ModelAnswerError, or the reported error."""
        self._bytes += len(data)
        self._idle_bytes += len(data)
        if self._bytes > MAX_STREAM_BYTES:
            raise self._endpoint.too_large(MAX_STREAM_BYTES)
        if self._idle_bytes > MAX_BYTES_WITHOUT_EVENT:
            raise self._endpoint.malformed(f"{self._idle_bytes:,} bytes came without an event")
        chunks = []
        try:
            for event in self._events.receive(data):
                self._idle_bytes = 0
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
        """Return the chunk of one event; None if it adds nothing."""
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
        """Return the complete answer. ModelBrokenStreamError if the bytes ended early."""
        if not self.answered:
            raise self._endpoint.broken("the stream ended before the answer did")
        return self._whole.reply(self._finish_reason, self._usage)


def _decoded(data: bytes | str, endpoint: ModelEndpoint) -> _Answer:
    try:
        answer = _answers.decode(data)
    except DECODE_ERRORS as error:  # ValidationError is a DecodeError
        raise endpoint.malformed(f"{error}; it begins {_beginning(data)!r}") from error
    if answer.error:
        raise endpoint.reported(answer.error)
    return answer


def _beginning(data: bytes | str) -> str:
    return data[:80].decode("utf-8", "replace") if isinstance(data, bytes) else data[:80]
