"""Interrupts of frameworks, as questions to people: the run waits, is parked, and goes on with the answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hostler_sdk import RunContext
from hostler_sdk.services.questions import ANSWER, MAX_SHOWN_CHARS, question_of
from hostler_sdk.types import Decision

APPROVE, DENY = "approve", "deny"
"""The buttons of an approval."""
_UNMADE = {
    "expired": "nobody decided about this call in time, so it was not made",
    "cancelled": "this call was called off and not made",
}


class Unanswered(Exception):  # noqa: N818 - read as a sentence where it is raised and caught
    """A question that the agent cannot go on without was denied, expired or called off."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on a call of the framework's own tool. `reason`: why it may not be made, for the model."""

    approved: bool
    reason: str = ""


async def ask_approval(
    ctx: RunContext, tool: str, arguments: Any, *, description: str = "", expires_in: float | None = None
) -> Verdict:
    """Ask people whether the agent may call a tool of its own with these arguments."""
    shown = json.dumps(arguments, ensure_ascii=False, indent=1, default=str)
    if len(shown) > MAX_SHOWN_CHARS:
        shown = f"{shown[:MAX_SHOWN_CHARS]}\n... ({len(shown):,} characters)"
    decision = await ctx.ask(
        f"May the agent call {tool}?",
        actions=[APPROVE, DENY],
        kind="confirmation",
        description="\n".join(part for part in (description, shown) if part),
        expires_in=expires_in,
    )
    return verdict_of(decision)


def verdict_of(decision: Decision) -> Verdict:
    """Return what a decision says about a call: only an approval lets it through."""
    said = decision.result if decision.decision == "answered" else decision.decision
    if said in (APPROVE, "approved"):
        return Verdict(True)
    reason = _UNMADE.get(decision.decision, "a person refused this call")
    return Verdict(False, f"{reason}: {decision.comment}" if decision.comment else reason)


async def ask_interrupt(ctx: RunContext, value: Any, *, expires_in: float | None = None) -> Any:
    """Ask people what a framework was interrupted for, and return their answer in the same spirit.

    A text is a question, answered with a text. A mapping may have `question` (or `title`, `message`,
    `action`), `description`, `fields` and `actions` as `ctx.ask` takes them, and is answered with the
    values of the fields, the name of the action, or a text. Any other value is shown as JSON and answered
    with a text.
    Raises Unanswered if nobody answers.
    """
    title, description, fields, actions = question_of(value)
    free = not fields and not actions
    form = [{"name": ANSWER, "type": "textarea", "required": True}] if free else fields
    decision = await ctx.ask(
        title, fields=form, actions=actions, description=description, expires_in=expires_in
    )
    if decision.decision not in ("answered", "approved"):
        said = f": {decision.comment}" if decision.comment else ""
        raise Unanswered(
            f"the agent asked {title!r} and cannot go on: the question was {decision.decision}{said}"
        )
    values = decision.values or {}
    if free:
        return values.get(ANSWER, decision.result)
    return values if fields else decision.result
