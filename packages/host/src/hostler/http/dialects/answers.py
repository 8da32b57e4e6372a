"""Start, find, decide and stream answers: what the routes of all dialects do.

A dialect has no state of its own. What it needs to know again is in its ids: that of an answer names its run
and where in the run it begins, that of a call its run and the host's id of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Literal, NamedTuple, TypeVar

import msgspec

from hostler.domain.pause_actions import Action, ActionAnswer, ActRequest
from hostler.domain.pause_views import CallView, PauseView, over_with
from hostler.domain.pauses import PauseStatus
from hostler.http.auth import has_right, require_right
from hostler.http.dialects.disconnects import ON_DISCONNECT_HEADER, cancels_when_gone
from hostler.http.dialects.fold import Answer, Fold, Folding
from hostler.http.dialects.message_files import check_files
from hostler.http.dialects.placeholders import Filling
from hostler.http.event_stream import Batches, EventStream, Translation, next_batch
from hostler.http.limits import MAX_WAIT_SECONDS, STREAM_QUIET_SECONDS
from hostler.http.narrow import check_run, find_run
from hostler.http.problems import KeyReusedError
from hostler.http.request import ApiRequest
from hostler.http.responses import Headers
from hostler.journal.feed import StoredResult
from hostler.storage.stores.run_rows import Run
from hostler_protocol.content import HistoryMessage, Usage
from hostler_protocol.errors import (
    CancelledCallError,
    ConflictError,
    DeniedError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from hostler_protocol.events import EventEnvelope
from hostler_protocol.ids import digest
from hostler_protocol.limits import MAX_INTEGER
from hostler_protocol.runs import TERMINAL_STATUSES

WAITING: tuple[PauseStatus, ...] = ("open", "needs_review")
"""Pauses in which something waits for people or for the client."""
MAX_PAUSES_OF_RUN = 100
"""Pauses of a run that are searched for a call, newest first."""
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
    request: ApiRequest, envelope: EventEnvelope, *, history: Sequence[HistoryMessage] = ()
) -> Started:
    """Send a message, and return where its answer begins. `history` goes before it, in a new conversation.

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
        accepted = await host.orchestrator.accept(envelope, request.caller, history=earlier)
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


# -- decisions ---------------------------------------------------------------------------------------------

ToAction = Callable[[CallView], Action]


FoundCall = tuple[PauseView, CallView]
"""A call, and the pause in which it waits or last waited."""


async def find_calls(request: ApiRequest, run_id: str, call_ids: Iterable[str]) -> list[FoundCall]:
    """Return calls of a run as the caller may see them, in the order of their ids (the host's).

    NotFoundError, with `call_id` in its details, if one of them never waited.
    """
    require_right(request.caller, "pauses:write")
    page = await request.state.host.pauses.page(request.caller, run_id=run_id, limit=MAX_PAUSES_OF_RUN)
    known: dict[str, FoundCall] = {}
    for pause in page.items:  # newest first
        for call in pause.calls:
            known.setdefault(call.call_id, (pause, call))
    found: list[FoundCall] = []
    for call_id in call_ids:
        if call_id not in known:
            raise NotFoundError(f"no call {call_id!r} of this run waits", call_id=call_id)
        found.append(known[call_id])
    return found


async def find_calls_of_pause(
    request: ApiRequest, run_id: str, call_ids: Iterable[str]
) -> tuple[PauseView, list[CallView]]:
    """Return a pause of a run, and its calls as `find_calls`. InvalidArgumentError for those of several."""
    found = await find_calls(request, run_id, call_ids)
    pauses = {pause.id: pause for pause, _ in found}
    if len(pauses) != 1:
        raise InvalidArgumentError(
            "decide calls of one pause of the run at a time" if pauses else "no call is decided here"
        )
    return next(iter(pauses.values())), [call for _, call in found]


async def decide(
    request: ApiRequest,
    run_id: str,
    decisions: Sequence[tuple[str, Action | ToAction]],
    *,
    model: str | None = None,
    conversation: str | None = None,
) -> tuple[Answer, ActionAnswer]:
    """Decide calls of one pause of a run, all or none; return the answer that goes on after them.

    `decisions`: the host's id of each call, and its action, or what makes the action of its view (which has
    the digest of the arguments). A decision that was taken before changes nothing, and gives the same answer.
    `model` and `conversation`: what the request names. Raises as `POST /v1/pauses/{id}/actions`;
    InvalidArgumentError if the calls are of several pauses; ConflictError if the run is of another agent,
    NotFoundError if it is of another conversation.
    """
    cancels_when_gone(request)
    run = await find_run(request, run_id)
    if conversation is not None and run.conversation_id != conversation:
        raise NotFoundError("this conversation has no such call")
    if model is not None and run.agent_name != model:
        raise ConflictError(
            f"these calls are of the model {run.agent_name!r}: send what came of them to it", param="model"
        )
    pause, calls = await find_calls_of_pause(request, run_id, [call_id for call_id, _ in decisions])
    actions = [
        given if isinstance(given, Action) else given(call)
        for call, (_, given) in zip(calls, decisions, strict=True)
    ]
    done = await request.state.host.pauses.act(
        request.caller, pause.id, ActRequest(revision=pause.revision, actions=actions), idempotency_key=None
    )
    after = await _asked_until(request, run_id, over_with(pause, {call.call_id for call in calls}))
    return Answer(run_id, after), done


async def answer_after(request: ApiRequest, run_id: str, call_ids: Sequence[str]) -> tuple[Answer, bool]:
    """Return the answer that goes on after decided calls of a pause, and whether others of it still wait."""
    ((pause, _), *_) = await find_calls(request, run_id, call_ids)
    after = await _asked_until(request, run_id, over_with(pause, set(call_ids)))
    return Answer(run_id, after), bool(waiting_calls(pause))


async def _asked_until(request: ApiRequest, run_id: str, call_ids: set[str]) -> int:
    """Return the sequence of the last request for one of these calls: the answer after it begins there."""
    await check_run(request, run_id)
    asked = await request.state.host.runs.requests(request.workspace_id, run_id)
    return max((sequence for sequence, call_id in asked if call_id in call_ids), default=0)


def waiting_calls(pause: PauseView) -> list[CallView]:
    """Return the calls of a pause that are not decided yet, or of which people have to find out more."""
    if pause.status not in WAITING:
        return []
    return [call for call in pause.calls if call.decision == "undecided" or call.review is not None]


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


async def decided_views(request: ApiRequest, run_id: str) -> list[CallView]:
    """Return the calls of a run that are decided, as far as the caller may see its pauses."""
    page = await request.state.host.pauses.page(request.caller, run_id=run_id, limit=MAX_PAUSES_OF_RUN)
    return [call for pause in page.items for call in pause.calls if call.decision != "undecided"]


async def decided_calls(request: ApiRequest, run_id: str) -> frozenset[str]:
    """Return the host's ids of the calls of a run that are decided."""
    return frozenset(call.call_id for call in await decided_views(request, run_id))


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
