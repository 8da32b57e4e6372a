"""Runs: list, journal, stream, steering and cancellation."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec
from msgspec.structs import replace

from hostler.calls.cursors import ScopedCursors
from hostler.domain.epoch import seconds
from hostler.domain.explanations import Explanation
from hostler.domain.run_view import RunView
from hostler.domain.same_fields import with_fields_of
from hostler.domain.steering import SteerStatus
from hostler.http.endpoint import Media, endpoint
from hostler.http.event_stream import Batches, EventStream
from hostler.http.journal_page import journal_page
from hostler.http.narrow import find_run
from hostler.http.pagination import Limit, PageQuery, list_cursors, listing
from hostler.http.request import ApiRequest
from hostler.http.responses import Headers, Listing
from hostler.http.run_queries import RunsQuery, RunTotals, Text, TotalsQuery
from hostler.http.sse import EVENT_SCHEMA, EVENT_STREAM, last_event_id
from hostler.journal import explained_calls
from hostler.journal.feed import StoredResult
from hostler.runs.records import record, record_of, shown
from hostler.storage.port import Tx
from hostler.storage.stores import run_lists as lists
from hostler.storage.stores import run_sources as sources
from hostler.storage.stores import runs, steering
from hostler.storage.stores.filters import NEWEST
from hostler.storage.stores.run_rows import Run
from hostler.storage.stores.steering import Steer
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.limits import DEFAULT_PAGE_ITEMS, MAX_PAGE_ITEMS, MAX_REASON_CHARS
from hostler_protocol.runs import TERMINAL_STATUSES, RunRecord

MAX_GRACE_SECONDS = 5.0
"""The longest that a person who pressed a stop button waits."""
MAX_BRIEF_ENTRIES = 500
"""Entries of a page in brief, each of about 1 KiB at most."""
STREAM = Media(
    EVENT_STREAM,
    "One event per result: `id` its sequence, `event` its type, `data` its JSON",
    schema=EVENT_SCHEMA,
)


class JournalQuery(Strict):
    """`after`: `next_cursor` of the previous page, or a position.

    `brief`: data as an overview: long texts and lists in it are cut, and up to 500 entries are on a page.
    `contains`: only entries that hold this text, in whatever case; a page may then have few or none and be
    followed by others.
    """

    after: str | None = None
    limit: Limit = DEFAULT_PAGE_ITEMS
    brief: bool = False
    contains: Text | None = None


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a run's journal. `sequence`: of a result."""

    position: int
    kind: str
    type: str
    at: float
    data: msgspec.Raw
    attempt: int
    sequence: int | None = None
    usage: msgspec.Raw | None = None
    timestamp: float | None = None


class StreamQuery(Strict):
    """For clients that cannot send the header Last-Event-ID."""

    last_event_id: str | None = None


class SteerRecord(Strict):
    """A message that a run absorbed. `position`: its number among them, from 1.

    `step`: position in the run's journal where the runner read it, in `attempt`, after the result `sequence`.
    """

    event_id: str
    status: SteerStatus
    position: int
    claimed_at: float
    settled_at: float | None = None
    attempt: int | None = None
    step: int | None = None
    sequence: int | None = None
    next_run_id: str | None = None


class CancelRun(Strict):
    """`reason`: shown in the run's journal.

    `grace`: seconds that the runner has to end by itself; default 5.
    """

    reason: Annotated[str, msgspec.Meta(max_length=MAX_REASON_CHARS)] = "cancelled by request"
    grace: Annotated[float, msgspec.Meta(ge=0, le=MAX_GRACE_SECONDS)] | None = None


@endpoint("GET", "/v1/runs", right="runs:read", tag="runs", narrow=("agent", "conversation_id"))
async def list_runs(request: ApiRequest, query: RunsQuery) -> Listing[RunView]:
    """List runs, newest first, without their output.

    `waiting`: the run waits for people now, also one that is `running` since its process is held meanwhile.
    `waits`: what for, and all else that it waits for.
    `status` may be repeated. Rare combinations of filters are looked for step by step: a page may have fewer
    runs than `limit`, or none, and be followed by others, as `has_more` says.
    """
    cursors = list_cursors(request.state.host.cursors, "runs", request.workspace_id, query)
    if query.dead:
        return await _list_dead(request, query, cursors)
    after = None if query.cursor is None else lists.Place(*cursors.read_place(query.cursor))
    wanted = _filter(query)

    def read(tx: Tx) -> tuple[list[RunView], lists.Place | None]:
        page = lists.page(tx, request.workspace_id, wanted, after, query.size, skip=query.skip)
        return shown(tx, request.workspace_id, [record_of(run) for run in page.items]), page.after

    items, rest = await request.state.host.db.read(read)
    return Listing(
        items=items,
        next_cursor=None if rest is None else cursors.issue([rest.at, rest.run_id]),
        has_more=rest is not None,
    )


