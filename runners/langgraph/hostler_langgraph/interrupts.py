"""Interrupts of a graph as questions and approvals, and decisions as what it goes on with. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hostler_sdk.services import ServiceFailure, answer_to, asked, decision_on, object_in, text_in
from hostler_sdk.types import Decision, PendingCall

TITLE = "the graph"
Waiting = dict[str, Any]
"""An interrupt in the state of a pause: `id`, and `actions` if tools wait for approvals."""


def asked_by(interrupts: Sequence[Mapping[str, Any]]) -> tuple[tuple[PendingCall, ...], list[Waiting]]:
    """Return what people are asked, and what has to be known to go on.

    An interrupt with `action_requests`, as the middleware HumanInTheLoop writes it, asks for the approval of
    tools; any other is a question.
    """
    calls: list[PendingCall] = []
    waiting: list[Waiting] = []
    for place, interrupt in enumerate(interrupts, 1):
        id_, value = text_in(interrupt, "id"), interrupt.get("value")
        name = id_ or f"interrupt-{place}"
        actions = _actions(value)
        if not actions:
            calls.append(asked(name, value))
            waiting.append({"id": id_, "name": name})
            continue
        calls += [_call(f"{name}/{n}", action) for n, action in enumerate(actions, 1)]
        waiting.append({"id": id_, "name": name, "actions": actions})
    return tuple(calls), waiting


def resumed_by(waiting: Sequence[Mapping[str, Any]], decisions: Sequence[Decision]) -> Any:
    """Return the value with which the graph goes on. Raises ServiceFailure if a question has no answer."""
    values = [_value(interrupt, decisions) for interrupt in waiting]
    if all(interrupt.get("id") for interrupt in waiting):
        return {interrupt["id"]: value for interrupt, value in zip(waiting, values, strict=True)}
    if len(values) != 1:
        raise ServiceFailure(
            "service_error",
            "the graph waits at several places, and its server does not say which; bring it up to date",
        )
    return values[0]


def _value(interrupt: Mapping[str, Any], decisions: Sequence[Decision]) -> Any:
    name, actions = str(interrupt.get("name")), interrupt.get("actions")
    if not isinstance(actions, list):
        return answer_to(decision_on(decisions, name), TITLE)
    told = [_verdict(action, decision_on(decisions, f"{name}/{n}")) for n, action in enumerate(actions, 1)]
    return {"decisions": told}


def _actions(value: Any) -> list[dict[str, Any]]:
    """Return the tools that wait: `name`, `args`, `description` and the `allowed` decisions of each."""
    if not isinstance(value, Mapping) or not isinstance(value.get("action_requests"), list):
        return []
    reviews = value.get("review_configs")
    allowed = {
        text_in(review, "action_name"): review.get("allowed_decisions")
        for review in (reviews if isinstance(reviews, list) else [])
        if isinstance(review, dict)
    }
    return [
        {
            "name": text_in(request, "name"),
            "args": dict(object_in(request, "args") or object_in(request, "arguments")),
            "description": text_in(request, "description"),
            "allowed": allowed.get(text_in(request, "name")) or ["approve", "edit", "reject"],
        }
        for request in value["action_requests"]
        if isinstance(request, dict)
    ]


def _call(call_id: str, action: Mapping[str, Any]) -> PendingCall:
    """Return the approval of a tool of the graph; or a question, if people answer in its place."""
    if _is_answered(action):
        question = {"question": action["description"] or action["name"], **action["args"]}
        return asked(call_id, question)
    return PendingCall(
        tool_name=action["name"],
        arguments=action["args"],
        kind="approval",
        title=action["name"],
        call_id=call_id,
        description=action["description"] or None,
        editable="edit" in action["allowed"],
        executor="runner",
    )


def _is_answered(action: Mapping[str, Any]) -> bool:
    return "respond" in action["allowed"] and "approve" not in action["allowed"]


def _verdict(action: Mapping[str, Any], decision: Decision) -> dict[str, Any]:
    """Return a decision as the graph takes it: whatever is no approval is a rejection."""
    if _is_answered(action):
        return {"type": "respond", "message": answer_to(decision, TITLE)}
    if decision.decision != "approved":
        why = decision.comment or f"The approval was {decision.decision}."
        return {"type": "reject", "message": why}
    if decision.arguments is not None and decision.arguments != action["args"]:
        edited = {"name": action["name"], "args": decision.arguments}
        return {"type": "edit", "edited_action": edited}
    return {"type": "approve"}
