"""Search in messages: of one conversation, and of all."""

from __future__ import annotations

from hostler.http.endpoint import endpoint
from hostler.http.pagination import Limit, Moment, page_size
from hostler.http.request import ApiRequest
from hostler.http.routes.conversations import ConversationItem, any_or, conversation_item, history_cursors
from hostler.storage.stores import search
from hostler_protocol._base import Strict


class SearchQuery(Strict):
    """`q`: words, all of which an item has to contain."""

    q: str
    limit: Limit = 10
    thread_id: str | None = None
    bot_id: str | None = None
    role: str | None = None
    since: Moment | None = None
    until: Moment | None = None


class FoundMessages(Strict):
    """Messages that contain the words, newest first. `total_count`: an estimate beyond 100."""

    items: list[ConversationItem]
    query: str
    total_count: int


@endpoint(
    "GET",
    "/v1/conversations/{conversation_id}/search",
    right="conversations:read",
    tag="conversations",
    narrow=(),
)
async def search_history(request: ApiRequest, query: SearchQuery) -> FoundMessages:
    """Search a conversation in any script, newest first. Wildcards are plain text."""
    return await _search(request, query, request.parameters["conversation_id"])


@endpoint("GET", "/v1/search", right="conversations:read", tag="conversations")
async def search_conversations(request: ApiRequest, query: SearchQuery) -> FoundMessages:
    """Search all conversations of the workspace, newest first.

    Each message has its `conversation_id`. At most 2,000 messages that may contain the words are looked at.
    """
    return await _search(request, query, None)


async def _search(request: ApiRequest, query: SearchQuery, conversation_id: str | None) -> FoundMessages:
    hits = await request.state.host.db.read(
        lambda tx: search.search(
            tx,
            request.workspace_id,
            query.q,
            conversation_id=any_or(conversation_id),
            thread_id=any_or(query.thread_id),
            bot_id=any_or(query.bot_id),
            role=query.role,
            after=None if query.since is None else int(query.since * 1000) - 1,
            before=None if query.until is None else int(query.until * 1000) + 1,
            limit=page_size(query.limit),
        )
    )
    found = []
    for item in hits.items:  # a cursor is one of its conversation's pages
        cursors = history_cursors(request, item.conversation_id or "", query.thread_id, query.bot_id)
        found.append(conversation_item(item, cursors))
    return FoundMessages(items=found, query=query.q, total_count=hits.total_count)
