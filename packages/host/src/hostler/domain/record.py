"""`Record`, the base of values that stay within the host."""

from __future__ import annotations

from typing import Any, dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class _RecordMeta(msgspec.StructMeta):
    """Makes `frozen` the default of every subclass, for msgspec and for type checkers."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any
    ) -> _RecordMeta:
        return super().__new__(mcls, name, bases, namespace, **{"frozen": True, **config})


class Record(msgspec.Struct, metaclass=_RecordMeta):
    """An immutable value with named fields, compared and hashed by them. It is never decoded from JSON."""
