"""Changes of conversations by people: titles and forks."""

from __future__ import annotations

import hashlib
from typing import Annotated

import msgspec

from hostler.domain.quotas import QuotaExceeded, quotas_of
from hostler.http.auth import Right, require_right
from hostler.http.endpoint import endpoint
from hostler.http.request import ApiRequest
from hostler.http.responses import Json
from hostler.http.routes.conversations import history_cursors
from hostler.storage.port import Tx
from hostler.storage.stores import audit, conversation_metadata, conversations
from hostler.storage.stores import conversation_forks as forks
from hostler.storage.stores.conversation_metadata import FORKED_FROM, MAX_TITLE_CHARS, TITLE
from hostler_protocol._base import Strict
from hostler_protocol.errors import NotFoundError
from hostler_protocol.ids import new_id

FORK_RIGHTS: tuple[Right, ...] = ("conversations:read", "events:write")
"""What copying a conversation takes beside `conversations:write`, in each interface."""


class Title(Strict):
    """`title`: null or an empty text removes it."""

    title: Annotated[str, msgspec.Meta(max_length=MAX_TITLE_CHARS)] | None


class TitledConversation(Strict):
    """A conversation and its title."""

    conversation_id: str
    title: str | None


class ForkConversation(Strict):
    """`at`: the `cursor` of a message: what comes after it is left out, and with `including: false` it, too;
    default: the newest. `title`: of the new conversation; default: that of the other.
    """

    at: str | None = None
    including: bool = True
    title: Annotated[str, msgspec.Meta(max_length=MAX_TITLE_CHARS)] | None = None


class ForkedConversation(Strict):
    """A conversation that began with copies of `messages` messages. `omitted`: older ones were left out."""

    conversation_id: str
    forked_from: str
    title: str | None
    messages: int
    omitted: bool


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

    title = await host.db.write(write)
    return TitledConversation(conversation_id=conversation_id, title=title)


@endpoint(
    "POST",
    "/v1/conversations/{conversation_id}/fork",
    right="conversations:write",
    tag="conversations",
    status=201,
)
async def fork_conversation(request: ApiRequest, body: ForkConversation) -> Json[ForkedConversation]:
    """Fork a conversation: begin a new one with copies of its messages, up to any of them, and their files.

    At most the newest 1,000 messages and 8 MiB. State that agents keep of the conversation is not copied. The
    copies are deleted with the new conversation, or with the data of the people whose messages they are. It
    needs the rights `conversations:read` and `events:write`, too: the answer has the title, and what was said
    comes before the messages of a new conversation.
    """
    for right in FORK_RIGHTS:
        require_right(request.caller, right)
    source, host, workspace = request.parameters["conversation_id"], request.state.host, request.workspace_id
    before = None
    if body.at is not None:
        before = history_cursors(request, source, None, None).read_sequence(body.at, "at") + body.including
    target, bounds = new_id(), quotas_of(host.allowances.of(workspace).quota)

    def write(tx: Tx) -> ForkedConversation:
        if not conversations.known(tx, workspace, source):
            raise NotFoundError(f"there is no conversation {source[:200]!r}")
        made = forks.fork(tx, workspace, source, target, before_seq=before, bounds=bounds)
        if isinstance(made, QuotaExceeded):
            raise made.error
        title = (body.title or "").strip() or conversation_metadata.title(tx, workspace, source)
        metadata = {FORKED_FROM: source, **({} if title is None else {TITLE: title})}
        conversation_metadata.put(tx, workspace, target, metadata, bounds)
        of = {"of": f"conversation:{hashlib.sha256(source.encode()).hexdigest()}", "messages": made.messages}
        audit.record(tx, workspace, request.caller.subject, "conversation.forked", target, of)
        return ForkedConversation(
            conversation_id=target,
            forked_from=source,
            title=title,
            messages=made.messages,
            omitted=made.omitted,
        )

    return Json(await host.db.write(write), 201)
