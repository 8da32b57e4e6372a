"""Check plain data against a type: `fit` finds all mistakes, `convert` and `misfit` describe the first one.

`msgspec.convert` stops at the first mistake. `fit` walks data and type together and converts each leaf.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec

from hostler.domain.config_mistakes import MAX_MISTAKES, Mistake, key_place, nearest
from hostler.domain.json_data import json_mistakes
from hostler.domain.struct_fields import struct_fields, type_info
from hostler.domain.suggestions import did_you_mean
from hostler_protocol.errors import InvalidArgumentError

T = TypeVar("T")
MAX_SHOWN_CHARS = 300
"""Of a message that may repeat the data."""


class _Nothing:
    """The type of `_NOTHING`: no usable value."""


_NOTHING = _Nothing()


class _Mistakes(list[Mistake]):
    """Mistakes so far, of which the first `most` are looked for, in the first `looks` values."""

    def __init__(self, most: int, looks: int | None) -> None:
        super().__init__()
        self.most = most
        self.looks = looks
        self.looked = 0

    @property
    def full(self) -> bool:
        return len(self) >= self.most or (self.looks is not None and self.looked > self.looks)


def fit(
    data: Any, kind: type[T], *, most: int = MAX_MISTAKES, looks: int | None = None
) -> tuple[T | None, list[Mistake]]:
    """Convert the part of `data` that fits `kind` (a type without `msgspec.Raw`); return it with the first
    `most` mistakes.

    Keys, elements and values with a mistake are left out. None: the rest does not fit `kind`, or was not
    looked at, since there are so many mistakes, or more than `looks` values.
    """
    mistakes = _Mistakes(most, looks)
    cleaned = _fit(data, kind, "", mistakes)
    if isinstance(cleaned, _Nothing):
        return None, mistakes
    return msgspec.convert(cleaned, kind), mistakes


def _fit(data: Any, kind: Any, place: str, mistakes: _Mistakes) -> Any:
    """Return the data without the parts that do not fit, or `_NOTHING`."""
    mistakes.looked += 1
    if mistakes.full:
        return _NOTHING
    branch = _branch(data, kind)
    if isinstance(branch, type) and issubclass(branch, msgspec.Struct):
        return _fit_struct(data, branch, place, mistakes)
    if get_origin(branch) is list:
        return _fit_list(data, branch, kind, place, mistakes)
    if get_origin(branch) is dict:
        return _fit_dict(data, branch, kind, place, mistakes)
    if beyond := json_mistakes(data, place):
        mistakes += beyond
        return _NOTHING
    return _whole(data, kind, place, mistakes)


def _fit_list(data: list[Any], branch: Any, kind: Any, place: str, mistakes: _Mistakes) -> Any:
    (inner,) = get_args(branch)
    kept = []
    for number, one in enumerate(data):
        if not isinstance(found := _fit(one, inner, f"{place}[{number}]", mistakes), _Nothing):
            kept.append(found)
        if mistakes.full:
            return _NOTHING
    # what is left may be too short, which is no mistake of the data
    return _whole(kept, kind, place, mistakes if len(kept) == len(data) else [])


def _fit_dict(data: Mapping[Any, Any], branch: Any, kind: Any, place: str, mistakes: _Mistakes) -> Any:
    inner = get_args(branch)[1]
    kept = {}
    for key, one in data.items():
        if not isinstance(found := _fit(one, inner, key_place(place, key), mistakes), _Nothing):
            kept[key] = found
        if mistakes.full:
            return _NOTHING
    return _whole(kept, kind, place, mistakes)


def _branch(data: Any, kind: Any) -> Any:
    """Return the member of a type that can be walked together with the data, or None."""
    if isinstance(data, list):
        found = [one for one in _branches(kind) if get_origin(one) is list]
    elif isinstance(data, Mapping):
        found = [one for one in _branches(kind) if get_origin(one) is dict or _is_struct(one)]
    else:
        return None
    return found[0] if len(found) == 1 else None


def _is_struct(kind: Any) -> bool:
    return (
        isinstance(kind, type) and issubclass(kind, msgspec.Struct) and not kind.__struct_config__.array_like
    )


def _branches(kind: Any) -> tuple[Any, ...]:
    """Return the members of a union, without annotations; of any other type, the type itself."""
    if get_origin(kind) is Annotated:
        return _branches(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return tuple(inner for one in get_args(kind) for inner in _branches(one))
    return (kind,)


def _fit_struct(data: Mapping[Any, Any], kind: type[msgspec.Struct], place: str, mistakes: _Mistakes) -> Any:
    fields = struct_fields(kind)
    config = kind.__struct_config__
    kept: dict[str, Any] = {}
    usable = True
    for key, value in data.items():
        if mistakes.full:
            return _NOTHING
        field = fields.get(key)
        if field is None:
            if key == config.tag_field:
                kept[key] = value
            elif config.forbid_unknown_fields:
                text = f"unknown key{nearest(str(key), fields)}" if fields else "unknown key; remove it"
                mistakes.append(Mistake(key_place(place, key), text))
            continue
        found = _fit(value, field.type, key_place(place, key), mistakes)
        if not isinstance(found, _Nothing):
            kept[key] = found
        elif field.required:
            usable = False
    for name, field in fields.items():
        if field.required and name not in data:
            mistakes.append(Mistake(place, f"the key {name!r} is missing"))
            usable = False
    return _whole(kept, kind, place, mistakes) if usable else _NOTHING


def _whole(data: Any, kind: Any, place: str, mistakes: list[Mistake]) -> Any:
    """Return the data if msgspec converts it to `kind`; else add a mistake."""
    try:
        msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        mistakes.append(_mistake(error, data, kind, place))
        return _NOTHING
    except RecursionError:
        mistakes.append(Mistake(place, "it is nested too deep"))
        return _NOTHING
    return data


def _mistake(error: msgspec.ValidationError, data: Any, kind: Any, place: str) -> Mistake:
    literals = [value for one in _branches(kind) if get_origin(one) is Literal for value in get_args(one)]
    if literals and isinstance(data, str):
        words = [str(value) for value in literals]
        close = did_you_mean(data, words)
        hint = f"; {close}" if close.startswith("did you mean") else ""
        return Mistake(place, f"{data!r:.80} is none of {', '.join(words)}{hint}")
    found = misfit(error, kind)
    return Mistake(
        place + (f".{found.place}" if found.place and place else found.place),
        _without(found.sentence, found.place),
    )


def _without(sentence: str, place: str) -> str:
    return sentence.removeprefix(f"{place}: ") if place else sentence


# -- one mistake, as msgspec reports it ---------------------------------------------------------------

_UNKNOWN = re.compile(r"unknown field `(?P<field>[^`]*)`")
_MISSING = re.compile(r"missing required field `(?P<field>[^`]*)`")
_NOT_ALLOWED = re.compile(r"Invalid enum value (?P<value>.*)")
_UNKNOWN_TAG = re.compile(r"Invalid value '(?P<value>.*)'", re.DOTALL)
_OTHER_TYPE = re.compile(r"Expected `(?P<wanted>[^`]*)`(?P<bound>.*?)(?:, got `(?P<found>[^`]*)`)?")
_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "an object",
    "str": "a text",
}
"""Names of JSON types for people."""


class Misfit(NamedTuple):
    """`place`: the path in the data, "" for all of it. `sentence` includes the place."""

    place: str
    expected: str
    sentence: str


def convert(data: Any, kind: type[T], name: str) -> T:
    """Convert plain data to `kind`. InvalidArgumentError names the place, and the nearest valid key."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise InvalidArgumentError(f"{name}: {misfit(error, kind).sentence}") from None


