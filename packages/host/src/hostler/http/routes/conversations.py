"""Conversations: history, search, state, deletion."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hostler.calls.cursors import ScopedCursors
from hostler.domain.agents import Agent
from hostler.domain.narrow_callers import sees_work
from hostler.domain.same_fields import with_fields_of
from hostler.host import maintenance
from hostler.http.endpoint import endpoint
from hostler.http.pagination import Limit, PageQuery, list_cursors, page_size
from hostler.http.request import ApiRequest
from hostler.http.responses import Listing
from hostler.storage.port import Tx
from hostler.storage.stores import agents, conversation_metadata, conversations, transcripts
from hostler.storage.stores import waiting_messages as waiting
from hostler.storage.stores.conversations import ConversationPage, ConversationSummary, StateEntry
from hostler.storage.stores.deletion_receipts import DeletionReceipt
from hostler.storage.stores.filters import ANY, NEWEST, AnyOr
from hostler.storage.stores.transcripts import StoredItem, TranscriptPage
from hostler.storage.stores.waiting_messages import UnstartedConversation, WaitingMessage, WaitingPage
from hostler_protocol._base import Strict
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import InvalidArgumentError, NotFoundError, UnauthorizedError
from hostler_protocol.limits import DEFAULT_PAGE_ITEMS
from hostler_protocol.runs import Page, TranscriptItem


class ConversationRecord(Strict):
    """A conversation with its latest message.

    `title`: as people named it. `waiting`: it is still empty; its latest message waits for a run, and
    `latest_seq` is 0.
    """

    conversation_id: str
    title: str | None
    latest_at: float
    latest_role: str
    latest_content: str
    latest_seq: int
    waiting: bool = False


class WaitingRecord(Strict):
    """A message that no run has taken up yet, so that it has no position in the conversation.

    `waits_for`: `run`: it is the input of the run `run_id`, which has not started; `pull`: that run is active
    and may pull it. `created_at`: when it was sent.
    """

    event_id: str
    run_id: str | None
    waits_for: Literal["run", "pull"]
    conversation_id: str | None
    thread_id: str | None
    role: str
    content: str
    content_json: dict[str, Any]
    artifact_refs: list[ArtifactRef]
    created_at: float


class ConversationItem(TranscriptItem, kw_only=True):
    """A message. `run_id`: the run that said it; null for messages of people."""

    run_id: str | None


class ConversationHistory(Page[ConversationItem]):
    """A page of a conversation.

    `title`: as people named it, with the newest page. `waiting`: on a page that reaches the end of the
    conversation, the messages that wait for a run, if any, in the order in which they were sent; at most 100
    messages and about 1 MiB. `has_more_waiting` is true if there are more.
    """

    title: str | msgspec.UnsetType | None = msgspec.UNSET
    waiting: list[WaitingRecord] | msgspec.UnsetType = msgspec.UNSET
    has_more_waiting: bool | msgspec.UnsetType = msgspec.UNSET


class HistoryQuery(Strict):
    """All threads and bots unless one is named. `before`: `next_cursor` of the previous page."""

    limit: Limit = DEFAULT_PAGE_ITEMS
    before: str | None = None
    after: str | None = None
    thread_id: str | None = None
    bot_id: str | None = None


class StateRecord(Strict):
    """One value of the scope `conversation`, of one agent."""

    scope: str
    key: str
    value: msgspec.Raw
    version: int
    agent_id: str
    updated_at: float


class DeletedConversation(DeletionReceipt, kw_only=True):
    """The receipt of a deletion; `id` and `object` as clients of OpenAI's interface expect them."""

    id: str
    object: Literal["conversation.deleted"] = "conversation.deleted"


class ActorQuery(Strict):
    """`actor_type`: only this type of actor; default: every type with this id."""

    actor_type: str | None = None


