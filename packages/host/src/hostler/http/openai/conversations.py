"""`/v1/conversations` of OpenAI: the host's conversations, and their messages as items.

A conversation is its messages, and the metadata that clients give it: it begins with its first message, and
has no row of its own. `DELETE /v1/conversations/{id}` is the host's own route, whose receipt has OpenAI's
fields, too.
"""

from __future__ import annotations

import uuid
from typing import Any

import msgspec

from hostler.domain.quotas import quotas_of
from hostler.http.endpoint import endpoint
from hostler.http.openai.dialect import OPENAI
from hostler.http.openai.items import ItemsQuery, listed, read_item_id, transcript_item
from hostler.http.openai.responses_request import Metadata, refused
from hostler.http.openai.responses_types import ItemList
from hostler.http.request import ApiRequest
from hostler.http.responses import Json
from hostler.storage.port import Tx
from hostler.storage.stores import conversation_metadata, conversations, transcripts
from hostler.storage.stores.transcripts import StoredItem, TranscriptPage
from hostler_protocol._base import Lenient, Strict
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.ids import new_id

PREFIX = "conv_"


class CreateConversation(Strict):
    """`POST /v1/conversations`. `items` has to be empty."""

    items: list[dict[str, Any]] | None = None
    metadata: Metadata | None = None


class UpdateConversation(Strict):
    """`POST /v1/conversations/{id}`: all of its metadata; what is left out goes."""

    metadata: Metadata | None


class Anything(Lenient):
    """A body that is refused, whatever it says."""


class ConversationObject(msgspec.Struct):
    """A conversation. `created_at`: UTC epoch seconds of its id or its first message."""

    id: str
    created_at: int
    metadata: dict[str, str] = {}
    object: str = "conversation"


@endpoint("POST", "/v1/conversations", right="events:write", tag="openai", dialect=OPENAI)
async def create_conversation(request: ApiRequest, body: CreateConversation) -> Json[ConversationObject]:
    """Name a new conversation. It begins with the first response that is created in it."""
    if body.items:
        raise refused("items", "items: a conversation begins with a response: send them as its input")
    name = f"{PREFIX}{new_id()}"
    if body.metadata:
        await _describe(request, name, body.metadata)
    return Json(ConversationObject(name, _made_at(name) or 0, body.metadata or {}))


@endpoint(
    "GET", "/v1/conversations/{conversation_id}", right="conversations:read", tag="openai", dialect=OPENAI
)
async def get_conversation(request: ApiRequest) -> Json[ConversationObject]:
    """Get a conversation: one with messages, or one that was named and has none yet."""
    return Json(await _find(request))


@endpoint(
    "POST", "/v1/conversations/{conversation_id}", right="conversations:write", tag="openai", dialect=OPENAI
)
async def update_conversation(request: ApiRequest, body: UpdateConversation) -> Json[ConversationObject]:
    """Replace the metadata of a conversation."""
    found = await _find(request)
    found.metadata = body.metadata or {}
    await _describe(request, found.id, found.metadata)
    return Json(found)


@endpoint(
    "GET",
    "/v1/conversations/{conversation_id}/items",
    right="conversations:read",
    tag="openai",
    dialect=OPENAI,
)
async def list_items(request: ApiRequest, query: ItemsQuery) -> Json[ItemList]:
    """List the messages of a conversation, newest first unless `order=asc`."""
    seq = None if query.after is None else read_item_id(query.after)
    if query.after is not None and seq is None:
        raise refused("after", f"after: {query.after[:100]!r} is no item of this conversation")
    newest_first = query.order == "desc"

    def read(tx: Tx) -> TranscriptPage:
        return transcripts.page(
            tx,
            request.workspace_id,
            conversation_id=request.parameters["conversation_id"],
            before_seq=seq if newest_first else None,
            after_seq=None if newest_first else seq,
            limit=query.limit,
            direction="backward" if newest_first else "forward",
        )

    page = await request.state.host.db.read(read)
    return Json(listed([transcript_item(item) for item in page.items], more=page.has_more))


@endpoint(
    "GET",
    "/v1/conversations/{conversation_id}/items/{item_id}",
    right="conversations:read",
    tag="openai",
    dialect=OPENAI,
)
async def get_item(request: ApiRequest) -> Json[dict[str, Any]]:
    """Get a message of a conversation."""
    conversation_id, item_id = request.parameters["conversation_id"], request.parameters["item_id"]
    seq = read_item_id(item_id)
    if seq is not None:
        stored = await request.state.host.db.read(
            lambda tx: transcripts.items(tx, request.workspace_id, [seq])
        )
        if stored and stored[0].conversation_id == conversation_id:
            return Json(transcript_item(stored[0]))
    raise NotFoundError(f"this conversation has no item {item_id[:200]!r}")


@endpoint(
    "POST",
    "/v1/conversations/{conversation_id}/items",
    right="conversations:write",
    tag="openai",
    dialect=OPENAI,
)
async def create_items(request: ApiRequest, body: Anything) -> Json[ItemList]:
    """Refuse to add messages that no run has said or heard."""
    raise refused("items", "items: a conversation has what its runs heard and said: send them as input")


@endpoint(
    "DELETE",
    "/v1/conversations/{conversation_id}/items/{item_id}",
    right="conversations:write",
    tag="openai",
    dialect=OPENAI,
)
async def delete_item(request: ApiRequest) -> Json[ConversationObject]:
    """Refuse to take a message out of a conversation."""
    raise InvalidArgumentError(
        "items of a conversation cannot be deleted alone: delete the conversation, which gives a receipt"
    )


async def _find(request: ApiRequest) -> ConversationObject:
    """Return the conversation that the path names. NotFoundError if there is none."""
    conversation_id = request.parameters["conversation_id"]
    workspace = request.workspace_id

    def read(tx: Tx) -> tuple[bool, list[StoredItem], dict[str, str]]:
        first = transcripts.page(tx, workspace, conversation_id=conversation_id, limit=1, direction="forward")
        metadata = conversation_metadata.get(tx, workspace, conversation_id)
        return conversations.known(tx, workspace, conversation_id), first.items, metadata

    known, first, metadata = await request.state.host.db.read(read)
    made_at = _made_at(conversation_id)
    if made_at is None and first:
        made_at = first[0].created_at // 1000
    if made_at is None and not known:
        raise NotFoundError(f"there is no conversation {conversation_id[:200]!r}")
    return ConversationObject(conversation_id, made_at or 0, metadata)


async def _describe(request: ApiRequest, conversation_id: str, metadata: dict[str, str]) -> None:
    host, workspace = request.state.host, request.workspace_id
    bounds = quotas_of(host.allowances.of(workspace).quota)
    await host.db.write(
        lambda tx: conversation_metadata.put(tx, workspace, conversation_id, metadata, bounds)
    )


def _made_at(conversation_id: str) -> int | None:
    """Return when a conversation was named, if this host made its id: UTC epoch seconds."""
    try:
        name = uuid.UUID(conversation_id.removeprefix(PREFIX))
    except ValueError:
        return None
    if name.version != 7 or conversation_id != f"{PREFIX}{name}":
        return None
    return (name.int >> 80) // 1000
