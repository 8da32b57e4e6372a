"""Start, find, read and stream answers: what the routes of all dialects do.

A dialect has no state of its own. What it needs to know again is in its ids: that of an answer names its run
and where in the run it begins, that of a call its run and the host's id of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import Literal, NamedTuple, TypeVar

import msgspec

from hostler.http.auth import has_right, require_right
from hostler.http.dialects.disconnects import ON_DISCONNECT_HEADER, cancels_when_gone
from hostler.http.dialects.fold import Answer, Fold, Folding
from hostler.http.dialects.message_files import check_files
from hostler.http.dialects.paused_calls import decided_calls
from hostler.http.dialects.placeholders import Filling
from hostler.http.event_stream import Batches, EventStream, Translation, next_batch
from hostler.http.limits import MAX_WAIT_SECONDS, STREAM_QUIET_SECONDS
from hostler.http.narrow import check_run, find_run
from hostler.http.problems import KeyReusedError
from hostler.http.request import ApiRequest
from hostler.http.responses import Headers
from hostler.journal.feed import StoredResult
from hostler.storage.port import Tx
from hostler.storage.stores.run_rows import Run
from hostler_protocol.content import HistoryMessage, Usage
from hostler_protocol.errors import (
    CancelledCallError,
    ConflictError,
    DeniedError,
    NotFoundError,
    UnavailableError,
)
from hostler_protocol.events import EventEnvelope
from hostler_protocol.ids import digest
from hostler_protocol.limits import MAX_INTEGER
from hostler_protocol.runs import TERMINAL_STATUSES

F = TypeVar("F", bound=Fold)
WhenGone = Literal["continue", "cancel"]
"""What becomes of a run whose client disconnects: a key without the right to cancel it leaves it alone."""


class Started(NamedTuple):
    """The answer to a message. `duplicate`: the same message was sent before, and this is its answer."""

    answer: Answer
    duplicate: bool
    outcome: str


# -- ids -------------------------------------------------------------------------------------------------


def answer_id(prefix: str, answer: Answer) -> str:
    """Return the id of an answer: `PREFIX_RUN`, with `_SEQUENCE` unless it is the run's first."""
    return f"{prefix}_{answer.run_id}" + (f"_{answer.after}" if answer.after else "")


def read_answer_id(prefix: str, text: str) -> Answer:
    """Return the answer with an id. NotFoundError for any other text."""
    head, _, rest = text.partition("_")
    run_id, _, after = rest.partition("_")
    if head == prefix and run_id and "\x00" not in text and (not after or _is_sequence(after)):
        return Answer(run_id, int(after or 0))
    raise NotFoundError(f"there is no {text[:100]!r} here")


def call_id_of(answer: Answer, call_id: str) -> str:
    """Return a client's id of a call that waits: with its run, in which alone the host's id is unique."""
    return f"call_{answer.run_id}_{call_id}"


def read_call_id(text: str) -> tuple[str, str]:
    """Return the run and the host's id of a call. NotFoundError for any other text."""
    parts = text.split("_", 2)
    if len(parts) == 3 and parts[0] == "call" and parts[1] and parts[2] and "\x00" not in text:
        return parts[1], parts[2]
    raise NotFoundError(f"no call with the id {text[:200]!r} waits here")


def _is_sequence(text: str) -> bool:
    return len(text) <= 16 and text.isascii() and text.isdecimal() and int(text) <= MAX_INTEGER


# -- messages ----------------------------------------------------------------------------------------------


