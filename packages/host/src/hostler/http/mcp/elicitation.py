"""What a run asks of people as MCP's elicitation: a form, and what comes of it as a decision.

A form of MCP is flat, and empty forms are refused by its clients: where nothing but consent is asked, the
form has a boolean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from hostler.domain.forms import MAX_TEXT_CHARS, WANTED, option_label, option_value
from hostler.domain.pause_actions import Action, UnprocessableError
from hostler.domain.pause_views import CallView
from hostler.domain.run_events import Asked
from hostler.domain.type_fit import convert
from hostler.http.dialects.notices import MAX_ARGUMENTS_SHOWN, name_of_arguments
from hostler.http.dialects.requests import NamedCall, check_shown, is_about_doubt, read_request_id, request_id
from hostler_protocol._base import Lenient
from hostler_protocol.errors import NotFoundError
from hostler_protocol.ids import canonical_json
from hostler_protocol.pausing import FormField, InteractionAction
from hostler_protocol.results import InteractionRequested

CONSENTS = frozenset({"approval", "budget"})
QUESTIONS = frozenset({"form", "confirmation", "choice"})
ELICITED = frozenset({"in_doubt", *CONSENTS, *QUESTIONS})
"""Kinds of requests that a form can ask; a tool of another client's is none."""
BUTTON = "action"
"""The field with the button of a question that was pressed."""
SEEN = "answered"
"""The field of a question that has neither fields nor buttons."""