async def _list_dead(request: ApiRequest, query: RunsQuery, cursors: ScopedCursors) -> Listing[RunView]:
    if query.status or query.conversation_id or query.min_cost is not None or query.tool or query.text:
        raise InvalidArgumentError("dead combines with agent, since and until only: leave the others out")
    before: tuple[int, str] | None = None
    if query.cursor is not None:
        before = cursors.read_place(query.cursor)
    elif query.until is not None:
        before = (int(query.until * 1000) + 1, "")
    rows = await request.state.host.db.read(
        lambda tx: sources.dead(
            tx,
            request.workspace_id,
            agent_name=query.agent,
            since=int((query.since or 0) * 1000),
            before=before,
            limit=query.size + 1,
        )
    )

    def shown_of(run: Run) -> RunView:
        return with_fields_of(record_of(run), RunView, waiting=False, waits_for=None, waits=[])  # ended

    return listing(rows, query.size, shown_of, lambda run: [run.created_at, run.run_id], cursors)


def _filter(query: TotalsQuery) -> lists.RunFilter:
    return lists.RunFilter(
        statuses=query.status or None,
        agent_name=query.agent,
        conversation_id=query.conversation_id,
        since=int((query.since or 0) * 1000),
        until=NEWEST if query.until is None else int(query.until * 1000),
        min_cost=query.min_cost,
        tool=query.tool,
        text=query.text,
    )


@endpoint("GET", "/v1/runs/totals", right="runs:read", tag="runs")
async def get_run_totals(request: ApiRequest, query: TotalsQuery) -> RunTotals:
    """Sum up the runs that a list with these filters has: by status, tokens, cost and time.

    The sums come in parts of 5,000 runs that are looked at, newest first. `next_cursor` is good for the list
    with these filters, too.
    """
    # as the list's, so that it goes on from the cursors of its totals
    same = with_fields_of(query, RunsQuery, limit=1, dead=False, skip=0)
    cursors = list_cursors(request.state.host.cursors, "runs", request.workspace_id, same)
    after = None if query.cursor is None else lists.Place(*cursors.read_place(query.cursor))
    wanted = _filter(query)
    found, more = await request.state.host.db.read(
        lambda tx: lists.totals(tx, request.workspace_id, wanted, after)
    )
    return RunTotals(
        runs=sum(found.by_status.values()),
        by_status=found.by_status,
        input_tokens=found.input_tokens,
        output_tokens=found.output_tokens,
        cost=found.cost,
        timed=found.timed,
        seconds=found.milliseconds / 1000,
        next_cursor=None if more is None else cursors.issue([more.at, more.run_id]),
        has_more=more is not None,
    )


@endpoint("GET", "/v1/runs/{run_id}", right="runs:read", tag="runs", narrow=())
async def get_run(request: ApiRequest) -> RunView:
    """Get one run with its output: the completed messages of the assistant.

    `waiting`, `waits`: that it waits for people now, and for what else, as in the list.
    """
    ws, run_id = request.workspace_id, request.parameters["run_id"]

    def read(tx: Tx) -> RunView:
        (found,) = shown(tx, ws, [record(tx, ws, run_id)])
        return found

    return await request.state.host.db.read(read, brief=True)


@endpoint("GET", "/v1/runs/{run_id}/journal", right="runs:read", tag="runs", narrow=())
async def get_journal(request: ApiRequest, query: JournalQuery) -> Listing[JournalEntry]:
    """Read a run's journal, oldest first: everything it did, in order.

    A page ends at 4 MiB. Retention removes deltas first: a cursor into removed entries is `expired` (410),
    with the URL of the run in `details.snapshot`.
    """
    run_id = request.parameters["run_id"]
    cursors = request.state.host.cursors.scoped("http journal", [request.workspace_id, run_id])
    after = 0
    if query.after is not None:
        is_position = query.after.isascii() and query.after.isdecimal() and len(query.after) <= 16
        after = int(query.after) if is_position else cursors.read_sequence(query.after, "after")
    page = await journal_page(
        request.state.host,
        request.workspace_id,
        run_id,
        after,
        min(query.limit, MAX_BRIEF_ENTRIES if query.brief else MAX_PAGE_ITEMS),
        brief=query.brief,
        contains=query.contains,
    )
    return Listing(
        items=[
            JournalEntry(
                position=entry.position,
                kind=entry.kind,
                type=entry.type,
                at=entry.at / 1000,
                attempt=entry.attempt,
                sequence=entry.sequence,
                **fields,
            )
            for entry, fields in page.items
        ],
        next_cursor=cursors.issue(page.last) if page.more else None,
        has_more=page.more,
    )


