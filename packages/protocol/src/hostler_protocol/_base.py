"""Base classes of all wire types: frozen structs, built by keyword."""

from __future__ import annotations

from typing import Any, dataclass_transform

import msgspec

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of decoding untrusted JSON: invalid JSON or a wrong type, invalid UTF-8, nesting too deep."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class _FrozenMeta(msgspec.StructMeta):
    """Makes `frozen` and `kw_only` the default of every subclass, for msgspec and for type checkers."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any
    ) -> _FrozenMeta:
        return super().__new__(mcls, name, bases, namespace, **{"frozen": True, "kw_only": True, **config})


class Lenient(msgspec.Struct, metaclass=_FrozenMeta):
    """An inbound value. Unknown keys are ignored, so that a newer peer can add fields."""


class Strict(msgspec.Struct, metaclass=_FrozenMeta, forbid_unknown_fields=True):
    """A value with no unknown keys: manifests, result payloads, API pages and errors."""


def is_wire_type(value: Any) -> bool:
    """Whether a value is a struct of the protocol or the SDK, so that its JSON form is defined."""
    package = type(value).__module__.partition(".")[0]
    return isinstance(value, msgspec.Struct) and package in ("hostler_protocol", "hostler_sdk")


def always(value: Any) -> Any:
    """Default of a `Sparse` field that is encoded even when it holds its default."""
    return msgspec.field(default_factory=lambda: value)


class Sparse(msgspec.Struct, metaclass=_FrozenMeta, forbid_unknown_fields=True, omit_defaults=True):
    """A strict value whose JSON leaves out fields that hold their default (absent means unknown)."""
