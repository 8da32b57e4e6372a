"""What a run asks as calls of a message: of the tool that is asked about, or of one that stands for it."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.domain.run_events import Asked, ToolCalled
from hostler.http.dialects.answers import call_id_of
from hostler.http.dialects.fold import Answer
from hostler.http.dialects.requests import request_id
from hostler_protocol.results import InteractionRequested

APPROVALS = frozenset({"approval", "budget"})
QUESTIONS = frozenset({"form", "confirmation", "choice"})
QUESTION_TOOL = "question"
"""The name of the tool part as which a question is shown; its output is `{values, action?}`."""
BUDGET_TOOL = "budget"
"""The name of the tool part that is approved to add to a budget."""


def call_of(answer: Answer, asked: Asked) -> ToolCalled:
    """Return the call as which a request is shown, with the arguments that are decided about."""
    request = asked.request
    if asked.key is not None:
        return ToolCalled(asked.key, request.tool_name or "", request.arguments)
    key = call_id_of(answer, request.call_id)
    if request.kind in QUESTIONS:
        return ToolCalled(key, QUESTION_TOOL, _question(request))
    return ToolCalled(key, BUDGET_TOOL, request.arguments)


def about(answer: Answer, request: InteractionRequested) -> dict[str, Any]:
    """Return what a decision sends back: the call, and what of it was shown."""
    return {
        "callId": call_id_of(answer, request.call_id),
        "kind": request.kind,
        "argsHash": request.args_hash,
        "expiresAt": request.expires_at,
    }


def approval_id_of(answer: Answer, request: InteractionRequested) -> str:
    """Return the id of an approval, which names what was shown: some clients send nothing else back."""
    if request.args_hash is None:
        return call_id_of(answer, request.call_id)
    return request_id(answer.run_id, request)


def reason_of(request: InteractionRequested) -> str | None:
    """Return why an approval is asked for."""
    if request.kind == "budget":
        return "\n".join(text for text in (request.title, request.description) if text)
    return request.description or request.title or None


def _question(request: InteractionRequested) -> dict[str, Any]:
    return {
        "kind": request.kind,
        "title": request.title,
        "description": request.description,
        "fields": msgspec.to_builtins(request.fields),
        "actions": msgspec.to_builtins(request.actions),
        "text": request.fallback_text,
    }
