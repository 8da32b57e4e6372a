"""Check forms shown to people, and the values that people fill in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hostler.domain.keys import check_depth
from hostler.domain.suggestions import did_you_mean
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.ids import canonical_json
from hostler_protocol.limits import KIB, MIB
from hostler_protocol.pausing import FieldType, FormField, InteractionAction

MAX_FIELDS = 100
"""Fields of one form; a person fills them in by hand."""
MAX_OPTIONS = 1_000
"""Options of one select."""
MAX_ACTIONS = 100
"""Buttons of one question; a person reads them all before pressing one."""
MAX_FIELD_NAME_CHARS = 200
MAX_TEXT_CHARS = 10_000
"""A `text` field: one line."""
MAX_TEXTAREA_CHARS = 256 * KIB
MAX_VALUES_BYTES = 1 * MIB
"""All values of one answer as JSON, which become the result of one call."""
MAX_FILE_ID_CHARS = 512

WANTED: dict[FieldType, str] = {
    "text": "a line of text",
    "textarea": "a text",
    "select": "one of its options",
    "multiselect": "a list of its options",
    "number": "a number",
    "boolean": "true or false",
    "file": "the id of an artifact",
}


class FormError(InvalidArgumentError):
    """Values do not fit their form; `details["errors"]` is a list of {field, expected}, one per field."""

    def __init__(self, errors: list[dict[str, str]]) -> None:
        self.errors = errors
        listed = "; ".join(f"{error['field']}: {error['expected']}" for error in errors[:5])
        more = f" (and {len(errors) - 5} more)" if len(errors) > 5 else ""
        super().__init__(f"values do not fit the form: {listed}{more}", errors=errors)


def check_fields(fields: Sequence[FormField]) -> None:
    """Check a form. InvalidArgumentError names the field and the mistake."""
    if len(fields) > MAX_FIELDS:
        raise InvalidArgumentError(f"the form has {len(fields)} fields; at most {MAX_FIELDS} are possible")
    _check_names("field", [field.name for field in fields])
    for field in fields:
        _check_options(field)
        if field.default is not None and (wrong := _wrong(field, field.default)) is not None:
            raise InvalidArgumentError(f"field {field.name!r}: its default does not fit: {wrong}")


def check_actions(actions: Sequence[InteractionAction]) -> None:
    """Check the buttons of a question: named, and no name twice. InvalidArgumentError names the button."""
    if len(actions) > MAX_ACTIONS:
        raise InvalidArgumentError(f"there are {len(actions)} actions; at most {MAX_ACTIONS} are possible")
    _check_names("action", [action.name for action in actions])


def _check_names(kind: str, names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        if not 1 <= len(name) <= MAX_FIELD_NAME_CHARS or "\x00" in name:
            raise InvalidArgumentError(
                f"{kind}s[{number}].name: expected 1 to {MAX_FIELD_NAME_CHARS} characters and no NUL"
            )
        if name in names[:number]:
            raise InvalidArgumentError(f"{kind}s[{number}].name: {name!r} is given to an earlier {kind} too")


def check_values(fields: Sequence[FormField], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole answer in the order of the form, with defaults for the fields left out.

    An optional field with neither value nor default is left out. FormError names every invalid field;
    PayloadTooLargeError over 1 MiB of JSON.
    """
    check_depth("values", dict(values))
    try:
        size = len(canonical_json(dict(values)))
    except UnicodeEncodeError:
        raise InvalidArgumentError("values hold half a surrogate pair, which is no text") from None
    if size > MAX_VALUES_BYTES:
        raise PayloadTooLargeError(
            f"values have {size:,} bytes of JSON; at most {MAX_VALUES_BYTES:,} are allowed",
            limit_bytes=MAX_VALUES_BYTES,
        )
    known = {field.name for field in fields}
    errors = [
        {"field": name, "expected": f"no such field: {did_you_mean(name, known) if known else 'remove it'}"}
        for name in values
        if name not in known
    ]
    answer: dict[str, Any] = {}
    for field in fields:
        value = values.get(field.name)
        if value is None:
            value = field.default
        if is_empty(field, value):
            if field.required:
                errors.append({"field": field.name, "expected": f"required: {expected(field)}"})
            elif value is not None:
                answer[field.name] = value
        elif (wrong := _wrong(field, value)) is not None:
            errors.append({"field": field.name, "expected": wrong})
        else:
            answer[field.name] = value
    if errors:
        raise FormError(errors)
    return answer


def defaults(fields: Sequence[FormField]) -> dict[str, Any]:
    """Return the form's initial values."""
    return {field.name: field.default for field in fields if field.default is not None}


