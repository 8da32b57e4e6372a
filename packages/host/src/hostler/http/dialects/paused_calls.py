"""The calls that runs wait with, as their clients find and decide them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hostler.domain.pause_actions import Action, ActionAnswer, ActRequest
from hostler.domain.pause_views import CallView, PauseView, over_with
from hostler.domain.pauses import PauseStatus
from hostler.http.auth import require_right
from hostler.http.dialects.disconnects import cancels_when_gone
from hostler.http.dialects.fold import Answer
from hostler.http.narrow import check_run, find_run
from hostler.http.request import ApiRequest
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError

WAITING: tuple[PauseStatus, ...] = ("open", "needs_review")
"""Pauses in which something waits for people or for the client."""
MAX_PAUSES_OF_RUN = 100
"""Pauses of a run that are searched for a call, newest first."""
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


async def decided_views(request: ApiRequest, run_id: str) -> list[CallView]:
    """Return the calls of a run that are decided, as far as the caller may see its pauses."""
    page = await request.state.host.pauses.page(request.caller, run_id=run_id, limit=MAX_PAUSES_OF_RUN)
    return [call for pause in page.items for call in pause.calls if call.decision != "undecided"]


async def decided_calls(request: ApiRequest, run_id: str) -> frozenset[str]:
    """Return the host's ids of the calls of a run that are decided."""
    return frozenset(call.call_id for call in await decided_views(request, run_id))
