"""Go on with a run that waits: results of the client's calls, and approvals."""

from __future__ import annotations

from hostler.domain.pause_views import PauseView
from hostler.http.dialects import answers, paused_calls
from hostler.http.dialects.fold import Answer
from hostler.http.openai.responses_fold import PREFIX
from hostler.http.openai.responses_input import Decided
from hostler.http.openai.responses_request import CreateResponse, named_conversation, refused
from hostler.http.request import ApiRequest
from hostler_protocol.errors import InvalidArgumentError, NotFoundError


async def go_on(request: ApiRequest, body: CreateResponse, decided: list[Decided]) -> Answer:
    """Decide the calls of a request, and return the answer that goes on after them.

    Of several pauses the one of the last call is decided: a client that sends its whole history repeats
    earlier results. All calls of it that the caller may decide have to be in the request, so that a repeated
    request gives the same response. InvalidArgumentError names what is missing or does not belong together.
    """
    run_id = decided[-1].run_id
    _check_previous(body, run_id)
    own = [one for one in decided if one.run_id == run_id]
    pauses = await _pauses_of(request, run_id, own)
    pause = pauses[-1]
    wanted = {one.call_id: one for one, of in zip(own, pauses, strict=True) if of.id == pause.id}
    missing = [
        call
        for call in paused_calls.waiting_calls(pause)
        if call.may_decide
        and call.review is None
        and call.kind in ("client_tool", "approval")
        and call.call_id not in wanted
    ]
    if missing:
        names = ", ".join(answers.call_id_of(Answer(run_id), call.call_id) for call in missing)
        raise refused("input", f"no output or approval for these calls, which wait, too: {names}")
    answer, _ = await paused_calls.decide(
        request,
        run_id,
        [(call_id, one.to_action) for call_id, one in wanted.items()],
        model=body.model,
        conversation=named_conversation(body),
    )
    return answer


def _check_previous(body: CreateResponse, run_id: str) -> None:
    previous = body.previous_response_id
    if previous is None:
        return
    try:
        named = answers.read_answer_id(PREFIX, previous).run_id
    except NotFoundError as error:
        raise refused("previous_response_id", error.message) from None
    if named != run_id:
        raise refused("previous_response_id", f"{previous[:100]!r} did not make the last call of the input")


async def _pauses_of(request: ApiRequest, run_id: str, decided: list[Decided]) -> list[PauseView]:
    """Return the pause of each decision. InvalidArgumentError names the first that is of no call."""
    try:
        found = await paused_calls.find_calls(request, run_id, [one.call_id for one in decided])
    except NotFoundError as error:
        unknown = error.details.get("call_id")
        param = next((one.param for one in decided if one.call_id == unknown), "input")
        raise InvalidArgumentError(f"{param}: {error.message}", param=param) from None
    return [pause for pause, _ in found]
