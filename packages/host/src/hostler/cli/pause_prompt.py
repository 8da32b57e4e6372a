"""Deciding at a terminal: a call is shown, the person says what becomes of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec

from hostler.cli.line_input import Asker
from hostler.cli.output import note, out, show_error
from hostler.cli.pause_show import pretty, show_call
from hostler.cli.terminal_text import visible
from hostler.domain.forms import FormError, check_values, is_empty, option_label, option_value
from hostler_protocol.pausing import FormField

Action = dict[str, Any]
"""One action as `POST /v1/pauses/{id}/actions` takes it. A call in doubt has `outcome` instead of a type."""
Edit = Callable[[str], str | None]
YES, NO = ("y", "yes", "j", "ja"), ("n", "no", "nein")


class NotAnOptionError(ValueError):
    """What was typed is none of the options."""


def decide_call(asker: Asker, call: dict[str, Any], *, edit: Edit | None = None) -> Action | None:
    """Show a call and ask; None: it is left for later. EOFError where nobody answers any more."""
    show_call(call)
    match call["kind"]:
        case "approval":
            return _approval(asker, call, edit or edit_text)
        case "question":
            return _question(asker, call)
        case "client_tool":
            return _result(asker, call)
        case _:
            return _in_doubt(asker, call)


def fill_in(asker: Asker, fields: list[FormField]) -> dict[str, Any]:
    """Ask for the values of a form, field by field, each until it fits."""
    values: dict[str, Any] = {}
    for field in fields:
        value = _field(asker, field)
        if value is not None:
            values[field.name] = value
    return values


def edit_text(text: str) -> str | None:
    """The text as the person's editor leaves it; None: no editor is named, or nothing was saved."""
    if not os.environ.get("VISUAL") and not os.environ.get("EDITOR"):
        return None
    import click

    edited = click.edit(text, extension=".json", require_save=True)
    return edited if isinstance(edited, str) else None


def fields_of(call: dict[str, Any]) -> list[FormField]:
    """The form of a call."""
    return msgspec.convert(call.get("fields") or [], list[FormField])


def _approval(asker: Asker, call: dict[str, Any], edit: Edit) -> Action | None:
    action: Action = {"call_id": call["call_id"], "args_hash": call["args_hash"]}
    words = "[y]es [n]o [c]omment [s]kip"
    if call.get("editable"):
        words = "[y]es [n]o [e]dit [c]omment [s]kip"
    while True:
        match asker.ask(f"approve? {words} › ").lower():
            case "y" | "yes":
                return action | {"type": "approve"}
            case "n" | "no":
                action.pop("edited_args", None)
                if "comment" not in action and (why := asker.ask("why (may be empty) › ")):
                    action["comment"] = why
                return action | {"type": "deny"}
            case "e" | "edit" if call.get("editable"):
                edited = _edited(asker, action.get("edited_args", call["args"]), edit)
                if edited is not None:
                    action["edited_args"] = edited
                    out().print(pretty(edited), markup=False, soft_wrap=True)
            case "c" | "comment":
                action["comment"] = asker.ask("comment › ")
            case "s" | "skip":
                return None
            case _:
                note("y, n, c or s")


def _edited(asker: Asker, arguments: Any, edit: Edit) -> dict[str, Any] | None:
    text = edit(pretty(arguments)) or asker.ask("arguments as JSON › ")
    if not text.strip():
        return None
    try:
        edited = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        show_error(f"that is no JSON: {error}")
        return None
    if not isinstance(edited, dict):
        show_error("arguments are a JSON object: {...}")
        return None
    return edited


def _question(asker: Asker, call: dict[str, Any]) -> Action | None:
    action: Action = {"call_id": call["call_id"], "type": "answer"}
    fields, buttons = fields_of(call), call.get("actions") or []
    if not fields and not buttons:
        fields = [FormField(name="answer", type="text", label="answer")]
    if buttons:
        pressed = _button(asker, buttons)
        if pressed is None:
            return None
        action["action"] = pressed
    else:
        match asker.ask("answer now? [y]es [s]kip › ").lower():
            case "s" | "skip" | "n" | "no":
                return None
            case _:
                pass
    if fields:
        action["values"] = fill_in(asker, fields)
    return action


