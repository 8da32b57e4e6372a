"""What a run knows when it asks a model: built once, grown with each round, kept within the budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hostler_sdk import RunContext, log
from hostler_sdk.types import ModelMessage
from local_agent.answer import Answer
from local_agent.budget import Budget
from local_agent.compaction import load, save, summarised
from local_agent.conversation import content_of
from local_agent.counting import Counter
from local_agent.draft import Draft, split
from local_agent.knowledge import passages, with_passages
from local_agent.models import Models
from local_agent.past import DEAD_CURSOR, read_past
from local_agent.settings import Settings
from local_agent.toolbox import Toolbox


class Situation:
    """The draft of the request, and the memory behind it. Make it with `of`."""

    def __init__(self, ctx: RunContext, models: Models, toolbox: Toolbox, draft: Draft) -> None:
        self._ctx = ctx
        self._models = models
        self._toolbox = toolbox
        self._draft = draft
        self._counter = Counter(ctx, models.first, toolbox.specs)
        self._keeps_notes = False
        self._made_notes = False

    @classmethod
    async def of(cls, ctx: RunContext, settings: Settings, models: Models, toolbox: Toolbox) -> Situation:
        """Everything that is known at the beginning of the run."""
        found = await passages(ctx, settings, ctx.input.text)
        current = with_passages(ModelMessage(role="user", content=content_of(ctx.input)), found)
        own = cls(ctx, models, toolbox, Draft(settings.prompt, current))
        await own._counter.fixed(own._draft)
        readable = ctx.context.available_apis.history_page and ctx.context.has_history_before
        if readable and settings.history_at_a_time:
            await own._remember(settings.history_at_a_time)
        return own

    async def ask(self, extra: dict[str, Any]) -> Answer:
        """The next answer of the model."""
        return await self._models.ask(self._draft, self._counter, self._toolbox.specs, extra, self._make_room)

    async def add(self, messages: Sequence[ModelMessage], round_: int) -> None:
        """Go on with what a round brought."""
        self._draft.add(messages, await self._counter.sizes(messages), round_)

    async def _remember(self, at_a_time: int) -> None:
        ctx, counter, draft = self._ctx, self._counter, self._draft
        budget = self._models.budget
        checkpoint, self._keeps_notes = await load(ctx)
        whole: bool | None = None
        if checkpoint is not None:
            draft.summary = checkpoint.summary
            await counter.fixed(draft)
            after = checkpoint.covers_until
            try:
                whole = await read_past(
                    ctx, counter, draft, after=after, at_a_time=at_a_time, limit=budget.request
                )
            except DEAD_CURSOR as error:
                note = f"the notes on this conversation are of no use any more: {error.message}"
                await ctx.emit(log(note, "warning"))
                draft.summary = ""
                await counter.fixed(draft)
        if whole is None:
            whole = await read_past(
                ctx, counter, draft, after=None, at_a_time=at_a_time, limit=budget.request
            )
        if not whole or draft.tokens > budget.request:
            await self._make_room(budget)

    async def _make_room(self, budget: Budget) -> None:
        """Put notes in the place of the older messages, once in a run; without notes they are left out."""
        draft = self._draft
        if not self._keeps_notes or self._made_notes:
            return
        past = sum(turn.tokens for turn in draft.past)
        room = budget.request - (draft.tokens - past)
        older, kept = split(draft.past, min(budget.keep_recent, max(room, 0)))
        if not older:
            return
        self._made_notes = True
        before = draft.tokens
        notes = await summarised(
            self._models, draft.summary, older, most=budget.summary, room=budget.request - budget.summary
        )
        if notes is None:
            return
        await save(self._ctx, notes, older[-1], before)
        draft.summary, draft.past = notes, kept
        await self._counter.fixed(draft)
