"""Questions of agents as forms of the protocol (`elicitation/create`), and their answers."""

from __future__ import annotations

from typing import Any

import acp
from acp.schema import (
    AcceptElicitationResponse,
    CreateFormSessionElicitationRequest,
    ElicitationBooleanPropertySchema,
    ElicitationMultiSelectPropertySchema,
    ElicitationNumberPropertySchema,
    ElicitationSchema,
    ElicitationStringPropertySchema,
    EnumOption,
    TitledMultiSelectItems,
)
from pydantic import RootModel

from hostler.cli.acp.decisions import Action
from hostler.cli.acp.editor import Editor
from hostler.cli.pause_prompt import fields_of
from hostler.domain.forms import option_label, option_value
from hostler_protocol.pausing import FormField

ACTION = "action"
"""The property for the buttons of a question, unless a field has this name."""
Property = (
    ElicitationStringPropertySchema
    | ElicitationNumberPropertySchema
    | ElicitationBooleanPropertySchema
    | ElicitationMultiSelectPropertySchema
)


class FormAnswer(RootModel[dict[str, object]]):
    """The answer to a form, as it comes: `action`, and `content` if it was accepted."""


def question_text(call: dict[str, object]) -> str:
    """Return what is asked."""
    texts = (call.get("title"), call.get("description") or call.get("fallback_text"))
    return "\n\n".join(str(text) for text in texts if text) or "The agent has a question."


def question_fields(call: dict[str, object]) -> list[FormField]:
    """Return the fields of a question; one for text if it has neither fields nor buttons."""
    fields = fields_of(call)
    if not fields and not call.get("actions"):
        return [FormField(name="answer", type="text", label="answer")]
    return fields


def can_be_form(call: dict[str, object]) -> bool:
    """Return whether a form of the protocol can ask it: it has no field for files."""
    return all(field.type != "file" for field in question_fields(call))


def form_of(call: dict[str, object]) -> ElicitationSchema:
    """Return the form of a question."""
    fields = question_fields(call)
    properties: dict[str, Property] = {field.name: _property(field) for field in fields}
    required = [field.name for field in fields if field.required]
    if buttons := _buttons(call):
        options = [EnumOption(const=name, title=label) for name, label in buttons]
        name = _button_property(fields)
        properties[name] = ElicitationStringPropertySchema(type="string", title="Choose", one_of=options)
        required.append(name)
    return ElicitationSchema(type="object", properties=dict(properties), required=required or None)


async def ask_form(
    editor: Editor, session_id: str, call: dict[str, object], tool_call_id: str | None
) -> Action | None:
    """Show a form and return the action; None if the person gave no answer. EditorError."""
    request = CreateFormSessionElicitationRequest(
        session_id=session_id,
        tool_call_id=tool_call_id,
        mode="form",
        message=question_text(call),
        requested_schema=form_of(call),
    )
    found = await editor.ask(acp.CLIENT_METHODS["elicitation_create"], request, FormAnswer)
    if found.root.get("action") != "accept":
        return None
    accepted = AcceptElicitationResponse.model_validate(found.root)
    return answer_of(call, dict(accepted.content or {}))


def answer_of(call: dict[str, object], content: dict[str, object]) -> Action:
    """Return the action for what was filled in."""
    fields = question_fields(call)
    action: Action = {"type": "answer"}
    if _buttons(call):
        pressed = content.get(_button_property(fields))
        if pressed is not None:
            action["action"] = pressed
    if fields:
        action["values"] = {
            field.name: _value(field, content[field.name]) for field in fields if field.name in content
        }
    return action


def _value(field: FormField, given: object) -> object:
    """Return a value as the host's form has it: options are texts in a form of the protocol."""
    options = {str(option_value(one)): option_value(one) for one in field.options}
    if field.type == "multiselect" and isinstance(given, list):
        return [options.get(str(one), one) for one in given]
    return options.get(str(given), given) if field.type == "select" else given


def _buttons(call: dict[str, object]) -> list[tuple[str, str]]:
    found = call.get("actions")
    listed = found if isinstance(found, list) else []
    return [(one["name"], one.get("label") or one["name"]) for one in listed]


def _button_property(fields: list[FormField]) -> str:
    name = ACTION
    while any(field.name == name for field in fields):
        name += "_"
    return name


def _property(field: FormField) -> Property:
    title, description = field.label or field.name, field.description
    match field.type:
        case "number":
            return ElicitationNumberPropertySchema(
                type="number", title=title, description=description, default=_if(field.default, int, float)
            )
        case "boolean":
            return ElicitationBooleanPropertySchema(
                type="boolean", title=title, description=description, default=_if(field.default, bool)
            )
        case "multiselect":
            return ElicitationMultiSelectPropertySchema(
                type="array",
                title=title,
                description=description,
                items=TitledMultiSelectItems(any_of=_options(field)),
                default=_if(field.default, list),
            )
        case "select":
            return ElicitationStringPropertySchema(
                type="string",
                title=title,
                description=description,
                one_of=_options(field),
                default=_if(field.default, str),
            )
        case _:
            return ElicitationStringPropertySchema(
                type="string", title=title, description=description, default=_if(field.default, str)
            )


def _options(field: FormField) -> list[EnumOption]:
    return [EnumOption(const=str(option_value(one)), title=option_label(one)) for one in field.options]


def _if(value: object, *kinds: type) -> Any:
    """Return a default if it is of a kind that the form takes."""
    return value if isinstance(value, kinds) else None
