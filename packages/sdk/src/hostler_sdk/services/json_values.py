"""Reading the JSON of services, whose fields may be absent, null or of another type. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hostler_sdk.services.failures import ServiceFailure
from hostler_sdk.services.limits import MAX_EXCERPT_CHARS
from hostler_sdk.types import Usage

_REASONS = ("message", "msg", "errorMsg", "error_msg", "detail", "error", "hint", "title")


def parse_json(text: str | bytes) -> dict[str, object]:
    """Decode a JSON object. Raises ServiceFailure."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ServiceFailure("response_invalid", f"its answer is not JSON: {error}") from None
    return as_object(value)


def as_object(value: Any) -> dict[str, object]:
    """Return a JSON object as it is. Raises ServiceFailure for another value."""
    if isinstance(value, dict):
        return value
    raise ServiceFailure(
        "response_invalid", f"its answer is a JSON {_KINDS.get(type(value), 'value')}, not an object"
    )


_KINDS: dict[type, str] = {list: "array", str: "text", int: "number", float: "number", bool: "boolean"}


def text_in(data: Mapping[str, object], *path: str) -> str:
    """Return the text below these keys, or an empty one if there is none."""
    value = object_in(data, *path[:-1]).get(path[-1])
    return value if isinstance(value, str) else ""


def object_in(data: Mapping[str, object], *path: str) -> Mapping[str, Any]:
    """Return the object below these keys, or an empty one if there is none."""
    value: object = data
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def number_in(data: Mapping[str, object], key: str) -> int | None:
    """Return a count, or None if it is none. Some services write it as text."""
    value = data.get(key)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def usage_of(
    data: Mapping[str, object],
    given: str = "input_tokens",
    made: str = "output_tokens",
    both: str = "total_tokens",
) -> Usage | None:
    """Return the usage written under these names, or None if it has no number."""
    counts = number_in(data, given), number_in(data, made), number_in(data, both)
    if counts == (None, None, None):
        return None
    total = counts[2]
    if total is None and counts[0] is not None and counts[1] is not None:
        total = counts[0] + counts[1]
    return Usage(input_tokens=counts[0], output_tokens=counts[1], total_tokens=total)


def add_usage(one: Usage | None, other: Usage) -> Usage:
    """Return the sum of two usages; a number that is in neither stays unknown."""
    if one is None:
        return other
    counts = {name: (getattr(one, name), getattr(other, name)) for name in Usage.__struct_fields__}
    known = {name: [n for n in pair if n is not None] for name, pair in counts.items()}
    return Usage(**{name: sum(numbers) for name, numbers in known.items() if numbers})


def reason_in(data: Any) -> str:
    """Return the sentence in the JSON of an error, under one of its usual names."""
    if not isinstance(data, dict):
        return ""
    for name in _REASONS:
        if said := text_in(data, name) or text_in(object_in(data, name), "message"):
            return said
    return ""


def shortened(text: str) -> str:
    """Return a text of a service for a message of ours: on one line, printable, at most MAX_EXCERPT_CHARS."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= MAX_EXCERPT_CHARS else f"{text[: MAX_EXCERPT_CHARS - 3]}..."
