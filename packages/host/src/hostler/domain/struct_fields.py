"""The fields of structs and what msgspec tells of them, kept: it evaluates all annotations anew each time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import FieldInfo


@cache
def struct_fields(kind: type[msgspec.Struct]) -> Mapping[str, FieldInfo]:
    """Return the fields of a struct by their names in JSON."""
    return MappingProxyType({field.encode_name: field for field in msgspec.structs.fields(kind)})


def type_info(kind: Any) -> msgspec.inspect.Type:
    """Return msgspec's description of a type. That of a struct is kept: it takes milliseconds to make."""
    return _struct_info(kind) if isinstance(kind, type) else msgspec.inspect.type_info(kind)


@cache
def _struct_info(kind: type[Any]) -> msgspec.inspect.Type:
    return msgspec.inspect.type_info(kind)
