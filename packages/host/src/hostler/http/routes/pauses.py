"""Pauses: calls that wait for a person or a client, and their decisions (docs/pauses.md).

`pauses:read` permits the lists, `pauses:write` decisions; the rule of each call says by whom.
`pauses:decide_blind` also permits to approve and deny without the digest of the arguments.
A caller who is neither named by a rule of a pause, nor its requester, nor an administrator, gets 404 for it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from hostler.domain.legacy_actions import OlderActions, actions_of, waiting_for
from hostler.domain.pause_actions import ActionAnswer, ActRequest, ResolveRequest, UnprocessableError
from hostler.domain.pause_views import PauseView
from hostler.domain.pauses import PauseStatus
from hostler.http.endpoint import endpoint
from hostler.http.pagination import PageQuery, list_cursors
from hostler.http.request import ApiRequest
from hostler.http.responses import Headers, Json, Listing
from hostler_protocol._base import Strict
from hostler_protocol.errors import NotFoundError
from hostler_protocol.limits import MAX_REASON_CHARS

MAX_OPEN_OF_CONVERSATION = 100
"""Unsettled pauses of a conversation that the older form searches: one per run, of few runs at once."""


class PausesQuery(PageQuery):
    """Filters of the list. `status` may be repeated: pauses in any of them."""

    conversation_id: str | None = None
    run_id: str | None = None
    status: list[PauseStatus] = []


class CancelPause(Strict):
    """`reason`: shown in the run's journal."""

    reason: Annotated[str, msgspec.Meta(max_length=MAX_REASON_CHARS)] | None = None


@endpoint("GET", "/v1/pauses", right="pauses:read", tag="pauses", narrow=("conversation_id",))
async def list_pauses(request: ApiRequest, query: PausesQuery) -> Listing[PauseView]:
    """List the pauses that the caller may see, newest first."""
    host = request.state.host
    cursors = list_cursors(host.cursors, "pauses", request.workspace_id, query)
    before = None if query.cursor is None else cursors.read_place(query.cursor)
    page = await host.pauses.page(
        request.caller,
        conversation_id=query.conversation_id,
        run_id=query.run_id,
        statuses=query.status,
        before=before,
        limit=query.size,
    )
    return Listing(
        items=page.items,
        next_cursor=None if page.next is None else cursors.issue(list(page.next)),
        has_more=page.next is not None,
    )


@endpoint("GET", "/v1/pauses/{pause_id}", right="pauses:read", tag="pauses", narrow=())
async def get_pause(request: ApiRequest) -> PauseView:
    """Get one pause with its calls, as the caller may see and decide them."""
    return await request.state.host.pauses.get(request.caller, request.parameters["pause_id"])


@endpoint(
    "POST",
    "/v1/pauses/{pause_id}/actions",
    right="pauses:write",
    tag="pauses",
    status=202,
    handles_idempotency=True,
    narrow=(),
)
async def act_on_pause(request: ApiRequest, body: ActRequest) -> Json[ActionAnswer]:
    """Decide calls of a pause: all that are named, or none.

    `approve` and `deny` are for approvals and name the digest of what was shown (`args_hash`,
    which only a key with the right `pauses:decide_blind` may leave out);
    `result` and `error` are a client's outcome of its tool; `answer` fills in a question. A repeated request
    changes nothing and gets the same response. The run continues once every call is decided. Refusals have a
    `details.reason`: 403 `not_approver`,
    `args_hash_required`; 409 `already_decided`, `stale_view`, `superseded`; 410 `expired`;
    422 `unknown_call`, `wrong_kind`, `schema`.
    """
    return await _act(request, request.parameters["pause_id"], body)


@endpoint(
    "POST",
    "/v1/pauses/actions",
    right="pauses:write",
    tag="pauses",
    status=202,
    handles_idempotency=True,
    narrow=(),
)
async def act_on_conversation(request: ApiRequest, body: OlderActions) -> Json[ActionAnswer]:
    """Decide calls by their conversation, in the form of older clients.

    `tool_actions`: approvals (`decision`) and results of client tools (`result`). `resume`: answers to
    interrupts as AG-UI sends them. `messages`: tool messages as the OpenAI interface has them. Calls are
    named by `call_id` or by the model's own id. Only a key with the right `pauses:decide_blind` may leave out
    the digest of what was shown (`args_hash`, AG-UI: `payload.argsHash`): the decision is then
    about the current arguments.
    """
    pauses = request.state.host.pauses
    page = await pauses.page(
        request.caller, conversation_id=body.conversation_id, limit=MAX_OPEN_OF_CONVERSATION
    )
    names = body.names()
    pause = waiting_for(page.items, names)
    if pause is None and page.items:
        raise UnprocessableError(
            f"no pause of this conversation has the call {names[0]!r}"
            if names
            else "nothing is decided here",
            reason="unknown_call",
        )
    if pause is None:
        raise NotFoundError(f"there is no pause of the conversation {body.conversation_id!r}")
    actions = ActRequest(revision=pause.revision, actions=actions_of(body, pause))
    return await _act(request, pause.id, actions)


@endpoint("POST", "/v1/pauses/{pause_id}/cancel", right="pauses:write", tag="pauses", narrow=())
async def cancel_pause(request: ApiRequest, body: CancelPause) -> PauseView:
    """Cancel a pause, and its run with it."""
    return await request.state.host.pauses.cancel(
        request.caller, request.parameters["pause_id"], reason=body.reason
    )


@endpoint("POST", "/v1/pauses/{pause_id}/calls/{call_id}/resolve", right="pauses:write", tag="pauses")
async def resolve_call(request: ApiRequest, body: ResolveRequest) -> PauseView:
    """Resolve a call whose outcome is unknown.

    `happened` (with its result) or `not_happened`; then the run continues. A person has to state it, because
    the host found neither an outcome nor a way to look it up.
    """
    return await request.state.host.pauses.resolve(
        request.caller,
        request.parameters["pause_id"],
        request.parameters["call_id"],
        body.outcome,
        body.result,
        comment=body.comment,
    )


async def _act(request: ApiRequest, pause_id: str, actions: ActRequest) -> Json[ActionAnswer]:
    answer = await request.state.host.pauses.act(
        request.caller, pause_id, actions, idempotency_key=request.idempotency_key()
    )
    headers: Headers = [(b"location", f"/v1/pauses/{pause_id}".encode())]
    return Json(answer, 202, headers)