def files_of(fields: Sequence[FormField], values: Mapping[str, Any]) -> list[str]:
    """Return the artifact ids among checked values; the caller checks that they exist."""
    return [values[field.name] for field in fields if field.type == "file" and values.get(field.name)]


def form_schema(fields: Sequence[FormField]) -> dict[str, Any]:
    """Return the JSON Schema of a form's values."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {field.name: _field_schema(field) for field in fields},
        "additionalProperties": False,
    }
    required = [field.name for field in fields if field.required]
    return schema | {"required": required} if required else schema


def option_value(option: Any) -> Any:
    """Return the value of an option: itself, or in a mapping its `value`."""
    return option["value"] if isinstance(option, Mapping) and "value" in option else option


def option_label(option: Any) -> str:
    """Return the text shown for an option."""
    if isinstance(option, Mapping) and isinstance(option.get("label"), str):
        return str(option["label"])
    return str(option_value(option))


def expected(field: FormField) -> str:
    """Describe the values that a field accepts."""
    if field.type not in ("select", "multiselect"):
        return WANTED[field.type]
    shown = ", ".join(repr(option_value(option)) for option in field.options[:20])
    more = f" and {len(field.options) - 20} more" if len(field.options) > 20 else ""
    some = "one of" if field.type == "select" else "a list out of"
    return f"{some} {shown}{more}"


def is_empty(field: FormField, value: Any) -> bool:
    """Whether a value is no answer: absent, an empty text, no option chosen. False and 0 are answers."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    return field.type == "multiselect" and value == []


def _check_options(field: FormField) -> None:
    if field.type not in ("select", "multiselect"):
        return
    if not 1 <= len(field.options) <= MAX_OPTIONS:
        raise InvalidArgumentError(
            f"field {field.name!r}: {len(field.options)} options; 1 to {MAX_OPTIONS} are expected"
        )
    values: set[bytes] = set()
    for number, option in enumerate(field.options):
        value = canonical_json(option_value(option))
        if value in values:
            raise InvalidArgumentError(
                f"field {field.name!r}: options[{number}] is {option_value(option)!r:.80}, like an option "
                "before it; each option is given once"
            )
        values.add(value)


def _wrong(field: FormField, value: Any) -> str | None:
    """Describe what the field accepts if the value does not fit; else None."""
    match field.type:
        case "text":
            fits = isinstance(value, str) and len(value) <= MAX_TEXT_CHARS and not _broken(value)
            fits = fits and "\n" not in value and "\r" not in value
            limit = f" of at most {MAX_TEXT_CHARS:,} characters"
        case "textarea":
            fits = isinstance(value, str) and len(value) <= MAX_TEXTAREA_CHARS and not _broken(value)
            limit = f" of at most {MAX_TEXTAREA_CHARS:,} characters"
        case "select":
            fits, limit = _is_option(field, value), ""
        case "multiselect":
            fits, limit = _are_options(field, value), ", each once"
        case "number":
            fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            limit = ""
        case "boolean":
            fits, limit = isinstance(value, bool), ""
        case "file":
            fits = isinstance(value, str) and len(value) <= MAX_FILE_ID_CHARS and not _broken(value)
            limit = ""
    return None if fits else expected(field) + limit


def _broken(text: str) -> bool:
    """Whether a text has a NUL, which PostgreSQL cannot store."""
    return "\x00" in text


def _is_option(field: FormField, value: Any) -> bool:
    """Compare as JSON: in Python True equals 1."""
    wanted = canonical_json(value)
    return any(canonical_json(option_value(option)) == wanted for option in field.options)


def _are_options(field: FormField, value: Any) -> bool:
    if not isinstance(value, list) or len(value) > len(field.options):
        return False
    return len({canonical_json(one) for one in value}) == len(value) and all(
        _is_option(field, one) for one in value
    )


def _field_schema(field: FormField) -> dict[str, Any]:
    schema: dict[str, Any]
    choices = [option_value(option) for option in field.options]
    match field.type:
        case "text":
            schema = {"type": "string", "maxLength": MAX_TEXT_CHARS}
        case "textarea":
            schema = {"type": "string", "maxLength": MAX_TEXTAREA_CHARS}
        case "select":
            schema = {"enum": choices}
        case "multiselect":
            schema = {"type": "array", "items": {"enum": choices}, "uniqueItems": True}
        case "number":
            schema = {"type": "number"}
        case "boolean":
            schema = {"type": "boolean"}
        case "file":
            schema = {"type": "string", "maxLength": MAX_FILE_ID_CHARS, "description": WANTED["file"]}
    notes = {"title": field.label, "description": field.description, "default": field.default}
    return schema | {name: value for name, value in notes.items() if value is not None}
