"""Deciding on a call at a terminal: show the call, and ask the person."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec

from hostler.cli.line_input import Asker
from hostler.cli.output import note, show_error
from hostler.cli.pause_show import pretty, show_call
from hostler.cli.terminal import out
from hostler.cli.terminal_text import visible
from hostler.domain.forms import FormError, check_values, is_empty, option_label, option_value
from hostler_protocol.pausing import FormField

Action = dict[str, Any]
"""An action for `POST /v1/pauses/{id}/actions`. For a call in doubt, it has `outcome` instead of `type`."""
Edit = Callable[[str], str | None]
YES, NO = ("y", "yes", "j", "ja"), ("n", "no", "nein")


class NotAnOptionError(ValueError):
    """The input is none of the options."""


def decide_call(asker: Asker, call: dict[str, Any], *, edit: Edit | None = None) -> Action | None:
    """Show a call and ask for a decision; None: later. EOFError if the input has ended."""
    show_call(call)
    match call["kind"]:
        case "approval" | "budget":
            return _approval(asker, call, edit or edit_text)
        case "question":
            return _question(asker, call)
        case "client_tool":
            return _result(asker, call)
        case _:
            return _in_doubt(asker, call)


def fill_in(asker: Asker, fields: list[FormField]) -> dict[str, Any]:
    """Ask for the values of a form, field by field; a field is asked again until its value is valid."""
    values: dict[str, Any] = {}
    for field in fields:
        value = _field(asker, field)
        if value is not None:
            values[field.name] = value
    return values


def edit_text(text: str) -> str | None:
    """Return the text as saved in the person's editor; None if no editor is set or nothing was saved."""
    if not os.environ.get("VISUAL") and not os.environ.get("EDITOR"):
        return None
    import click

    edited = click.edit(text, extension=".json", require_save=True)
    return edited if isinstance(edited, str) else None


def fields_of(call: dict[str, Any]) -> list[FormField]:
    """Return the form of a call."""
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
                note("type y, n, c or s")


def _edited(asker: Asker, arguments: Any, edit: Edit) -> dict[str, Any] | None:
    text = edit(pretty(arguments)) or asker.ask("arguments as JSON › ")
    if not text.strip():
        return None
    try:
        edited = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        show_error(f"not JSON: {error}")
        return None
    if not isinstance(edited, dict):
        show_error("arguments must be a JSON object: {...}")
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
        reply = asker.ask("which? a number, or [s]kip › ")
        if reply.lower() in ("s", "skip"):
            return None
        for number, button in enumerate(buttons, start=1):
            if reply in (str(number), button["name"], button.get("label")):
                name: str = button["name"]
                return name
        note(f"type a number from 1 to {len(buttons)}")


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
        reply = asker.ask(f"{label}{star}{hint}{default} › ")
        try:
            value = None if not reply else _read(field, reply)
            checked = check_values([field], {} if value is None else {field.name: value})
        except NotAnOptionError as error:
            note(str(error))
        except FormError as error:
            note(error.errors[0]["expected"])
        else:
            found = checked.get(field.name)
            return None if is_empty(field, found) else found


def _read(field: FormField, reply: str) -> Any:
    """Return the value of a reply to a field. NotAnOptionError."""
    match field.type:
        case "boolean":
            if reply.lower() not in (*YES, *NO):
                raise NotAnOptionError("type y or n")
            return reply.lower() in YES
        case "number":
            try:
                return msgspec.json.decode(reply)
            except msgspec.DecodeError:
                return reply
        case "select":
            return _option(field, reply)
        case "multiselect":
            return [_option(field, item.strip()) for item in reply.split(",") if item.strip()]
        case _:
            return reply


def _option(field: FormField, reply: str) -> Any:
    """Return the value of the option with this number, label or value. NotAnOptionError."""
    if reply.isdecimal() and 1 <= int(reply) <= len(field.options):
        return option_value(field.options[int(reply) - 1])
    for option in field.options:
        if reply in (option_label(option), str(option_value(option))):
            return option_value(option)
    raise NotAnOptionError(f"type a number from 1 to {len(field.options)}")


def _result(asker: Asker, call: dict[str, Any]) -> Action | None:
    note("this tool runs on your side: type its result as JSON or text, !TEXT for an error, or s to skip")
    reply = asker.ask("result › ")
    if reply.lower() in ("s", "skip"):
        return None
    if reply.startswith("!"):
        return {"call_id": call["call_id"], "type": "error", "error": reply[1:].strip()}
    return {"call_id": call["call_id"], "type": "result", "result": value_of(reply)}


def _in_doubt(asker: Asker, call: dict[str, Any]) -> Action | None:
    note("the host does not know whether this call was made: check where it would have had its effect")
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
    """Return typed text as a value: parsed if it is JSON, else as it is."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
