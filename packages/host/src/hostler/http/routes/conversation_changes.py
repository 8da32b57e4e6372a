"""Changes of conversations by people: titles."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hostler.domain.quotas import quotas_of
from hostler.http.endpoint import endpoint
from hostler.http.request import ApiRequest
from hostler.storage.port import Tx
from hostler.storage.stores import conversation_metadata, conversations
from hostler.storage.stores.conversation_metadata import MAX_TITLE_CHARS
from hostler_protocol._base import Strict
from hostler_protocol.errors import NotFoundError


class Title(Strict):
    """`title`: null or an empty text removes it."""

    title: Annotated[str, msgspec.Meta(max_length=MAX_TITLE_CHARS)] | None


class TitledConversation(Strict):
    """A conversation and its title."""

    conversation_id: str
    title: str | None


@endpoint(
    "PUT", "/v1/conversations/{conversation_id}/title", right="conversations:write", tag="conversations"
)
async def put_title(request: ApiRequest, body: Title) -> TitledConversation:
    """Name a conversation, or with null take its name away.

    The title is `title` of the metadata that OpenAI's interface shows; no run sees it.
    """
    conversation_id, host = request.parameters["conversation_id"], request.state.host
    bounds = quotas_of(host.allowances.of(request.workspace_id).quota)

    def write(tx: Tx) -> str | None:
        if not conversations.known(tx, request.workspace_id, conversation_id):
            raise NotFoundError(f"there is no conversation {conversation_id[:200]!r}")
        return conversation_metadata.put_title(
            tx, request.workspace_id, conversation_id, (body.title or "").strip(), bounds
        )

    return TitledConversation(conversation_id, await host.db.write(write))
