"""Requests to people as AG-UI's interrupts."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.domain.run_events import Asked
from hostler.http.ag_ui.wire import Interrupt
from hostler.http.dialects.answers import call_id_of
from hostler.http.dialects.fold import Answer
from hostler.http.dialects.requests import answer_schema, expiry_of, request_id

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
