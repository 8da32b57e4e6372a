"""What a run knows when it asks a model: built once, grown with each round, kept within the budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hostler_sdk import RunContext, log
from hostler_sdk.types import ModelMessage
from local_agent.answer import Answer
from local_agent.budget import Budget, shares
from local_agent.compaction import load, save, summarised
from local_agent.conversation import content_of
from local_agent.draft import Draft, split, with_notes
from local_agent.knowledge import passages, with_passages
from local_agent.models import Models
from local_agent.past import DEAD_CURSOR, Past, read_past
from local_agent.settings import MAX_HISTORY_ITEMS, Settings
from local_agent.toolbox import Toolbox


class Situation:
    """The draft of the request, and the memory behind it. Make it with `of`."""

    def __init__(self, ctx: RunContext, models: Models, toolbox: Toolbox, draft: Draft) -> None:
        self._ctx = ctx
        self._models = models
        self._toolbox = toolbox
        self._draft = draft
        self._keeps_notes = False
        self._summarised = False

    @classmethod
    async def of(cls, ctx: RunContext, settings: Settings, models: Models, toolbox: Toolbox) -> Situation:
        """Everything that is known at the beginning of the run."""
        found = await passages(ctx, settings, ctx.input.text)
        current = with_passages(ModelMessage(role="user", content=content_of(ctx.input)), found)
        draft = Draft(settings.prompt, current)
        draft.fixed_tokens = await models.count([*settings.prompt, current], toolbox.specs)
        own = cls(ctx, models, toolbox, draft)
        readable = ctx.context.available_apis.history_page and ctx.context.has_history_before
        if readable and settings.history_limit:
            await own._remember(settings)
        return own

    async def ask(self, extra: dict[str, Any]) -> Answer:
        """The next answer of the model."""
        return await self._models.ask(self._draft, self._toolbox.specs, extra, self._make_room)

    async def add(self, messages: Sequence[ModelMessage], round_: int) -> None:
        """Go on with what a round brought."""
        counted = shares(messages, await self._models.count(messages))
        self._draft.add(messages, counted, round_)

    async def _remember(self, settings: Settings) -> None:
        checkpoint, self._keeps_notes = await load(self._ctx)
        budget = self._models.budget
        past: Past | None = None
        if checkpoint is not None:
            try:
                past = await read_past(
                    self._ctx,
                    self._models,
                    after=checkpoint.covers_until,
                    limit=MAX_HISTORY_ITEMS,
                    room=budget.request,
                )
            except DEAD_CURSOR as error:
                note = f"the summary of this conversation is of no use any more: {error.message}"
                await self._ctx.emit(log(note, "warning"))
            else:
                await self._take_notes(checkpoint.summary)
        if past is None:
            past = await read_past(
                self._ctx, self._models, after=None, limit=settings.history_limit, room=budget.request
            )
        self._draft.past = past.turns
        if self._draft.tokens > budget.request:
            await self._make_room(budget)

    async def _take_notes(self, notes: str) -> None:
        self._draft.summary = notes
        self._draft.summary_tokens = await self._models.count(with_notes([], notes))

    async def _make_room(self, budget: Budget) -> None:
        """Put notes in the place of the older messages, once in a run; without notes they are left out."""
        draft = self._draft
        room = budget.request - (draft.tokens - sum(turn.tokens for turn in draft.past))
        older, kept = split(draft.past, min(budget.keep_recent, max(room, 0)))
        if not older:
            return
        if self._keeps_notes and not self._summarised:
            self._summarised = True
            before = draft.tokens
            notes = await summarised(
                self._models, draft.summary, older, most=budget.summary, room=budget.request - budget.summary
            )
            if notes is not None:
                await save(self._ctx, notes, older[-1], before)
                await self._take_notes(notes)
                draft.past = kept
