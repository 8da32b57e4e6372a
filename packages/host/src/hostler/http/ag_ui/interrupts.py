"""Requests to people as AG-UI's interrupts, and its `resume` entries as their decisions.

The id of an interrupt names its run, its call, and the arguments that were shown: `call_RUN_CALL.DIGEST`. So
a decision refers to what was shown also if its client sends nothing back but the id.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from hostler.domain.forms import form_schema
from hostler.domain.legacy_actions import ResumeAction, action_of_resume
from hostler.domain.pause_actions import Action, StaleViewError, UnprocessableError
from hostler.domain.pause_views import CallView
from hostler.domain.run_events import Asked
from hostler.http.ag_ui.wire import Interrupt
from hostler.http.dialects.answers import call_id_of, read_call_id
from hostler.http.dialects.fold import Answer
from hostler_protocol.errors import NotFoundError
from hostler_protocol.results import InteractionRequested

DIGEST_CHARS = 16
"""Of the arguments' digest in the id of an interrupt: 64 bits tell what was shown from any other."""
_REASONS = {"approval": "tool_call", "confirmation": "confirmation", "form": "input_required"}
_OWN_REASON = "hostler:{}"
_APPROVAL: dict[str, Any] = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "comment": {"type": "string"}},
    "required": ["approved"],
}
_IN_DOUBT: dict[str, Any] = {
    "type": "object",
    "properties": {"happened": {"type": "boolean"}, "result": {}, "comment": {"type": "string"}},
    "required": ["happened"],
}


class NamedCall(NamedTuple):
    """What the id of an interrupt names. `shown`: the beginning of the digest of the arguments."""

    run_id: str
    call_id: str
    shown: str


def interrupt_id(run_id: str, request: InteractionRequested) -> str:
    """Return the id of the interrupt that a request is."""
    return f"{call_id_of(Answer(run_id), request.call_id)}.{(request.args_hash or '')[:DIGEST_CHARS]}"


def read_interrupt_id(text: str) -> NamedCall:
    """Return what an interrupt's id names. NotFoundError for any other text."""
    head, dot, shown = text.rpartition(".")
    if not dot:
        raise NotFoundError(f"there is no interrupt {text[:200]!r} here")
    return NamedCall(*read_call_id(head), shown)


def interrupt_of(run_id: str, asked: Asked) -> Interrupt:
    """Return a request to people as an interrupt."""
    request = asked.request
    kind = request.kind
    expires = None
    if request.expires_at is not None:
        expires = datetime.fromtimestamp(request.expires_at, UTC).isoformat().replace("+00:00", "Z")
    own: dict[str, Any] = {"kind": kind, "call_id": request.call_id}
    if request.args_hash is not None:
        own["args_hash"] = request.args_hash
    if request.actions:
        own["actions"] = msgspec.to_builtins(request.actions)
    if asked.key is None and request.arguments:
        own["arguments"] = request.arguments
    return Interrupt(
        id=interrupt_id(run_id, request),
        reason=_REASONS.get(kind, "input_required" if kind == "choice" else _OWN_REASON.format(kind)),
        message="\n".join(text for text in (request.title, request.description) if text),
        tool_call_id=None if asked.key is None else call_id_of(Answer(run_id), asked.key),
        response_schema=_schema_of(request),
        expires_at=expires,
        metadata={"hostler": own},
    )


def _schema_of(request: InteractionRequested) -> dict[str, Any]:
    match request.kind:
        case "approval" | "budget":
            return _APPROVAL
        case "in_doubt":
            return _IN_DOUBT
        case _:
            schema = form_schema(request.fields)
            if request.actions:
                names = [button.name for button in request.actions]
                properties = {**schema.get("properties", {}), "action": {"enum": names}}
                schema = {**schema, "properties": properties}
            return schema


def action_for(entry: ResumeAction, named: NamedCall, call: CallView) -> Action:
    """Return the decision that a `resume` entry takes.

    StaleViewError if other arguments were shown than are to be decided now; UnprocessableError if the payload
    decides nothing.
    """
    if call.args_hash[:DIGEST_CHARS] != named.shown:
        raise StaleViewError(
            f"the interrupt {entry.interrupt_id[:200]!r} was shown with other arguments: look at it again",
            call_id=call.call_id,
            args_hash=call.args_hash,
        )
    payload = entry.payload
    if call.kind in ("approval", "budget") and entry.status == "resolved" and not _decides(payload):
        raise UnprocessableError(
            f"the payload of {entry.interrupt_id[:200]!r} decides nothing: expected"
            ' {"approved": true} or {"approved": false}',
            reason="schema",
            call_id=call.call_id,
        )
    if call.kind == "question" and not isinstance(payload, dict):
        raise UnprocessableError(
            f"the payload of {entry.interrupt_id[:200]!r} is no object: expected the values of its form",
            reason="schema",
            call_id=call.call_id,
        )
    action = action_of_resume(entry, call)
    if action.type in ("approve", "deny") and action.args_hash is None:
        action = msgspec.structs.replace(action, args_hash=call.args_hash)
    return action


def _decides(payload: Any) -> bool:
    return isinstance(payload, bool) or (
        isinstance(payload, dict) and isinstance(payload.get("approved"), bool)
    )
