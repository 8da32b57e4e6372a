"""Questions and approvals that a service or a framework asks people for. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hostler_sdk.services.failures import ServiceFailure
from hostler_sdk.types import Decision, FormField, PendingCall

ANSWER = "answer"
"""The field of a question that is answered with a text alone."""
MAX_SHOWN_CHARS = 8_000
"""Length of a value as a person is shown it."""
MAX_TITLE_CHARS = 200
"""Length of a question's title; the rest goes into its description."""
_TITLES = ("question", "title", "message", "action")
_NEEDS = "The agent needs an answer to go on"


class Question(NamedTuple):
    """A question. `fields` and `actions` are as `ctx.ask` takes them, and not checked."""

    title: str
    description: str | None
    fields: Sequence[Any]
    actions: Sequence[Any]


def question_of(value: Any) -> Question:
    """Read a question out of what an agent was interrupted for.

    A text is a question. A mapping may have `question` (or `title`, `message`, `action`), `description`,
    `fields` and `actions`; the rest of it, and any other value, is shown as JSON.
    """
    fields: Sequence[Any] = ()
    actions: Sequence[Any] = ()
    description: str | None = None
    rest: Any = None
    if isinstance(value, Mapping):
        named = next((key for key in _TITLES if isinstance(value.get(key), str)), None)
        title = str(value[named]) if named else _NEEDS
        fields, actions = value.get("fields") or (), value.get("actions") or ()
        rest = {k: v for k, v in value.items() if k not in (named, "fields", "actions", "description")}
        description = value.get("description")
    elif isinstance(value, str):
        title = value or _NEEDS
    else:
        title, rest = _NEEDS, value
    shown = json.dumps(rest, ensure_ascii=False, indent=1, default=str)[:MAX_SHOWN_CHARS] if rest else ""
    if len(title) > MAX_TITLE_CHARS:
        shown, title = f"{title}\n{shown}".strip(), f"{title[:MAX_TITLE_CHARS]}..."
    text = "\n".join(part for part in (description, shown) if part)
    return Question(title, text or None, fields, actions)


def asked(call_id: str, value: Any) -> PendingCall:
    """Return the question of a service, to be answered with a text, or with one of its `actions`."""
    question = question_of(value)
    options = [name for one in question.actions if (name := _action(one))]
    field = FormField(name=ANSWER, type="select" if options else "textarea", required=True, options=options)
    return PendingCall(
        tool_name="",
        arguments={},
        kind="question",
        title=question.title,
        call_id=call_id,
        description=question.description,
        schema=[field],
    )


def _action(action: Any) -> str:
    name = action.get("name") if isinstance(action, Mapping) else action
    return name if isinstance(name, str) else ""


def answer_to(decision: Decision, title: str) -> Any:
    """Return the answer to a question of the service `title`. Raises ServiceFailure if nobody gave one."""
    if decision.decision != "answered":
        said = f": {decision.comment}" if decision.comment else ""
        raise ServiceFailure(
            "unanswered",
            f"{title} asked a question and cannot go on without its answer: it was "
            f"{decision.decision}{said}. Ask again to begin anew",
        )
    return (decision.values or {}).get(ANSWER, decision.result)


def decision_on(decisions: Sequence[Decision], call_id: str) -> Decision:
    """Return the decision on a call. Raises ServiceFailure if there is none."""
    found = next((one for one in decisions if one.call_id == call_id), None)
    if found is None:
        raise ServiceFailure("unanswered", f"the run goes on without a decision on {call_id:.80}; ask again")
    return found