@endpoint("GET", "/v1/conversations", right="conversations:read", tag="conversations")
async def list_conversations(request: ApiRequest, query: PageQuery) -> Listing[ConversationRecord]:
    """List conversations by their latest message, newest first.

    Conversations with waiting messages only come before all others. A page may be short, or even empty, while
    `has_more` is true.
    """
    host = request.state.host
    cursors = list_cursors(host.cursors, "conversations", request.workspace_id, query)
    before = None if query.cursor is None else cursors.read_sequence(query.cursor)

    def read(tx: Tx) -> tuple[list[ConversationRecord], ConversationPage]:
        unstarted = waiting.unstarted(tx, request.workspace_id, query.size) if before is None else []
        page = ConversationPage([], NEWEST)
        if room := query.size - len(unstarted):
            page = conversations.page(tx, request.workspace_id, before=before, limit=room)
        listed: list[ConversationSummary | UnstartedConversation] = [*unstarted, *page.items]
        titles = conversation_metadata.titles(
            tx, request.workspace_id, [one.conversation_id for one in listed]
        )
        return [_conversation(one, titles.get(one.conversation_id)) for one in listed], page

    items, page = await host.db.read(read)
    return Listing(
        items=items,
        next_cursor=None if page.before is None else cursors.issue(page.before),
        has_more=page.before is not None,
    )


def _conversation(item: ConversationSummary | UnstartedConversation, title: str | None) -> ConversationRecord:
    return ConversationRecord(
        conversation_id=item.conversation_id,
        title=title,
        latest_at=item.created_at / 1000,
        latest_role=item.role,
        latest_content=item.content,
        latest_seq=item.seq if isinstance(item, ConversationSummary) else 0,
        waiting=isinstance(item, UnstartedConversation),
    )


@endpoint(
    "GET",
    "/v1/conversations/{conversation_id}/history",
    right="conversations:read",
    tag="conversations",
    narrow=(),
)
async def get_history(request: ApiRequest, query: HistoryQuery) -> ConversationHistory:
    """Read a conversation, newest first; with `after` oldest first.

    A page ends at 4 MiB. `next_cursor` continues in the direction of the page. A message has the position at
    which a run took it up; messages that wait for that are listed separately, as `waiting`.
    """
    conversation_id = request.parameters["conversation_id"]
    if query.before is not None and query.after is not None:
        raise InvalidArgumentError("both before and after were sent: send one of them")
    cursors = history_cursors(request, conversation_id, query.thread_id, query.bot_id)
    before = None if query.before is None else cursors.read_sequence(query.before, "before")
    after = None if query.after is None else cursors.read_sequence(query.after, "after")
    place = {"thread_id": any_or(query.thread_id), "bot_id": any_or(query.bot_id)}

    def read(tx: Tx) -> tuple[TranscriptPage, WaitingPage, str | None]:
        page = transcripts.page(
            tx,
            request.workspace_id,
            conversation_id=conversation_id,
            **place,
            before_seq=before,
            after_seq=after,
            limit=page_size(query.limit),
            direction="forward" if after is not None else "backward",
        )
        if before is not None or (after is not None and page.has_more):
            return page, WaitingPage([], False), None
        title = conversation_metadata.title(tx, request.workspace_id, conversation_id)
        return page, waiting.page(tx, request.workspace_id, conversation_id, **place), title

    page, messages, title = await request.state.host.db.read(read)
    items = [conversation_item(item, cursors) for item in page.items]
    return ConversationHistory(
        items=items,
        next_cursor=items[-1].cursor if page.has_more else None,
        prev_cursor=items[0].cursor if items else None,
        has_more=page.has_more,
        title=title if before is None and after is None else msgspec.UNSET,
        waiting=[_waiting(message) for message in messages.items] or msgspec.UNSET,
        has_more_waiting=messages.has_more or msgspec.UNSET,
    )


def conversation_item(item: StoredItem, cursors: ScopedCursors) -> ConversationItem:
    """Return a message as the API shows it."""
    return with_fields_of(
        item, ConversationItem, cursor=cursors.issue(item.seq), created_at=item.created_at / 1000
    )


