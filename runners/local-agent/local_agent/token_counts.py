"""Sizes of the parts of a request: an upper bound first, counted by the model if that exceeds the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hostler_sdk import RunContext
from hostler_sdk.errors import HostError
from hostler_sdk.types import FunctionSpec, ModelMessage
from local_agent.budget import most_tokens, most_tokens_of_tools, shares
from local_agent.fallback import Candidate
from local_agent.prompt import Prompt, Turn, with_notes
from local_agent.run_errors import ends_the_run

BYTES_PER_TOKEN = 3
"""Used if no model counts. English has four to five, other languages fewer: too high an estimate is safer."""


class Counter:
    """Measures sizes in tokens. `exact`: the upper bound exceeded the budget, so the model counts."""

    def __init__(self, ctx: RunContext, candidate: Candidate, tools: Sequence[FunctionSpec]) -> None:
        self._ctx = ctx
        self._candidate = candidate
        self._tools = tools
        self.exact = False

    async def sizes(self, messages: Sequence[ModelMessage]) -> list[int]:
        """Return the size of each message."""
        if not self.exact:
            return [most_tokens(message) for message in messages]
        return shares(messages, await self._count(messages))

    async def fixed(self, draft: Prompt) -> None:
        """Measure the parts of every request: prompt, tools, event, notes and their files."""
        own = [*with_notes(draft.prompt, "", instructions=draft.instructions), draft.current]
        notes = with_notes([], draft.summary)
        if draft.files:
            notes.append(ModelMessage(role="user", content=list(draft.files)))
        if self.exact:
            draft.fixed_tokens = await self._count(own, self._tools)
            draft.summary_tokens = await self._count(notes)
        else:
            draft.fixed_tokens = sum(map(most_tokens, own)) + most_tokens_of_tools(self._tools)
            draft.summary_tokens = sum(map(most_tokens, notes))

    async def turns(self, turns: Sequence[Turn]) -> list[Turn]:
        """Return the messages of the history with their sizes."""
        sizes = await self.sizes([turn.message for turn in turns])
        return [replace(turn, tokens=size) for turn, size in zip(turns, sizes, strict=True)]

    async def settle(self, draft: Prompt, limit: int) -> None:
        """Count everything exactly if the upper bound is over `limit` and nothing was counted yet."""
        if self.exact or draft.tokens <= limit:
            return
        self.exact = True
        await self.fixed(draft)
        draft.past = await self.turns(draft.past)
        sizes = await self.sizes([piece.message for piece in draft.work])
        draft.work = [replace(piece, tokens=size) for piece, size in zip(draft.work, sizes, strict=True)]

    async def _count(self, messages: Sequence[ModelMessage], tools: Sequence[FunctionSpec] = ()) -> int:
        if not messages:
            return 0
        if self._candidate.counts:
            try:
                counted = await self._ctx.models.count_tokens(
                    self._candidate.model_id, messages, list(tools) or None
                )
            except HostError as error:
                if ends_the_run(error):
                    raise
            else:
                return counted.input_tokens
        return (sum(map(most_tokens, messages)) + most_tokens_of_tools(tools)) // BYTES_PER_TOKEN
