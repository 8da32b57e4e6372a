"""`ctx.history`, `ctx.events`, `ctx.steering`: messages and events of the run's conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal

from hostler_protocol.limits import MAX_PAGE_ITEMS
from hostler_protocol.runs import AgentEventRecord, HistorySearchResult, Page, TranscriptItem
from hostler_sdk.host_api.port import Group, stated
from hostler_sdk.inputs import SteeringItem, steering_item

Direction = Literal["backward", "forward"]


class History(Group):
    """`ctx.history`: the messages of this conversation before the run's own event.

    Needs the permissions `history: [page, search]`; else Unauthorized.

        async for item in ctx.history.all():
            messages.append({"role": item.role, "content": item.content})
    """

    async def page(  # noqa: PLR0917 - the published order
        self,
        before_cursor: str | None = None,
        after_cursor: str | None = None,
        limit: int = 50,
        direction: Direction = "backward",
        conversation_id: str | None = None,
        include_artifacts: bool = False,
    ) -> Page[TranscriptItem]:
        """Return one page: `backward` is newest first, `forward` oldest first. `limit` is at most 100.

        The next page is asked for with `next_cursor` of this one: as `before_cursor` when going backward, as
        `after_cursor` when going forward. Expired: retention has removed the cursor's entry.
        """
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
        """Return the messages that contain the words of `query`, best first, at most `top_k`.

        `filters` may hold `role`, `after` and `before` (UTC epoch seconds) and `conversation_id`.
        """
        reply: HistorySearchResult = await self._host.call(
            "history.search", stated(query=query, top_k=top_k, filters=filters)
        )
        return reply

    async def all(
        self, direction: Direction = "forward", conversation_id: str | None = None
    ) -> AsyncIterator[TranscriptItem]:
        """Iterate over all messages: oldest first, or newest first with `backward`."""
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
    """`ctx.events`: the event log of this conversation. Needs the permissions `events: [get, page]`."""

    async def get(self, event_id: str) -> AgentEventRecord:
        """Return an event, without its payload. Raises NotFound for one that the run may not see."""
        reply: AgentEventRecord = await self._host.call("event.get", {"event_id": event_id})
        return reply

    async def page(
        self, before_cursor: str | None = None, event_types: Sequence[str] | None = None, limit: int = 50
    ) -> Page[AgentEventRecord]:
        """Return one page, newest first; `before_cursor` is the `next_cursor` of the page before."""
        reply: Page[AgentEventRecord] = await self._host.call(
            "event.page", stated(before_cursor=before_cursor, event_types=event_types, limit=limit)
        )
        return reply


class Steering(Group):
    """`ctx.steering`: messages that arrive while this run works. Needs the capability `steering`."""

    async def pull(
        self, mode: Literal["all", "one-at-a-time"] = "all", limit: int | None = None
    ) -> list[SteeringItem]:
        """Take the messages that have arrived, in order; each is returned once. Does not wait.

        Items have the parts of the context: `item.input.text`, `item.actor.actor_id`, `item.event.event_id`.
        `limit` is the most to take; `one-at-a-time` takes one.
        """
        reply = await self._host.call("steering.pull", stated(mode=mode, limit=limit))
        return [steering_item(item) for item in reply.items]
