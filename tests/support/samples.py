"""Values of wire types: one minimal sample, and a Hypothesis strategy for all of them."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect as wire

from hostler_protocol import PluginIdentity
from hostler_protocol.limits import MAX_INTEGER

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
RAW_JSON = JSON.map(lambda value: msgspec.Raw(msgspec.json.encode(value)))
NAME = st.from_regex(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,20}", fullmatch=True)


def sample(kind: Any, **given: Any) -> Any:
    """Build the smallest value of a type; `given` fields are used where the type has them."""
    info = wire.type_info(kind)
    assert isinstance(info, wire.StructType)
    if info.cls is PluginIdentity:
        return PluginIdentity(author="acme", name="echo")
    values = {field.name: _smallest(field.type) for field in info.fields if field.required}
    names = {field.name for field in info.fields}
    return info.cls(**values | {name: value for name, value in given.items() if name in names})


def _smallest(info: Any) -> Any:
    match info:
        case wire.StructType():
            return sample(info.cls)
        case wire.IntType():
            return info.ge or 0
        case wire.LiteralType():
            return info.values[0]
        case wire.UnionType():
            return _smallest(info.types[0])
        case wire.RawType():
            return msgspec.Raw(b"null")
    plain: dict[type, Any] = {
        wire.StrType: "x",
        wire.FloatType: 0.0,
        wire.BoolType: False,
        wire.ListType: [],
        wire.DictType: {},
        wire.AnyType: None,
        wire.NoneType: None,
    }
    return plain[type(info)]


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Give any value of a wire type."""
    return _values(wire.type_info(kind))


def _values(info: Any) -> st.SearchStrategy[Any]:
    match info:
        case wire.StructType():
            return _structs(info)
        case wire.StrType(min_length=shortest, max_length=longest) if shortest is not None:
            return st.text(st.characters(exclude_categories=["Cs"]), min_size=shortest, max_size=longest)
        case wire.FloatType(ge=least, le=most) if least is not None:
            return st.floats(least, most, allow_nan=False)
        case wire.IntType():
            least = -MAX_INTEGER if info.ge is None else info.ge
            return st.integers(least, MAX_INTEGER if info.le is None else info.le)
        case wire.LiteralType():
            return st.sampled_from(info.values)
        case wire.UnionType():
            return st.one_of([_values(each) for each in info.types])
        case wire.ListType():
            return st.lists(_values(info.item_type), max_size=2)
        case wire.DictType():
            return st.dictionaries(TEXT, _values(info.value_type), max_size=2)
    plain: dict[type, st.SearchStrategy[Any]] = {
        wire.StrType: TEXT,
        wire.FloatType: st.floats(allow_nan=False, allow_infinity=False).filter(math.isfinite),
        wire.BoolType: st.booleans(),
        wire.AnyType: JSON,
        wire.NoneType: st.none(),
        wire.RawType: RAW_JSON,
    }
    return plain[type(info)]


def _structs(info: wire.StructType) -> st.SearchStrategy[Any]:
    if info.cls is PluginIdentity:
        return st.builds(PluginIdentity, author=NAME, name=NAME, version=TEXT)
    required = {field.name: _values(field.type) for field in info.fields if field.required}
    optional = {field.name: _values(field.type) for field in info.fields if not field.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: info.cls(**given))
