"""What is wrong with data that does not fit a type: the place, and what would be right, in plain words."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeVar

import msgspec

from hostler.domain.suggestions import did_you_mean
from hostler_protocol.errors import InvalidArgumentError

T = TypeVar("T")

_UNKNOWN = re.compile(r"unknown field `(?P<field>[^`]*)`")
_MISSING = re.compile(r"missing required field `(?P<field>[^`]*)`")
_NOT_ALLOWED = re.compile(r"Invalid enum value (?P<value>.*)")
_OTHER_TYPE = re.compile(r"Expected `(?P<wanted>[^`]*)`(?P<bound>.*?)(?:, got `(?P<found>[^`]*)`)?")
_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "an object",
    "str": "a text",
}
"""How the types of JSON and YAML are called among people."""


class Misfit(NamedTuple):
    """`place`: where in the data, "" for all of it. `sentence` says the place as well."""

    place: str
    expected: str
    sentence: str


def convert(data: Any, kind: type[T], name: str) -> T:
    """Turn plain data into `kind`; errors name the place, and the nearest right key where one is wrong."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise InvalidArgumentError(f"{name}: {misfit(error, kind).sentence}") from None


def misfit(error: msgspec.ValidationError, kind: Any) -> Misfit:
    """What an error of decoding something as `kind` means."""
    message, _, path = str(error).partition(" - at `")
    path = path.rstrip("`") or "$"
    place = path.removeprefix("$").lstrip(".")
    if match := _UNKNOWN.search(message):
        known = _fields_at(kind, path)
        hint = did_you_mean(match["field"], known) if known else "remove it"
        text = f"unknown key {match['field']!r}{f' in {place}' if place else ''}: {hint}"
        return Misfit(place, text, text)
    at = f"{place}: " if place else ""
    if match := _MISSING.search(message):
        text = f"the key {match['field']!r} is missing"
        return Misfit(place, text, f"{at}{text}")
    if match := _NOT_ALLOWED.fullmatch(message):
        text = f"expected one of {', '.join(map(str, _values_at(kind, path)))}"
        return Misfit(place, text, f"{place or 'it'} is {match['value']}; {text}")
    if match := _OTHER_TYPE.fullmatch(message):
        text = f"expected {_in_words(match['wanted'])}{match['bound']}"
        found = f", not {_in_words(match['found'])}" if match["found"] else ""
        return Misfit(place, text, f"{at}{text}{found}")
    return Misfit(place, message, f"{at}{message}")


def _in_words(types: str) -> str:
    return " or ".join(_WORDS.get(one, one) for one in types.split(" | "))


def _fields_at(kind: Any, path: str) -> set[str]:
    """The field names of the struct that a msgspec error path points at."""
    return {f.encode_name for found in _types_at(kind, path) for f in _structs(found)}


def _values_at(kind: Any, path: str) -> list[Any]:
    """The values that a literal at this path may have."""
    found = _types_at(kind, path)
    found += [inner for one in found if isinstance(one, msgspec.inspect.UnionType) for inner in one.types]
    return [v for one in found if isinstance(one, msgspec.inspect.LiteralType) for v in one.values]


def _types_at(kind: Any, path: str) -> list[Any]:
    types: list[Any] = [msgspec.inspect.type_info(kind)]
    for step in re.findall(r"\.([A-Za-z0-9_-]+)|\[(?:\d+|\.\.\.)\]", path):
        types = [inner for outer in types for inner in _step(outer, step)]
    return types


def _structs(info: Any) -> list[Any]:
    if isinstance(info, msgspec.inspect.StructType):
        return list(info.fields)
    if isinstance(info, msgspec.inspect.UnionType):
        return [f for inner in info.types for f in _structs(inner)]
    return []


def _step(info: Any, key: str) -> list[Any]:
    match info:
        case msgspec.inspect.UnionType(types=types):
            return [inner for outer in types for inner in _step(outer, key)]
        case msgspec.inspect.StructType(fields=fields) if key:
            return [f.type for f in fields if f.encode_name == key]
        case msgspec.inspect.ListType(item_type=item) if not key:
            return [item]
        case msgspec.inspect.DictType(value_type=value):
            return [value]
        case _:
            return []


__all__ = ["Misfit", "misfit"]