async def send_message(
    request: ApiRequest,
    envelope: EventEnvelope,
    *,
    history: Sequence[HistoryMessage] = (),
    with_it: Callable[[Tx], object] = lambda _: None,
) -> Started:
    """Send a message, and return where its answer begins. `history` goes before it, in a new conversation.
    `with_it` as in `Orchestrator.accept`.

    An event id makes a repeated request the same run; without one the request's Idempotency-Key does. Raises
    NotFoundError if no agent takes the message or a file in it is not there, KeyReusedError if the key was
    used for another message, DeniedError if its agent is busy and takes no other, UnavailableError if it
    could not be routed.
    """
    require_right(request.caller, "events:write")
    require_right(request.caller, "runs:read")
    cancels_when_gone(request)
    keyed = keyed_event_id(request)
    if envelope.event_id is None:
        envelope = msgspec.structs.replace(envelope, event_id=keyed)
    await check_files(request, envelope)
    host = request.state.host
    # the host keeps the conversation of a front-end token: its page puts no words into the agent's mouth
    earlier = history if request.caller.scope is None else ()
    try:
        accepted = await host.orchestrator.accept(envelope, request.caller, history=earlier, with_it=with_it)
    except ConflictError as error:
        if keyed is None or envelope.event_id != keyed or "event_id" not in error.details:
            raise
        raise KeyReusedError("this Idempotency-Key was used for another request: use a new one") from None
    request.state.metrics.count_event(accepted.outcome, duplicate=accepted.duplicate)
    if accepted.outcome == "deferred":
        async with request.while_key_is_valid():
            accepted = await host.routed(request.workspace_id, accepted, MAX_WAIT_SECONDS)
    if accepted.run is None:
        raise _no_run(accepted.outcome, envelope.agent)
    run_id = accepted.run.run_id
    after = 0
    if accepted.outcome == "steered":
        after = (await find_run(request, run_id)).sequence
    return Started(Answer(run_id, after), accepted.duplicate, accepted.outcome)


def keyed_event_id(request: ApiRequest) -> str | None:
    """Return the id of the event of a request with an Idempotency-Key, None for one without."""
    key = request.idempotency_key()
    if key is None:
        return None
    return f"idem-{digest([request.workspace_id, request.caller.key_id, key])}"


def _no_run(outcome: str, agent: str | None) -> Exception:
    if outcome == "unrouted":
        return NotFoundError(f"there is no agent {agent!r} that takes this message")
    if outcome == "rejected":
        return DeniedError(
            "the agent is busy with this conversation and takes no other message until it ends"
        )
    return UnavailableError(f"the message started no run: its outcome is {outcome!r}; send it again")


# -- the answer --------------------------------------------------------------------------------------------


async def stream_answer(
    request: ApiRequest,
    answer: Answer,
    make: Callable[[], Fold],
    kind: Hashable,
    *,
    skip: int = 0,
    through: bool = False,
    anywhere: bool = False,
    prepare: Callable[[], Awaitable[None]] | None = None,
    headers: Headers | None = None,
    when_gone: WhenGone = "continue",
    filling: Filling = (),
) -> EventStream:
    """Return an answer as the stream of a dialect. NotFoundError if the run is not the caller's.

    `make` makes a fresh fold; equal `kind` of the same answer means equal frames. `skip`: the number of
    frames that the client has already. `through`, `anywhere`: as of `Folding`. `prepare` is awaited before
    the first results of a reading are folded: it reads facts that exist once the run has begun. `when_gone`:
    what becomes of the run if the client disconnects and its request does not say. `filling`: what this
    client has in the place of placeholders. Also NotFoundError if the answer begins after the run's last
    result.
    """
    await check_answer(request, answer)
    watch: Callable[[int], Batches] = partial(request.state.host.runs.feed.watch, answer.run_id)
    decided = await decided_calls(request, answer.run_id) if through else frozenset()
    translation = Translation(
        (0 if anywhere else answer.after, kind, through, decided),
        lambda: Folding(make(), answer, skip=skip, through=through, decided=decided, anywhere=anywhere),
        partial(usage_of, request, answer.run_id),
        filling,
    )
    return EventStream(
        request.state.streams.serve,
        answer.run_id,
        watch if prepare is None else partial(_prepared, watch, prepare),
        headers=headers or [],
        while_valid=request.while_key_is_valid,
        translation=translation,
        on_disconnect=_when_gone(request, answer.run_id, when_gone),
    )


async def _prepared(
    watch: Callable[[int], Batches], prepare: Callable[[], Awaitable[None]], after: int
) -> AsyncGenerator[list[StoredResult], None]:
    batches = watch(after)
    try:
        first = True
        async for batch in batches:
            if first:
                first = False
                await prepare()
            yield batch
    finally:
        await batches.aclose()  # type: ignore[attr-defined]


