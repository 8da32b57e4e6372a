"""`ctx.history`, `ctx.events`, `ctx.steering`: what happened in the run's conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal

from hostler_protocol.limits import MAX_PAGE_ITEMS
from hostler_protocol.runs import (
    AgentEventRecord,
    HistorySearchResult,
    Page,
    TranscriptItem,
)
from hostler_sdk.host_api.port import Group, stated
from hostler_sdk.inputs import SteeringItem, steering_item

Direction = Literal["backward", "forward"]


class History(Group):
    """`ctx.history`: what was said in this conversation before the event that this run serves."""

    async def page(  # noqa: PLR0917 - the published order
        self,
        before_cursor: str | None = None,
        after_cursor: str | None = None,
        limit: int = 50,
        direction: Direction = "backward",
        conversation_id: str | None = None,
        include_artifacts: bool = False,
    ) -> Page[TranscriptItem]:
        """One page: backward is newest first, forward oldest first. `limit` is at most 100."""
        reply: Page[TranscriptItem] = await self._host.call(
            "history.page",
            stated(
                before_cursor=before_cursor,
                after_cursor=after_cursor,
                limit=limit,
                direction=direction,
                conversation_id=conversation_id,
                include_artifacts=include_artifacts or None,
            ),
        )
        return reply

    async def search(
        self, query: str, top_k: int = 10, filters: Mapping[str, Any] | None = None
    ) -> HistorySearchResult:
        """Messages that hold the words of `query`, best first."""
        reply: HistorySearchResult = await self._host.call(
            "history.search", stated(query=query, top_k=top_k, filters=filters)
        )
        return reply

    async def all(
        self, direction: Direction = "forward", conversation_id: str | None = None
    ) -> AsyncIterator[TranscriptItem]:
        """Every message, page by page: oldest first, or newest first with `backward`."""
        cursor: str | None = None
        while True:
            page = await self.page(
                before_cursor=cursor if direction == "backward" else None,
                after_cursor=cursor if direction == "forward" else None,
                limit=MAX_PAGE_ITEMS,
                direction=direction,
                conversation_id=conversation_id,
            )
            for item in page.items:
                yield item
            if not page.has_more or page.next_cursor in (None, cursor):
                return
            cursor = page.next_cursor


class Events(Group):
    """`ctx.events`: the event log of this conversation."""

    async def get(self, event_id: str) -> AgentEventRecord:
        """One event, without its payload."""
        reply: AgentEventRecord = await self._host.call("event.get", {"event_id": event_id})
        return reply

    async def page(
        self,
        before_cursor: str | None = None,
        event_types: Sequence[str] | None = None,
        limit: int = 50,
    ) -> Page[AgentEventRecord]:
        """One page, newest first."""
        reply: Page[AgentEventRecord] = await self._host.call(
            "event.page", stated(before_cursor=before_cursor, event_types=event_types, limit=limit)
        )
        return reply


class Steering(Group):
    """`ctx.steering`: messages that arrived while this run was at work."""

    async def pull(
        self, mode: Literal["all", "one-at-a-time"] = "all", limit: int | None = None
    ) -> list[SteeringItem]:
        """Take what has arrived, in its order; each item is given once.

        Typed like the run's own context: `item.input.text`, `item.actor.actor_id`, `item.event.event_id`.
        """
        reply = await self._host.call("steering.pull", stated(mode=mode, limit=limit))
        return [steering_item(item) for item in reply.items]