def _waiting(message: WaitingMessage) -> WaitingRecord:
    return with_fields_of(
        message,
        WaitingRecord,
        waits_for="pull" if message.is_steer else "run",
        created_at=message.created_at / 1000,
    )


@endpoint(
    "GET",
    "/v1/conversations/{conversation_id}/state",
    right="conversations:read",
    tag="conversations",
    narrow=(),
)
async def get_state(request: ApiRequest, query: PageQuery) -> Listing[StateRecord]:
    """Read a conversation's state, of all agents.

    A front-end token needs the right `runs:read` as well, and reads that of its agent alone: its pages may be
    short, or empty, while `has_more` is true.
    """
    if not sees_work(request.caller):
        raise UnauthorizedError(
            "what an agent keeps is its own: this token does not have the right 'runs:read'",
            right="runs:read",
        )
    conversation_id = request.parameters["conversation_id"]
    cursors = request.state.host.cursors.scoped("http state", [request.workspace_id, conversation_id])
    after = ("", "")
    if query.cursor is not None:
        match cursors.read(query.cursor):
            case [str() as scope_key, str() as key]:
                after = (scope_key, key)
            case _:
                raise InvalidArgumentError("cursor is not a position in this list: start again without it")
    scope = request.caller.scope

    def read(tx: Tx) -> tuple[list[StateEntry], bool, Agent | None]:
        own = None if scope is None else agents.find(tx, request.workspace_id, scope.agent)
        found = conversations.states(tx, request.workspace_id, conversation_id, after=after, limit=query.size)
        return *found, own

    rows, more, own = await request.state.host.db.read(read)
    return Listing(
        items=[
            with_fields_of(row, StateRecord, updated_at=row.updated_at / 1000)
            for row in rows
            if scope is None or (own is not None and row.agent_id == own.agent_id)
        ],
        next_cursor=cursors.issue([rows[-1].scope_key, rows[-1].key]) if more else None,
        has_more=more,
    )


@endpoint("DELETE", "/v1/conversations/{conversation_id}", right="conversations:write", tag="conversations")
async def delete_conversation(request: ApiRequest) -> DeletedConversation:
    """Delete all data of a conversation; return a receipt.

    Its rows of the event log stay, emptied, with their digests, so that the hash chain still verifies. 409
    while a run of it is active; 503 while a backup is being made.
    """
    conversation_id, data = request.parameters["conversation_id"], request.state.host.data
    if not await data.db.read(lambda tx: conversations.known(tx, request.workspace_id, conversation_id)):
        raise NotFoundError(f"there is no conversation {conversation_id!r}")
    receipt = await maintenance.delete_conversation(
        data, request.workspace_id, conversation_id, by=request.caller.subject
    )
    return with_fields_of(receipt, DeletedConversation, id=conversation_id, object="conversation.deleted")


@endpoint("DELETE", "/v1/actors/{actor_id}", right="conversations:write", tag="conversations")
async def delete_actor(request: ApiRequest, query: ActorQuery) -> DeletionReceipt:
    """Delete a person's data: their messages, the replies, state about them. Return a receipt.

    The receipt is empty if nothing is stored of the person. 409 while a run of theirs is active; 503 while a
    backup is being made.
    """
    return await maintenance.delete_actor(
        request.state.host.data,
        request.workspace_id,
        request.parameters["actor_id"],
        by=request.caller.subject,
        actor_type=query.actor_type,
    )


def history_cursors(
    request: ApiRequest, conversation_id: str, thread_id: str | None, bot_id: str | None
) -> ScopedCursors:
    """Return the cursors of the pages of a conversation."""
    scope: dict[str, Any] = {
        "workspace": request.workspace_id,
        "conversation": conversation_id,
        "thread": thread_id,
        "bot": bot_id,
    }
    return request.state.host.cursors.scoped("http history", scope)


def any_or(value: str | None) -> AnyOr:
    """Return a filter: without a value everything passes."""
    return ANY if value is None else value