def _button(asker: Asker, buttons: list[dict[str, Any]]) -> str | None:
    for number, button in enumerate(buttons, start=1):
        out().print(f"  {number}  {visible(button.get('label') or button['name'])}", markup=False)
    while True:
        said = asker.ask("which? a number, or [s]kip › ")
        if said.lower() in ("s", "skip"):
            return None
        for number, button in enumerate(buttons, start=1):
            if said in (str(number), button["name"], button.get("label")):
                name: str = button["name"]
                return name
        note(f"a number from 1 to {len(buttons)}")


def _field(asker: Asker, field: FormField) -> Any:
    label = visible(field.label or field.name)
    if field.description:
        note(visible(field.description, lines=True))
    if field.type in ("select", "multiselect"):
        for number, option in enumerate(field.options, start=1):
            out().print(f"  {number}  {visible(option_label(option))}", markup=False)
    default = "" if field.default is None else f" [{visible(_shown(field.default))}]"
    star = " *" if field.required else ""
    hint = {"multiselect": " (numbers, separated by commas)", "boolean": " (y/n)"}.get(field.type, "")
    while True:
        said = asker.ask(f"{label}{star}{hint}{default} › ")
        try:
            value = None if not said else _read(field, said)
            given = {} if value is None else {field.name: value}
            checked = check_values([field], given)
        except NotAnOptionError as error:
            note(str(error))
        except FormError as error:
            note(error.errors[0]["expected"])
        else:
            found = checked.get(field.name)
            return None if is_empty(field, found) else found


def _read(field: FormField, said: str) -> Any:
    match field.type:
        case "boolean":
            if said.lower() not in (*YES, *NO):
                raise NotAnOptionError("y or n")
            return said.lower() in YES
        case "number":
            try:
                return msgspec.json.decode(said)
            except msgspec.DecodeError:
                return said
        case "select":
            return _option(field, said)
        case "multiselect":
            return [_option(field, one.strip()) for one in said.split(",") if one.strip()]
        case _:
            return said


def _option(field: FormField, said: str) -> Any:
    """By its number, its label or its value."""
    if said.isdecimal() and 1 <= int(said) <= len(field.options):
        return option_value(field.options[int(said) - 1])
    for option in field.options:
        if said in (option_label(option), str(option_value(option))):
            return option_value(option)
    raise NotAnOptionError(f"a number from 1 to {len(field.options)}")


def _result(asker: Asker, call: dict[str, Any]) -> Action | None:
    note("this tool runs on your side: give its result as JSON or text, ! and a text for an error, s to skip")
    said = asker.ask("result › ")
    if said.lower() in ("s", "skip"):
        return None
    if said.startswith("!"):
        return {"call_id": call["call_id"], "type": "error", "error": said[1:].strip()}
    return {"call_id": call["call_id"], "type": "result", "result": value_of(said)}


def _in_doubt(asker: Asker, call: dict[str, Any]) -> Action | None:
    note("nobody knows whether this call was made: only somebody who can look it up can say")
    match asker.ask("did it happen? [y]es [n]o [s]kip › ").lower():
        case "y" | "yes":
            result = asker.ask("its result, as JSON or text (may be empty) › ")
            return {
                "call_id": call["call_id"],
                "outcome": "happened",
                "result": value_of(result) if result else None,
            }
        case "n" | "no":
            return {"call_id": call["call_id"], "outcome": "not_happened"}
        case _:
            return None


def value_of(text: str) -> Any:
    """What somebody typed: JSON where it is JSON, else the text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


__all__ = ["Action", "decide_call", "edit_text", "fields_of", "fill_in", "value_of"]