def misfit(error: msgspec.ValidationError, kind: Any) -> Misfit:
    """Describe an error of decoding data as `kind`."""
    message, _, path = str(error).partition(" - at `")
    path = path.rstrip("`") or "$"
    place = path.removeprefix("$").lstrip(".")
    if match := _UNKNOWN.search(message):
        known = _fields_at(kind, path)
        hint = did_you_mean(match["field"], known) if known else "remove it"
        text = f"unknown key {match['field']!r:.100}{f' in {place}' if place else ''}: {hint}"
        return Misfit(place, text, text)
    at = f"{place}: " if place else ""
    if match := _MISSING.search(message):
        text = f"the key {match['field']!r} is missing"
        return Misfit(place, text, f"{at}{text}")
    if match := _NOT_ALLOWED.fullmatch(message):
        text = f"expected one of {', '.join(map(str, _values_at(kind, path)))}"
        return Misfit(place, text, f"{place or 'it'} is {match['value']:.100}; {text}")
    if (match := _UNKNOWN_TAG.fullmatch(message)) and (tags := _tags_at(kind, path)):
        text = f"expected one of {', '.join(tags)}"
        return Misfit(place, text, f"{place or 'it'} is {match['value']!r:.100}; {text}")
    if match := _OTHER_TYPE.fullmatch(message):
        text = f"expected {_in_words(match['wanted'])}{match['bound']}"
        found = f", not {_in_words(match['found'])}" if match["found"] else ""
        return Misfit(place, text, f"{at}{text}{found}")
    return Misfit(place, message[:MAX_SHOWN_CHARS], f"{at}{message[:MAX_SHOWN_CHARS]}")


def _in_words(types: str) -> str:
    return " or ".join(_WORDS.get(one, one) for one in types.split(" | "))


def _fields_at(kind: Any, path: str) -> set[str]:
    """Return the field names of the struct at a path in a msgspec error."""
    found = [one for outer in _types_at(kind, path) for one in _structs_in(outer)]
    return {field.encode_name for one in found for field in one.fields}


def _values_at(kind: Any, path: str) -> list[Any]:
    """Return the permitted values of the literal at a path."""
    found = _types_at(kind, path)
    found += [inner for one in found if isinstance(one, msgspec.inspect.UnionType) for inner in one.types]
    return [v for one in found if isinstance(one, msgspec.inspect.LiteralType) for v in one.values]


def _tags_at(kind: Any, path: str) -> list[str]:
    """Return what the field that tells structs apart may say, at its path."""
    of_struct, _, name = path.rpartition(".")
    found = [one for outer in _types_at(kind, of_struct) for one in _structs_in(outer)]
    return [str(one.tag) for one in found if one.tag_field == name and one.tag is not None]


def _structs_in(info: Any) -> list[msgspec.inspect.StructType]:
    if isinstance(info, msgspec.inspect.UnionType):
        return [one for inner in info.types for one in _structs_in(inner)]
    return [info] if isinstance(info, msgspec.inspect.StructType) else []


def _types_at(kind: Any, path: str) -> list[Any]:
    types: list[Any] = [type_info(kind)]
    for step in re.findall(r"\.([A-Za-z0-9_-]+)|\[(?:\d+|\.\.\.)\]", path):
        types = [inner for outer in types for inner in _step(outer, step)]
    return types


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
