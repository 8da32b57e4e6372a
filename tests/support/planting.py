"""Values of a type with a text at each place where one can stand, built from the type itself.

A field that is added is a place by that alone: whoever walks the places walks it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec import inspect as wire

Given = Mapping[str, Any]
"""Values of required fields by place, where the least value of the type would mean nothing."""
Build = Callable[[str], Any]


@dataclass(frozen=True)
class Place:
    """A place of a text within a type, and what builds a value that has a text there."""

    name: str
    build: Build


def planted(kind: Any, given: Given | None = None) -> list[Place]:
    """Return each place of a type once. `{}` is a value of a mapping, `{key}` one of its keys."""
    found: dict[str, Place] = {}
    for place in _plant(wire.type_info(kind), "", given or {}, ()):
        found.setdefault(place.name, place)
    return list(found.values())


def least(kind: wire.Type, place: str, given: Given) -> Any:
    """Return the least value of a type: what is required and nothing else."""
    if place in given:
        return given[place]
    match kind:
        case wire.UnionType(types=types):
            has_none = any(isinstance(one, wire.NoneType) for one in types)
            return None if has_none else least(types[0], place, given)
        case wire.StructType(fields=fields):
            required = [field for field in fields if field.required]
            return _tagged(kind, {f.encode_name: least(f.type, _below(place, f), given) for f in required})
        case wire.LiteralType(values=values):
            return values[0]
        case wire.BoolType():
            return True
        case wire.IntType(ge=ge) | wire.FloatType(ge=ge):
            return ge or 1
        case wire.ListType() | wire.SetType() | wire.FrozenSetType() | wire.VarTupleType():
            return []
        case wire.DictType():
            return {}
        case wire.StrType() | wire.AnyType() | wire.RawType():
            return "x"
        case wire.NoneType():
            return None
    raise AssertionError(f"{place}: no least value of {kind}")


def _plant(kind: wire.Type, place: str, given: Given, seen: tuple[Any, ...]) -> Iterator[Place]:
    match kind:
        case wire.StrType() | wire.AnyType() | wire.RawType():
            yield Place(place, _itself)
        case wire.UnionType(types=types):
            for one in types:
                yield from _plant(one, place, given, seen)
        case (
            wire.ListType(item_type=item) | wire.SetType(item_type=item) | wire.FrozenSetType(item_type=item)
        ):
            for inner in _plant(item, f"{place}[]", given, seen):
                yield Place(inner.name, partial(_in_list, inner.build))
        case wire.DictType(key_type=key, value_type=value):
            for inner in _plant(value, f"{place}{{}}", given, seen):
                yield Place(inner.name, partial(_in_struct, {}, "key", inner.build))
            if isinstance(key, wire.StrType):
                yield Place(f"{place}{{key}}", partial(_as_key, least(value, f"{place}{{}}", given)))
        case wire.StructType(cls=cls, fields=fields) if cls not in seen:
            base = least(kind, place, given)
            for field in fields:
                for inner in _plant(field.type, _below(place, field), given, (*seen, cls)):
                    yield Place(inner.name, partial(_in_struct, base, field.encode_name, inner.build))


def _itself(text: str) -> str:
    return text


def _in_list(build: Build, text: str) -> list[Any]:
    return [build(text)]


def _in_struct(base: Mapping[str, Any], name: str, build: Build, text: str) -> dict[str, Any]:
    return {**base, name: build(text)}


def _as_key(value: Any, text: str) -> dict[str, Any]:
    return {text: value}


def _below(place: str, field: wire.Field) -> str:
    return f"{place}.{field.encode_name}" if place else field.encode_name


def _tagged(kind: wire.StructType, value: dict[str, Any]) -> dict[str, Any]:
    return value if kind.tag_field is None else {str(kind.tag_field): kind.tag, **value}