async def whole_answer(
    request: ApiRequest,
    answer: Answer,
    fold: F,
    *,
    seconds: float | None = None,
    through: bool = False,
    when_gone: WhenGone = "continue",
) -> F:
    """Read an answer to its end, and return its fold. Raises as `stream_answer`, as do `through` and
    `when_gone`.

    `seconds`: return the fold after this time at the latest, as it is then. CancelledCallError if the client
    disconnects meanwhile.
    """
    await check_answer(request, answer)
    reading = asyncio.create_task(_read(request, answer, fold, through=through))
    gone = asyncio.create_task(_disconnected(request))
    try:
        async with request.while_key_is_valid():
            done, _ = await asyncio.wait(
                {reading, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        if not done:
            return fold
        if not reading.done():
            if (cancel := _when_gone(request, answer.run_id, when_gone)) is not None:
                await cancel()
            raise CancelledCallError("the client disconnected before its answer was complete")
        await reading
    finally:
        for task in (reading, gone):
            task.cancel()
        await asyncio.gather(reading, gone, return_exceptions=True)
    return fold


async def answer_so_far(request: ApiRequest, answer: Answer, fold: F, *, through: bool = False) -> F:
    """Read what there is of an answer without waiting for more; return its fold. Raises as `stream_answer`.

    Where the run waits for its client it takes as long as a stream to see that no other call follows.
    """
    run = await check_answer(request, answer)
    if run.sequence:
        await _read(request, answer, fold, until=run.sequence, through=through)
    return fold


async def check_answer(request: ApiRequest, answer: Answer) -> Run:
    """Return the run of an answer.

    NotFoundError unless the caller reaches it, and it has a result where the answer begins.
    """
    require_right(request.caller, "runs:read")
    run = await find_run(request, answer.run_id)
    if answer.after > run.sequence:
        raise NotFoundError(f"the run {answer.run_id} has no answer after its result {answer.after}")
    return run


async def usage_of(request: ApiRequest, run_id: str) -> Usage | None:
    """Return what a run has used so far."""
    await check_run(request, run_id)
    return (await request.state.host.runs.record(request.workspace_id, run_id)).usage


async def cancel_run(request: ApiRequest, run_id: str, reason: str) -> Literal["cancelled", "over"]:
    """Cancel a run in the name of the caller; return whether there was something to cancel."""
    require_right(request.caller, "runs:write")
    await check_run(request, run_id)
    record = await request.state.host.runs.record(request.workspace_id, run_id)
    if record.status in TERMINAL_STATUSES:
        return "over"
    await request.state.host.cancel(request.workspace_id, run_id, reason=reason, actor=request.caller.subject)
    return "cancelled"


async def _read(
    request: ApiRequest, answer: Answer, fold: Fold, *, until: int | None = None, through: bool = False
) -> None:
    """Fold an answer: to its end, or up to the result `until` unless the run waits for its client there."""
    decided = await decided_calls(request, answer.run_id) if through else frozenset()
    folding = Folding(fold, answer, through=through, decided=decided)
    folding.begin()
    batches: Batches = request.state.host.runs.feed.watch(answer.run_id)
    try:
        while folding.ending is None:
            try:
                batch = await next_batch(batches, STREAM_QUIET_SECONDS if folding.waits else None)
            except TimeoutError:
                folding.cut()
                break
            if batch is None:
                break
            for result in batch:
                folding.take(result)
            if until is not None and batch[-1].sequence >= until and not folding.waits:
                break
    finally:
        await batches.aclose()  # type: ignore[attr-defined]
    folding.finish(await usage_of(request, answer.run_id))


def _when_gone(
    request: ApiRequest, run_id: str, default: WhenGone
) -> Callable[[], asyncio.Future[object]] | None:
    if ON_DISCONNECT_HEADER not in request.headers and default == "cancel":
        cancels = has_right(request.caller, "runs:write")
    else:
        cancels = cancels_when_gone(request)
    if not cancels:
        return None
    return partial(_cancel_gone, request, run_id)  # type: ignore[return-value]


async def _cancel_gone(request: ApiRequest, run_id: str) -> None:
    await cancel_run(request, run_id, "the client disconnected")


async def _disconnected(request: ApiRequest) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
