"""Fields that a filter asks of an event and that no event has: such a filter never matches."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin

import msgspec

from hostler.domain.config_mistakes import nearest
from hostler.domain.filters import NAME, field_paths
from hostler_protocol.events import EventEnvelope


def unknown_fields(text: str) -> Iterator[str]:
    """What is wrong with each such field, in words. The filter was checked by `check_filter`."""
    for path in dict.fromkeys(field_paths(text)):
        kind: type[msgspec.Struct] = EventEnvelope
        at = NAME
        for name in path:
            fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
            if name not in fields:
                yield f"{at} has no field {name!r}{nearest(name, fields)}"
                break
            inner = _struct(fields[name])
            if inner is None:
                break
            kind, at = inner, f"{at}.{name}"


def _struct(kind: Any) -> type[msgspec.Struct] | None:
    """The struct whose fields a value of this type has; None: they are free, or it has none."""
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    found = [one for one in members if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    rest = [one for one in members if one not in found and one is not type(None)]
    return found[0] if len(found) == 1 and not rest else None
