"""Requests to people as AG-UI's interrupts, and its `resume` entries as their decisions."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.domain.legacy_actions import ResumeAction, action_of_resume
from hostler.domain.pause_actions import Action, UnprocessableError
from hostler.domain.pause_views import CallView
from hostler.domain.run_events import Asked
from hostler.http.ag_ui.wire import Interrupt
from hostler.http.dialects.answers import call_id_of
from hostler.http.dialects.fold import Answer
from hostler.http.dialects.requests import NamedCall, answer_schema, check_shown, expiry_of, request_id

_REASONS = {"approval": "tool_call", "confirmation": "confirmation", "form": "input_required"}
_OWN_REASON = "hostler:{}"


def interrupt_of(run_id: str, asked: Asked) -> Interrupt:
    """Return a request to people as an interrupt."""
    request = asked.request
    kind = request.kind
    own: dict[str, Any] = {"kind": kind, "call_id": request.call_id}
    if request.args_hash is not None:
        own["args_hash"] = request.args_hash
    if request.actions:
        own["actions"] = msgspec.to_builtins(request.actions)
    if asked.key is None and request.arguments:
        own["arguments"] = request.arguments
    return Interrupt(
        id=request_id(run_id, request),
        reason=_REASONS.get(kind, "input_required" if kind == "choice" else _OWN_REASON.format(kind)),
        message="\n".join(text for text in (request.title, request.description) if text),
        tool_call_id=None if asked.key is None else call_id_of(Answer(run_id), asked.key),
        response_schema=answer_schema(request),
        expires_at=expiry_of(request),
        metadata={"hostler": own},
    )


def action_for(entry: ResumeAction, named: NamedCall, call: CallView) -> Action:
    """Return the decision that a `resume` entry takes.

    StaleViewError if other arguments were shown than are to be decided now; UnprocessableError if the payload
    decides nothing.
    """
    check_shown(entry.interrupt_id, named, call)
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
