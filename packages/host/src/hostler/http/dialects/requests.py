"""What a run asks people and its client, as dialects name it, and what a decision of one refers to.

The id of a request names its run, its call, and the arguments that were shown: `call_RUN_CALL.DIGEST`. So a
decision refers to what was shown also if its client sends nothing back but the id.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from hostler.domain.forms import form_schema
from hostler.domain.pause_actions import ResolveRequest, StaleViewError, UnprocessableError
from hostler.domain.pause_values import args_hash
from hostler.domain.pause_views import CallView, PauseView
from hostler.domain.run_event_reader import RunEvents
from hostler.domain.run_events import Asked
from hostler.http.dialects.answers import call_id_of, read_call_id
from hostler.http.dialects.fold import Answer, data_of
from hostler.http.request import ApiRequest
from hostler_protocol.errors import NotFoundError
from hostler_protocol.results import InteractionRequested

ALL_REQUESTS = frozenset({"client_tool", "approval", "form", "confirmation", "choice", "in_doubt", "budget"})
"""All kinds of requests: answers end at each of them in dialects that have a word for what waits."""
DIGEST_CHARS = 16
"""Of the arguments' digest in the id of a request: 64 bits tell what was shown from any other."""
APPROVAL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "comment": {"type": "string"}},
    "required": ["approved"],
}
IN_DOUBT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"happened": {"type": "boolean"}, "result": {}, "comment": {"type": "string"}},
    "required": ["happened"],
}
_OF_CALLS = frozenset(
    {"tool.call.started", "tool.call.completed", "interaction.requested", "attempt.started"}
)


class NamedCall(NamedTuple):
    """What the id of a request names. `shown`: the beginning of the digest of the arguments."""

    run_id: str
    call_id: str
    shown: str


def request_id(run_id: str, request: InteractionRequested) -> str:
    """Return the id of a request."""
    return f"{call_id_of(Answer(run_id), request.call_id)}.{shown_digest(request)}"


def unseen_id(run_id: str, request: InteractionRequested) -> str:
    """Return the id of a request for an answer that names none, or the call alone: it is about the arguments,
    and about the tool that was first asked for.
    """
    shown = args_hash(request.arguments)[:DIGEST_CHARS]
    return f"{call_id_of(Answer(run_id), request.call_id)}.{shown}"


def shown_digest(request: InteractionRequested) -> str:
    """Return the beginning of the digest of what a request shows."""
    return (request.args_hash or "")[:DIGEST_CHARS]


def read_request_id(text: str) -> NamedCall:
    """Return what the id of a request names. NotFoundError for any other text."""
    head, dot, shown = text.rpartition(".")
    if not dot:
        raise NotFoundError(f"nothing waits under the id {text[:200]!r} here")
    return NamedCall(*read_call_id(head), shown)


def answer_schema(request: InteractionRequested) -> dict[str, Any]:
    """Return the JSON Schema of the answer to a request to people."""
    match request.kind:
        case "approval" | "budget":
            return APPROVAL_SCHEMA
        case "in_doubt":
            return IN_DOUBT_SCHEMA
        case _:
            schema = form_schema(request.fields)
            if request.actions:
                names = [button.name for button in request.actions]
                properties = {**schema.get("properties", {}), "action": {"enum": names}}
                schema = {**schema, "properties": properties}
            return schema


def expiry_of(request: InteractionRequested) -> str | None:
    """Return when a request expires, in ISO 8601; None: never."""
    if request.expires_at is None:
        return None
    return datetime.fromtimestamp(request.expires_at, UTC).isoformat().replace("+00:00", "Z")


def check_shown(text: str, named: NamedCall, call: CallView, edited: Any = None) -> None:
    """Raise StaleViewError if something else was shown, under the id `text`, than is to be decided now.

    `edited`: the arguments that the answer puts in their place. If they are those of the call, it was sent
    before.
    """
    if (
        isinstance(edited, dict)
        and call.decision != "undecided"
        and args_hash(edited) == args_hash(call.args)
    ):
        return
    if call.args_hash[:DIGEST_CHARS] != named.shown:
        raise StaleViewError(
            f"{text[:200]!r} was shown with other arguments, or another tool: look at it again",
            call_id=call.call_id,
            args_hash=call.args_hash,
        )


async def requests_of(request: ApiRequest, run_id: str) -> dict[str, Asked]:
    """Return the requests of a run to people and its client, the latest of each call, by the host's id."""
    events = RunEvents()
    asked: dict[str, Asked] = {}
    async for result in request.state.host.runs.stored(run_id):
        data = data_of(result) if result.type in _OF_CALLS else None
        if data is None:
            continue
        for event in events.take(result.sequence, data):
            if isinstance(event, Asked):
                asked[event.request.call_id] = event
    return asked


def is_about_doubt(call: CallView, payload: Any) -> bool:
    """Whether an answer says what became of a call that is in doubt, or that was when it was first sent."""
    if call.review == "in_doubt":
        return True
    says = isinstance(payload, dict) and isinstance(payload.get("happened"), bool)
    return says and call.kind not in ("question", "client_tool")  # a result of these may say anything


def resolution_of(call: CallView, payload: Any) -> ResolveRequest:
    """Return what became of a call in doubt: `{"happened": true, "result": ...}` or `{"happened": false}`.

    UnprocessableError if the payload does not say it.
    """
    given = payload if isinstance(payload, dict) else {}
    happened = given.get("happened")
    if not isinstance(happened, bool):
        raise UnprocessableError(
            f"the call {call.call_id!r} may have been made: say whether, by"
            ' {"happened": true, "result": ...} or {"happened": false}',
            reason="schema",
            call_id=call.call_id,
        )
    comment = given.get("comment")
    return ResolveRequest(
        outcome="happened" if happened else "not_happened",
        result=given.get("result") if happened else None,
        comment=comment if isinstance(comment, str) else None,
    )


async def resolve_doubt(request: ApiRequest, pause: PauseView, call: CallView, said: ResolveRequest) -> None:
    """Take what somebody says became of a call in doubt. The same again changes nothing."""
    await request.state.host.pauses.resolve(
        request.caller, pause.id, call.call_id, said.outcome, said.result, comment=said.comment
    )
