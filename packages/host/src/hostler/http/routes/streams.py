"""Streams over many runs: of a conversation and of the workspace, each with one cursor for ever."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from hostler.http.endpoint import Media, endpoint
from hostler.http.event_stream import EventStream
from hostler.http.live.framing import TimelineFraming, stream_cursors
from hostler.http.live.schema import DATA_TYPES, TIMELINE_EVENT_SCHEMA
from hostler.http.live.wanted import From, place_of, wanted_by
from hostler.http.problems import UpgradeRequiredError
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty
from hostler.http.sse import EVENT_STREAM
from hostler.journal.timeline_feed import Everywhere, TimelineFilter
from hostler_protocol._base import Strict

STREAM = Media(
    EVENT_STREAM,
    "One event per entry: `id` is its cursor, `event` its type, `data` its JSON",
    schema=TIMELINE_EVENT_SCHEMA,
    holds=DATA_TYPES,
)


class ConversationStreamQuery(Strict):
    """`type`: only events of these types; may be repeated. `from`: where a stream without a cursor begins:
    `now` or `start`. `last_event_id`: for clients that cannot send the header Last-Event-ID.
    """

    agent: str | None = None
    bot_id: str | None = None
    type: list[str] = []
    begin: From = msgspec.field(name="from", default="now")
    last_event_id: str | None = None


class WorkspaceStreamQuery(ConversationStreamQuery):
    """The same, and `conversation_id`. `everywhere`: types that are shown of the whole workspace as well,
    whatever else is asked for; may be repeated.
    """

    conversation_id: str | None = None
    everywhere: list[Everywhere] = []


@endpoint(
    "GET",
    "/v1/conversations/{conversation_id}/stream",
    right="runs:read",
    tag="conversations",
    answers={200: STREAM},
    narrow=("agent",),
)
async def stream_conversation(request: ApiRequest, query: ConversationStreamQuery) -> EventStream:
    """Follow a conversation: the results of all its runs, and the events that began them.

    The stream never ends, and its cursor is good for ever: `Last-Event-ID` resumes it without a gap or a
    repeat, on each host of the installation. Once retention has removed what follows a cursor, it is
    `expired` (410), with the URL of the history in `details.snapshot`. A conversation may be followed before
    it has begun.
    """
    return await _open(request, query, request.parameters["conversation_id"])


@endpoint(
    "GET",
    "/v1/stream",
    right="runs:read",
    tag="runs",
    answers={200: STREAM},
    narrow=("agent", "conversation_id"),
)
async def stream_workspace(request: ApiRequest, query: WorkspaceStreamQuery) -> EventStream:
    """Follow the workspace: the results of all runs, and the events that began them.

    As the stream of a conversation. A cursor of one stream is good in every other stream of the workspace.
    """
    return await _open(request, query, query.conversation_id, query.everywhere)


@endpoint("GET", "/v1/ws", right="runs:read", tag="runs", answers={101: None})
async def open_websocket(request: ApiRequest) -> Empty:
    """Open a WebSocket: many subscriptions, and commands, over one connection (docs/streams.md)."""
    raise UpgradeRequiredError("this path accepts WebSocket connections only")


async def _open(
    request: ApiRequest,
    query: ConversationStreamQuery,
    conversation_id: str | None,
    everywhere: Sequence[Everywhere] = (),
) -> EventStream:
    wanted = wanted_by(
        request.caller,
        conversation_id=conversation_id,
        agent=query.agent,
        bot_id=query.bot_id,
        types=query.type,
        everywhere=everywhere,
    )
    return await open_timeline(
        request, wanted, request.headers.get("last-event-id") or query.last_event_id, query.begin
    )


async def open_timeline(
    request: ApiRequest, wanted: TimelineFilter, cursor: str | None, begin: From
) -> EventStream:
    """Return a stream over runs. All checks are made before the response starts: errors as `place_of`."""
    host = request.state.host
    cursors = stream_cursors(host.cursors, wanted.workspace_id)
    after = await place_of(host.runs.timelines, wanted, cursors, cursor, begin)
    return EventStream(
        request.state.streams.serve,
        "",
        partial(host.runs.timelines.watch, wanted),
        after,
        while_valid=request.while_key_is_valid,
        framing=partial(TimelineFraming, cursors, after),
        topic=wanted,
    )
