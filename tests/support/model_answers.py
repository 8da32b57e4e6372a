"""Answers that a scripted model service gives, and how an OpenAI-compatible service writes them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.gates import Gate

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


@dataclass(frozen=True)
class Recorded:
    """One request as it came in. Header names are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.body)
        return value

    @property
    def last_text(self) -> str:
        """The text of the last message."""
        content = self.json["messages"][-1]["content"]
        if isinstance(content, str):
            return content
        return "".join(part.get("text", "") for part in content)


@dataclass
class Answer:
    """One scripted answer. Give `pieces` (a chat answer) or `body` (raw bytes)."""

    pieces: list[str | Gate] = field(default_factory=list)
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    reasoning_field: str = "reasoning_content"
    finish_reason: str | None = "stop"
    usage: dict[str, Any] | None = field(default_factory=lambda: dict(USAGE))
    done: bool = True
    cut_after: int | None = None  # bytes of the body, then the connection is closed hard
    split: int | None = None  # bytes per write
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | Callable[[Recorded], bytes] | None = None
    hold: Gate | None = None  # before the first byte of the answer
    close: bool = False  # no answer at all
    message: dict[str, Any] | None = (
        None  # the whole message as the service writes it, where it is not streamed
    )
    deltas: list[dict[str, Any]] | None = None  # its pieces, where it is


def wishes(*of: tuple[str, str, dict[str, Any]], **more: Any) -> Answer:
    """An answer that asks for calls of tools: their id, name and arguments."""
    calls = [{"id": id_, "name": name, "arguments": json.dumps(given)} for id_, name, given in of]
    return Answer(tool_calls=calls, finish_reason="tool_calls", **more)


async def body_of(answer: Answer, request: Recorded, streamed: bool) -> AsyncIterator[bytes]:
    if answer.body is not None:
        yield answer.body(request) if callable(answer.body) else answer.body
        return
    model = request.json.get("model", "model")
    if not streamed:
        for piece in answer.pieces:
            if isinstance(piece, Gate):
                await piece.passed()
        yield json.dumps(whole_answer(answer, model)).encode()
        return
    wants_usage = request.json.get("stream_options", {}).get("include_usage", False)
    async for event in _events(answer, wants_usage):
        if event is None:
            yield b"data: [DONE]\n\n"
        else:
            frame = {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": model,
                **event,
            }
            yield b"data: " + json.dumps(frame, ensure_ascii=False).encode() + b"\n\n"


async def _events(answer: Answer, wants_usage: bool) -> AsyncIterator[dict[str, Any] | None]:
    def choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    for delta in answer.deltas or [{"role": "assistant", "content": ""}]:
        yield choice(delta)
    for thought in answer.reasoning:
        yield choice({answer.reasoning_field: thought})
    for piece in answer.pieces:
        if isinstance(piece, Gate):
            await piece.passed()
        else:
            yield choice({"content": piece})
    for index, call in enumerate(answer.tool_calls):
        head = {"index": index, "id": call["id"], "type": "function"}
        yield choice({"tool_calls": [{**head, "function": {"name": call["name"], "arguments": ""}}]})
        for part in _halves(call["arguments"]):
            yield choice({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    if answer.finish_reason is not None:
        yield choice({}, answer.finish_reason)
    if wants_usage and answer.usage is not None:
        yield {"choices": [], "usage": answer.usage}
    if answer.done:
        yield None


def whole_answer(answer: Answer, model: str) -> dict[str, Any]:
    text = "".join(piece for piece in answer.pieces if isinstance(piece, str))
    message: dict[str, Any] = answer.message or {"role": "assistant", "content": text or None}
    if answer.reasoning:
        message[answer.reasoning_field] = "".join(answer.reasoning)
    if answer.tool_calls:
        message["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in answer.tool_calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": answer.finish_reason}
    whole = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [choice],
    }
    return whole | ({"usage": answer.usage} if answer.usage is not None else {})


def words(text: str) -> list[str | Gate]:
    return [word if n == 0 else f" {word}" for n, word in enumerate(text.split(" "))]


def _halves(text: str) -> Sequence[str]:
    middle = len(text) // 2
    return [part for part in (text[:middle], text[middle:]) if part]
