"""Events: sending them, and the log of those received."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import msgspec

from hostler.domain.epoch import seconds
from hostler.domain.ingest import event_of, replayed
from hostler.domain.routing_explanations import RoutingExplanation
from hostler.domain.same_fields import with_fields_of
from hostler.domain.suggestions import did_you_mean
from hostler.http.auth import require_right
from hostler.http.endpoint import Media, endpoint
from hostler.http.event_stream import EventStream
from hostler.http.limits import MAX_WAIT_SECONDS
from hostler.http.pagination import PageQuery, list_cursors, listing
from hostler.http.request import ApiRequest
from hostler.http.responses import Headers, Json, Listing
from hostler.http.routes.runs import open_stream
from hostler.http.sse import EVENT_SCHEMA, EVENT_STREAM
from hostler.runs.orchestrator import Accepted
from hostler.storage.port import Tx
from hostler.storage.stores import agents, audit, events
from hostler.storage.stores.events import Outcome, StoredEvent
from hostler.storage.stores.filters import ANY
from hostler_protocol._base import Strict
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.ids import digest, new_id
from hostler_protocol.runs import TERMINAL_STATUSES, RunRecord

MAX_DELAY_SECONDS = 366 * 86_400
POLL_SECONDS = 0.2
"""Between two reads of an event that is waited for; any host may settle it."""
MAX_ROUTE_SECONDS = 60.0
"""How long a stream waits for a deferred event, which fails after half of that."""
_SETTLED = {*TERMINAL_STATUSES, "paused"}


class PostEventQuery(Strict):
    """`wait`: seconds to wait for the run's end, at most 300."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=86_400)] | None = None
    last_event_id: str | None = None


