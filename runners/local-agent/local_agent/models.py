"""The models of a run: asked in order, until one answers; that one is kept for the rest of the run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hostler_sdk import RunContext, log
from hostler_sdk.errors import HostError
from hostler_sdk.services.think_tags import ThinkFilter
from hostler_sdk.types import FunctionSpec, ModelMessage, text_of
from local_agent.answer import Answer
from local_agent.budget import Budget, budget_of
from local_agent.fallback import Attempt, Candidate, failure, is_overflow, may_fall_back
from local_agent.files import files_of, without_files
from local_agent.prompt import Prompt
from local_agent.settings import Settings
from local_agent.token_counts import Counter
from local_agent.usage import UsageSum

_NO_FILES = "model {!r} was asked again without the files of earlier messages: {}"
_EMPTY = "model {!r} gave an empty answer ({}): asked once more"
_TOO_LONG = "the request was longer than the window of model {!r}: asked again with less in it"


class Models:
    """Asks models for answers and summaries. `usage` is that of the whole run."""

    def __init__(self, ctx: RunContext, settings: Settings, candidates: Sequence[Candidate]) -> None:
        self._ctx = ctx
        self._settings = settings
        self._candidates = list(candidates)
        self._tightened: dict[str, Budget] = {}
        """Reduced budgets by model id. Once per run, one model is asked again with less."""
        self._blind: set[str] = set()
        """Ids of models that refused a request with files."""
        self._asked_twice: set[str] = set()
        """Ids of models that gave an empty answer and were asked once more."""
        self.usage = UsageSum()

    @property
    def first(self) -> Candidate:
        """The model that is asked next."""
        return self._candidates[0]

    @property
    def budget(self) -> Budget:
        """The budget of the model that is asked next."""
        return self._budget_of(self.first)

    async def ask(
        self,
        draft: Prompt,
        counter: Counter,
        tools: list[FunctionSpec],
        extra: dict[str, Any],
        make_room: Callable[[Budget], Awaitable[None]],
    ) -> Answer:
        """Return the next answer. Raises ModelsFailed if no model gives one.

        The next model is asked if one fails before its first word, or gives an empty answer twice. A request
        that is longer than the model's window is repeated once, after `make_room` has shortened the draft.
        """
        attempts: list[Attempt] = []
        while self._candidates:
            candidate = self._candidates[0]
            answer = Answer(self._settings.remove_think, show_reasoning=self._settings.show_reasoning)
            limit = self._budget_of(candidate).request
            await counter.settle(draft, limit)
            messages = draft.within(limit)
            if candidate.model_id in self._blind:
                messages = without_files(messages)
            try:
                await answer.generate(self._ctx, candidate, messages, tools, extra)
            except HostError as error:
                attempts.append(_attempt(candidate, error))
                if is_overflow(error) and not answer.shown and not self._tightened:
                    await counter.settle(draft, 0)
                    tighter = self._budget_of(candidate).tighter(draft.tokens)
                    self._tightened[candidate.model_id] = tighter
                    await make_room(tighter)
                    if draft.within(tighter.request) != messages:
                        await self._ctx.emit(log(_TOO_LONG.format(candidate.model_id), "warning"))
                        continue
                if self._may_be_blind(error, answer, draft, messages):
                    self._blind.add(candidate.model_id)
                    await self._ctx.emit(log(_NO_FILES.format(candidate.model_id, error.message), "warning"))
                    continue
                await self._give_up(attempts, shown=answer.shown)
                continue
            self.usage.add(answer.usage)
            if not answer.is_empty or not await self._retries_empty(answer):
                return answer
        raise failure(attempts, shown=False)

    async def summary(self, messages: Sequence[ModelMessage]) -> str | None:
        """Return a model's answer without showing it, or None if every model fails."""
        for candidate in self._candidates:
            try:
                if candidate.streams:
                    stream = self._ctx.models.stream(candidate.model_id, messages)
                    pieces = [text_of(chunk.delta.content) async for chunk in stream]
                    reply = stream.reply
                else:
                    pieces, reply = [], await self._ctx.models.invoke(candidate.model_id, messages)
            except HostError as error:
                attempt = _attempt(candidate, error)
                if not may_fall_back(attempt, shown=False):
                    raise failure([attempt], shown=False) from error
                await self._ctx.emit(log(f"no summary: {error.message}", "warning"))
                continue
            self.usage.add(reply.usage if reply is not None else None)
            written = "".join(pieces) or (text_of(reply.message.content) if reply is not None else "")
            if text := _without_think(written):
                return text
        return None

    def _may_be_blind(
        self, error: HostError, answer: Answer, draft: Prompt, messages: Sequence[ModelMessage]
    ) -> bool:
        """Whether a refused request may succeed without the files of earlier messages.

        A conversation in which a picture was sent once must stay usable with a model that accepts none. Files
        of the event itself cannot be left out: the answer would ignore them.
        """
        return (
            error.code == "invalid_argument"
            and not is_overflow(error)
            and not answer.shown
            and not files_of(draft.current)
            and any(map(files_of, messages))
        )

    async def _retries_empty(self, answer: Answer) -> bool:
        """Whether to ask again after an empty answer: the same model once per run, then the next one.

        Nothing of it was shown, so it counts as a failure before the first word. A model that ran out of
        tokens is not asked again: it would run out of them again. An answer that a service withheld by its
        content rules is not asked of other models.
        """
        model_id, reason = answer.model_id, answer.finish_reason
        if reason == "content_filter":
            return False
        if reason != "length" and model_id not in self._asked_twice:
            self._asked_twice.add(model_id)
            await self._ctx.emit(log(_EMPTY.format(model_id, reason), "warning"))
            return True
        if len(self._candidates) == 1:
            return False
        await self._ctx.emit(log(f"model {model_id!r} failed: its answer was empty ({reason})", "warning"))
        del self._candidates[0]
        return True

    def _budget_of(self, candidate: Candidate) -> Budget:
        tighter = self._tightened.get(candidate.model_id)
        return budget_of(self._settings, candidate.window) if tighter is None else tighter

    async def _give_up(self, attempts: list[Attempt], *, shown: bool) -> None:
        """Switch to the next model, or raise the run's failure."""
        last = attempts[-1]
        if not may_fall_back(last, shown=shown) or len(self._candidates) == 1:
            raise failure(attempts, shown=shown)
        await self._ctx.emit(log(f"model {last.model_id!r} failed: {last.message}", "warning"))
        del self._candidates[0]


def _attempt(candidate: Candidate, error: HostError) -> Attempt:
    return Attempt(candidate.model_id, error.code, error.message, error.retryable)


def _without_think(text: str) -> str:
    kept = ThinkFilter()
    return (kept.feed(text) + kept.finish()).strip()