@endpoint("GET", "/v1/runs/{run_id}/calls/{call}/explanation", right="runs:read", tag="runs")
async def explain_call(request: ApiRequest) -> Explanation:
    """Say which rule decided a call of a run: each check, where its rules came from, and who approved.

    `call`: the position of the call in the journal, its id, or the id that the model gave it. The answer
    comes from the journal and the grant of the run alone, also after its end.
    """
    host, found = request.state.host, request.parameters
    return await explained_calls.explain_call(
        host.db, host.blobs, request.workspace_id, found["run_id"], found["call"]
    )


@endpoint("GET", "/v1/runs/{run_id}/stream", right="runs:read", tag="runs", answers={200: STREAM}, narrow=())
async def stream_run(request: ApiRequest, query: StreamQuery) -> EventStream:
    """Follow a run's results, from the first or from after `Last-Event-ID`, without a gap or a repeat.

    The stream ends after the terminal result, also if the run has ended already. Comment lines keep it alive.
    A disconnect cancels nothing.
    """
    return await open_stream(request, request.parameters["run_id"], query.last_event_id, [])


@endpoint("POST", "/v1/runs/{run_id}/cancel", right="runs:write", tag="runs", narrow=())
async def cancel_run(request: ApiRequest, body: CancelRun) -> RunRecord:
    """Cancel a run and its children.

    The runner is asked to stop and has `grace` seconds; then the run ends without it, and its later results
    are refused. Another request with a shorter `grace` shortens it. A run that has ended is unchanged. The
    response is the run in its current state.
    """
    return await request.state.host.cancel(
        request.workspace_id,
        request.parameters["run_id"],
        reason=body.reason,
        actor=request.caller.subject,
        grace=body.grace,
    )


@endpoint("GET", "/v1/runs/{run_id}/steering", right="runs:read", tag="runs", narrow=())
async def list_steering(request: ApiRequest, query: PageQuery) -> Listing[SteerRecord]:
    """List the messages that a run absorbed, in order, with their outcomes."""
    run_id = request.parameters["run_id"]
    cursors = request.state.host.cursors.scoped("http steering", [request.workspace_id, run_id])
    after = 0 if query.cursor is None else cursors.read_sequence(query.cursor)

    def read(tx: Tx) -> list[Steer]:
        runs.get(tx, request.workspace_id, run_id)
        return steering.page(tx, request.workspace_id, run_id, after=after, limit=query.size + 1)

    rows = await request.state.host.db.read(read)
    return listing(rows, query.size, steer_record, lambda row: row.position, cursors)


def steer_record(steer: Steer) -> SteerRecord:
    """Return a steering message as the API shows it."""
    claimed_at, settled_at = steer.claimed_at / 1000, seconds(steer.settled_at)
    return with_fields_of(steer, SteerRecord, claimed_at=claimed_at, settled_at=settled_at)


async def open_stream(
    request: ApiRequest, run_id: str, query_id: str | None, headers: Headers
) -> EventStream:
    """Return the stream of a run. All checks are made before the response starts.

    NotFoundError; InvalidArgumentError for an id that no event of this run has; CursorLostError for one that
    retention has removed.
    """
    host = request.state.host
    after = last_event_id(request.headers.get("last-event-id"), query_id)
    run = await find_run(request, run_id)
    if after > run.sequence:
        raise InvalidArgumentError(
            f"Last-Event-ID {after} is not the id of an event of this stream: its last is {run.sequence}"
        )
    watch = partial(host.runs.feed.watch, run_id)
    serve, valid = request.state.streams.serve, request.while_key_is_valid
    stream = EventStream(serve, run_id, watch, after, headers, while_valid=valid)
    if run.status not in TERMINAL_STATUSES:
        return stream
    # The run has ended, so the first batch is there at once and shows whether the cursor is still valid.
    batches = stream.watch(after)
    first = await anext(aiter(batches), None)
    return replace(stream, opening=_with_first(first, batches))


async def _with_first(first: list[StoredResult] | None, rest: Batches) -> Batches:
    if first is not None:
        yield first
        async for batch in rest:
            yield batch
