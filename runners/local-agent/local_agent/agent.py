"""The runner: reads the history, asks a model, streams its answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from hostler_sdk import RunContext, Runner, completed, delta, failed, log, message
from hostler_sdk.errors import HostError
from hostler_sdk.results import Result
from hostler_sdk.types import MAX_PAGE_ITEMS, ModelMessage, ModelReply, TranscriptItem, text_of
from local_agent.conversation import content_of, conversation
from local_agent.fallback import Attempt, Candidate, candidates, failure, may_fall_back
from local_agent.settings import Settings, SettingsError, read_settings, unused_settings
from local_agent.think import KeepAll, ThinkFilter

_WHY_EMPTY: Final = {
    "length": "it used up its tokens before it wrote anything: raise its `max_tokens`",
    "content_filter": "its service held the answer back by its content rules: ask differently",
    "tool_calls": "it asked for a tool, and was offered none: say in the prompt that it has no tools",
}


class LocalAgent(Runner):
    """Local agent

    Answers with a model of this host, with the conversation's history.
    """

    async def run(self, ctx: RunContext) -> AsyncIterator[Result]:
        """Answer one event."""
        try:
            settings = read_settings(ctx.config)
        except SettingsError as error:
            yield failed("local-agent.config_invalid", str(error))
            return
        for note in unused_settings(ctx.config, len(ctx.resources.tools)):
            yield log(note, "warning")
        if not content_of(ctx.input):
            yield failed("local-agent.empty_input", "the event carries neither text nor a file to answer to")
            return
        allowed, refused = candidates(settings.models, ctx.resources.models)
        for model_id in refused:
            yield log(f"model {model_id!r} is not granted to this run and was left out", "warning")
        if not allowed:
            yield failed(
                "local-agent.config_invalid",
                f"none of the chosen models ({', '.join(settings.models)}) may be asked; configure one under "
                "`models`, and allow it in the agent's resource policy",
            )
            return
        messages = conversation(settings.prompt, await _history(ctx, settings), ctx.input)
        async with aclosing(_answered(ctx, settings, messages, allowed)) as results:
            async for result in results:
                yield result


async def _history(ctx: RunContext, settings: Settings) -> list[TranscriptItem]:
    """The last messages before this event, oldest first."""
    items: list[TranscriptItem] = []
    wanted = settings.history_limit
    if not ctx.context.available_apis.history_page or not ctx.context.has_history_before:
        return items
    cursor: str | None = None
    while len(items) < wanted:
        page = await ctx.history.page(
            before_cursor=cursor, limit=min(wanted - len(items), MAX_PAGE_ITEMS), include_artifacts=True
        )
        items.extend(page.items)
        if not page.has_more or page.next_cursor in (None, cursor):
            break
        cursor = page.next_cursor
    return items[::-1]


async def _answered(
    ctx: RunContext, settings: Settings, messages: list[ModelMessage], allowed: list[Candidate]
) -> AsyncGenerator[Result]:
    """Deltas, the message and the ending; the next model is asked where one fails before its first word."""
    attempts: list[Attempt] = []
    for candidate in allowed:
        answer = _Answer(settings.remove_think)
        try:
            async with aclosing(answer.written(ctx, candidate, messages)) as pieces:
                async for text in pieces:
                    yield delta(text)
        except HostError as error:
            attempts.append(Attempt(candidate.model_id, error.code, error.message, error.retryable))
            if not may_fall_back(attempts[-1], shown=answer.shown):
                break
            yield log(f"model {candidate.model_id!r} failed: {error.message}", "warning")
            continue
        for result in _ending(candidate, answer):
            yield result
        return
    code, text, retryable = failure(attempts, shown=answer.shown)
    yield failed(code, text, retryable)


def _ending(candidate: Candidate, answer: _Answer) -> list[Result]:
    reply = answer.reply
    if not answer.text.strip():
        why = _WHY_EMPTY.get(reply.finish_reason, "try again, or choose another model")
        return [
            failed(
                "local-agent.empty_answer",
                f"model {candidate.model_id!r} gave an empty answer ({reply.finish_reason}); {why}",
                retryable=reply.finish_reason == "stop",
            )
        ]
    return [message(answer.text), completed(reply.finish_reason, usage=reply.usage)]


class _Answer:
    """One model's answer as it is written, and the whole of it at the end."""

    def __init__(self, remove_think: bool) -> None:
        self._filter = ThinkFilter() if remove_think else KeepAll()
        self._parts: list[str] = []
        self._received = False
        self._reply: ModelReply | None = None

    @property
    def text(self) -> str:
        """What was shown of it so far; the whole text at the end."""
        return "".join(self._parts)

    @property
    def shown(self) -> bool:
        """Whether anything of it is out."""
        return bool(self._parts)

    @property
    def reply(self) -> ModelReply:
        """The model's reply, once the answer is written."""
        if self._reply is None:
            raise RuntimeError("the answer is not written yet")
        return self._reply

    async def written(
        self, ctx: RunContext, candidate: Candidate, messages: list[ModelMessage]
    ) -> AsyncGenerator[str]:
        """The text to show, piece by piece; one that is not streamed is only in `text`."""
        if not candidate.streams:
            self._reply = await ctx.models.invoke(candidate.model_id, messages)
            self._take(text_of(self._reply.message.content))
            self._take_rest()
            return
        stream = ctx.models.stream(candidate.model_id, messages)
        async for chunk in stream:
            if text := self._take(text_of(chunk.delta.content)):
                yield text
        self._reply = stream.reply
        if not self._received and self._reply is not None:  # a host may give the text with the reply alone
            self._take(text_of(self._reply.message.content))
        if text := self._take_rest():
            yield text

    def _take(self, piece: str) -> str:
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
