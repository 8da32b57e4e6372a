"""Reads the conversation's history, newest first, as far as the budget reaches."""

from __future__ import annotations

from dataclasses import dataclass, field

from hostler_sdk import RunContext
from hostler_sdk.errors import Expired, InvalidArgument, NotFound
from hostler_sdk.types import MAX_PAGE_ITEMS, TranscriptItem
from local_agent.budget import shares
from local_agent.conversation import message_of
from local_agent.draft import Turn
from local_agent.models import Models

DEAD_CURSOR = (InvalidArgument, Expired, NotFound)
"""What the host says to a cursor that it no longer knows."""


@dataclass(slots=True)
class Past:
    """Messages before the event, oldest first. `complete`: none was left out for want of room."""

    turns: list[Turn] = field(default_factory=list)
    complete: bool = True

    @property
    def tokens(self) -> int:
        """What they take together."""
        return sum(turn.tokens for turn in self.turns)


async def read_past(ctx: RunContext, models: Models, *, after: str | None, limit: int, room: int) -> Past:
    """The last `limit` messages, or all of them after a cursor, until they take more than `room` tokens.

    One of DEAD_CURSOR where `after` is a cursor the host no longer knows.
    """
    past = Past()
    cursor: str | None = None
    seen = 0
    while seen < limit:
        page = await ctx.history.page(
            before_cursor=cursor,
            after_cursor=after,
            limit=min(limit - seen, MAX_PAGE_ITEMS),
            include_artifacts=True,
        )
        seen += len(page.items)
        past.turns[:0] = await _turns(models, page.items[::-1])
        if not page.has_more or page.next_cursor in (None, cursor):
            return past
        if past.tokens > room:
            break
        cursor = page.next_cursor
    past.complete = False
    return past


async def _turns(models: Models, items: list[TranscriptItem]) -> list[Turn]:
    said = [(item, message) for item in items if (message := message_of(item)) is not None]
    messages = [message for _, message in said]
    tokens = shares(messages, await models.count(messages))
    return [
        Turn(message, item.cursor, item.created_at, taken)
        for (item, message), taken in zip(said, tokens, strict=True)
    ]
