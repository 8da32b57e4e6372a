"""The struct bases every wire type is built on: frozen, built by keyword."""

from __future__ import annotations

from typing import Any, dataclass_transform

import msgspec

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding foreign JSON raises: wrong form or type, bytes that are no UTF-8, nesting too deep."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class _FrozenMeta(msgspec.StructMeta):
    """Makes `frozen` and `kw_only` the default of every subclass, for msgspec and for type checkers."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any
    ) -> _FrozenMeta:
        return super().__new__(mcls, name, bases, namespace, **{"frozen": True, "kw_only": True, **config})


class Lenient(msgspec.Struct, metaclass=_FrozenMeta):
    """An inbound value whose unknown keys are ignored, so that a newer peer can add fields."""


class Strict(msgspec.Struct, metaclass=_FrozenMeta, forbid_unknown_fields=True):
    """A value whose unknown keys are refused: manifests, result payloads, API pages and errors."""


def is_wire_type(value: Any) -> bool:
    """Whether a value is of a type of the protocol or of the SDK, whose JSON is defined."""
    package = type(value).__module__.partition(".")[0]
    return isinstance(value, msgspec.Struct) and package in ("hostler_protocol", "hostler_sdk")


def always(value: Any) -> Any:
    """The default of a field that a sparse value states even where it holds its default."""
    return msgspec.field(default_factory=lambda: value)


class Sparse(msgspec.Struct, metaclass=_FrozenMeta, forbid_unknown_fields=True, omit_defaults=True):
    """A strict value that leaves out of its JSON whatever holds its default (absent means unknown)."""
