"""Widgets: chats for web pages. Visitors get tokens, and follow their conversation (docs/widget.md)."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec

from hostler.domain.widgets import Widget
from hostler.http.cors import origin_of
from hostler.http.endpoint import Media, endpoint
from hostler.http.event_stream import EventStream
from hostler.http.live.framing import stream_cursors
from hostler.http.live.wanted import From, place_of
from hostler.http.own_pages import own_names, own_origin
from hostler.http.proxies import rate_key
from hostler.http.request import ApiRequest
from hostler.http.responses import Json, Listing
from hostler.http.sse import EVENT_STREAM
from hostler.http.visitor_stream import VISITOR_EVENT_SCHEMA, VISITOR_TYPES, VisitorFraming
from hostler.journal.timeline_feed import TimelineFilter
from hostler_protocol._base import Strict
from hostler_protocol.errors import NotFoundError, UnauthorizedError

MAX_VISITOR_CHARS = 1_024
STREAM = Media(
    EVENT_STREAM,
    "One event per entry: `id` is its cursor, `event` its type, `data` what visitors see of it as JSON",
    schema=VISITOR_EVENT_SCHEMA,
)


class Visit(Strict):
    """A page that a visitor has opened. `visitor`: the id that an earlier visit got; null for a new one."""

    visitor: Annotated[str, msgspec.Meta(max_length=MAX_VISITOR_CHARS)] | None = None


class Visitor(Strict):
    """A visitor's token (docs/front-ends.md), valid until `expires_at` (UTC epoch seconds).

    `visitor`: the id by which the page comes back to this conversation, also for the next token. It is a
    secret of the visitor. `known`: whether the id that was sent still named a conversation.
    """

    visitor: str
    known: bool
    token: str
    conversation_id: str
    expires_at: float


class WidgetRecord(Strict):
    """A widget. `script`: where its script is. `requests`: by outcome, since the host started."""

    name: str
    agent: str
    workspace_id: str
    origins: list[str]
    script: str
    requests: dict[str, int]
    problems: list[str]


class VisitorStreamQuery(Strict):
    """`from`: where a stream without Last-Event-ID begins: `now` or `start`."""

    begin: From = msgspec.field(name="from", default="now")


@endpoint("POST", "/v1/widgets/{widget}/visitors", right=None, tag="widgets", status=201)
async def enter_widget(request: ApiRequest, body: Visit) -> Json[Visitor]:
    """Give a visitor of a web page a token for a conversation of its own, for 15 minutes.

    It needs no key: the page's origin is one of the widget's, and each address has a rate. With the id of an
    earlier visit the token is for the conversation of that one; an id that is over, or was never issued for
    this widget and this origin, begins a new one.
    """
    origin = origin_of(request.scope)
    if origin is None:
        raise UnauthorizedError("a widget is for pages in browsers, which send an Origin")
    entered = await request.state.host.widgets.enter(
        request.parameters["widget"],
        body.visitor,
        origin=origin,
        address=rate_key(request.address),
        own_page=_is_own_page(request),
    )
    request.state.cors.learn(entered.token.origins)
    made = Visitor(
        visitor=entered.visitor,
        known=entered.known,
        token=entered.text,
        conversation_id=entered.token.conversation_id,
        expires_at=entered.token.expires_at / 1000,
    )
    return Json(made, 201)


@endpoint(
    "GET",
    "/v1/widgets/{widget}/stream",
    right="conversations:read",
    tag="widgets",
    answers={200: STREAM},
    narrow=(),
    checks=("widget",),
)
async def stream_widget(request: ApiRequest, query: VisitorStreamQuery) -> EventStream:
    """Follow the conversation of a front-end token, as its visitor sees it.

    Text as it is written, what waits for people, and the state of runs; not what tools and models were asked.
    `Last-Event-ID` resumes it without a gap or a repeat. The stream never ends.
    """
    caller, host = request.caller, request.state.host
    widget = host.widgets.get(request.parameters["widget"])
    if caller.scope is None:
        raise UnauthorizedError("this is for front-end tokens: a key reads /v1/conversations/{id}/stream")
    if widget.agent != caller.scope.agent or host.widgets.workspace_of(widget) != request.workspace_id:
        raise NotFoundError("there is no such widget")
    wanted = TimelineFilter(
        workspace_id=request.workspace_id,
        conversation_id=caller.scope.conversation_id,
        agent=caller.scope.agent,
        types=VISITOR_TYPES,
    )
    cursors = stream_cursors(host.cursors, request.workspace_id)
    cursor = request.headers.get("last-event-id")
    after = await place_of(host.runs.timelines, wanted, cursors, cursor, query.begin)
    return EventStream(
        request.state.streams.serve,
        "",
        partial(host.runs.timelines.watch, wanted),
        after,
        while_valid=request.while_key_is_valid,
        framing=partial(VisitorFraming, cursors, after),
        topic=("visitors", wanted),
    )


@endpoint("GET", "/v1/widgets", right="installation", tag="widgets")
async def list_widgets(request: ApiRequest) -> Listing[WidgetRecord]:
    """List the widgets by name, with what came in since the host started. Entries: `/v1/config/widgets`."""
    widgets = request.state.host.widgets
    problems: dict[str, list[str]] = {}
    for problem in await widgets.problems():
        problems.setdefault(problem.name, []).append(problem.problem)
    return Listing(
        items=[_record(request, widget, problems.get(widget.name, [])) for widget in widgets.entries]
    )


def _record(request: ApiRequest, widget: Widget, problems: list[str]) -> WidgetRecord:
    widgets = request.state.host.widgets
    return WidgetRecord(
        name=widget.name,
        agent=widget.agent,
        workspace_id=widgets.workspace_of(widget),
        origins=widget.origins,
        script=request.base + widget.path,
        requests={outcome: count for (name, outcome), count in widgets.counts.items() if name == widget.name},
        problems=problems,
    )


def _is_own_page(request: ApiRequest) -> bool:
    """Whether the page that sent a request is one of this host."""
    try:
        own_origin(request.headers, own_names(request.state.host))
    except UnauthorizedError:
        return False
    return True
