"""Build a value from another one whose fields have the same names: only the differences are written out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def with_fields_of(source: object, kind: type[T], /, **others: Any) -> T:
    """Build a `kind`, a struct or dataclass, from `others` and for the rest from attributes of `source`."""
    return kind(**{name: getattr(source, name) for name in _fields(kind) if name not in others}, **others)


def from_row(row: Mapping[str, Any], kind: type[T], /, **others: Any) -> T:
    """Build a `kind`, a struct or dataclass, from `others` and for the rest from the columns of a row."""
    return kind(**{name: row[name] for name in _fields(kind) if name not in others}, **others)


def _fields(kind: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(kind, "__struct_fields__", ()) or tuple(kind.__dataclass_fields__)
    return names