class Elicited(Lenient):
    """What came of a form: filled in, refused, or closed without a choice."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class Refused(NamedTuple):
    """A question was refused: its run is ended."""

    call_id: str


class Doubt(NamedTuple):
    """What became of a call in doubt, as `resolution_of` reads it."""

    payload: dict[str, Any]


# -- what is asked ---------------------------------------------------------------------------------------


def form_id(run_id: str, asked: Asked, sequence: int) -> str:
    """Return the id of a form. No other form of the run has it, also if its call is asked again."""
    return f"{request_id(run_id, asked.request)}.{sequence}"


def read_form_id(text: Any) -> NamedCall:
    """Return the call that a form asks about. NotFoundError for any other text."""
    if isinstance(text, str):
        head, _, sequence = text.rpartition(".")
        if sequence.isascii() and sequence.isdecimal():
            return read_request_id(head)
    raise NotFoundError(f"no form has the id {text!r:.200}")


def form_of(asked: Asked) -> dict[str, Any]:
    """Return the parameters of `elicitation/create`."""
    request = asked.request
    properties, required = _properties(request)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return {"mode": "form", "message": _message(request), "requestedSchema": schema}


def _message(request: InteractionRequested) -> str:
    lines = [text for text in (request.title, request.description) if text] or [f"Decide: {request.kind}"]
    if (name := name_of_arguments(request)) is not None:
        shown = canonical_json(request.arguments).decode()
        if len(shown) > MAX_ARGUMENTS_SHOWN:
            shown = f"{shown[:MAX_ARGUMENTS_SHOWN]} ... ({len(shown):,} characters)"
        lines.append(f"{name}: {shown}")
    return "\n".join(lines)


def _properties(request: InteractionRequested) -> tuple[dict[str, Any], list[str]]:
    comment = {"type": "string", "title": "Comment"}
    if request.kind in CONSENTS:
        return {"approved": {"type": "boolean", "title": "Approve"}, "comment": comment}, ["approved"]
    if request.kind == "in_doubt":
        asked = {"type": "boolean", "title": "Did the call happen?"}
        result = {"type": "string", "title": "Its result, if it did"}
        return {"happened": asked, "result": result, "comment": comment}, ["happened"]
    properties = {field.name: _field(field) for field in request.fields}
    required = [field.name for field in request.fields if field.required]
    if request.actions:
        properties[BUTTON] = _buttons(request.actions)
        required.append(BUTTON)
    if not properties:
        return {SEEN: {"type": "boolean", "title": request.title or "Go on"}}, [SEEN]
    return properties, required


def _buttons(actions: list[InteractionAction]) -> dict[str, Any]:
    return {
        "type": "string",
        "oneOf": [{"const": one.name, "title": one.label or one.name} for one in actions],
    }


def _field(field: FormField) -> dict[str, Any]:
    schema: dict[str, Any]
    default = field.default
    match field.type:
        case "text":
            schema = {"type": "string", "maxLength": MAX_TEXT_CHARS}
        case "textarea" | "file":
            schema = {"type": "string"}
        case "number" | "boolean":
            schema = {"type": field.type}
        case "select":
            schema = {"type": "string", **_choices(field, "oneOf")}
            default = None if default is None else _text_of(default)
        case "multiselect":
            schema = {"type": "array", "items": _choices(field, "anyOf")}
            default = None if default is None else [_text_of(one) for one in default]
    if field.type == "file" and field.description is None:
        schema["description"] = WANTED["file"]
    notes = {"title": field.label, "description": field.description, "default": default}
    return schema | {name: value for name, value in notes.items() if value is not None}


def _choices(field: FormField, titled: str) -> dict[str, Any]:
    values = [_text_of(option_value(option)) for option in field.options]
    labels = [option_label(option) for option in field.options]
    if values == labels:
        return {"enum": values} if titled == "oneOf" else {"type": "string", "enum": values}
    return {titled: [{"const": value, "title": label} for value, label in zip(values, labels, strict=True)]}


def _text_of(value: Any) -> str:
    """Return an option as text: forms of MCP have no other."""
    return value if isinstance(value, str) else canonical_json(value).decode()


# -- what came of it -------------------------------------------------------------------------------------


def read_elicited(given: Any) -> Elicited:
    """Return what came of a form. InvalidArgumentError if it is no such thing."""
    return convert(given, Elicited, "the result of elicitation/create")


def decision_of(named: NamedCall, given: Elicited, call: CallView) -> Action | Refused | Doubt | None:
    """Return the decision that a form was filled in with; None if it was closed without one.

    StaleViewError if other arguments, or another tool, were shown; UnprocessableError if it decides nothing.
    """
    if given.action == "cancel":
        return None
    check_shown(named.call_id, named, call)
    values = given.content or {}
    comment = values.get("comment") if isinstance(values.get("comment"), str) else None
    accepted = given.action == "accept"
    if is_about_doubt(call, values):
        return Doubt(values if accepted else {})
    if call.kind == "question":
        return _answer(call, values) if accepted else Refused(call.call_id)
    if call.kind == "client_tool":
        raise UnprocessableError(
            f"the call {call.call_id!r} is of another client's tool",
            reason="wrong_kind",
            call_id=call.call_id,
        )
    if accepted and not isinstance(values.get("approved"), bool):
        raise _undecided(call, '{"approved": true} or {"approved": false}')
    approved = accepted and values["approved"] is True
    return Action(
        call_id=call.call_id,
        type="approve" if approved else "deny",
        args_hash=call.args_hash,
        comment=comment or None,
    )


def _undecided(call: CallView, expected: str) -> UnprocessableError:
    return UnprocessableError(
        f"the form of {call.call_id!r} decides nothing: expected {expected}",
        reason="schema",
        call_id=call.call_id,
    )


def _answer(call: CallView, content: Mapping[str, Any]) -> Action:
    fields: list[FormField] = [convert(field, FormField, "a field") for field in call.fields]
    values = {field.name: _value_of(field, content[field.name]) for field in fields if field.name in content}
    names = {field.name for field in fields}
    known = names | ({BUTTON} if call.actions else set()) | (set() if names or call.actions else {SEEN})
    values |= {name: value for name, value in content.items() if name not in known}  # refused by name
    button = content.get(BUTTON) if call.actions and BUTTON not in names else None
    return Action(
        call_id=call.call_id,
        type="answer",
        values=values,
        action=button if isinstance(button, str) else None,
    )


def _value_of(field: FormField, value: Any) -> Any:
    """Return the options that were chosen by their texts."""
    if field.type not in ("select", "multiselect"):
        return value
    by_text = {_text_of(option_value(option)): option_value(option) for option in field.options}
    if isinstance(value, str):
        return by_text.get(value, value)
    if isinstance(value, list):
        return [by_text.get(one, one) if isinstance(one, str) else one for one in value]
    return value
