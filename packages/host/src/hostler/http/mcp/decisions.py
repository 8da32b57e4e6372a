"""What came of forms, as decisions of the pause that a run waits with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hostler.domain.pause_actions import Action
from hostler.domain.pause_views import CallView, PauseView
from hostler.http.dialects.paused_calls import decide, find_calls
from hostler.http.dialects.requests import NamedCall, resolution_of, resolve_doubt
from hostler.http.mcp.elicitation import (
    Doubt,
    Elicited,
    Refused,
    decision_of,
    read_elicited,
    read_form_id,
)
from hostler.http.request import ApiRequest
from hostler_protocol.errors import InvalidArgumentError, NotFoundError

MAX_FORMS = 64
"""Forms of one request: a pause has no more calls."""


async def take_forms(request: ApiRequest, given: Any, *, run_id: str | None = None) -> bool:
    """Take the decisions of forms; return whether one of them was closed without a decision.

    Nothing is done unless all of them are about what is to be decided now, and say what its kind asks. Then
    the doubts are resolved one by one, and after them the other calls are decided, all or none. If one of
    these is refused, the doubts before it stay resolved: the same forms again change nothing in them.

    `given`: the id of each form, and what came of it. `run_id`: the run that they have to be of. Raises as
    `decide`, and as `decision_of`.
    """
    own, forms = _read(given, run_id)
    decisions: list[tuple[str, Action]] = []
    refused: list[str] = []
    doubts: list[tuple[PauseView, CallView, Doubt]] = []
    closed = False
    for pause, call in await find_calls(request, own, forms):
        match decision_of(*forms[call.call_id], call):
            case None:
                closed = True
            case Refused() if call.decision != "cancelled":
                refused.append(pause.id)
            case Refused():
                pass  # it was sent before
            case Doubt() as doubt:
                doubts.append((pause, call, doubt))
            case Action() as action:
                decisions.append((call.call_id, action))
    if refused:
        pauses = request.state.host.pauses
        await pauses.cancel(request.caller, refused[0], reason="its question was refused by the client")
        return closed
    resolutions = [(pause, call, resolution_of(call, doubt.payload)) for pause, call, doubt in doubts]
    for resolution in resolutions:
        await resolve_doubt(request, *resolution)
    if decisions:
        await decide(request, own, decisions)
    return closed


def _read(given: Any, run_id: str | None) -> tuple[str, dict[str, tuple[NamedCall, Elicited]]]:
    """Return the run that forms are of, and the forms by the host's ids of their calls."""
    if not isinstance(given, Mapping) or not 1 <= len(given) <= MAX_FORMS:
        raise InvalidArgumentError(f"inputResponses: expected an object with 1 to {MAX_FORMS} forms")
    forms = {(named := read_form_id(key)).call_id: (named, read_elicited(one)) for key, one in given.items()}
    runs = {named.run_id for named, _ in forms.values()}
    if len(runs) != 1 or len(forms) != len(given):
        raise InvalidArgumentError("answer forms of one run at a time, and each once")
    (own,) = runs
    if run_id is not None and own != run_id:
        raise NotFoundError("these forms are of another run")
    return own, forms
