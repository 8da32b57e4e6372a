"""Check that JSON carries a value unchanged: encoders silently turn nan into null, a set into a list."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from math import isfinite
from typing import Any

import msgspec

from hostler_protocol._base import DECODE_ERRORS, is_wire_type
from hostler_protocol.limits import MAX_INTEGER_BITS, MAX_JSON_DEPTH

MAX_SHOWN_KEY_CHARS = 40
MAX_SHOWN_PATH_CHARS = 200

_INTEGERS = range(-(2 ** (MAX_INTEGER_BITS - 1)), 2**MAX_INTEGER_BITS)
_HALF = re.compile("[\ud800-\udfff]")
_INSTEAD: dict[str, str] = {
    "set": "use a list, like sorted(...)",
    "frozenset": "use a list, like sorted(...)",
    "bytes": "use text, base64 or an artifact",
    "bytearray": "use text, base64 or an artifact",
    "memoryview": "use text, base64 or an artifact",
    "datetime": "use .isoformat() or .timestamp()",
    "date": "use .isoformat()",
    "time": "use .isoformat()",
    "timedelta": "use .total_seconds()",
    "Decimal": "use str() or float()",
    "Fraction": "use str() or float()",
    "UUID": "use str()",
    "PurePath": "use str()",
    "Enum": "use .value",
    "Struct": "use msgspec.to_builtins()",
    "BaseModel": "use .model_dump(mode='json')",
    "str": "use str()",
    "int": "use int()",
    "float": "use float()",
    "ndarray": "use .tolist()",
    "generic": "use .item()",
    "coroutine": "await it",
}
"""Hints on what to use instead, by the name of the value's class or of one of its base classes."""
_ELSE = "use None, bool, int, float, str, list or dict"


class _Found(Exception):  # noqa: N818 - carries the finding up the recursion; never leaves this module
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []
        """Path to the value, innermost step first."""


def json_problem(value: Any, name: str = "value") -> str | None:
    """Return a sentence on the first part of `value` that JSON cannot carry unchanged, or None.

    The sentence names the place, beginning with `name`, and what to use instead. JSON carries None, booleans,
    integers of 64 bits, finite floats, text, lists and tuples (as lists), dicts whose keys are text, and
    structs of the protocol and the SDK (as objects), nested at most 128 deep. The object that holds the value
    in its message counts as one level.
    """
    try:
        _check(value, 1)
    except _Found as found:
        path = "".join([name, *reversed(found.path)])
        shown = path if len(path) <= MAX_SHOWN_PATH_CHARS else f"{path[:MAX_SHOWN_PATH_CHARS]}..."
        return f"{shown} {found.reason}"
    return None


def fields_problem(fields: Mapping[str, Any]) -> str | None:
    """Like `json_problem`, for several values by their names."""
    for name, value in fields.items():
        if type(value) is str and value.isascii():
            continue
        problem = json_problem(value, name)
        if problem is not None:
            return problem
    return None


def is_text(text: str) -> bool:
    """Whether a text can be encoded as UTF-8."""
    return text.isascii() or _HALF.search(text) is None


def _check(value: Any, depth: int) -> None:
    kind = type(value)
    if kind is str:
        if not is_text(value):
            raise _Found(
                "holds half a surrogate pair, which UTF-8 cannot write: use "
                "value.encode('utf-8', 'replace').decode()"
            )
    elif value is None or kind is bool:
        pass
    elif kind is int:
        if value not in _INTEGERS:
            bits = f"{value.bit_length()} bits" + (" and a sign" if value < 0 else "")
            raise _Found(f"is an integer of {bits}: at most {MAX_INTEGER_BITS} are carried, use text")
    elif kind is float:
        if not isfinite(value):
            raise _Found(f"is {value}: JSON has no such number, use None")
    elif depth >= MAX_JSON_DEPTH:
        raise _Found(f"holds itself, or is nested more than {MAX_JSON_DEPTH} deep")
    elif isinstance(value, dict):
        _check_dict(value, depth)
    elif isinstance(value, list) or kind is tuple:
        _check_items(value, depth)
    else:
        _check_object(value, depth)


def _check_dict(value: dict[Any, Any], depth: int) -> None:
    for key in value:
        if type(key) is not str:
            _check_key(key)
        elif not is_text(key):
            raise _Found("has a key that holds half a surrogate pair, which UTF-8 cannot write")
    for key, inner in value.items():
        try:
            _check(inner, depth + 1)
        except _Found as found:
            found.path.append(f"[{_shown(key)}]")
            raise


def _check_key(key: Any) -> None:
    if not (isinstance(key, Enum) and isinstance(key, str)):
        raise _Found(f"has the key {_shown(key)}: keys are text, use {_shown(str(key))}")


def _check_items(items: Any, depth: int) -> None:
    for place, inner in enumerate(items):
        try:
            _check(inner, depth + 1)
        except _Found as found:
            found.path.append(f"[{place}]")
            raise


def _check_object(value: Any, depth: int) -> None:
    if isinstance(value, Enum) and isinstance(value, str | int):
        return _check(value.value, depth)  # such an Enum equals its value
    if is_wire_type(value):
        return _check_fields(value, depth)
    if isinstance(value, msgspec.Raw):
        try:
            msgspec.json.decode(value)
        except DECODE_ERRORS as error:
            raise _Found(f"is a Raw that is not JSON: {error}") from None
        return None
    raise _Found(f"is {_named(value)}: {_instead(value)}")


def _check_fields(value: Any, depth: int) -> None:
    for name in value.__struct_fields__:
        inner = getattr(value, name)
        if inner is msgspec.UNSET:
            continue
        try:
            _check(inner, depth + 1)
        except _Found as found:
            found.path.append(f".{name}")
            raise


def _named(value: Any) -> str:
    name = type(value).__name__
    if name == "bytes":
        return name
    return f"an {name}" if name[0] in "aeioAEIO" else f"a {name}"


def _instead(value: Any) -> str:
    if isinstance(value, tuple):
        return "use ._asdict()" if hasattr(value, "_asdict") else "use list()"
    for kind in type(value).__mro__:
        if kind.__name__ in _INSTEAD:
            return _INSTEAD[kind.__name__]
    if hasattr(value, "__dataclass_fields__"):
        return "use dataclasses.asdict()"
    if isinstance(value, Mapping):
        return "use dict()"
    return "use list()" if hasattr(value, "__iter__") else _ELSE


def _shown(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= MAX_SHOWN_KEY_CHARS else f"{text[:MAX_SHOWN_KEY_CHARS]}..."
