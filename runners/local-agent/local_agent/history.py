"""Read the conversation's history within the budget: its end, and its beginning for a summary."""

from __future__ import annotations

from collections.abc import Sequence

from hostler_sdk import RunContext
from hostler_sdk.errors import Expired, InvalidArgument, NotFound
from hostler_sdk.types import MAX_PAGE_ITEMS, TranscriptItem
from local_agent.conversation import instruction_of, message_of
from local_agent.prompt import Prompt, Turn, oldest
from local_agent.token_counts import Counter

DEAD_CURSOR = (InvalidArgument, Expired, NotFound)
"""Errors of the host for a cursor that is no longer valid."""
MAX_MESSAGES = 1_000
"""Messages read at most, from either end. Those in between are left to the next summary."""


async def read_history(
    ctx: RunContext, counter: Counter, draft: Prompt, *, after: str | None, at_a_time: int, limit: int
) -> bool:
    """Put the messages before the event into the draft, oldest first; with `after`, those after this cursor.

    Instructions among them go to the draft's own, after those that it has. Stops when the draft has more than
    `limit` tokens. Return whether everything was read. Raises one of DEAD_CURSOR if the cursor is no longer
    valid.
    """
    most = min(at_a_time, MAX_PAGE_ITEMS)
    page = await ctx.history.page(after_cursor=after, limit=most, include_artifacts=True)
    draft.past = []
    known, found = list(draft.instructions), list[str]()
    floor: int | None = None
    while True:
        new = [item for item in page.items[::-1] if floor is None or item.seq >= floor]
        if instructions := instructions_of(new):
            found[:0] = instructions
            draft.instructions = [*known, *found]
            await counter.fixed(draft)
        draft.past[:0] = await counter.turns(_turns(new))
        await counter.settle(draft, limit)
        if len(new) < len(page.items) or not page.has_more or page.next_cursor is None:
            return True
        if draft.tokens > limit or len(draft.past) >= MAX_MESSAGES:
            return False
        if after is not None and floor is None:  # a page has one cursor: the other end is known by its number
            begin = await ctx.history.page(after_cursor=after, limit=1, direction="forward")
            floor = begin.items[0].seq if begin.items else None
        page = await ctx.history.page(before_cursor=page.next_cursor, limit=most, include_artifacts=True)


async def read_first_instructions(ctx: RunContext, *, at_a_time: int) -> list[str]:
    """Return the instructions at the beginning of the conversation."""
    page = await ctx.history.page(limit=min(at_a_time, MAX_PAGE_ITEMS), direction="forward")
    return instructions_of(page.items)


def instructions_of(items: Sequence[TranscriptItem]) -> list[str]:
    """Return the instructions among messages, in their order."""
    return [text for item in items if (text := instruction_of(item)) is not None]


async def read_oldest(
    ctx: RunContext, counter: Counter, *, after: str | None, at_a_time: int, room: int
) -> list[Turn]:
    """Return the first messages (with `after`, of those after this cursor) that fit into `room` tokens."""
    found: list[Turn] = []
    cursor = after
    while True:
        page = await ctx.history.page(
            after_cursor=cursor,
            limit=min(at_a_time, MAX_PAGE_ITEMS),
            direction="forward",
            include_artifacts=True,
        )
        found += await counter.turns(_turns(page.items))
        taken = oldest(found, room)
        if len(taken) < len(found) or len(found) >= MAX_MESSAGES:
            return taken
        if not page.has_more or page.next_cursor in (None, cursor):
            return found
        cursor = page.next_cursor


def _turns(items: list[TranscriptItem]) -> list[Turn]:
    history = [(item, message_of(item)) for item in items]
    return [
        Turn(message, item.cursor, item.seq, item.created_at, tokens=0)
        for item, message in history
        if message is not None
    ]
