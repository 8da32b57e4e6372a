"""One answer of a model, sent piece by piece while the model generates it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec

from hostler_sdk import RunContext, delta
from hostler_sdk.services.think_tags import BlankFilter, ThinkFilter
from hostler_sdk.types import FunctionSpec, ModelMessage, ModelReply, ProviderData, ToolCall, Usage, text_of
from local_agent.fallback import Candidate, ModelsFailed
from local_agent.requested_calls import CallAssembly
from local_agent.truncation import shortened

CUT_REASONS: Final = frozenset({"length", "content_filter"})
"""Finish reasons of answers that the service ended before the model did."""

MAX_ANSWER_BYTES = 768 * 1024
"""Text of one answer as JSON: the host accepts a message of 1 MiB, and no person reads as much."""
MAX_SHOWN_REASONING_CHARS = 32 * 1024
"""Thinking sent with one message or piece: with the longest answer it fits into one result, in any script."""
MAX_STREAMED_REASONING_CHARS = 512 * 1024
"""Thinking of one answer that is sent while it comes. More is no reading for a person."""


class Answer:
    """An answer. `generate` asks the model; the attributes hold the outcome."""

    def __init__(self, remove_think: bool, *, show_reasoning: bool = False) -> None:
        self._shows_reasoning = show_reasoning
        self._reasoning_shown = 0
        """Characters of thinking that were sent."""
        self._filter = ThinkFilter() if remove_think else BlankFilter()
        self._parts: list[str] = []
        self._calls = CallAssembly()
        self._received = False
        self._bytes = 0
        self.model_id = ""
        self.finish_reason = "stop"
        self.usage: Usage | None = None
        self.reasoning: str | None = None
        self.provider_data: ProviderData | None = None
        """Data that the model's service needs back with this answer."""
        self.tool_calls: list[ToolCall] = []

    @property
    def text(self) -> str:
        """The text sent so far; at the end, the whole text."""
        return "".join(self._parts)

    @property
    def shown(self) -> bool:
        """Whether any text was sent."""
        return bool(self._parts)

    @property
    def is_empty(self) -> bool:
        """Whether it has neither text nor tool calls."""
        return not self.tool_calls and not self.text.strip()

    @property
    def is_cut(self) -> bool:
        """Whether the service ended it before the model did: its last tool call may be incomplete."""
        return self.finish_reason in CUT_REASONS

    @property
    def shown_reasoning(self) -> str | None:
        """The thinking to send with the complete message; beginning and end of a long one."""
        if not self._shows_reasoning or not self.reasoning:
            return None
        return shortened(self.reasoning, MAX_SHOWN_REASONING_CHARS)

    def as_message(self, calls: Sequence[ToolCall] = ()) -> ModelMessage:
        """Return the answer as a message for the next request, with the checked tool calls."""
        return ModelMessage(
            role="assistant",
            content=self.text if self.text.strip() else None,
            tool_calls=list(calls),
            reasoning=self.reasoning,
            provider_data=self.provider_data,
        )

    async def generate(
        self,
        ctx: RunContext,
        candidate: Candidate,
        messages: list[ModelMessage],
        tools: list[FunctionSpec],
        extra: dict[str, Any],
    ) -> None:
        """Ask the model, and send its text as deltas. Without streaming, nothing is sent."""
        self.model_id = candidate.model_id
        if not candidate.streams:
            self._finish(await ctx.models.invoke(candidate.model_id, messages, tools or None, **extra))
            return
        stream = ctx.models.stream(candidate.model_id, messages, tools or None, **extra)
        async with aclosing(aiter(stream)) as chunks:
            async for chunk in chunks:
                self._calls.add(chunk.delta.tool_calls)
                if thought := self._shown_piece(chunk.delta.reasoning):
                    await ctx.emit(delta(reasoning=thought))
                if text := self._take(text_of(chunk.delta.content)):
                    await ctx.emit(delta(text))
        if text := self._finish(stream.reply):
            await ctx.emit(delta(text))

    def _finish(self, reply: ModelReply | None) -> str:
        """Take the complete reply. Return the text that was held back so far."""
        text = ""
        if reply is not None:
            self.finish_reason, self.usage = reply.finish_reason, reply.usage
            self.reasoning, self.provider_data = reply.message.reasoning, reply.message.provider_data
            if not self._received:  # a host may give the text with the reply alone
                text = self._take(text_of(reply.message.content))
        self.tool_calls = (reply.message.tool_calls if reply is not None else []) or self._calls.whole()
        return text + self._take_rest()

    def _shown_piece(self, thought: str | None) -> str:
        """Return what is sent of a piece of thinking; of a long one its beginning."""
        if not self._shows_reasoning or not thought:
            return ""
        room = MAX_STREAMED_REASONING_CHARS - self._reasoning_shown
        piece = thought[: max(0, min(room, MAX_SHOWN_REASONING_CHARS))]
        self._reasoning_shown += len(piece)
        return piece

    def _take(self, piece: str) -> str:
        self._bytes += len(msgspec.json.encode(piece))
        if self._bytes > MAX_ANSWER_BYTES:
            raise ModelsFailed(
                "local-agent.model_error",
                f"model {self.model_id!r} wrote more than {MAX_ANSWER_BYTES:,} bytes in one answer; "
                "set its `max_tokens`, or choose another model",
                False,
            )
        self._received = self._received or bool(piece)
        text = self._filter.feed(piece)
        if text:
            self._parts.append(text)
        return text

    def _take_rest(self) -> str:
        text = self._filter.finish()
        if text:
            self._parts.append(text)
        return text