class PostedEvent(EventEnvelope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event. `delay`: seconds before its run may start, at most 366 days."""

    delay: Annotated[float, msgspec.Meta(ge=0, le=MAX_DELAY_SECONDS)] | None = None

    def envelope(self) -> EventEnvelope:
        """Return the event without its delay."""
        return EventEnvelope(**{name: getattr(self, name) for name in EventEnvelope.__struct_fields__})


class ReplayEvent(Strict):
    """`agent`: who gets the event; null: the agent that it named, else the one that its bindings find now."""

    agent: str | None = None


class GetEventQuery(Strict):
    """`wait`: seconds to wait for the outcome of a message, at most 300."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=86_400)] | None = None


class EventsQuery(PageQuery):
    """Filters of the log. `requester`: who sent them: `hook:NAME`, `channel:NAME` or the subject of a key."""

    conversation_id: str | None = None
    thread_id: str | None = None
    event_type: list[str] = []
    outcome: Outcome | None = None
    requester: str | None = None


class EventRecord(Strict):
    """One event of the log and its outcome.

    `routing`: how its agent was found. `steering`: of a message that a run absorbed; its `status` is `queued`
    until it is `injected` (at the `step` of the run's journal), `requeued` (then it is the event of
    `next_run_id`) or `dropped`. `envelope`: the stored event, only for a single event; null once its content
    was deleted.
    """

    event_id: str
    event_type: str
    source: str
    seq: int
    created_at: float
    event_time: float | None
    workspace_id: str
    bot_id: str | None
    conversation_id: str | None
    thread_id: str | None
    actor_type: str | None
    actor_id: str | None
    actor_name: str | None
    subject_type: str | None
    subject_id: str | None
    input_summary: str
    content_redacted: bool
    requester: str | None
    outcome: str
    run_id: str | None
    routing: dict[str, Any]
    steering: dict[str, Any] | None
    envelope: EventEnvelope | None = None


@endpoint(
    "POST",
    "/v1/events",
    right="events:write",
    tag="events",
    status=202,
    answers={
        200: (
            RunRecord,
            Media(EVENT_STREAM, "The run (`wait`), or its results as a stream (Accept)", EVENT_SCHEMA),
        ),
        202: (Accepted, RunRecord),
    },
    narrow=(),
)
async def post_event(
    request: ApiRequest, query: PostEventQuery, body: PostedEvent
) -> Json[Accepted] | Json[RunRecord] | EventStream:
    """Send an event.

    It is stored once per `event_id` and workspace: a repetition gets the first event and run, with
    `duplicate` true; another event with the same id is a `conflict`. An `Idempotency-Key` replaces a missing
    `event_id`. With `delay` the run starts that many seconds later. With `wait` the response is the run: 200
    once it has ended or paused, else 202. With `Accept: text/event-stream` the response is the run's stream.

    If filters could not be evaluated, the outcome is `deferred` and they are tried for half a minute more.
    Then the event has failed, and a waiting request gets 503. The same event, sent again, is tried again.
    """
    wants_stream = EVENT_STREAM in request.headers.get("accept", "")
    if wants_stream or query.wait is not None:
        require_right(request.caller, "runs:read")
    key = request.idempotency_key()
    if key is not None and body.event_id is None:
        # the key id of a front-end token is that of its conversation: the next token may repeat the request
        identity = digest([request.workspace_id, request.caller.key_id, key])
        body = msgspec.structs.replace(body, event_id=f"idem-{identity}")
    host = request.state.host
    accepted = await host.orchestrator.accept(body.envelope(), request.caller, delay=body.delay)
    request.state.metrics.count_event(accepted.outcome, duplicate=accepted.duplicate)
    if accepted.outcome == "deferred" and (wants_stream or query.wait is not None):
        timeout = MAX_ROUTE_SECONDS if query.wait is None else min(query.wait, MAX_WAIT_SECONDS)
        async with request.while_key_is_valid():
            accepted = await host.routed(request.workspace_id, accepted, timeout)
    if accepted.run is None:
        return Json(accepted, 202)
    run_id = accepted.run.run_id
    headers: Headers = [(b"location", f"/v1/runs/{run_id}".encode())]
    if wants_stream:
        return await open_stream(request, run_id, query.last_event_id, headers)
    if query.wait is None:
        return Json(accepted, 202, headers)
    async with request.while_key_is_valid():
        seconds = min(query.wait, MAX_WAIT_SECONDS)
        run = await host.runs.wait(request.workspace_id, run_id, seconds, accepted=True)
    return Json(run, 200 if run.status in _SETTLED else 202, headers)


@endpoint("POST", "/v1/events/explain", right="agents:read", tag="events")
async def explain_event(request: ApiRequest, body: EventEnvelope) -> RoutingExplanation:
    """Say which agent would take an event, and of each other agent why it would not. Nothing is stored."""
    event, _ = event_of(body, request.caller, int(time.time() * 1000))
    return await request.state.host.event_router.explain(event)


@endpoint("POST", "/v1/events/{event_id}/replay", right="events:write", tag="events", status=202)
async def replay_event(request: ApiRequest, body: ReplayEvent) -> Json[Accepted]:
    """Send a stored event again, as a new event whose `metadata.replay_of` names the old one.

    It is an event of the caller, who needs `events:read` as well, and is routed by what is configured now.
    One that a channel brought is answered in its conversation, and nowhere else. With an `Idempotency-Key`
    it is one event, however often it is asked for.
    """
    require_right(request.caller, "events:read")
    ws, old_id, key = request.workspace_id, request.parameters["event_id"], request.idempotency_key()
    host = request.state.host
    stored, names = await host.db.read(lambda tx: (events.find(tx, ws, old_id), agents.names(tx, ws)))
    if stored is None:
        raise NotFoundError(f"there is no event {old_id!r}")
    if body.agent is not None and body.agent not in names:
        hint = did_you_mean(body.agent, names)
        raise InvalidArgumentError(f"agent: there is no agent {body.agent!r:.200}; {hint}")
    event = stored.event()
    if event is None:
        raise ConflictError(f"the content of event {old_id!r} was deleted: nothing of it can be sent again")
    identity = new_id() if key is None else digest([ws, request.caller.key_id, key, old_id, body.agent])
    again = replayed(event, f"replay-{identity}", body.agent)

    def note(tx: Tx) -> None:
        audit.record(tx, ws, request.caller.subject, "event.replayed", old_id, {"event_id": again.event_id})

    accepted = await host.orchestrator.accept(again, request.caller, with_it=note)
    request.state.metrics.count_event(accepted.outcome, duplicate=accepted.duplicate)
    return Json(accepted, 202)


@endpoint("GET", "/v1/events", right="events:read", tag="events")
async def list_events(request: ApiRequest, query: EventsQuery) -> Listing[EventRecord]:
    """List events, newest first.

    `event_type` may be repeated. `outcome=failed` lists events that reached no agent because filters could
    not be evaluated, `outcome=deferred` those whose filters are tried again.
    """
    cursors = list_cursors(request.state.host.cursors, "events", request.workspace_id, query)
    before = None if query.cursor is None else cursors.read_sequence(query.cursor)
    rows = await request.state.host.db.read(
        lambda tx: events.page(
            tx,
            request.workspace_id,
            conversation_id=ANY if query.conversation_id is None else query.conversation_id,
            thread_id=ANY if query.thread_id is None else query.thread_id,
            event_types=query.event_type or None,
            outcome=query.outcome,
            requester=query.requester,
            before_seq=before,
            limit=query.size + 1,
        )
    )
    return listing(rows, query.size, event_record, lambda row: row.seq, cursors)


@endpoint("GET", "/v1/events/{event_id}", right="events:read", tag="events")
async def get_event(request: ApiRequest, query: GetEventQuery) -> EventRecord:
    """Get one event, with its content.

    With `wait` the response comes once a message that a run absorbed was read or went to another run, once a
    `deferred` event has an outcome, or after that time.
    """
    event_id = request.parameters["event_id"]
    until = asyncio.get_running_loop().time() + min(query.wait or 0.0, MAX_WAIT_SECONDS)
    while True:
        event = await request.state.host.db.read(lambda tx: events.find(tx, request.workspace_id, event_id))
        if event is None:
            raise NotFoundError(f"there is no event {event_id!r}")
        is_open = event.steering is not None and event.steering["status"] == "queued"
        is_open |= event.outcome == "deferred"
        left = until - asyncio.get_running_loop().time()
        if not is_open or left <= 0:
            return msgspec.structs.replace(event_record(event), envelope=event.envelope)
        async with request.while_key_is_valid():
            await asyncio.sleep(min(left, POLL_SECONDS))


def event_record(event: StoredEvent) -> EventRecord:
    """Return a stored event as the API shows it in lists."""
    created_at, event_time = event.created_at / 1000, seconds(event.event_time)
    return with_fields_of(event, EventRecord, created_at=created_at, event_time=event_time, envelope=None)
