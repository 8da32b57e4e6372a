"""The context of a run's requests: built once, extended with each round, kept within the budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hostler_sdk import RunContext, log
from hostler_sdk.types import ContentElement, ModelMessage
from local_agent.answer import Answer
from local_agent.budget import Budget
from local_agent.compaction import load, save, summarised
from local_agent.conversation import content_of
from local_agent.files import lasting
from local_agent.history import DEAD_CURSOR, read_first_instructions, read_history, read_oldest
from local_agent.knowledge import passages, with_passages
from local_agent.models import Models
from local_agent.prompt import Prompt, Turn, oldest, split
from local_agent.settings import Settings
from local_agent.token_counts import Counter
from local_agent.toolbox import Toolbox


class WorkingContext:
    """The draft of the request, and the conversation's memory. Build it with `of`."""

    def __init__(
        self, ctx: RunContext, settings: Settings, models: Models, toolbox: Toolbox, draft: Prompt
    ) -> None:
        self._ctx = ctx
        self._models = models
        self._toolbox = toolbox
        self._draft = draft
        self._counter = Counter(ctx, models.first, toolbox.specs)
        self._at_a_time = settings.history_at_a_time
        self._whole = True
        """Whether the draft holds every message that the summary does not cover."""
        self._covered: str | None = None
        """Cursor of the last message that the summary covers."""
        self._keeps_notes = False
        self._made_notes = False

    @classmethod
    async def of(
        cls, ctx: RunContext, settings: Settings, models: Models, toolbox: Toolbox
    ) -> WorkingContext:
        """Build the context at the beginning of the run: passages, history and summary."""
        found = await passages(ctx, settings, ctx.input.text)
        event = ModelMessage(role="user", content=content_of(ctx.input))
        current = with_passages(event, found, models.budget.request)
        own = cls(ctx, settings, models, toolbox, Prompt(settings.prompt, current))
        await own._counter.fixed(own._draft)
        readable = ctx.context.available_apis.history_page and ctx.context.has_history_before
        if readable and settings.history_at_a_time:
            await own._remember()
        return own

    async def ask(self, extra: dict[str, Any]) -> Answer:
        """Return the next answer of the model."""
        return await self._models.ask(self._draft, self._counter, self._toolbox.specs, extra, self._make_room)

    async def add(self, messages: Sequence[ModelMessage], round_: int) -> None:
        """Add the messages of a round."""
        self._draft.add(messages, await self._counter.sizes(messages), round_)

    async def measure_again(self) -> None:
        """Measure the draft again: the toolbox has grown."""
        await self._counter.fixed(self._draft)

    async def _remember(self) -> None:
        draft, budget = self._draft, self._models.budget
        checkpoint, self._keeps_notes = await load(self._ctx)
        if checkpoint is not None:
            draft.instructions = checkpoint.instructions
            await self._set_notes(checkpoint.summary, checkpoint.files, checkpoint.covers_until)
            try:
                await self._read(budget)
            except DEAD_CURSOR as error:
                note = f"the notes on this conversation are of no use any more: {error.message}"
                await self._ctx.emit(log(note, "warning"))
                draft.instructions = []
                await self._set_notes("", [], None)
                await self._read(budget)
        else:
            await self._read(budget)
        if not self._whole or draft.tokens > budget.request:
            await self._make_room(budget)

    async def _read(self, budget: Budget) -> None:
        self._whole = await read_history(
            self._ctx,
            self._counter,
            self._draft,
            after=self._covered,
            at_a_time=self._at_a_time,
            limit=budget.request,
        )

        if not self._whole and self._covered is None:
            # what stands at the beginning was not read, and holds for the whole conversation
            missed = await read_first_instructions(self._ctx, at_a_time=self._at_a_time)
            known = list(self._draft.instructions)
            if added := [text for text in missed if text not in known]:
                self._draft.instructions = [*added, *known]
                await self._counter.fixed(self._draft)

    async def _set_notes(self, notes: str, files: list[ContentElement], covered: str | None) -> None:
        self._draft.summary, self._draft.files, self._covered = notes, files, covered
        await self._counter.fixed(self._draft)

    async def _make_room(self, budget: Budget) -> None:
        """Replace the older messages by a summary, once per run. Without a summary, they are left out.

        A summary covers a conversation from its beginning without gaps. If more messages have gathered than
        fit into one request, because no summary could be made for a while, it covers as many as it can.
        """
        draft = self._draft
        if not self._keeps_notes or self._made_notes:
            return
        past = sum(turn.tokens for turn in draft.past)
        room = budget.request - (draft.tokens - past)
        older, _ = split(draft.past, min(budget.keep_recent, max(room, 0)))
        if not older:
            return
        self._made_notes = True
        before = draft.tokens
        covered = await self._first(older, budget.request - budget.summary)
        notes = await summarised(self._models, draft.summary, covered, most=budget.summary)
        if notes is None:
            return
        files = await self._lasting(covered, budget.files)
        await save(self._ctx, notes, files, covered[-1], before, instructions=draft.instructions)
        draft.past = [turn for turn in draft.past if turn.seq > covered[-1].seq]
        await self._set_notes(notes, files, covered[-1].cursor)

    async def _first(self, older: list[Turn], room: int) -> list[Turn]:
        """Return the messages for the next summary: those that follow the last one, within `room` tokens."""
        if self._whole:
            return oldest(older, room)
        found = await read_oldest(
            self._ctx, self._counter, after=self._covered, at_a_time=self._at_a_time, room=room
        )
        return [turn for turn in found if turn.seq <= older[-1].seq] or older[:1]

    async def _lasting(self, covered: list[Turn], room: int) -> list[ContentElement]:
        """Return the newest files of the summarised messages that fit into `room` tokens."""
        before = ModelMessage(role="user", content=list(self._draft.files))
        files = lasting([before, *(turn.message for turn in covered)])
        if not files:
            return []
        sizes = await self._counter.sizes([ModelMessage(role="user", content=[file]) for file in files])
        kept: list[ContentElement] = []
        for file, size in zip(files[::-1], sizes[::-1], strict=True):
            if size <= room:
                room -= size
                kept.insert(0, file)
        return kept
